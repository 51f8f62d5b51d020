package impair

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
)

func TestLossIsShareOfDatagrams(t *testing.T) {
	for _, kind := range []string{"veth", "macvlan"} {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, kind)
			for _, tc := range []struct {
				name    string
				i       Impairment
				out, in [2]int // fewest and most of a thousand that arrive
			}{
				{"nothing", Impairment{}, [2]int{1000, 1000}, [2]int{1000, 1000}},
				{"out", Impairment{DropEgress: true}, [2]int{0, 0}, [2]int{1000, 1000}},
				{"in", Impairment{DropIngress: true}, [2]int{1000, 1000}, [2]int{0, 0}},
				{"both", Impairment{DropIngress: true, DropEgress: true}, [2]int{0, 0}, [2]int{0, 0}},
				// Six standard deviations of the binomial distribution.
				{"half out", Impairment{LossEgress: 0.5}, [2]int{405, 595}, [2]int{1000, 1000}},
				{"tenth in", Impairment{LossIngress: 0.1}, [2]int{1000, 1000}, [2]int{843, 957}},
				{"nothing again", Impairment{}, [2]int{1000, 1000}, [2]int{1000, 1000}},
			} {
				for range 2 { // twice is as once
					if err := b.m.Apply(b.eth0, tc.i); err != nil {
						t.Fatalf("%s: %v", tc.name, err)
					}
				}
				between(t, tc.name+": out", tc.out, b.count(t, b.pod, b.far))
				between(t, tc.name+": in", tc.in, b.count(t, b.far, b.pod))
				// A pod alongside it on the same device is not touched.
				between(t, tc.name+": near, out", [2]int{1000, 1000}, b.count(t, b.near, b.far))
				between(t, tc.name+": near, in", [2]int{1000, 1000}, b.count(t, b.far, b.near))
			}
			if left, err := filepath.Glob(filepath.Join(b.m.Pins, "impair-*")); err != nil || len(left) > 0 {
				t.Errorf("pins left: %v %v", left, err)
			}
		})
	}
}

// TestRedirectedTraffic sends what leaves by eth0 over net1 instead, as steering
// does: the impairment of net1 must catch it, and that of eth0 must not.
func TestRedirectedTraffic(t *testing.T) {
	b := newBed(t, "veth")
	net1 := b.second(t)
	for _, tc := range []struct {
		name string
		port Port
		want [2]int
	}{{"eth0", b.eth0, [2]int{1000, 1000}}, {"net1", net1, [2]int{0, 0}}} {
		if err := b.m.Apply(tc.port, Impairment{DropEgress: true}); err != nil {
			t.Fatal(err)
		}
		between(t, "black hole on "+tc.name, tc.want, b.count(t, b.pod, b.far))
		if err := b.m.Clear(tc.port); err != nil {
			t.Fatal(err)
		}
		between(t, "cleared", [2]int{1000, 1000}, b.count(t, b.pod, b.far))
	}
	// A shaper of net1 holds it too: the queue is far smaller than what comes.
	if err := b.m.Apply(net1, Impairment{Rate: MinRate}); err != nil {
		t.Fatal(err)
	}
	if n := b.count(t, b.pod, b.far); n == 1000 {
		t.Error("redirected datagrams passed the shaper")
	}
}

func TestRateBoundsTCP(t *testing.T) {
	b := newBed(t, "veth")
	const size, rate = 8 << 20, 200e6
	for range 2 {
		if err := b.m.Apply(b.eth0, Impairment{Rate: rate}); err != nil {
			t.Fatal(err)
		}
	}
	took := b.transfer(t, size)
	// A slow machine takes longer; none can be faster than the shaper and its
	// full bucket, which the first burst may empty at once.
	if got := (size - 2*oneBurst) * 8 / took.Seconds(); got > 1.05*rate {
		t.Errorf("%.0f bit/s passed a shaper of %.0f", got, rate)
	}
	if err := b.m.Apply(b.eth0, Impairment{Rate: 10 * rate, LossIngress: 0.001}); err != nil {
		t.Errorf("change: %v", err)
	}
	b.transfer(t, size)
	if err := b.m.Clear(b.eth0); err != nil {
		t.Fatal(err)
	}
	if q := b.disciplines(t); len(q) > 0 {
		t.Errorf("left: %v", q)
	}
	b.transfer(t, size)
}

