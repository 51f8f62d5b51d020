package drill

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// A family's schedule is the seed's, on the networks of the file, for as long as is asked; what
// it does to networks a lab can do, over connections that last throughout.
func TestFamilySchedule(t *testing.T) {
	networks := []string{"x", "y", "z"}
	for _, family := range playable() {
		s, err := familySchedule(family, 4, networks, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var sum time.Duration
		same := 0
		all := throughout(s, 1e8)
		for i, l := range all {
			sum += l.span
			if l.goesOn != (i > 0) || l.connections != all[0].connections || l.offered > 0 {
				t.Errorf("%s, leg %d: %+v", family, i, l)
			}
			for _, n := range networks {
				bad, rate := l.faults()[n], l.rates[n]
				if bad == (impair.Impairment{}) && rate == all[0].rates[n] && rate > 0 {
					same++
				}
			}
			for _, p := range s.Phases[i].Impairments {
				if !slices.Contains(networks, p.Network) {
					t.Errorf("%s: impairs %q", family, p.Network)
				}
			}
		}
		if sum != 20*time.Second || same == 3*len(all) {
			t.Errorf("%s lasts %v, %d of %d networks are well", family, sum, same, 3*len(all))
		}
	}
	if _, err := familySchedule("luck", 1, networks, time.Second); err == nil {
		t.Error("luck was found")
	}
}

// Loss is of both ways; what is dead loses all; what is refused loses TCP; what is choked is slow on the way back; what
// gives credit spends it at the whole rate.
func TestLegsThatLose(t *testing.T) {
	s := decide.Schedule{
		Networks: []decide.SimNetwork{{Name: "x", Capacity: 1, Many: 1}, {Name: "y", Capacity: 1, Many: 1},
			{Name: "z", Capacity: 1, Many: 1}, {Name: "r", Capacity: 1, Many: 1}},
		Phases: []decide.Phase{{For: time.Second, Impairments: []decide.Impairment{
			{Network: "x", Fault: decide.Loses, Factor: 0.01}, {Network: "y", Fault: decide.Loses, Factor: 0.01},
			{Network: "z", Fault: decide.Choked, Factor: 0.4}, {Network: "r", Fault: decide.Refused},
			{Network: "y", Fault: decide.BlackHole}, {Network: "r", Fault: decide.Credit, Factor: 0.25}}}}}
	l := legs(s, 1e8)[0]
	got := l.faults()
	if got["x"] != (impair.Impairment{LossIngress: 0.01, LossEgress: 0.01}) || got["y"] != fault("both") ||
		got["z"] != (impair.Impairment{Rate: 100e3, Direction: impair.In}) || got["r"] != fault(faultTCP) {
		t.Errorf("%+v", got)
	}
	if l.rates["r"] != 25e6 || l.credits["r"] != 100e6 || l.rates["x"] != 100e6 || l.credits["x"] != 0 {
		t.Errorf("rates %v, credits %v", l.rates, l.credits)
	}
}

// Legs of half a second are judged together.
func TestMerged(t *testing.T) {
	half := time.Second / 2
	all := []leg{{span: half}, {span: half}, {span: 3 * time.Second}, {span: half}}
	spans, got := merged(all, outcome{rates: []float64{1e8, 3e8, 5e8, 7e8}}, time.Second)
	if !slices.Equal(got.rates, []float64{2e8, 5e8, 7e8}) || len(spans) != 3 || spans[0].span != time.Second ||
		spans[2].span != half {
		t.Errorf("%+v of %+v", got.rates, spans)
	}
}

// The median of schedules is held against hindsight, and the worst against one network.
func TestFamiliesFigures(t *testing.T) {
	kept := map[string]outcome{"x": {rates: []float64{4e8, 0}}, "y": {rates: []float64{1e8, 3e8}}}
	all := []leg{{span: time.Second}, {span: time.Second}}
	v := Sample{Variant: "flap verdict", Values: map[string]float64{}, Text: map[string]string{}}
	if err := judgeFamily(&v, "flap", all, outcome{rates: []float64{4e8, 2.3e8}}, kept); err != nil {
		t.Fatal(err)
	}
	if err := judgeFamily(&v, "flap", all, outcome{rates: []float64{0, 0}}, nil); err == nil {
		t.Error("judged against nothing")
	}
	figures := familiesFigures(Options{}, []Sample{{Variant: "flap x"}, v})
	if f := figures[0]; f.Value != 0.9 || f.Met() || !strings.Contains(f.Note, "flap 0.900/1.575") {
		t.Errorf("%+v", f)
	}
	if f := figures[3]; f.Value != 1.575 || !f.Met() {
		t.Errorf("%+v", f)
	}
}

// Schedules have three networks.
func TestFamiliesWantThreeNetworks(t *testing.T) {
	known := func(string) error { return nil }
	for networks, ok := range map[string]bool{"[a, b, c]": true, "[a, b]": false} {
		text := "name: f\nnetworks: " + networks + "\ndrills:\n  - {drill: families, families: [flap]}\n"
		if _, err := Parse("f.yaml", strings.NewReader(text), known); (err == nil) != ok {
			t.Errorf("%s: %v", networks, err)
		}
	}
}
