package impair

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/netns"
)

// arrival is a datagram that came: which it was, and how long it took.
type arrival struct {
	nth  int
	took time.Duration
}

// trace sends a thousand numbered datagrams, fifty at once, and returns those
// that came in the order in which they did.
func (b *bed) trace(t *testing.T, from, to end) (out []arrival) {
	t.Helper()
	rx, tx := b.dial(t, from, to)
	begin := time.Now()
	for i := range 1000 {
		number(t, tx, i, begin)
		if i%50 == 49 {
			out = append(out, collect(t, rx, begin, 50, 30*ms)...)
		}
	}
	return append(out, collect(t, rx, begin, 1000-len(out), 200*ms)...)
}

// lone is how long a datagram from the pod takes that nothing precedes.
func (b *bed) lone(t testing.TB) time.Duration {
	t.Helper()
	rx, tx := b.dial(t, b.pod, b.far)
	defer rx.Close()
	defer tx.Close()
	begin := time.Now()
	number(t, tx, 0, begin)
	got := collect(t, rx, begin, 1, time.Second)
	if len(got) != 1 {
		t.Fatal("a datagram was lost")
	}
	return got[0].took
}

// dial returns a socket that receives and one that sends to it.
func (b *bed) dial(t testing.TB, from, to end) (rx, tx *net.UDPConn) {
	t.Helper()
	err := netns.Do(to.ns, func() (err error) {
		rx, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(to.addr)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rx.Close() })
	err = netns.Do(from.ns, func() (err error) {
		tx, err = net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from.addr)}, rx.LocalAddr().(*net.UDPAddr))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Close() })
	return rx, tx
}

// number sends a datagram that says which it is, and when it was sent.
func number(t testing.TB, tx *net.UDPConn, nth int, begin time.Time) {
	t.Helper()
	buf := binary.BigEndian.AppendUint64(nil, uint64(nth))
	if _, err := tx.Write(binary.BigEndian.AppendUint64(buf, uint64(time.Since(begin)))); err != nil {
		t.Fatal(err)
	}
}

// collect reads so many datagrams, or until none comes for a while.
func collect(t testing.TB, rx *net.UDPConn, begin time.Time, count int, quiet time.Duration) (out []arrival) {
	t.Helper()
	buf := make([]byte, 64)
	for range count {
		if err := rx.SetReadDeadline(time.Now().Add(quiet)); err != nil {
			t.Fatal(err)
		}
		if _, err := rx.Read(buf); err != nil {
			break
		}
		sent := time.Duration(binary.BigEndian.Uint64(buf[8:]))
		out = append(out, arrival{int(binary.BigEndian.Uint64(buf)), time.Since(begin) - sent})
	}
	return out
}

// overtook counts datagrams that came before one that was sent earlier.
func overtook(all []arrival) (n int) {
	least := 1 << 30
	for _, a := range slices.Backward(all) {
		if a.nth > least {
			n++
		}
		least = min(least, a.nth)
	}
	return n
}

