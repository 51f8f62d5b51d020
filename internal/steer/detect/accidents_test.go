package detect

import (
	"math"
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

// TestTriesOf: a connection that begins has to fail once more, and one goes ahead of those that
// wait, but where nothing comes over the path.
func TestTriesOf(t *testing.T) {
	params := Pairs()
	begun, grown := Progress{Sent: params.FirstWindow - 1}, Progress{Sent: params.FirstWindow}
	var full Accidents
	full.Add(&params, at(0))
	for name, tt := range map[string]struct {
		of     Accidents
		p      Progress
		around Around
		want   int
	}{
		"it has sent for long":             {p: grown, want: 1},
		"it begins":                        {p: begun, want: 2},
		"on a full path":                   {of: full, p: grown, want: 2},
		"it begins on a full path":         {of: full, p: begun, want: 3},
		"another is ahead":                 {p: grown, around: Around{Ahead: true}, want: math.MaxInt},
		"nothing comes over the path":      {p: grown, around: Around{Silent: true, Ahead: true}, want: 1},
		"nothing comes, and it begins":     {p: begun, around: Around{Silent: true, Ahead: true}, want: 2},
		"it begins, and echoes alone pass": {p: begun, around: Around{Answers: true}, want: 1},
		"echoes alone pass on a full path": {of: full, p: grown, around: Around{Answers: true}, want: 2},
	} {
		if got := tt.of.TriesOf(&params, tt.p, tt.around, at(0)); got != tt.want {
			t.Errorf("%s: %d tries, want %d", name, got, tt.want)
		}
	}
}

// TestRefuses: a path is left for some connections that it does not get through unless it got more
// through after all.
func TestRefuses(t *testing.T) {
	params := Pairs()
	begun, grown := Progress{Sent: 1}, Progress{Sent: params.FirstWindow, Busy: params.Counted}
	quick, asks := Progress{Sent: 200, Busy: params.Counted - 1}, Progress{Sent: params.FirstWindow}
	for name, tt := range map[string]struct {
		refused, conns, accidents int
		lasts                     time.Duration
		p                         Progress
		silent                    bool
		want                      bool
	}{
		"one of two":                            {refused: 1, conns: 2, p: grown},
		"all":                                   {refused: 2, conns: 2, p: grown, want: true},
		"all, but others may have begun":        {refused: 1, conns: 1, p: quick},
		"one after another, each short":         {refused: 2, conns: 1, lasts: params.Counted, p: begun, want: true},
		"all at once, each short":               {refused: 9, conns: 1, lasts: params.Counted - 1, p: begun},
		"three of many":                         {refused: 3, conns: 64, p: grown},
		"three of five":                         {refused: 3, conns: 5, p: grown, want: true},
		"three, but three got through":          {refused: 3, conns: 5, accidents: 3, p: grown},
		"four, and three got through":           {refused: 4, conns: 5, accidents: 3, p: grown, want: true},
		"all, but as many got through":          {refused: 1, conns: 1, accidents: 1, p: grown},
		"nothing comes, whatever got through":   {refused: 1, conns: 9, accidents: 5, p: grown, silent: true, want: true},
		"nothing comes, and it begins":          {refused: 3, conns: 3, p: begun, silent: true},
		"nothing comes to one that asks little": {refused: 1, conns: 9, p: asks, silent: true, want: true},
	} {
		var a Accidents
		for range tt.accidents {
			a.Add(&params, at(0))
		}
		if got := a.Refuses(&params, tt.refused, tt.conns, tt.lasts, tt.p, Around{Silent: tt.silent}, at(0)); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
