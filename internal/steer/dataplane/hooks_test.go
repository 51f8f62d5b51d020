package dataplane

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// counter attaches a program that counts packets and passes them on.
func (b *bed) counter(pod int, dev string, at ebpf.AttachType, where link.Anchor) func() uint64 {
	b.t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMapValue(asm.R1, m.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, -1), // TCX_NEXT
		asm.Return(),
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	var l link.Link
	if err := netns.Do(b.pods[pod], func() (err error) {
		l, err = link.AttachTCX(link.TCXOptions{Interface: b.index(pod, dev), Program: prog, Attach: at, Anchor: where})
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { l.Close(); prog.Close(); m.Close() })
	return func() (n uint64) {
		if err := m.Lookup(uint32(0), &n); err != nil {
			b.t.Fatal(err)
		}
		return n
	}
}

func (b *bed) index(pod int, dev string) (n int) {
	b.t.Helper()
	out := b.run(pod, "ip", "-o", "link", "show", dev)
	if _, err := fmt.Sscanf(out, "%d:", &n); err != nil {
		b.t.Fatalf("%q: %v", out, err)
	}
	return n
}

// TestOtherProgramsOnTheHooks: programs of others on the same hooks, there before
// ours and attached after, first and last, see what they should, and traffic
// is steered all the same. Fails if ours end the chain, or replace others.
func TestOtherProgramsOnTheHooks(t *testing.T) {
	b := newBed(t)
	early := b.counter(1, "eth0", ebpf.AttachTCXEgress, nil)
	earlyIn := b.counter(1, "net2", ebpf.AttachTCXIngress, nil)
	b.open(1)
	b.open(2)
	first := b.counter(1, "eth0", ebpf.AttachTCXEgress, link.Head())
	last := b.counter(1, "eth0", ebpf.AttachTCXEgress, link.Tail())
	firstIn := b.counter(1, "net2", ebpf.AttachTCXIngress, link.Head())
	native := b.counter(1, "eth0", ebpf.AttachTCXIngress, link.Tail())
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() uint64{early, first, last, native} {
		if f() == 0 {
			t.Error("a program did not see native traffic")
		}
	}
	b.move(1, 2)
	e, f, l, ei, fi := early(), first(), last(), earlyIn(), firstIn()
	for range 10 {
		if err := exchange(conn, "steered"); err != nil {
			t.Fatal(err)
		}
	}
	if early() < e+10 || first() < f+10 {
		t.Errorf("programs before ours saw %d and %d of 10 packets leave", early()-e, first()-f)
	}
	if last() >= l+10 {
		t.Error("a program after ours saw steered packets leave by the default network")
	}
	if earlyIn() < ei+10 || firstIn() < fi+10 {
		t.Errorf("programs on the path saw %d and %d of 10 packets come", earlyIn()-ei, firstIn()-fi)
	}
	// Ours leave, theirs stay; ours come again.
	if err := b.planes[1].Remove(); err != nil {
		t.Fatal(err)
	}
	delete(b.planes, 1)
	e = early()
	if _, err := b.planes[2].Divert("pod-1", 2, 0); err != nil {
		t.Fatal(err)
	}
	if err := exchange(conn, "native"); err != nil || early() == e {
		t.Errorf("without the data plane: %v, others' programs saw %d packets", err, early()-e)
	}
	b.open(1)
	if err := exchange(conn, "again"); err != nil {
		t.Error(err)
	}
}

// TestListedWhileOthersCome: who lists the programs of a hook gets a list, though others
// attach theirs between the kernel's count and its list.
func TestListedWhileOthersCome(t *testing.T) {
	b := newBed(t)
	b.counter(1, "eth0", ebpf.AttachTCXEgress, nil)
	eth0 := b.index(1, "eth0")
	var progs [50]*ebpf.Program // a hook takes 64
	for i := range progs {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		progs[i] = prog
	}
	done, came := make(chan struct{}), make(chan error, 1)
	go func() {
		came <- netns.Do(b.pods[1], func() (err error) {
			for err == nil {
				select {
				case <-done:
					return nil
				default:
					err = comeAndGo(eth0, progs[:])
				}
			}
			return err
		})
	}()
	err := netns.Do(b.pods[1], func() error {
		for range 20000 {
			if on, err := programs(eth0, ebpf.AttachTCXEgress); err != nil || len(on) < 1 {
				return fmt.Errorf("%d programs: %w", len(on), err)
			}
		}
		return nil
	})
	close(done)
	if err := errors.Join(err, <-came); err != nil {
		t.Error(err)
	}
}

// comeAndGo attaches programs, as quickly as it can, and takes them away.
func comeAndGo(ifindex int, progs []*ebpf.Program) error {
	for _, prog := range progs {
		l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: prog, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return err
		}
		defer l.Close()
	}
	return nil
}

