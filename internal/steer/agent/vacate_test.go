package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// wantedOn counts the buckets that are wanted on a path.
func (p *pair) wantedOn(path int) (n int) {
	for _, on := range p.wanted(p.assignments()) {
		if on == path {
			n++
		}
	}
	return n
}

// TestFailedPathsKeepNothing: what is tried on a path, or makes a detour there, is not wanted there once it has failed.
func TestFailedPathsKeepNothing(t *testing.T) {
	p := pairOnThree(decide.Portions{})
	params := detect.Hosts()
	giveHostPaths(p, &params)
	p.setAssignments(together(decide.Assignment{Active: "m", Canary: "y", Buckets: 16}))
	d := p.detours.of(63)
	d.from, d.to, d.out = 0, 2, true
	if y, z := p.wantedOn(1), p.wantedOn(2); y != 16 || z != 1 {
		t.Fatalf("%d buckets are tried, and %d make a detour", y, z)
	}
	p.host.paths["y"].Signaled(time.Now())
	p.lines[2].Signaled(time.Now())
	if m := p.wantedOn(0); m != dataplane.Buckets {
		t.Errorf("%d buckets are wanted on the path that has not failed", m)
	}
}

// giveHostPaths has the host of a pair on three networks have a path of each.
func giveHostPaths(p *pair, params *detect.Params) {
	p.host.paths = map[string]*hostPath{}
	for _, r := range p.routes {
		p.host.paths[r.Network] = &hostPath{Path: detect.New(params), network: r.Network, host: p.host}
	}
}

// TestDetourOnDetour: a connection that does not get through on its detour either goes on to the next path, and returns
// to where it was.
func TestDetourOnDetour(t *testing.T) {
	p := pairOnThree(decide.Portions{})
	params := detect.Hosts()
	giveHostPaths(p, &params)
	const bucket = 5
	d := p.detours.of(bucket)
	d.from, d.to, d.out = 0, 1, true
	q := &inquiry{pair: p, bucket: bucket, Detour: detect.NewDetour(&params, 1, detect.Progress{}, time.Now())}
	for _, step := range []struct{ on, want int }{{2, 2}, {0, 0}, {2, 2}, {1, 1}} {
		q.On = step.on
		if p.detoured(q); p.wanted(p.assignments())[bucket] != step.want {
			t.Errorf("asked on path %d, its bucket is wanted on %d", step.on, p.wanted(p.assignments())[bucket])
		}
	}
	// A connection begins on the default network, wherever its bucket is.
	p.setAssignments(together(decide.Assignment{Active: "y"}))
	p.detours = nil
	q = &inquiry{pair: p, bucket: bucket, about: aboutHandshake,
		Detour: detect.NewDetour(&params, 0, detect.Progress{}, time.Now())}
	q.On = 1
	if d := p.detoured(q); !d.out || p.wanted(p.assignments())[bucket] != 1 {
		t.Errorf("it begins at home: %+v", d)
	}
}

// TestSpreadWhileCounted: where flows go is decided as connections are counted, which holds no lock. Go ends a program
// that reads a map as it is written.
func TestSpreadWhileCounted(t *testing.T) {
	p := pairOnThree(decide.Portions{})
	half := together(decide.Assignment{Active: "m", Canary: "y", Buckets: dataplane.Buckets / 2})
	p.places[0][3], p.places[0][9] = 1, 1
	done := make(chan struct{})
	go func() {
		defer close(done)
		by := decide.DefaultClasses()
		for n := range 50 {
			p.heads.begin(time.Unix(int64(n), 0))
			for id := range uint64(200) {
				p.heads.see(sockdiag.Socket{ID: id, BytesAcked: uint64(n)}, &by)
			}
		}
	}()
	for range 2000 {
		p.rerank(half)
	}
	<-done
	if *p.ranks != flow.Spread(p.places) {
		t.Errorf("%v", *p.ranks)
	}
}

// TestDetourForTheOtherEnd: a bucket is tried where the other end's agent says, in both rows, as that does not know a
// flow's; what is late is not heeded; it is back once that says so, or by time, and stays only where it is proven.
func TestDetourForTheOtherEnd(t *testing.T) {
	const bucket, other = 5, 5 + flow.Width
	now := time.Unix(1e9, 0)
	p := pairOnThree(decide.Portions{})
	params := detect.Hosts()
	giveHostPaths(p, &params)
	says := func(tries bool, number uint64, to int) bool {
		return p.heed(&params, detourNotice{tries, number, 0, map[uint8]int{bucket: to, other: to}}, now)
	}
	on := func(what string, path int) {
		t.Helper()
		want := p.wanted(p.assignments())
		if want[bucket] != path || want[other] != path || want[bucket+1] != 0 {
			t.Errorf("%s: on %d and %d, and another one on %d; want %d and 0", what, want[bucket], want[other],
				want[bucket+1], path)
		}
	}
	begun := uint64(now.UnixNano())
	says(true, begun, 1)
	on("tried", 1)
	says(true, begun+2e8, 2)
	on("tried on the next", 2)
	if says(true, begun, 1) {
		t.Error("a late one is heeded")
	}
	on("a late one came", 2)
	says(true, begun+4e8, 0)
	on("nowhere", 0)
	if p.detours.refused(0, now) != 0 {
		t.Error("a path is blamed without proof")
	}
	says(true, begun+6e8, 1)
	says(false, begun+7e8, 1)
	on("proven", 1)
	if n := p.detours.refused(0, now); n != 1 {
		t.Errorf("%d places are refused, want 1: both rows are one", n)
	}
	p.detours = nil
	says(true, begun+72e7, 1)
	if !p.reclaim(bucket, now) || p.reclaim(bucket, now) {
		t.Error("it goes on as this end asks by itself")
	}
	on("this end asks by itself", 0)
	q := &inquiry{pair: p, bucket: bucket, side: dataplane.Ours, begun: true,
		Detour: detect.NewDetour(&params, 0, detect.Progress{}, now)}
	p.detours, p.inquiries = nil, map[ports]*inquiry{{}: q}
	says(true, begun+74e7, 1)
	on("as this end only doubts by itself", 1)
	p.detours = nil
	q.Look(detect.Progress{Open: true, Waiting: true}, 1, []int{2}, now.Add(params.AckWithin))
	says(true, begun+76e7, 1)
	on("as this end tries by itself", 0)
	p.inquiries = nil
	says(true, begun+8e8, 1)
	on("tried by one that dies", 1)
	now = now.Add(params.RepliesIdle + params.TryMost)
	p.detours.end(&params, func(uint8) bool { return false }, now)
	on("its time is over", 0)
}