// TestHeldUp: delay, jitter and reordering do what they say, in one direction and
// in both, by whichever means this kernel has, alone and with others.
func TestHeldUp(t *testing.T) {
	kinds := []string{"veth", "macvlan"}
	if os.Getenv("IMPAIR_TEST_KINDS") != "" {
		kinds = strings.Fields(os.Getenv("IMPAIR_TEST_KINDS"))
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, kind)
			for _, tc := range []struct {
				name     string
				i        Impairment
				out, in  time.Duration // the least that a packet takes
				late     [2]int        // fewest and most that overtake others
				arrivals [2]int        // fewest and most of a thousand that arrive
			}{
				{"delay out", Impairment{Delay: 10 * ms}, 10 * ms, 0, [2]int{0, 0}, [2]int{1000, 1000}},
				{"delay in", Impairment{Delay: 10 * ms, Direction: In}, 0, 10 * ms, [2]int{0, 0}, [2]int{1000, 1000}},
				{"delay both", Impairment{Delay: 5 * ms, Direction: Both}, 5 * ms, 5 * ms, [2]int{0, 0}, [2]int{1000, 1000}},
				{"jitter", Impairment{Delay: 10 * ms, Jitter: 5 * ms}, 5 * ms, 0, [2]int{300, 1000}, [2]int{1000, 1000}},
				// Six standard deviations, and the first of fifty overtakes nobody.
				{"reordering", Impairment{Delay: 10 * ms, Reorder: 0.1, Direction: Both}, 0, 0, [2]int{35, 157},
					[2]int{1000, 1000}},
				{"with loss", Impairment{Delay: 2 * ms, LossEgress: 0.5, LossIngress: 0.5, Direction: Both}, 2 * ms, 2 * ms,
					[2]int{0, 0}, [2]int{405, 595}},
				{"with a rate", Impairment{Delay: 2 * ms, Rate: 1e9, Direction: Both}, 2 * ms, 2 * ms, [2]int{0, 0},
					[2]int{1000, 1000}},
				{"nothing again", Impairment{}, 0, 0, [2]int{0, 0}, [2]int{1000, 1000}},
			} {
				for range 2 { // twice is as once
					if err := b.m.Apply(b.eth0, tc.i); err != nil {
						t.Fatalf("%s: %v", tc.name, err)
					}
				}
				f, ok, err := b.m.InForce(b.eth0)
				if err != nil || f.Impairment != tc.i || ok != (tc.i != Impairment{}) || f.Ended {
					t.Errorf("%s: in force: %+v %v %v", tc.name, f, ok, err)
				}
				t.Logf("%s: by %s", tc.name, strings.Join(f.By, ", "))
				out, in := b.trace(t, b.pod, b.far), b.trace(t, b.far, b.pod)
				for dir, got := range map[way][]arrival{outOfPod: out, intoPod: in} {
					between(t, tc.name+", "+string(dir), tc.arrivals, len(got))
					least := map[way]time.Duration{outOfPod: tc.out, intoPod: tc.in}[dir]
					for _, a := range got {
						if a.took < least {
							t.Errorf("%s, %s: datagram %d took %v, want %v or more", tc.name, dir, a.nth, a.took, least)
							break
						}
					}
					late := tc.late
					if !tc.i.Direction.has(dir) {
						late = [2]int{}
					}
					if n := overtook(got); n < late[0] || n > late[1] {
						t.Errorf("%s, %s: %d overtook others, want %v", tc.name, dir, n, late)
					}
				}
			}
			if left, err := os.ReadDir(b.m.dir()); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

// TestHeldUpSpread: jitter goes as far as it says and no farther down; noise of
// the machine only adds.
func TestHeldUpSpread(t *testing.T) {
	b := newBed(t, "veth")
	if err := b.m.Apply(b.eth0, Impairment{Delay: 30 * ms, Jitter: 20 * ms}); err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for _, a := range b.trace(t, b.pod, b.far) {
		took = append(took, a.took)
	}
	slices.Sort(took)
	if len(took) != 1000 || took[0] < 10*ms || took[900]-took[100] < 20*ms {
		t.Errorf("%d datagrams took %v to %v, nine tenths %v to %v", len(took), took[0], took[len(took)-1],
			took[len(took)/10], took[len(took)*9/10])
	}
}

// TestHeldUpTCP: what goes over is what comes, in bursts and with checksums left
// to devices, while the delay changes and ends under it.
func TestHeldUpTCP(t *testing.T) {
	b := newBed(t, "veth")
	for _, i := range []Impairment{{Delay: ms, Direction: Both}, {Delay: 2 * ms, Direction: Both},
		{Delay: ms, Direction: In}, {}} {
		if err := b.m.Apply(b.eth0, i); err != nil {
			t.Fatal(err)
		}
		b.transfer(t, 32<<20)
	}
}

// TestLineEnds: a delay line that is killed lets packets pass, is known to have
// ended, and is made again; one whose pod goes ends by itself.
func TestLineEnds(t *testing.T) {
	b := newBed(t, "macvlan")
	late := Impairment{Delay: 20 * ms, Direction: Both}
	if err := b.m.Apply(b.eth0, late); err != nil {
		t.Fatal(err)
	}
	if f, _, err := b.m.InForce(b.eth0); err != nil || !slices.Contains(f.By, ByLine) {
		t.Skipf("by %v: this kernel needs no delay line (%v)", f.By, err)
	}
	between(t, "near", [2]int{1000, 1000}, b.count(t, b.near, b.far))
	// The other pod on the device does not go over it.
	if f, _, err := b.m.InForce(b.eth0); err != nil || f.Out.Passed+f.In.Passed > 500 {
		t.Errorf("another's packets are held up: %+v %+v %v", f.In, f.Out, err)
	}
	between(t, "the pod", [2]int{1000, 1000}, len(b.trace(t, b.pod, b.far)))
	for range 2 {
		kill(t, lines(t))
		between(t, "after its end", [2]int{1000, 1000}, b.count(t, b.pod, b.far))
		if f, ok, err := b.m.InForce(b.eth0); err != nil || !ok || !f.Ended {
			t.Errorf("in force: %+v %v %v", f, ok, err)
		}
		if err := b.m.Apply(b.eth0, late); err != nil {
			t.Fatal(err)
		}
		for _, a := range b.trace(t, b.pod, b.far) {
			if a.took < late.Delay {
				t.Fatalf("made again: took %v", a.took)
			}
		}
	}
	if err := netns.Delete(podNS); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); len(lines(t)) > 0; time.Sleep(50 * ms) {
		if time.Now().After(limit) {
			t.Fatal("the line outlives its pod")
		}
	}
}

