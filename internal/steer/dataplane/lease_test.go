package dataplane

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
)

// TestAgentProcess is no test: it is the agent that TestAgentKilledAtAnyPoint kills.
func TestAgentProcess(t *testing.T) {
	ns, dir := os.Getenv("PATHWISE_STEER_NETNS"), os.Getenv("PATHWISE_STEER_DIR")
	if ns == "" {
		return
	}
	b := &bed{t: t, pods: []string{"", ns}, dir: dir, planes: map[int]*Plane{}, mtu: [3]int{1500, 1450, 9000},
		lease: time.Hour}
	b.open(1)
	b.move(1, 2)
	if _, err := os.Stdout.WriteString("open\n"); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		b.open(1)
		b.planes[1].RenewLease()
	}
}

// TestAgentKilledAtAnyPoint: the agent is killed in the middle of anything. Traffic
// stays where it is; the next agent finds the peers and choices of the last, and
// puts its programs into the same links. Fails if maps or links are not pinned.
func TestAgentKilledAtAnyPoint(t *testing.T) {
	b := newBed(t)
	b.open(2)
	b.open(1)
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	s := b.bulk("10.90.2.2:7002", 25e6, false)
	if err := b.planes[1].Close(); err != nil {
		t.Fatal(err)
	}
	delete(b.planes, 1)
	var links []link.ID
	for i := range 10 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAgentProcess$")
		cmd.Env = append(os.Environ(), "PATHWISE_STEER_NETNS="+b.pods[1], "PATHWISE_STEER_DIR="+b.dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, err = bufio.NewReader(out).ReadString('\n')
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*7%10) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // says that it was killed
		_, before := b.crossed(2, 2)
		if err := exchange(conn, "nobody steers"); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		if err := s.more(1e6); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		if _, after := b.crossed(2, 2); after < before+100 {
			t.Errorf("kill %d: traffic left path 2: %d packets", i, after-before)
		}
		if now := b.links(1); i == 0 {
			links = now
		} else if len(now) != 4 || [4]link.ID(now) != [4]link.ID(links) {
			t.Errorf("kill %d: the links were %v and are %v: there was a moment without programs", i, links, now)
		}
	}
	p, err := Open(b.config(1))
	if err != nil {
		t.Fatal(err)
	}
	b.planes[1] = p
	if known, err := p.Known(b.peer(1)); err != nil || !known {
		t.Errorf("the peer is not known again: %v", err)
	}
	if err := p.SetPeer(b.peer(1)); err != nil {
		t.Fatal(err)
	}
	choices, err := p.Choices("pod-2")
	if err != nil || choices[0].Path != 2 || choices[Buckets-1].Path != 2 {
		t.Errorf("the choices are gone: %v %v", choices, err)
	}
	if sent, _ := b.crossed(1, 2); sent == 0 {
		t.Error("the tallies are gone")
	}
	t.Logf("longest gap %v", s.longest())
}

// links returns the pinned links' numbers, with each attached, in order of name.
func (b *bed) links(pod int) (ids []link.ID) {
	b.t.Helper()
	pins, err := filepath.Glob(filepath.Join(b.dir, string(rune('0'+pod)), "link-*"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		info, err := l.Info()
		if err != nil || info.TCX() == nil || info.TCX().Ifindex == 0 {
			b.t.Errorf("%s is attached to nothing: %v", pin, err)
		}
		ids = append(ids, info.ID)
		l.Close()
	}
	return ids
}

// TestLeaseEnds: without an agent at the owner, what it sends goes back to the
// default network, and what it is sent is taken wherever it comes; when the agent beats
// again the flows return, and begin at home with one that begins itself after the lease.
// Fails if choose ignores the lease, or Open does not look at it.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.open(2) // this agent lives: its lease is an hour
	b.lease = 300 * time.Millisecond
	b.open(1)
	conns := []net.Conn{b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001"),
		b.echo("udp6", "[fd90:2::2]:7001", "[fd90:2::2]:7001")}
	on := func(path int, why string) {
		t.Helper()
		before := [3]uint64{}
		for p := range before {
			before[p], _ = b.crossed(1, p)
		}
		for _, c := range conns {
			if path == 2 {
				b.planes[1].RenewLease()
			}
			if err := exchange(c, why); err != nil {
				t.Fatalf("%s: %v", why, err)
			}
		}
		for p := range before {
			if after, _ := b.crossed(1, p); (after > before[p]) != (p == path) && p != 0 || p == path && after == before[p] {
				t.Errorf("%s: pod 1 sent %d packets over path %d, expected all over %d", why, after-before[p], p, path)
			}
		}
	}
	on(0, "hello")
	b.move(1, 2)
	on(2, "steered")
	for i := range 3 {
		time.Sleep(400 * time.Millisecond)
		before := b.planes[1].Events().Lease
		if i%2 == 0 {
			on(0, "nobody beats")
			if n := b.planes[1].Events().Lease; n == before {
				t.Error("no packet was counted that stayed for the lease")
			}
		} // else nothing is sent while the lease is out
		b.planes[1].RenewLease()
		on(2, "the agent beats again")
	}
	time.Sleep(400 * time.Millisecond)
	number, _ := b.says(1)
	b.open(1)
	on(0, "another agent came, late")
	if now, said := b.says(1); now <= number || said[0] != 0 {
		t.Errorf("it says path %d under number %d, the last was %d", said[0], now, number)
	}
	b.tell(1)
	b.move(1, 2)
	b.open(1)
	on(2, "another agent came, in time")
}

// TestBeatIsSigned: a beat newer than the program's clock is no old one. The
// clock of both ticks, so a program may read it right before a tick and the beat
// right after. Fails if choose compares unsigned.
func TestBeatIsSigned(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	put64(b.planes[1].mem.heartbeat, 0, coarse()+uint64(time.Minute))
	if err := exchange(conn, "steered"); err != nil {
		t.Fatal(err)
	}
	if n := b.planes[1].Events().Lease; n != 0 {
		t.Errorf("%d packets stayed on the default network", n)
	}
}
