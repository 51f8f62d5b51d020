package stream

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// feed gives the numbers to an order, one a millisecond, and returns the totals.
func feed(sent int64, seqs ...uint64) Datagrams {
	o := newOrder()
	for i, s := range seqs {
		o.arrive(s, time.Duration(i)*ms)
	}
	return o.totals(sent)
}

func TestOrder(t *testing.T) {
	for _, tc := range []struct {
		name string
		sent int64
		seqs []uint64
		want Datagrams
	}{
		{"nothing", 0, nil, Datagrams{}},
		{"nothing of ten", 10, nil, Datagrams{Expected: 10, Lost: 10}},
		{"in order", 0, []uint64{0, 1, 2, 3}, Datagrams{Expected: 4, Received: 4}},
		{"a loss", 0, []uint64{0, 1, 3}, Datagrams{Expected: 4, Received: 3, Lost: 1}},
		{"losses at the end", 6, []uint64{0, 1, 3}, Datagrams{Expected: 6, Received: 3, Lost: 3}},
		{"the first lost", 0, []uint64{2}, Datagrams{Expected: 3, Received: 1, Lost: 2}},
		{"a copy", 0, []uint64{0, 1, 1, 2}, Datagrams{Expected: 3, Received: 3, Duplicated: 1}},
		{"a late copy", 0, []uint64{0, 1, 2, 0}, Datagrams{Expected: 3, Received: 3, Duplicated: 1}},
		{"copies of a late one", 0, []uint64{0, 2, 1, 1, 3},
			Datagrams{Expected: 4, Received: 4, Duplicated: 1, Reordered: 1, MaxExtent: 1, MaxLate: ms}},
		// RFC 4737, section 3.3 and table 1: one packet, number 4 here, comes four places late.
		{"one late by three", 0, []uint64{0, 1, 2, 4, 5, 6, 3, 7},
			Datagrams{Expected: 8, Received: 8, Reordered: 1, MaxExtent: 3, MaxLate: 3 * ms}},
		// Section 7.2: a block that overtakes another one.
		{"a block late", 0, []uint64{0, 4, 5, 1, 2, 3, 6},
			Datagrams{Expected: 7, Received: 7, Reordered: 3, MaxExtent: 4, MaxLate: 4 * ms}},
		{"extent is to the earliest that overtook", 0, []uint64{0, 2, 5, 3, 4, 1},
			Datagrams{Expected: 6, Received: 6, Reordered: 3, MaxExtent: 4, MaxLate: 4 * ms}},
		{"extents do not count copies", 0, []uint64{1, 1, 1, 0},
			Datagrams{Expected: 2, Received: 2, Duplicated: 2, Reordered: 1, MaxExtent: 1, MaxLate: 3 * ms}},
		{"not of this flow", 0, []uint64{0, 1 << 40, 1}, Datagrams{Expected: 2, Received: 2, Foreign: 1}},
		{"forgotten", 0, []uint64{0, 2 * window, 1}, Datagrams{Expected: 2*window + 1, Received: 2, Lost: 2*window - 1,
			Stale: 1}},
	} {
		if got := feed(tc.sent, tc.seqs...); got != tc.want {
			t.Errorf("%s: %+v, expected %+v", tc.name, got, tc.want)
		}
	}
}

// TestOrderAgainstDefinitions compares with the RFC's definitions, word for word,
// on random sequences with losses, copies and displacements.
func TestOrderAgainstDefinitions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var seqs []uint64
		for s := range uint64(80) {
			for range [...]int{1, 1, 1, 1, 1, 1, 2, 3, 0}[rnd.IntN(9)] {
				seqs = append(seqs, s)
			}
		}
		for range rnd.IntN(30) {
			i := rnd.IntN(len(seqs))
			j := min(i+rnd.IntN(12), len(seqs)-1)
			seqs[i], seqs[j] = seqs[j], seqs[i]
		}
		var want Datagrams
		var first []uint64
		seen := map[uint64]bool{}
		next := uint64(0)
		for _, s := range seqs {
			if seen[s] {
				want.Duplicated++
				continue
			}
			seen[s] = true
			if s < next {
				want.Reordered++
				for j, o := range first {
					if o > s {
						want.MaxExtent = max(want.MaxExtent, int64(len(first)-j))
						break
					}
				}
			}
			next = max(next, s+1)
			first = append(first, s)
		}
		want.Received, want.Expected = int64(len(first)), int64(next)
		want.Lost = want.Expected - want.Received
		got := feed(0, seqs...)
		if got.MaxLate = 0; got != want {
			t.Fatalf("%v: %+v, expected %+v", seqs, got, want)
		}
	}
}

func TestOrderForALongTime(t *testing.T) {
	o := newOrder()
	for s := range uint64(3 * window) {
		if s%5 != 0 {
			o.arrive(s, time.Duration(s))
		}
		if s%1000 == 999 {
			o.arrive(s-4, time.Duration(s)) // was left out
			o.arrive(s-3, time.Duration(s)) // a copy
		}
	}
	d := o.totals(0)
	if want := int64(3 * window / 1000); d.Reordered != want || d.Duplicated != want || d.MaxExtent != 4 || d.Stale != 0 {
		t.Errorf("%+v, expected %d reordered and as many copies", d, want)
	}
}

