package dataplane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// watch counts what no path may carry: packets with stable addresses, or for the
// neighbour of direct routes, which is none; and resets, wherever they are.
func (b *bed) watch() {
	b.t.Helper()
	b.nft("add table netdev t")
	for _, c := range []string{"untranslated", "nowhere", "resets"} {
		b.nft("add counter netdev t " + c)
	}
	for pod := 1; pod <= 2; pod++ {
		for n := range 3 {
			dev := fmt.Sprintf("p%dn%d", pod, n)
			b.nft(fmt.Sprintf("add chain netdev t %s { type filter hook ingress device %s priority 0; }", dev, dev),
				"add rule netdev t "+dev+" tcp flags & rst == rst counter name resets")
			if n != 0 {
				b.nft("add rule netdev t "+dev+" ip saddr 10.90.0.0/16 counter name untranslated",
					"add rule netdev t "+dev+" ip daddr 10.90.0.0/16 counter name untranslated",
					"add rule netdev t "+dev+" ether daddr 02:50:57:00:00:01 counter name nowhere")
			}
		}
	}
}

// seen reads one of watch's counters.
func (b *bed) seen(name string) (n int) {
	b.t.Helper()
	_, rest, _ := strings.Cut(b.run(0, "nft", "list counter netdev t "+name), "packets ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		b.t.Fatalf("counter %s: %v", name, err)
	}
	return n
}

// felt is what an application felt: its longest gap, and what failed or did not come.
type felt struct {
	gap    atomic.Int64
	failed atomic.Int64
	lost   atomic.Int64
}

func (f *felt) since(last time.Time) {
	if g := int64(time.Since(last)); g > f.gap.Load() {
		f.gap.Store(g)
	}
}

// talk is a TCP stream, requests and responses, and datagrams that are echoed, each at a
// steady rate from pod 1 to 2.
type talk struct {
	bulk *bulk
	stop func()
}

func (b *bed) talk(port int, rr, udp *felt) *talk {
	b.t.Helper()
	at := func(n int) string { return fmt.Sprintf("10.90.2.2:%d", port+n) }
	k := &talk{bulk: b.bulk(at(0), 5e6, false)}
	conn, dgram := b.echo("tcp", at(1), at(1)), b.echo("udp", at(2), at(2))
	var wg sync.WaitGroup
	end := make(chan struct{})
	wg.Go(func() {
		for last := time.Now(); ; {
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
			}
			begin := time.Now()
			if err := exchange(conn, "request"); err != nil {
				rr.failed.Add(1)
				b.t.Errorf("request on port %d: %v", port+1, err)
				return
			}
			rr.since(latest(begin, last))
			last = time.Now()
		}
	})
	wg.Go(func() { b.number(dgram, end, udp) })
	k.stop = func() { close(end); wg.Wait(); k.bulk.stop() }
	return k
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// number sends numbered datagrams and notes what does not come back.
func (b *bed) number(c net.Conn, end chan struct{}, f *felt) {
	var sent, got atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf, last := make([]byte, 64), time.Now()
		for {
			if _, err := c.Read(buf); errors.Is(err, net.ErrClosed) {
				return
			} else if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					f.failed.Add(1)
					continue
				}
				return
			}
			f.since(last)
			last = time.Now()
			got.Add(1)
		}
	}()
	for {
		select {
		case <-end:
			_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			<-done
			f.lost.Add(sent.Load() - got.Load())
			return
		case <-time.After(2 * time.Millisecond):
		}
		if _, err := c.Write([]byte("datagram")); err == nil {
			sent.Add(1)
		} else {
			f.failed.Add(1)
		}
	}
}

// TestUpgrades: layout 1's data plane is replaced by ours and ours by layout 1's, ten
// times each, while flows that are steered go on: nothing is reset, nothing leaves on a
// path as it is not to be seen there, no application waits for long, and each data plane
// steers again a moment later. Fails if Open takes another layout's programs away at
// once, as it did, or, where packets are encapsulated, does not leave to them what it
// does not know.
func TestUpgrades(t *testing.T) {
	t.Parallel()
	for name, rounds := range map[string]int{"translated": 10, "encapsulated": 2} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.lease, b.encap = lease1, name == "encapsulated"
			u := &upgrades{bed: b}
			b.watch()
			stop := u.measure()
			for i := range rounds {
				u.round(i)
			}
			u.end()
			u.judge(rounds, stop())
		})
	}
}

// upgrades is the traffic during them, and what it felt.
type upgrades struct {
	*bed
	rr, udp felt
	tcp     time.Duration
	current *talk
	// resets are those that no end of traffic explains; closing is what they were counted
	// from.
	resets, closing int
	skew            time.Duration
}

// measure returns for how long this process did not get a processor, at worst.
func (u *upgrades) measure() (stop func() time.Duration) {
	var f felt
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-end:
				return
			case <-time.After(2 * time.Millisecond):
				f.since(last)
			}
		}
	}()
	return func() time.Duration { close(end); <-done; return time.Duration(f.gap.Load()) }
}