// TestHeldUpTogether: pods that share a device are held up each by its own.
func TestHeldUpTogether(t *testing.T) {
	for _, kind := range []string{"veth", "macvlan"} {
		t.Run(kind, func(t *testing.T) {
			b := newBed(t, kind)
			delays := map[end]time.Duration{b.pod: 5 * ms, b.near: 10 * ms}
			for at, d := range delays {
				if err := b.m.Apply(Port{at.ns, "eth0", hostNS}, Impairment{Delay: d, Direction: Both}); err != nil {
					t.Fatal(err)
				}
			}
			for at, d := range delays {
				for to, all := range map[string][]arrival{"out": b.trace(t, at, b.far), "in": b.trace(t, b.far, at)} {
					between(t, at.ns+" "+to, [2]int{1000, 1000}, len(all))
					for _, a := range all {
						if a.took < d {
							t.Fatalf("%s %s: took %v, expected %v at least", at.ns, to, a.took, d)
						}
					}
				}
			}
		})
	}
}

// lines lists the delay lines of these tests.
func lines(t testing.TB) (out []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		raw, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err == nil && bytes.Contains(raw, []byte("\x00"+LineArgument+"\x00"+podNS+"\x00")) {
			pid := 0
			for _, c := range filepath.Base(dir) {
				pid = 10*pid + int(c-'0')
			}
			out = append(out, pid)
		}
	}
	return out
}

func kill(t *testing.T, pids []int) {
	t.Helper()
	if len(pids) != 1 {
		t.Fatalf("delay lines: %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone := func() bool { _, err := os.Stat(fmt.Sprint("/proc/", pids[0])); return err != nil }
	for limit := time.Now().Add(20 * time.Second); !gone(); time.Sleep(ms) {
		if time.Now().After(limit) {
			t.Fatal("it does not end")
		}
	}
}

// TestHeldUpByNetem runs the same tests where the kernel has netem.
func TestHeldUpByNetem(t *testing.T) {
	if guest.Inside() || os.Getenv("IMPAIR_TEST_KINDS") != "" {
		t.Skip("in the guest")
	}
	k, err := guest.Find(guest.Place{Self: self(t), Getenv: os.Getenv}, guest.UML)
	if err != nil {
		t.Fatal(err)
	}
	if !k.Works() {
		t.Skipf("no guest kernel: %v", k.Missing)
	}
	var out bytes.Buffer
	code, err := guest.Run(context.Background(),
		guest.Config{Kernel: k, Store: lab.Store{Root: filepath.Join(t.TempDir(), "store")},
			Self: self(t), Memory: 512 << 20, Stdout: &out, Stderr: &out,
			Argv: []string{self(t), "-test.v", "-test.run", "^(TestHeldUp|TestHeldUpSpread|TestHeldUpTCP|TestDelayNeedsNetem)$"},
			Env:  []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "IMPAIR_TEST_KINDS=veth"}})
	if err != nil || code != 0 || !strings.Contains(out.String(), "delay both: by netem") {
		t.Errorf("exit code %d: %v\n%s", code, err, out.String())
	}
	t.Logf("%s", out.String())
}
