package agent

import (
	"fmt"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// TestAnswersAreOfConnections: what the kernel says of connections says nothing of a SYN, or of datagrams, that is
// asked about in the same namespace.
func TestAnswersAreOfConnections(t *testing.T) {
	a, p, _ := onePair(t)
	now := a.cfg.Now()
	for about := range subject(3) {
		q := &inquiry{pair: p, ports: ports{uint16(about), 80}, side: dataplane.Theirs, begun: true, about: about,
			Detour: detect.NewDetour(a.pairs.params, 0, detect.Progress{}, now)}
		a.inquirer.inquiries.open = append(a.inquirer.inquiries.open, q)
	}
	a.inquirer.inquiries.open = a.inquirer.inquiries.open[1:] // the connection itself has no data plane here
	a.inquirer.answers(p.local.Netns, nil)
	for _, q := range a.inquirer.inquiries.open {
		if q.Over() {
			t.Errorf("%v: %v", q.about, q.State())
		}
	}
}

// TestWaitsThere: a connection that the other end's agent tries elsewhere is asked about once it is not acknowledged
// there, and not at all if it is; nor is that an accident of that path.
func TestWaitsThere(t *testing.T) {
	const bucket = 5
	params := detect.Hosts()
	for name, tt := range map[string]struct {
		tried   bool
		acked   uint64
		after   time.Duration
		waits   bool
		pending bool
	}{
		"nobody tries it":      {after: ms, pending: true},
		"its timer has fired":  {tried: true, after: ms, waits: true, pending: true},
		"acknowledged there":   {tried: true, acked: 1, after: 2 * ms, waits: true},
		"not acknowledged":     {tried: true, after: params.AckWithin, pending: true},
		"acknowledged late on": {tried: true, acked: 1, after: params.AckWithin, waits: true},
	} {
		now := time.Unix(1e9, 0)
		p := pairOnThree(decide.Portions{})
		giveHostPaths(p, &params)
		if tt.tried {
			p.heed(&params, detourNotice{true, uint64(now.UnixNano()), 0, map[uint8]int{bucket: 1}}, now)
		}
		q := &inquiry{pair: p, bucket: bucket, side: dataplane.Ours}
		is := detect.Progress{Open: true, Waiting: true}
		q.waitsThere(&params, is, now)
		is.Acked = tt.acked
		if got := q.waitsThere(&params, is, now.Add(tt.after)); got != tt.waits || q.pending() != tt.pending {
			t.Errorf("%s: waits is %v and pending is %v", name, got, q.pending())
		}
	}
}

// TestRepeatsAreBounded: of a pair with very many connections some tail loss probes are kept, and of each the latest.
func TestRepeatsAreBounded(t *testing.T) {
	var rs repeats
	for port := range uint16(10 * repeatsMost) {
		for at := range time.Duration(2) {
			rs.add(repeat{Event: telemetry.Event{LocalPort: port, At: at}})
		}
		if r := rs[ports{port, 0}]; len(rs) > repeatsMost || r.At != 1 {
			t.Fatalf("%d are kept, the latest of %v", len(rs), r.At)
		}
	}
}

// TestWithin: sequence numbers begin again after the last.
func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		unacked, next, seq uint32
		want               bool
	}{
		{1000, 3000, 1000, true}, {1000, 3000, 2999, true}, {1000, 3000, 3000, false}, {1000, 3000, 999, false},
		{0xfffffff0, 0x10, 0xfffffff0, true}, {0xfffffff0, 0x10, 0, true}, {0xfffffff0, 0x10, 0x10, false},
		{0xfffffff0, 0x10, 0xffffffef, false},
	} {
		r := repeat{Event: telemetry.Event{Unacked: tt.unacked, Next: tt.next}}
		if got := r.within(tt.seq); got != tt.want {
			t.Errorf("%x of %x to %x: %v", tt.seq, tt.unacked, tt.next, got)
		}
	}
}

// TestDryRunAsksNothing: where the agent only says what it would do, no connection is moved to find out.
func TestDryRunAsksNothing(t *testing.T) {
	for _, dry := range []bool{false, true} {
		a, p, _ := onePair(t)
		a.cfg.DryRun, p.opened = dry, a.cfg.Now()
		p.local.plane = &dataplane.Plane{}
		ls := a.listener
		for _, kind := range []telemetry.Kind{telemetry.TailProbe, telemetry.Timeout} {
			ls.noteTCPEvent(p, telemetry.Event{Kind: kind, LocalPort: 1, RemotePort: 80}, &trouble{}, a.cfg.Now())
		}
		if asked := len(a.inquirer.inquiries.open) > 0; asked == dry || dry && len(a.inquirer.agenda.due) > 0 {
			t.Errorf("dry run %v: asked is %v", dry, asked)
		}
	}
}

// TestLossesAreNoFault: some packets of connections are lost, on each network and both ways. What they send again gets
// through, so they stay. Of "single" losses no two come in a row of one way: it fails where any segment that waits for
// its acknowledgment is taken for the one that was sent again. Of losses "by chance" some are of what was sent again,
// and timers fire: it fails where those do not count that were acknowledged before the kernel was asked.
func TestLossesAreNoFault(t *testing.T) {
	b := newBed(t, "t-losses", "vxlan", "macvlan")
	for _, h := range []string{"h1", "h2"} {
		b.start(h, nil)
	}
	for _, tt := range []struct {
		name    string
		traffic stream.Client
		in, out string
	}{
		{"single", stream.Client{Kind: stream.RR, Connections: 1, Think: 4 * ms, Requests: stream.Sizes{Min: 64, Max: 600}},
			"meta length > 100 numgen inc mod 9", "meta length > 100 numgen inc mod 11"},
		{"by chance", stream.Client{Kind: stream.TCP, Connections: 8}, "numgen random mod 50", "numgen random mod 50"},
	} {
		b.within(tt.name, func() {
			load := b.traffic("a", "b", tt.traffic)
			b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") })
			b.move("vxlan")
			b.carried("vxlan")
			since := map[string]int{}
			for h, r := range b.agents {
				since[h] = r.journal.last().ID
			}
			b.runIn(b.pod("b").Netns, "nft", fmt.Sprintf(`table inet pw-t {
				chain in { type filter hook input priority 0; tcp dport %d %s == 0 drop; }
				chain out { type filter hook output priority 0; tcp sport %d %s == 0 drop; }
			}`, load.port, tt.in, load.port, tt.out))
			time.Sleep(7 * time.Second)
			b.runIn(b.pod("b").Netns, "nft", "delete table inet pw-t")
			blamed := 0
			for h, r := range b.agents {
				events, _ := r.journal.since(since[h])
				for _, e := range events {
					if e.Kind == EventSuspect || e.Kind == string(decide.Failover) {
						blamed++
						b.t.Logf("%s %s %s: %s", h, e.Kind, e.Pair, e.Reason)
					}
				}
			}
			// The first losses of all may be of a request and of its answer, or twice of the same.
			if blamed > 3 {
				b.t.Errorf("blamed %d times", blamed)
			}
			if r := load.stop(); tt.traffic.Kind == stream.RR { // of a stream it wants answers that there are not
				checkConnections(b.t, r)
			}
		})
	}
}
