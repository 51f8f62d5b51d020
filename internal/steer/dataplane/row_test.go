package dataplane

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// divide puts the rows of the flows that pod 1 has opened on two paths, and tells pod 2.
func (b *bed) divide(first, second int) {
	b.t.Helper()
	for row, path := range []int{first, second} {
		if _, err := b.planes[1].Switch("pod-2", InRow(flow.Row(row)), path); err != nil {
			b.t.Fatal(err)
		}
	}
	b.tell(1)
}

// assign puts one of pod 1's flows into a row.
func (b *bed) assign(c net.Conn, proto uint8, row flow.Row) {
	b.t.Helper()
	near, far := ports(c)
	for range 2 { // the second time changes nothing
		if ok, err := b.planes[1].AssignRow("pod-2", proto, near, far, row); err != nil || !ok {
			b.t.Fatalf("assign row: %t, %v", ok, err)
		}
	}
	if side, got, err := b.planes[1].Side("pod-2", proto, near, far); side != Ours || got != row || err != nil {
		b.t.Fatalf("side %v, row %d, %v", side, got, err)
	}
}

// takes waits until both directions of a flow take a path, and no other.
func (b *bed) takes(c net.Conn, path int) {
	b.t.Helper()
	var why string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		one, _ := b.crossed(1, path)
		two, _ := b.crossed(2, path)
		others := b.elsewhere(path)
		const trips = 20
		for range trips {
			if err := exchange(c, "which way?"); err != nil {
				b.t.Fatal(err)
			}
		}
		out, _ := b.crossed(1, path)
		back, _ := b.crossed(2, path)
		stray := b.elsewhere(path) - others
		if out-one >= trips && back-two >= trips && stray == 0 {
			return
		}
		why = fmt.Sprintf("%d packets went and %d came by path %d, %d by others", out-one, back-two, path, stray)
	}
	b.t.Fatal(why)
}

// elsewhere counts what both pods have sent over other paths.
func (b *bed) elsewhere(path int) (n uint64) {
	for other := range 3 {
		if other != path {
			one, _ := b.crossed(1, other)
			two, _ := b.crossed(2, other)
			n += one + two
		}
	}
	return n
}

// TestRowsGoApart: two flows of a pair with buckets in one place go different ways, in both
// directions, whichever path each row is on, the default network too; and one that changes
// its row in mid-flow loses nothing and comes to no path untranslated. The other end is told
// nothing of the rows of flows. Fails without learn_row, and if what is announced on the
// default network is not said again.
func TestRowsGoApart(t *testing.T) {
	for _, encap := range []bool{false, true} {
		t.Run(fmt.Sprintf("encapsulated %t", encap), func(t *testing.T) { rowsGoApart(t, encap) })
	}
}

func rowsGoApart(t *testing.T, encap bool) {
	b := newBedMTU(t, [3]int{1500, 1450, 9000})
	b.encap = encap
	b.open(1)
	b.open(2)
	b.watch()
	flows := map[string]net.Conn{}
	for network, port := range map[string]int{"tcp": 7201, "udp": 7202} {
		at := fmt.Sprintf("10.90.2.2:%d", port)
		flows[network] = b.echo(network, at, at)
		flows["other "+network] = b.dialed(network, at)
	}
	for name, c := range flows {
		for range 3 {
			if err := exchange(c, "hello"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	proto := map[bool]uint8{true: 6, false: 17}
	for _, way := range [][2]int{{1, 2}, {2, 1}, {0, 2}, {1, 0}, {2, 2}} {
		b.divide(way[0], way[1])
		for name, c := range flows {
			tcp := strings.HasSuffix(name, "tcp")
			row := flow.Row(0)
			if strings.HasPrefix(name, "other") {
				row = 1
			}
			b.assign(c, proto[tcp], row)
			b.takes(c, way[row])
			if b.assign(c, proto[tcp], 1-row); tcp {
				b.takes(c, way[1-row]) // in mid-flow, and again
			}
		}
	}
	for _, c := range []string{"untranslated", "nowhere", "resets"} {
		if n := b.seen(c); n > 0 {
			t.Errorf("%d packets: %s", n, c)
		}
	}
}

// dialed is a connection from pod 1.
func (b *bed) dialed(network, to string) net.Conn {
	b.t.Helper()
	c, err := b.dial(1, network, to)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// TestRowChangesUnderLoad: a stream whose row changes again and again, while its paths do
// not, loses nothing. Fails if a change of row opens the flow again.
func TestRowChangesUnderLoad(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	rr, udp := &felt{}, &felt{}
	k := b.talk(7301, rr, udp)
	time.Sleep(200 * time.Millisecond)
	b.divide(1, 2)
	for n := range 200 {
		for f, part := range b.planes[1].flows(t) {
			if part.Role != roleOwner {
				continue
			}
			if ok, err := b.planes[1].AssignRow("pod-2", f.Proto, f.Local, f.Remote, flow.Row(n%2)); err != nil || !ok {
				t.Fatalf("change %d of %+v: %t, %v", n, f, ok, err)
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	k.stop()
	if lost := udp.lost.Load(); rr.failed.Load()+udp.failed.Load() > 0 || lost > 0 {
		t.Errorf("%d requests and %d datagrams failed, %d are lost", rr.failed.Load(), udp.failed.Load(), lost)
	}
	e := b.planes[2].Events()
	if e.Forged+e.Unadmitted+e.Strangers+e.Errors > 0 {
		t.Errorf("events: %+v", e)
	}
	for path := 1; path <= 2; path++ {
		if sent, _ := b.crossed(1, path); sent < 100 {
			t.Errorf("path %d carried %d packets", path, sent)
		}
	}
}

// TestRowOfWhatIsDiverted: what this end has diverted from a path on which the flow still
// comes stays diverted, though the other row is on that path.
func TestRowOfWhatIsDiverted(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	c := b.lasting(t, "tcp")["tcp"]
	near, far := ports(c)
	set := Set(1) << flow.Bucket(near, far, 6)
	if n, err := b.planes[2].DivertSome("pod-1", set, 2, 1); err != nil || n != 1 {
		t.Fatalf("diverted %d, %v", n, err)
	}
	before, _ := b.crossed(2, 1)
	for range 50 {
		if err := exchange(c, "well?"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if after, _ := b.crossed(2, 1); after-before < 50 {
		t.Errorf("%d of 50 answers took the path that they were diverted to", after-before)
	}
}