func TestSpacingPercentiles(t *testing.T) {
	s := newSpacing()
	for i := range 100 {
		s.record(time.Duration(i-20) * ms) // -20 ms to 79 ms
	}
	for _, tc := range []struct{ p, want float64 }{{50, 0.030}, {99, 0.079}, {10, -0.010}, {1, -0.019}} {
		if got := s.Percentile(tc.p); got < tc.want-0.0015 || got > tc.want+0.0015 {
			t.Errorf("percentile %v: %v, expected %v", tc.p, got, tc.want)
		}
	}
	if newSpacing().Percentile(50) != 0 {
		t.Error("a percentile of nothing")
	}
}

func TestFlowComparesSpacing(t *testing.T) {
	j, err := newJournal(UDP, ServerRole, Packets, Record{ms, ms})
	if err != nil {
		t.Fatal(err)
	}
	base := j.clock.now()
	l := j.line(0)
	l.last = base
	f := newFlow(l)
	for _, x := range []struct {
		seq      uint64
		sent, at time.Duration
	}{{0, 0, 1 * ms}, {1, 10 * ms, 12 * ms}, {3, 30 * ms, 30*ms + 1}, {2, 20 * ms, 31 * ms}, {4, 40 * ms, 100 * ms}} {
		f.arrive(packet{what: oneWay, seq: x.seq, due: base + x.sent, sent: base + x.sent}, base+x.at)
	}
	f.finish(6, base+120*ms)
	got := f.settled().Report
	if got.Spacing.Count() != 3 || got.Spacing.Narrower.Count() != 1 {
		t.Errorf("%d compared, %d of them narrower", got.Spacing.Count(), got.Spacing.Narrower.Count())
	}
	if d := got.Counts.Datagrams; d.Expected != 6 || d.Lost != 1 || d.Reordered != 1 {
		t.Errorf("%+v", d)
	}
	g, _ := Stall(got, base, base+time.Hour)
	if want := (Gap{base + 31*ms, base + 100*ms, 0, false}); g != want {
		t.Errorf("%+v, expected %+v", g, want)
	}
	if last := got.Gaps.List[len(got.Gaps.List)-1]; !last.Open || last.Length() != 20*ms {
		t.Errorf("at the end %+v", last)
	}
}

func TestPatternFindsWhatIsWrong(t *testing.T) {
	const whole = 3*blockSize + 100
	want := make([]byte, whole)
	stamp(want, 0)
	// However it is cut, it is the same stream.
	for _, cut := range []int{1, 3, 7, 100, 1000, blockSize, 5000, whole} {
		for at := 0; at < whole; at += cut {
			piece := make([]byte, min(cut, whole-at))
			stamp(piece, int64(at))
			if !bytes.Equal(piece, want[at:at+len(piece)]) {
				t.Fatalf("stamped at %d in pieces of %d differs", at, cut)
			}
			if bad := check(want[at:at+len(piece)], int64(at)); bad >= 0 {
				t.Fatalf("pieces of %d: byte %d is wrong", cut, bad)
			}
		}
	}
	for _, wrong := range []int64{blockSize, 2 * blockSize, -blockSize} {
		if wrong+blockSize >= 0 && check(want[blockSize:2*blockSize], blockSize+wrong) < 0 {
			t.Errorf("a shift by %d is not found", wrong)
		}
	}
	damaged := bytes.Clone(want)
	damaged[2*blockSize-1] ^= 1
	if at := check(damaged, 0); at != 2*blockSize-markSize {
		t.Errorf("damage found at %d", at)
	}
}

func TestNumbers(t *testing.T) {
	for size := 1; size < 12; size++ {
		buf := make([]byte, size)
		if number(buf, 0x1234); !numbered(buf, 0x1234) || numbered(buf, 0x1235) {
			t.Errorf("size %d: % x", size, buf)
		}
	}
}

func TestHello(t *testing.T) {
	c := Client{Kind: RR, Requests: Sizes{200, 1000}, Size: 10}
	h, err := parseHello(c.hello(3).encode())
	if err != nil || h != func() hello { x := c.hello(3); copy(x.Magic[:], magic); return x }() {
		t.Fatalf("%+v, %v", h, err)
	}
	low, high := 1000, 0
	for n := range uint64(5000) {
		size := h.request(n)
		low, high = min(low, size), max(high, size)
	}
	if low != 200 || high != 1000 {
		t.Errorf("requests of %d to %d bytes", low, high)
	}
	for _, change := range []func(*hello){
		func(h *hello) { h.Size = 0 }, func(h *hello) { h.Size = maxMessage + 1 }, func(h *hello) { h.Kind = 7 },
		func(h *hello) { h.Requests.Min = 0 }, func(h *hello) { h.Requests.Max = 1 }, func(h *hello) { h.Rate = 1 << 63 },
	} {
		bad := c.hello(0)
		change(&bad)
		if _, err := parseHello(bad.encode()); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add(Client{Kind: RR, Requests: Sizes{200, 1000}}.hello(0).encode())
	f.Add(Client{Kind: TCP, Rate: 1e9, Reverse: true}.hello(65535).encode())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := parseHello(raw)
		if err != nil {
			return
		}
		if h.Kind == wireRR {
			if n := h.request(12345); n < 1 || n > maxMessage {
				t.Errorf("a request of %d bytes", n)
			}
		}
	})
}

