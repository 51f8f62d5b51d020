package decide

import (
	"math"
	"reflect"
	"testing"
)

// Every mechanism has a name, and can be turned off.
func TestMechanisms(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Mechanisms() {
		if seen[m.Name] || m.Name == "" || m.About == "" || len(m.Name) > 12 {
			t.Errorf("%+v: expected a short name of its own, and what it does", m)
		}
		seen[m.Name] = true
		if p := DefaultParams(); reflect.DeepEqual(m.Without(), &p) {
			t.Errorf("%s: nothing is turned off", m.Name)
		}
	}
	if p := DefaultParams(); !reflect.DeepEqual(p, DefaultParams()) {
		t.Error("default parameters change")
	}
}

// Without any mechanism, on any family, no decision breaks the rules.
func TestAblatedDecisionsAreSound(t *testing.T) {
	for i, m := range Mechanisms() {
		f := Families()[i%len(Families())]
		s := f.draw(uint64(i))
		s.Phases = s.Phases[:min(2, len(s.Phases))]
		r, _ := Simulate(s, CostAware{Params: m.Without()}, uint64(i))
		checkResult(t, r)
	}
}

// What a mechanism earns is the mean of paired differences, in points.
func TestEarnings(t *testing.T) {
	mechanisms := []Mechanism{{Name: "good"}, {Name: "idle"}, {Name: "bad"}}
	got := Earnings("f", mechanisms, [][]float64{{0.9, 0.8, 0.9, 0.91}, {0.5, 0.39, 0.5, 0.52}, {0.7, 0.61, 0.7, 0.71}})
	for i, want := range []struct {
		points float64
		differ int
		clear  bool
	}{{10, 3, true}, {0, 0, false}, {-4.0 / 3, 3, false}} {
		if e := got[i]; math.Abs(e.Points.Center-want.points) > 1e-9 || e.Differ != want.differ ||
			e.Significant() != want.clear || e.Points.N != 3 {
			t.Errorf("%s: %+v, want %+v", e.Mechanism, e, want)
		}
	}
}

// To wait for evidence earns much on any schedule with faults; what is for many pairs
// shows nothing on one.
func TestAblate(t *testing.T) {
	mechanisms, err := Named(Mechanisms(), func(m Mechanism) string { return m.Name }, []string{"need", "crowd"})
	if err != nil {
		t.Fatal(err)
	}
	var achieved [][]float64
	for _, c := range Families()[2].Courses(51, 3) {
		achieved = append(achieved, c.Ablate(mechanisms, 51, false))
	}
	e := Earnings("bare", mechanisms, achieved)
	if e[0].Points.Center < 1 || e[0].Differ != 3 || e[1].Differ != 0 {
		t.Errorf("need %+v, crowd %+v", e[0].Points, e[1].Points)
	}
	if _, err := Named(Mechanisms(), func(m Mechanism) string { return m.Name }, []string{"luck"}); err == nil {
		t.Error("luck was found")
	}
}

// To share two networks of equal limits earns about as much again as one gives, where it may.
func TestAblateShares(t *testing.T) {
	family := familyNamed(t, "share-two")
	mechanisms, plain := ShareMechanisms(), DefaultParams()
	plain.Share.On = true
	for _, m := range mechanisms {
		p := plain
		if m.off(&p); len(m.Name) > 12 || m.About == "" || reflect.DeepEqual(p, plain) {
			t.Errorf("%s: nothing is turned off, or told", m.Name)
		}
	}
	for _, share := range []bool{true, false} {
		var achieved [][]float64
		for _, c := range family.Courses(52, 2) {
			achieved = append(achieved, c.Ablate(mechanisms, 52, share))
		}
		e := Earnings("share-two", mechanisms, achieved)
		if points := e[0].Points.Center; (points > 80) != share {
			t.Errorf("share %v: to share earns %v points", share, points)
		}
		if !share && e[1].Differ+e[2].Differ+e[3].Differ+e[4].Differ > 0 {
			t.Errorf("%+v", e)
		}
	}
}

// A recording is one course for each pair whose truth is known.
func TestRecordedCourses(t *testing.T) {
	_, rec := Simulate(RandomSchedule(3, Shape{Phases: 2}), CostAware{}, 3)
	n := len(rec.Records)
	for _, r := range rec.Records[:n] {
		r.Evidence.Pair = "c>d"
		r.Truth = nil
		rec.Records = append(rec.Records, r)
	}
	courses := rec.Courses()
	if len(courses) != 1 || courses[0].Family != Recorded {
		t.Fatalf("got %+v", courses)
	}
	ran, _ := Simulate(RandomSchedule(3, Shape{Phases: 2}), CostAware{}, 3)
	if got := courses[0].Ablate(nil, 0, false); len(got) != 1 || got[0] != ran.OfHindsight() {
		t.Errorf("got %v, ran %v", got, ran.OfHindsight())
	}
}