// round goes from what there is to layout 1, and from there to ours.
func (u *upgrades) round(i int) {
	old := [3]*layout1{}
	for pod := 1; pod <= 2; pod++ {
		old[pod] = u.openLayout1(pod)
	}
	// Ours ends here: as if killed, or by itself.
	for pod, p := range u.planes {
		if i%2 == 0 {
			if err := p.Close(); err != nil {
				u.t.Error(err)
			}
		}
		delete(u.planes, pod)
	}
	time.Sleep(lease1 + 100*time.Millisecond) // its lease ends
	if i > 0 {
		u.end()
	}
	u.current = u.talk(7100+10*i, &u.rr, &u.udp)
	old[1].to(2)
	if i%3 == 0 && !u.encap {
		u.direct(1, old[1])
	}
	u.goes("layout 1", func() uint64 { return old[1].sent(2) })
	for pod := 1; pod <= 2; pod++ {
		old[pod].stop()
	}
	u.upgrade(i % 2 * 300)
	u.move(1, 2)
	u.move(2, 2) // who is first to ask about a flow that is under way owns it
	u.skew += saysBye
	u.retired(1)
	u.goes("ours, with layout 1's to come home", func() uint64 { return u.sent(1, 2) })
	u.skew += stillComes
	u.retired(0)
}

// end ends the traffic, which resets the stream, as it is not read to its end.
func (u *upgrades) end() {
	u.tcp = max(u.tcp, u.current.bulk.longest())
	u.resets += u.seen("resets") - u.closing
	u.current.stop()
	time.Sleep(20 * time.Millisecond)
	u.closing = u.seen("resets")
}

// judge has no opinion of gaps where the machine was too busy to run this process.
func (u *upgrades) judge(rounds int, busy time.Duration) {
	for pod, p := range u.planes {
		if e := p.Events(); e.Errors+e.Strangers+e.Forged != 0 {
			u.t.Errorf("pod %d: %+v", pod, e)
		}
	}
	bare, nowhere, rr, udp := u.seen("untranslated"), u.seen("nowhere"), time.Duration(u.rr.gap.Load()),
		time.Duration(u.udp.gap.Load())
	u.t.Logf("%d upgrades and downgrades: %d resets, %d packets untranslated, %d to nowhere; longest gap TCP %v, request-response %v, UDP %v, this process %v; %d datagrams lost",
		2*rounds, u.resets, bare, nowhere, u.tcp, rr, udp, busy, u.udp.lost.Load())
	if u.resets+bare+nowhere != 0 || u.rr.failed.Load()+u.udp.failed.Load() != 0 {
		u.t.Errorf("%d resets, %d packets untranslated, %d to nowhere, %d requests and %d datagrams failed", u.resets, bare,
			nowhere, u.rr.failed.Load(), u.udp.failed.Load())
	}
	if busy > 100*time.Millisecond {
		u.t.Logf("this process waited %v for a processor: what the gaps were for cannot be told", busy)
	} else if longest := max(u.tcp, rr, udp); longest > 250*time.Millisecond || u.udp.lost.Load() != 0 {
		u.t.Errorf("longest gap %v, expected at most 250ms; %d datagrams lost", longest, u.udp.lost.Load())
	}
}

// direct leads the pod's route straight to net2, as agents do.
func (u *upgrades) direct(pod int, o *layout1) {
	u.t.Helper()
	to := o.home.Remote.String()
	o.hook("net2", "out", ebpf.AttachTCXEgress, link.Head())
	u.run(pod, "ip", "neigh", "replace", "169.254.80.87", "lladdr", "02:50:57:00:00:01", "dev", "net2", "nud", "permanent")
	u.run(pod, "ip", "route", "replace", to, "via", "169.254.80.87", "dev", "net2", "onlink", "src", o.home.Local.String(),
		"mtu", "1450")
}

// upgrade opens ours in both pods, the second some time later, and ends direct routes as
// agents do then.
func (u *upgrades) upgrade(apart int) {
	b, t := u.bed, u.t
	t.Helper()
	for pod := 1; pod <= 2; pod++ {
		cfg := b.config(pod)
		cfg.Former, cfg.Now = []string{b.former(pod)}, func() time.Time { return time.Now().Add(u.skew) }
		p, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b.planes[pod] = p
		if _, err := b.try(pod, "ip", "route", "del", stable(pod).Remote.String()); err == nil && pod == 2 {
			t.Error("pod 2 had a route")
		}
		if err := p.SetPeer(b.peer(pod)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(apart) * time.Millisecond)
	}
}

// retired asks how many former data planes there are.
func (b *bed) retired(want int) {
	b.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := 0
		for _, p := range b.planes {
			p.RenewLease()
			n, err := p.Former()
			if err != nil {
				b.t.Fatal(err)
			}
			left += n
		}
		if left == 2*want {
			return
		} else if time.Now().After(end) {
			b.t.Fatalf("%d former data planes are left, expected %d", left, 2*want)
		}
	}
}