func FuzzPacket(f *testing.F) {
	buf := make([]byte, packetSize)
	packet{oneWay, 7, 8, 9, 10}.put(buf)
	f.Add(buf, buf)
	f.Add([]byte("pws"), buf[:39])
	f.Fuzz(func(t *testing.T, a, b []byte) {
		fl := newFlow((&journal{bin: ms}).line(0))
		for _, raw := range [][]byte{a, b} {
			p, ok := parsePacket(raw)
			if !ok {
				continue
			}
			again := make([]byte, packetSize)
			p.put(again)
			if q, ok := parsePacket(again); !ok || q != p {
				t.Errorf("%+v came back as %+v", p, q)
			}
			fl.arrive(p, time.Second)
		}
		fl.settled()
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := map[Kind]Client{
		TCP:  {Kind: TCP, Target: addrPort("10.0.0.1:7"), Connections: 1, Record: Record{ms, ms}},
		RR:   {Kind: RR, Target: addrPort("[fd00::1]:7"), Connections: 1, Requests: Sizes{1, 1}, Record: Record{ms, ms}},
		UDP:  {Kind: UDP, Target: addrPort("10.0.0.1:7"), Interval: ms, Record: Record{ms, ms}},
		ICMP: {Kind: ICMP, Target: addrPort("10.0.0.1:0"), Interval: ms, Record: Record{ms, ms}},
	}
	for kind, c := range good {
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, tc := range []struct {
		kind   Kind
		change func(*Client)
		want   string
	}{
		{TCP, func(c *Client) { c.Kind = "sctp" }, `kind "sctp"`},
		{TCP, func(c *Client) { c.Target = addrPort("10.0.0.1:0") }, "target"},
		{TCP, func(c *Client) { c.Connections = 0 }, "connections 0"},
		{TCP, func(c *Client) { c.Rate = -1 }, "rate -1"},
		{TCP, func(c *Client) { c.Size = maxMessage + 1 }, "size"},
		{TCP, func(c *Client) { c.Bind = addrPort("[fd00::1]:0").Addr() }, "bind fd00::1"},
		{TCP, func(c *Client) { c.Bin = 1 }, "bin 1ns"},
		{TCP, func(c *Client) { c.Gap = -1 }, "gap"},
		{RR, func(c *Client) { c.Requests = Sizes{5, 4} }, "request 5-4"},
		{RR, func(c *Client) { c.Count = -1 }, "count"},
		{UDP, func(c *Client) { c.Interval = 0 }, "interval 0s"},
		{UDP, func(c *Client) { c.Size = 39 }, "size 39"},
		{ICMP, func(c *Client) { c.Size = 1 << 16 }, "size 65536"},
	} {
		c := good[tc.kind]
		tc.change(&c)
		err := c.Check()
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, expected %q", tc.kind, err, tc.want)
		}
	}
	for _, s := range []Server{{Kind: ICMP, Listen: addrPort("10.0.0.1:7")}, {Kind: TCP},
		{Kind: UDP, Listen: addrPort("10.0.0.1:7"), MPTCP: true, Record: Record{ms, ms}}} {
		if s.Check() == nil {
			t.Errorf("accepted %+v", s)
		}
	}
	for text, want := range map[string]Sizes{"5": {5, 5}, "200-1000": {200, 1000}} {
		var s Sizes
		if err := s.Set(text); err != nil || s != want || s.String() != text {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	if (&Sizes{}).Set("x") == nil {
		t.Error("accepted x")
	}
}

// FuzzEcho: an ICMP echo is of this traffic or foreign, and never one that a kernel
// did not send back.
func FuzzEcho(f *testing.F) {
	buf := make([]byte, icmpHead+packetSize)
	packet{toEcho, 7, 8, 9, 10}.put(buf[icmpHead:])
	f.Add(buf, false)
	f.Add(append([]byte{129}, buf[1:]...), true)
	f.Add(buf[:icmpHead], false)
	f.Fuzz(func(t *testing.T, raw []byte, six bool) {
		var answer icmp.Type = ipv4.ICMPTypeEchoReply
		if six {
			answer = ipv6.ICMPTypeEchoReply
		}
		p, ok := parseEcho(raw, answer)
		if !ok {
			return
		}
		want := byte(0)
		if six {
			want = 129
		}
		if raw[0] != want || p.what != echoed || len(raw) < icmpHead+packetSize {
			t.Errorf("%x was taken for %+v", raw, p)
		}
	})
}
