package detect

import (
	"testing"
	"time"
)

// TestAccidents: each time that the timers double which have fired for nothing, one more has to
// fire in a row before a path is doubted, and after a while none does.
func TestAccidents(t *testing.T) {
	params := Pairs()
	var a Accidents
	for n, want := range []int{1, 2, 3, 3, 4, 4, 4, 4, 5} {
		if got := a.Tries(&params, at(0)); got != want {
			t.Errorf("after %d accidents %d tries, want %d", n, got, want)
		}
		a.Add(&params, at(0))
	}
	if got := a.Tries(&params, at(0).Add(5*params.AccidentsFor)); got != 1 {
		t.Errorf("long after: %d tries", got)
	}
}

// TestDetourWaitsForTries: on a path on which timers fire by accident a connection is moved when
// its own has fired so often, and not before; acknowledged there it is one more accident.
func TestDetourWaitsForTries(t *testing.T) {
	params := Pairs()
	p := Progress{Open: true, Waiting: true, Tries: 1}
	d := NewDetour(&params, 1, p, at(0))
	late := at(0).Add(time.Second)
	if d.Look(p, 3, []int{2}, late) || d.State() != Doubted {
		t.Errorf("moved after one try: %v", d.State())
	}
	acked := d
	p.Tries = 3
	if !d.Look(p, 3, []int{2}, late) || d.On != 2 {
		t.Errorf("not moved after three tries: %v", d.State())
	}
	p.Acked, p.Tries = 1, 0
	if acked.Look(p, 3, []int{2}, late); !acked.Accident(p) {
		t.Errorf("no accident: %v", acked.State())
	}
	if d.Look(p, 3, []int{2}, late); d.State() != Proven || d.Accident(p) {
		t.Errorf("acknowledged on another path: %v", d.State())
	}
}