func TestDelayNeedsNetem(t *testing.T) {
	b := newBed(t, "veth")
	b.m.Line = nil
	err := b.m.Apply(b.eth0, Impairment{Delay: 2 * time.Millisecond, DropEgress: true})
	if errors.Is(err, ErrNoNetem) {
		if q := b.disciplines(t); len(q) > 0 {
			t.Errorf("left: %v", q)
		}
		between(t, "after the error", [2]int{1000, 1000}, b.count(t, b.pod, b.far))
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if q := b.disciplines(t); len(q) != 1 || q[0] != "netem" {
		t.Errorf("got %v", q)
	}
}

// TestInterfaceMadeAgain: a pod that is made again under its old name is not
// impaired until it is told to be, and then it is.
func TestInterfaceMadeAgain(t *testing.T) {
	b := newBed(t, "veth")
	for range 2 {
		if err := b.m.Apply(b.eth0, Impairment{DropEgress: true}); err != nil {
			t.Fatal(err)
		}
		between(t, "impaired", [2]int{0, 0}, b.count(t, b.pod, b.far))
		in(t, b.eth0.Netns, func(nl *netlink.Handle) error { return nl.LinkDel(find(t, nl, "eth0")) })
		b.plug(t, "eth0", "v0")
		between(t, "made again", [2]int{1000, 1000}, b.count(t, b.pod, b.far))
	}
}

func TestRefusals(t *testing.T) {
	b := newBed(t, "veth")
	in(t, b.eth0.Netns, func(nl *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "br0"
		return errors.Join(nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}),
			nl.QdiscAdd(&netlink.Tbf{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: find(t, nl, "eth0").Attrs().Index,
				Handle: 1 << 16, Parent: netlink.HANDLE_ROOT},
				Rate: 1e6, Buffer: 1e6, Limit: 1e6}))
	})
	for _, tc := range []struct {
		name string
		port Port
		i    Impairment
	}{
		{"no such device", Port{b.eth0.Netns, "eth7", b.eth0.Host}, Impairment{DropEgress: true}},
		{"no such namespace", Port{"pw-t-none", "eth0", b.eth0.Host}, Impairment{DropEgress: true}},
		{"another's host", Port{b.eth0.Netns, "eth0", b.eth0.Netns}, Impairment{DropEgress: true}},
		{"a bridge", Port{b.eth0.Netns, "br0", b.eth0.Host}, Impairment{DropEgress: true}},
		{"somebody's queue", b.eth0, Impairment{Rate: 1e6}},
		{"too slow", b.eth0, Impairment{Rate: 1}},
		{"loss above one", b.eth0, Impairment{LossEgress: 1.1}},
		{"jitter alone", b.eth0, Impairment{Jitter: time.Second}},
	} {
		if err := b.m.Apply(tc.port, tc.i); err == nil {
			t.Errorf("%s: no error", tc.name)
		} else {
			t.Logf("%s: %v", tc.name, err)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]uint64{"500mbit": 500e6, "1.5Gbit": 1.5e9, "64kbit": 64e3, "100000bit": 1e5,
		"": 0, "mbit": 0, "500": 0, "1kbit": 0, "-5mbit": 0, "NaNmbit": 0, "1e9gbit": 0} {
		got, err := ParseRate(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
}

// second gives the pod net1, and sends there what leaves by eth0.
func (b *bed) second(t *testing.T) Port {
	t.Helper()
	b.plug(t, "net1", "v1")
	var eth0, net1 int
	in(t, b.eth0.Netns, func(nl *netlink.Handle) error {
		eth0, net1 = find(t, nl, "eth0").Attrs().Index, find(t, nl, "net1").Attrs().Index
		return nil
	})
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(net1)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	var l link.Link
	err = netns.Do(b.eth0.Netns, func() (err error) {
		l, err = link.AttachTCX(link.TCXOptions{Interface: eth0, Program: prog, Attach: ebpf.AttachTCXEgress})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return Port{b.eth0.Netns, "net1", b.eth0.Host}
}

func between(t *testing.T, what string, want [2]int, got int) {
	t.Helper()
	if got < want[0] || got > want[1] {
		t.Errorf("%s: %d of 1000 arrived, want %d to %d", what, got, want[0], want[1])
	}
}

// transfer sends size bytes from the pod over TCP and returns how long the far
// end read.
func (b *bed) transfer(t testing.TB, size int64) time.Duration {
	t.Helper()
	var ln net.Listener
	var c net.Conn
	err := netns.Do(b.far.ns, func() (err error) {
		ln, err = net.Listen("tcp4", b.far.addr+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = netns.Do(b.pod.ns, func() (err error) {
		c, err = net.DialTimeout("tcp4", ln.Addr().String(), 5*time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		part := make([]byte, 1<<20)
		for left := size; left > 0; left -= int64(len(part)) {
			_, _ = c.Write(part[:min(left, int64(len(part)))]) // what is missing shows at the other end
		}
		c.Close()
	}()
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	begin := time.Now()
	if err := far.SetDeadline(begin.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, far); n != size || err != nil {
		t.Fatalf("got %d of %d bytes: %v", n, size, err)
	}
	return time.Since(begin)
}

// disciplines lists the queueing disciplines of eth0 that somebody has set.
func (b *bed) disciplines(t *testing.T) []string {
	t.Helper()
	var out []string
	in(t, b.eth0.Netns, func(nl *netlink.Handle) error {
		all, err := nl.QdiscList(find(t, nl, "eth0"))
		for _, q := range all {
			if q.Attrs().Handle != 0 {
				out = append(out, q.Type())
			}
		}
		return err
	})
	return out
}
