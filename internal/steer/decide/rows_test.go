package decide

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// evidenceOfRows is that of a pair on a near network and a far one with more rate.
func evidenceOfRows(at time.Duration, on [2]Assignment, live [2]bool) RowEvidence {
	of := func(on Assignment, near, far Data) PairEvidence {
		ev := PairEvidence{At: at, Pair: "a>b", Default: "near", Active: on.Active, Load: Load{Connections: 4},
			Paths: []PathEvidence{{Network: "near", State: Up, Probe: Probe{RTT: 1e-3, Samples: 10}, Data: near},
				{Network: "far", State: Up, Probe: Probe{RTT: 20e-3, Samples: 10}, Data: far}}}
		for i := range ev.Paths {
			p, share := &ev.Paths[i], on.Share(ev.Paths[i].Network)
			p.Data.Goodput, p.Data.Tx, p.Data.Rx = p.Data.Goodput*share, p.Data.Tx*share, p.Data.Rx*share
			if p.Buckets = int(share * Buckets); share == 0 {
				p.Data = Data{}
			}
		}
		return ev
	}
	bulk := [2]Data{{Goodput: 70e6, Tx: 9e6, Rx: 4e5, SRTT: 2e-3}, {Goodput: 280e6, Tx: 35e6, Rx: 1e6, SRTT: 20e-3}}
	answers := Data{Goodput: 1e6, AppLimited: true, Tx: 6e4, Rx: 6e4, SRTT: 1e-3}
	return RowEvidence{All: of(on[0], bulk[0], bulk[1]), Live: live,
		Of: [2]PairEvidence{of(on[0], answers, answers), of(on[1], bulk[0], bulk[1])}}
}

// drive steps a pair for so long.
func drive(s *Rows, on *[2]Assignment, from, span time.Duration, live [2]bool, need Need) {
	by := DefaultClasses()
	for at := from; at < from+span; at += Period {
		ev := evidenceOfRows(at, *on, live)
		ev.All.Need = need
		var d [2]Decision
		*s, d = StepRows(CostAware{}, *s, ev, &by)
		for row := range d {
			on[row] = on[row].Apply(d[row])
		}
	}
}

func TestRowsPartAndJoin(t *testing.T) {
	on := [2]Assignment{{Active: "near"}, {Active: "near"}}
	var s Rows
	drive(&s, &on, 0, 3*time.Second, [2]bool{false, true}, Auto)
	if s.Apart || on[0] != on[1] {
		t.Fatalf("one class: apart %t, %+v", s.Apart, on)
	}
	drive(&s, &on, 3*time.Second, 30*time.Second, [2]bool{true, true}, Auto)
	if !s.Apart || on[0].Active != "near" || on[1].Active != "far" {
		t.Fatalf("two classes: apart %t, %+v", s.Apart, on)
	}
	drive(&s, &on, 33*time.Second, 4*time.Second, [2]bool{false, true}, Auto)
	if !s.Apart {
		t.Error("joined in a pause")
	}
	drive(&s, &on, 37*time.Second, 3*time.Second, [2]bool{false, true}, Auto)
	if s.Apart || on[0].Active != "far" || on[1].Active != "far" {
		t.Errorf("bulk alone: apart %t, %+v", s.Apart, on)
	}
}

// What the peer's own bulk carries, and what it would gain elsewhere, does not move flows that wait for answers.
func TestBulkOfThePeer(t *testing.T) {
	by := DefaultClasses()
	for _, others := range []bool{false, true} {
		var s Rows
		on := [2]Assignment{{Active: "near"}, {Active: "near"}}
		for at := time.Duration(0); at < 20*time.Second; at += Period {
			ev := evidenceOfRows(at, on, [2]bool{true, false}) // of all flows bulk is most
			ev.All.Need, ev.Others = Auto, others
			var d [2]Decision
			s, d = StepRows(CostAware{}, s, ev, &by)
			if d[0].To != d[1].To || d[0].Evidence.Class != "" {
				t.Fatalf("apart: %+v", d)
			}
			on[0], on[1] = on[0].Apply(d[0]), on[1].Apply(d[1])
		}
		if want := map[bool]string{false: "far", true: "near"}[others]; on[0].Active != want {
			t.Errorf("others %t: on %s, expected %s", others, on[0].Active, want)
		}
	}
}