// goes waits until a counter grows by a good deal.
func (b *bed) goes(who string, count func() uint64) {
	b.t.Helper()
	before := count()
	for end := time.Now().Add(5 * time.Second); count() < before+200; time.Sleep(5 * time.Millisecond) {
		for _, p := range b.planes {
			p.RenewLease()
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: %d packets went over the path", who, count()-before)
		}
	}
}

// TestFormerEnds: a former data plane to which packets still come is taken away at last,
// as they may be of somebody who only wants it to stay. If they are of a connection it is
// not reset. Fails if ours lets them pass when there is nobody any more who knows them.
func TestFormerEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.lease = lease1
	b.watch()
	u := &upgrades{bed: b}
	old := [3]*layout1{nil, b.openLayout1(1), b.openLayout1(2)}
	conn := b.echo("udp", "10.90.2.2:7001", "10.90.2.2:7001")
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	s := b.bulk("10.90.2.2:7002", 5e6, false)
	if err := s.more(1e5); err != nil {
		t.Fatal(err)
	}
	old[1].to(2)
	old[2].stop()
	u.upgrade(0) // but the agent of pod 1 goes on
	defer old[1].stop()
	for u.skew = saysBye; u.skew < longestFormer; u.skew += longestFormer / 5 {
		if err := exchange(conn, "still there"); err != nil {
			t.Fatal(err)
		}
		if n, err := b.planes[2].Former(); err != nil || n != 1 {
			t.Fatalf("after %v: %d are left, %v", u.skew, n, err)
		}
	}
	if old[1].sent(2) < 10 {
		t.Errorf("only %d packets went over the path", old[1].sent(2))
	}
	u.skew = longestFormer + time.Second
	if n, err := b.planes[2].Former(); err != nil || n != 0 {
		t.Errorf("at last %d are left, %v", n, err)
	}
	time.Sleep(50 * time.Millisecond)
	if e := b.planes[2].Events(); e.Strangers == 0 {
		t.Error("nothing comes any more")
	}
	old[1].to(0) // its agent finds that nothing is acknowledged
	if err := s.more(1e5); err != nil {
		t.Error(err)
	}
	if n := b.seen("resets"); n != 0 {
		t.Errorf("%d resets", n)
	}
}

// TestFormerIdle: a connection was idle while one end was upgraded and its former data
// plane taken away. The other end, whose version is the former one, has not received that its
// flow has gone home. What it sends then is not reset, and goes on once its agent finds
// that the path is dead. Fails if marks of layout 1 are taken for an application's.
func TestFormerIdle(t *testing.T) {
	t.Parallel()
	for _, encap := range []bool{false, true} {
		t.Run(fmt.Sprintf("encap=%v", encap), func(t *testing.T) {
			b := newBed(t)
			b.lease, b.encap = lease1, encap
			b.watch()
			b.nft("add table netdev u", "add counter netdev u errors",
				"add chain netdev u c { type filter hook ingress device p1n2 priority 0; }",
				"add rule netdev u c icmp type destination-unreachable counter name errors")
			old := [3]*layout1{nil, b.openLayout1(1), b.openLayout1(2)}
			defer old[2].stop()
			conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
			old[1].to(2)
			for range 3 {
				if err := exchange(conn, "steered"); err != nil {
					t.Fatal(err)
				}
			}
			if old[2].sent(2) == 0 {
				t.Fatal("nothing is followed")
			}
			old[1].stop()
			u := &upgrades{bed: b}
			p, err := Open(Config{Netns: b.pods[1], Dev: "eth0", PathDevs: []string{"net1", "net2"}, PinDir: b.config(1).PinDir,
				Peers: 16, Former: []string{b.former(1)}, Now: func() time.Time { return time.Now().Add(u.skew) }})
			if err != nil {
				t.Fatal(err)
			}
			b.planes[1] = p // no pair is open, as the other end does not understand
			for u.skew = saysBye; u.skew <= saysBye+stillComes; u.skew += stillComes {
				if _, err := p.Former(); err != nil {
					t.Fatal(err)
				}
			}
			if n, err := p.Former(); err != nil || n != 0 {
				t.Fatalf("%d are left, %v", n, err)
			}
			_ = conn.SetDeadline(time.Now().Add(3 * time.Second)) // a busy machine takes long to open a plane
			if _, err := conn.Write([]byte("after a while")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			if e := p.Events(); e.Strangers == 0 {
				t.Error("nothing came by the path")
			}
			for i := range uint32(Buckets) { // its agent finds that nothing is acknowledged
				old[2].put("follow", i)
			}
			buf := make([]byte, 64)
			_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
			if n, err := conn.Read(buf); err != nil || string(buf[:n]) != "after a while" {
				t.Errorf("%q, %v", buf[:n], err)
			}
			if n := b.seen("resets"); n != 0 {
				t.Errorf("%d resets", n)
			}
			if out := b.run(0, "nft", "list counter netdev u errors"); !strings.Contains(out, "packets 0 ") {
				t.Errorf("errors were sent: %s", out)
			}
		})
	}
}
