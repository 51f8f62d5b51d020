package profile

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/explain"
)

const kallsyms = `ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81001000 t tcp_ack
ffffffff81000800 W weak
ffffffff81002000 D data
ffffffffc0000000 t bpf_prog_6deef7357e7b4530_steer	[bpf]
`

func TestSymbols(t *testing.T) {
	s, err := parseSymbols(strings.NewReader(kallsyms))
	if err != nil {
		t.Fatal(err)
	}
	for ip, want := range map[uint64]string{
		0xffffffff81000000: "_stext", 0xffffffff81000fff: "weak", 0xffffffff81001234: "tcp_ack",
		0xffffffffc0000010: "bpf_prog_6deef7357e7b4530_steer", 0x1000: "0x1000",
	} {
		if got := s.name(ip); got != want {
			t.Errorf("%x: got %s, want %s", ip, got, want)
		}
	}
	if _, err := parseSymbols(strings.NewReader("0000000000000000 T _text\n")); !errors.Is(err, errHidden) {
		t.Errorf("hidden symbols: %v", err)
	}
	if _, err := parseSymbols(strings.NewReader("xyz T _text\n")); err == nil {
		t.Error("accepted an address that is none")
	}
}

func FuzzSymbols(f *testing.F) {
	f.Add([]byte(kallsyms))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := parseSymbols(bytes.NewReader(raw))
		if err == nil && (len(s.addrs) == 0 || !slices.IsSorted(s.addrs) || s.name(s.addrs[0]) != s.names[0]) {
			t.Errorf("accepted %+v", s)
		}
	})
}

func TestParseList(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-2,5": {0, 1, 2, 5}, "": nil, "3-1": nil, "a": nil, "0-": nil} {
		if got, err := parseList(text); !reflect.DeepEqual(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestMerge(t *testing.T) {
	got := merge([]explain.Stack{
		{CPU: 1, Process: "a", Frames: []string{"f"}, Count: 1},
		{CPU: 0, Process: "a", Frames: []string{"f"}, Count: 2},
		{CPU: 1, Process: "a", Frames: []string{"f"}, Count: 4},
	})
	if len(got) != 2 || got[0].CPU != 1 || got[0].Count != 5 {
		t.Errorf("got %+v", got)
	}
}

// TestSampler looks at this process while it works in the kernel, and at
// datagrams on its loopback.
func TestSampler(t *testing.T) {
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.NoPackets != nil {
		t.Fatal(s.NoPackets)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	busy(t, 500*time.Millisecond)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	busy(t, 100*time.Millisecond) // not in the window
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		t.Fatal(err)
	}
	table, err := explain.DefaultTable()
	if err != nil {
		t.Fatal(err)
	}
	stacks, looked, lost, err := s.Read(table, map[uint64]explain.Place{st.Ino: explain.Client},
		[]Device{{Netns: st.Ino, Index: 1, Name: "lo"}})
	if err != nil || lost != 0 {
		t.Fatalf("%v, %d lost", err, lost)
	}
	var mine, copies int
	for _, k := range stacks {
		if k.Place == explain.Client && strings.HasPrefix(k.Process, "profile.test") {
			mine += int(k.Count)
			if slices.ContainsFunc(k.Frames, func(f string) bool { return strings.HasPrefix(f, "udp") }) {
				copies += int(k.Count)
			}
		}
	}
	if mine == 0 || copies == 0 {
		t.Errorf("%d samples of this process, %d of them in UDP, of %d stacks", mine, copies, len(stacks))
	}
	for received, d := range looked[0] {
		if d.Packets == 0 || d.Bytes/d.Packets < 1000 || d.Segments != d.Packets {
			t.Errorf("received %d: %+v", received, d)
		}
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// busy sends datagrams to itself for a while.
func busy(t *testing.T, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	datagrams(t, func(int) bool { return time.Now().Before(end) })
}

// datagrams sends datagrams to itself while more says so.
func datagrams(t testing.TB, more func(sent int) bool) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Error(err)
		return
	}
	self, err := unix.Getsockname(fd)
	buf := make([]byte, 1400)
	for i := 0; err == nil && more(i); i++ {
		if err = unix.Sendto(fd, buf, 0, self); err == nil {
			_, _, err = unix.Recvfrom(fd, buf, 0)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