// A canary that held the flows that wait for answers, before it was known that they do, says
// nothing of what its path gives the bulk.
func TestCanaryBeforeTheClasses(t *testing.T) {
	on := [2]Assignment{{Active: "near"}, {Active: "near"}}
	var s Rows
	drive(&s, &on, 0, 300*time.Millisecond, [2]bool{}, Auto)
	misled := &s.Of[0].Paths[slices.IndexFunc(s.Of[0].Paths, func(m Memory) bool { return m.Network == "far" })]
	misled.Measured, misled.Health, misled.HealthAt, misled.NextTrial = true, 1, 300*time.Millisecond, time.Minute
	for i := range misled.Best {
		misled.Best[i] = 3e5
	}
	drive(&s, &on, 300*time.Millisecond, 15*time.Second, [2]bool{true, true}, Auto)
	if !s.Apart || on[1].Active != "far" {
		t.Errorf("apart %t, %+v", s.Apart, on)
	}
}

// A pair that says what it needs, says it of all its flows.
func TestDeclaredNeedIsOfAllFlows(t *testing.T) {
	on := [2]Assignment{{Active: "near"}, {Active: "near"}}
	var s Rows
	drive(&s, &on, 0, 20*time.Second, [2]bool{true, true}, Throughput)
	if s.Apart || on[0] != on[1] {
		t.Errorf("apart %t, %+v", s.Apart, on)
	}
}

// Bulk is not tried where it would delay what waits for answers, unless its own path gives
// less than it did, or nothing was ever measured there.
func TestBulkKeepsOffAnswers(t *testing.T) {
	p := DefaultParams()
	s := newStep(State{Paths: []Memory{{Network: "near", Health: 1, Against: 100}}}, &p)
	m := s.memory("near")
	ev := evidenceOfRows(time.Minute, [2]Assignment{{Active: "near"}, {Active: "far"}}, [2]bool{true, true})
	row := alone(ev.Of, 1)
	if !s.canaryDue(m, row, 100) {
		t.Error("never measured: no canary")
	}
	m.Best[0] = 70e6
	if s.canaryDue(m, row, 100) || !s.canaryDue(m, row, 50) || !s.canaryDue(m, ev.All, 100) {
		t.Errorf("measured: %t, worse: %t, alone: %t", s.canaryDue(m, row, 100), s.canaryDue(m, row, 50),
			s.canaryDue(m, ev.All, 100))
	}
}

// Rows that are together do the same, whatever is seen, and none is anywhere but on a path
// that there is.
func TestRowsTogetherDoTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for seed := range 20 {
		on := [2]Assignment{{Active: "near"}, {Active: "near"}}
		var s Rows
		by := DefaultClasses()
		for at := time.Duration(0); at < 60*time.Second; at += Period {
			ev := evidenceOfRows(at, on, [2]bool{r.IntN(30) == 0, r.IntN(30) == 0})
			if i := r.IntN(2); r.IntN(20) == 0 {
				for _, e := range []*PairEvidence{&ev.All, &ev.Of[0], &ev.Of[1]} {
					e.Paths[i].State, e.Paths[i].Reason = Failed, "drawn"
				}
			}
			var d [2]Decision
			s, d = StepRows(CostAware{Seed: uint64(seed)}, s, ev, &by)
			for row := range d {
				on[row] = on[row].Apply(d[row])
			}
			if !s.Apart && on[0] != on[1] {
				t.Fatalf("seed %d, %v: together on %+v and %+v", seed, at, on[0], on[1])
			}
		}
	}
}

// A path where bulk would delay what waits for answers is tried after those that may bring
// something too, even if it may bring more.
func TestPathOfAnswersIsTriedLast(t *testing.T) {
	s := in(&State{})
	near, other := figure{path: PathEvidence{Network: "near", Answers: true}}, figure{path: PathEvidence{Network: "other"}}
	if !s.rather(near, other, 0.2, 1) || s.rather(other, near, 1, 0.2) || !s.rather(figure{}, near, 1, 0) {
		t.Error("bulk goes where it delays others first")
	}
}

// By how much a path is better in delay is no evidence that it is in rate, and is kept where
// rows part for as long as delay is what counts.
func TestLeadsAreOfANeed(t *testing.T) {
	lead := Lead{Fast: 9}
	rows := Rows{Of: [2]State{{LeadNeed: Latency, Paths: []Memory{{Network: "near", Lead: lead}}}}}
	rows.part()
	if got := rows.Of[0].memory("near").Lead; got != lead {
		t.Errorf("delay: %+v", got)
	}
	f := newFeed(Throughput)
	f.state = State{LeadNeed: Latency, Paths: []Memory{{Network: "b", Health: 1, Lead: Lead{Fast: 15.9}}}}
	f.path("b").Prior = 0.5e9
	f.step(CostAware{})
	f.step(CostAware{})
	if got := f.state.memory("b").Lead.Fast; got > 4 || f.state.LeadNeed != Throughput {
		t.Errorf("rate: %v of need %s", got, f.state.LeadNeed)
	}
}
