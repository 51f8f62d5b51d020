package agent

import (
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// pairOnThree is a pair on a default network and two more, whose bulk shares all.
func pairOnThree(with decide.Portions) *pair {
	params := detect.Pairs()
	p := &pair{name: "a>b", routes: routes{{Network: "m"}, {Network: "y", Index: 1}, {Network: "z", Index: 2}},
		host: &remoteHost{}, lines: newLines(3, &params), accord: accord{opened: time.Now()}}
	p.setAssignments([flow.Rows]decide.Assignment{{Active: "m"}, {Active: "m", With: with}})
	return p
}

// Buckets of a row lie on the networks that its flows share, and those of the other row on one;
// when a portion changes, only flows move that come to it or leave it.
func TestSharedBuckets(t *testing.T) {
	p := pairOnThree(decide.Portions{{Network: "y", Buckets: 21}, {Network: "z", Buckets: 22}})
	want := p.wanted(p.assignments())
	var on [flow.Rows][3]int
	for b, path := range want {
		on[flow.RowOf(uint8(b))][path]++
	}
	if on != [flow.Rows][3]int{{flow.Width}, {10, 11, 11}} {
		t.Errorf("buckets of the rows: %v", on)
	}
	if !p.uses(0) || !p.uses(1) || !p.uses(2) || pairOnThree(decide.Portions{}).uses(1) {
		t.Error("not known to be used")
	}
	more := decide.Portions{{Network: "y", Buckets: 30}, {Network: "z", Buckets: 22}}
	p.setAssignments([flow.Rows]decide.Assignment{{Active: "m"}, {Active: "m", With: more}})
	for b, path := range p.wanted(p.assignments()) {
		if path != want[b] && path != 1 {
			t.Errorf("bucket %d went from %d to %d", b, want[b], path)
		}
	}
}

// Buckets of a canary are those that the data plane means by a share.
func TestCanaryBuckets(t *testing.T) {
	p := pairOnTwo()
	for n := 1; n <= decide.Buckets; n++ {
		as := decide.Assignment{Active: "near", Canary: "far", Buckets: n}
		for b, path := range p.wanted(together(as)) {
			if tried := dataplane.Share(as.Share("far")).Has(uint8(b)); tried != (path == 1) {
				t.Errorf("%d buckets: bucket %d is on path %d", n, b, path)
			}
		}
	}
}

// TestHalfACanary: a canary of half the buckets has one of two connections, wherever their ports are, also once they
// go by another row; and what is apart stays so as others come.
func TestHalfACanary(t *testing.T) {
	of := func(from uint16, said decide.Class) headcount {
		h := headcount{was: map[uint64]carried{}, now: map[uint64]carried{}}
		last := uint8(0)
		for port := from; len(h.now) < 2; port++ {
			place := flow.Bucket(port, 80, protocolTCP)
			if place < flow.Width/2 || place == last { // both in the half that is not tried otherwise
				continue
			}
			last = place
			is := carried{ports: ports{port, 80}, acked: 1000, said: said, own: said != ""}
			h.now[uint64(port)] = is
			h.place(uint64(port), is, 1)
		}
		return h
	}
	tried := func(p *pair, h headcount, row flow.Row) (n int) {
		paths := p.wanted(p.assignments())
		for _, c := range h.now {
			n += paths[row.Bucket(flow.Bucket(c.ports[0], c.ports[1], protocolTCP))]
		}
		return n
	}
	for from := range uint16(50) {
		p := pairOnTwo()
		p.heads = of(40000+100*from, "")
		if from%2 == 1 {
			p.heads = of(40000+100*from, decide.Bulk)
		}
		p.places = p.heads.places
		half := together(decide.Assignment{Active: "near", Canary: "far", Buckets: decide.Buckets / 2})
		p.rerank(half)
		p.setAssignments(half)
		if first, second := tried(p, p.heads, 0), tried(p, p.heads, 1); first != 1 || second != 1 {
			t.Errorf("%v: %d and %d of two connections are tried", p.heads.now, first, second)
		}
		before := p.wanted(p.assignments())
		p.heads = of(50000+100*from, decide.Bulk)
		p.places = p.heads.places
		if p.rerank(half); p.wanted(p.assignments()) != before {
			t.Error("flows move as others come")
		}
	}
}

// A canary that becomes a portion is told, though no flow moves; that shares are kept is not.
func TestCanaryStays(t *testing.T) {
	p := pairOnThree(decide.Portions{})
	p.setAssignments(together(decide.Assignment{Active: "m", Canary: "y", Buckets: 16}))
	before := p.wanted(p.assignments())
	d := decide.Decision{Kind: decide.Share, From: "m", To: "y", Buckets: 16,
		With: decide.Portions{{Network: "y", Buckets: 16}}}
	for i, want := range []bool{true, false} {
		was, to := p.assignments(), p.apply(d)
		if got := stays(d, was, to); got != want {
			t.Errorf("%d times decided: reported %v", i+1, got)
		}
		p.setAssignments(to)
		if p.wanted(to) != before {
			t.Error("flows have moved")
		}
	}
	if canary := (decide.Decision{Kind: decide.Canary, From: "m", To: "z", Buckets: 16}); stays(canary, p.assignments(),
		p.apply(canary)) {
		t.Error("a canary is taken for a portion")
	}
}

// A decision that takes flows off a network which they share is carried out when that fails,
// as one to move is. One that only weighs again is not.
func TestSharesAreLeft(t *testing.T) {
	with := decide.Portions{{Network: "y", Buckets: 21}, {Network: "z", Buckets: 22}}
	p := pairOnThree(with)
	p.setAssignments(together(decide.Assignment{Active: "m", With: with}))
	for name, tc := range map[string]struct {
		d    decide.Decision
		want bool
	}{
		"failover": {decide.Decision{Kind: decide.Failover, From: "m", To: "y",
			With: decide.Portions{{}, {Network: "z", Buckets: 22}}}, true},
		"one less": {decide.Decision{Kind: decide.Share, From: "m", To: "y",
			With: decide.Portions{{Network: "y", Buckets: 21}}}, true},
		"none": {decide.Decision{Kind: decide.Stay, From: "m", To: "m"}, true},
		"weighed": {decide.Decision{Kind: decide.Share, From: "m", To: "y",
			With: decide.Portions{{Network: "y", Buckets: 30}, {Network: "z", Buckets: 22}}}, false},
	} {
		if got := p.leaves(tc.d); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