// TestPeerWithoutAgent: the peer has no data plane. What is opened to it is marked
// once, which must do no harm, even where the peer's TCP reflects the traffic
// class (tcp_reflect_tos); in the other direction nothing is marked.
func TestPeerWithoutAgent(t *testing.T) {
	for _, here := range []int{1, 2} { // the lower and the higher address
		b := newBed(t)
		b.open(here)
		b.run(3-here, "sysctl", "-qw", "net.ipv4.tcp_reflect_tos=1")
		for _, from := range []int{here, 3 - here} {
			for i, network := range []string{"tcp", "udp", "tcp6", "udp6"} {
				at := fmt.Sprintf("10.90.%d.2:%d", 3-from, 7001+i)
				if strings.HasSuffix(network, "6") {
					at = fmt.Sprintf("[fd90:%d::2]:%d", 3-from, 7001+i)
				}
				conn := b.echoFrom(from, network, at, at)
				for range 5 {
					if err := exchange(conn, "native"); err != nil {
						t.Errorf("plane in pod %d, opened by %d, %s: %v", here, from, network, err)
					}
				}
			}
		}
		if n := b.steered(here); n != 0 {
			t.Errorf("pod %d steered %d packets", here, n)
		}
		if e := b.planes[here].Events(); e != (Events{}) {
			t.Errorf("pod %d: %+v", here, e)
		}
	}
}

// TestInterfacesMadeAgain: the pod's interfaces are made again, alone and with the
// namespace: the plane that is opened again is on the new ones. Fails if hook
// trusts the link's interface number.
func TestInterfacesMadeAgain(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	try := func(port int, what string) {
		t.Helper()
		b.move(1, 0)
		at := fmt.Sprintf("10.90.2.2:%d", port)
		conn := b.echo("tcp", at, at)
		for _, path := range []int{1, 2} {
			b.move(1, path)
			before, got := b.crossed(1, path)
			if err := exchange(conn, what); err != nil {
				t.Fatalf("%s, path %d: %v", what, path, err)
			}
			if s, r := b.crossed(1, path); s == before || r == got {
				t.Errorf("%s: path %d is not used: sent %d, received %d", what, path, s-before, r-got)
			}
		}
	}
	try(7001, "at first")
	for n, dev := range []string{"eth0", "net1", "net2"} {
		b.run(1, "ip", "link", "del", dev)
		b.plug(1, n, b.mtu[n])
	}
	b.open(1)
	try(7002, "interfaces made again")
	// The sandbox is made again while the old one lingers, and the numbers of the
	// interfaces are the same.
	old := b.pods[1]
	b.pods[1] = b.prefix + "-c"
	if err := netns.Create(b.pods[1]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(b.prefix + "-c"); err != nil {
			t.Error(err)
		}
	})
	for n, dev := range []string{"eth0", "net1", "net2"} {
		b.run(0, "ip", "link", "set", fmt.Sprintf("p1n%d", n), "down")
		b.run(0, "ip", "addr", "flush", "dev", fmt.Sprintf("p1n%d", n))
		b.run(0, "ip", "link", "set", fmt.Sprintf("p1n%d", n), "name", fmt.Sprintf("old%d", n))
		b.plugAs(1, n, b.mtu[n], oldIndex(b, old, dev))
	}
	b.open(1)
	try(7003, "sandbox made again")
}

func oldIndex(b *bed, ns, dev string) int {
	pods := b.pods
	defer func() { b.pods = pods }()
	b.pods = []string{pods[0], ns, pods[2]}
	return b.index(1, dev)
}
