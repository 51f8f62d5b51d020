package detect

import (
	"math/rand"
	"reflect"
	"testing"
	"testing/quick"
	"time"
)

// world plays random events on a path, and remembers what the laws need.
type world struct {
	rng *rand.Rand
	p   Path
	now time.Time
	// mute: nothing at all answers, on no path.
	mute bool
	sent []Shot
	// suspected is when the latest suspicion was taken up, failed when the path failed, and lost when the latest probe
	// went that was given up.
	suspected, failed, lost time.Time
}

// event plays one and returns what it calls for.
func (w *world) event() Action {
	w.now = w.now.Add(time.Duration(w.rng.Intn(4000)) * time.Microsecond)
	switch n := w.rng.Intn(20); n {
	case 0, 1:
		return w.p.Suspect(w.now.Add(-6*time.Millisecond), w.now)
	case 2:
		return w.p.Confirm(w.now, Opinion(w.rng.Intn(4)))
	case 3:
		if w.rng.Intn(10) == 0 {
			return w.p.Signaled(w.now)
		}
	case 4:
		if w.rng.Intn(10) == 0 {
			w.p.Overrule(w.now.Add(-time.Duration(w.rng.Intn(40))*time.Millisecond), w.now)
		}
	case 5:
		if w.rng.Intn(10) == 0 {
			w.lose()
		}
	case 6, 7:
		return w.answer()
	case 8, 9:
		w.send() // a regular probe
	default:
		if w.p.Down() && !w.mute {
			w.send()
			return w.reply(&w.sent[max(len(w.sent)-1-w.rng.Intn(12)/11, 0)]) // nearly always the latest
		}
		return w.p.Tick(w.now, w.evidence())
	}
	return 0
}

// lose gives up one of the latest probes that were not answered.
func (w *world) lose() {
	for _, x := range w.sent[max(len(w.sent)-1-w.rng.Intn(20), 0):] {
		if x.Answered.IsZero() {
			if x.Sent.After(w.lost) {
				w.lost = x.Sent
			}
			w.p.Lost(x.Sent)
			return
		}
	}
}

// row is how many probes in a row were answered that went since the path failed, at best, and after all that were
// given up.
func (w *world) row() (most int) {
	n := 0
	for _, x := range w.sent {
		n++
		if x.Answered.IsZero() || x.Sent.Before(w.failed) || !x.Sent.After(w.lost) {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

func (w *world) send() {
	x := Shot{Seq: uint32(len(w.sent)), Sent: w.now}
	w.sent = append(w.sent, x)
	w.p.Sent(x.Seq, x.Sent)
}

// answer is of one of the latest probes, if any is answered.
func (w *world) answer() Action {
	if w.mute || len(w.sent) == 0 {
		return 0
	}
	return w.reply(&w.sent[max(len(w.sent)-1-w.rng.Intn(20), 0)])
}

// reply answers a probe that was not.
func (w *world) reply(x *Shot) Action {
	if !x.Answered.IsZero() {
		return 0
	}
	x.Answered = w.now
	return w.p.Answer(*x, w.rng.Intn(10) == 0)
}

func (w *world) evidence() Evidence {
	e := Evidence{Until: w.now, Expected: time.Duration(w.rng.Intn(3000)) * time.Microsecond}
	if w.rng.Intn(10) == 0 {
		e.Late = 5 * time.Millisecond
	}
	if !w.mute && w.rng.Intn(50) == 0 {
		e.Came = w.now
	}
	for range w.rng.Intn(3) {
		other := Witness{Name: "z", Usual: time.Millisecond}
		for i := range 8 {
			x := Shot{Sent: w.now.Add(-time.Duration(i) * 2 * time.Millisecond)}
			if !w.mute && w.rng.Intn(4) > 0 {
				x.Answered = x.Sent.Add(time.Millisecond / 2)
			}
			other.Shots = append(other.Shots, x)
		}
		e.Witnesses = append(e.Witnesses, other)
	}
	return e
}

// overdue is how many of the latest probes went unanswered, of those sent since the
// suspicion.
func (w *world) overdue() (n int) {
	for i := len(w.sent) - 1; i >= 0 && !w.sent[i].Sent.Before(w.suspected); i-- {
		if w.sent[i].Answered.IsZero() {
			n++
		}
	}
	return n
}

// lawful reports whether an event in a state may have ended so.
func (w *world) lawful(t *testing.T, from State, do Action) bool {
	to := w.p.State()
	ok := from == to
	for _, r := range Table() {
		ok = ok || r.From == from && r.To == to && do&r.Do&(Fail|Tell|Recover) == do&(Fail|Tell|Recover)
	}
	if from == to && do.Has(Fail|Tell|Recover) || !ok {
		t.Errorf("from %s to %s, %b: not in the table", from, to, do)
		return false
	}
	if from == Up && to == Suspect {
		w.suspected = w.now
	}
	if do.Has(Tell) && (w.mute || w.overdue() < w.p.params.InARow) {
		t.Errorf("failed by %d overdue probes since the suspicion, nothing answers: %v", w.overdue(), w.mute)
		return false
	}
	if do.Has(Recover) && w.row() < w.p.params.AnswersInARow {
		t.Errorf("recovered by %d answers in a row", w.row())
		return false
	}
	if from != Down && to == Down {
		w.failed = w.now
	}
	return true
}

// TestLaws plays random events and holds what must never happen: a step that is not in
// the table, a failure that was found while nothing at all answers, a verdict by what was
// sent before the suspicion, a recovery without ten answers in a row.
func TestLaws(t *testing.T) {
	failed, recovered := 0, 0
	lives := func(seed int64, mute, pairs bool) bool {
		params := Hosts()
		if pairs {
			params = Pairs()
		}
		w := &world{rng: rand.New(rand.NewSource(seed)), p: New(&params), now: at(0), mute: mute}
		for range 2000 {
			from := w.p.State()
			do := w.event()
			if !w.lawful(t, from, do) {
				return false
			}
			if do.Has(Ask) {
				w.send()
			}
			if do.Has(Tell) {
				failed++
			}
			if do.Has(Recover) {
				recovered++
			}
		}
		return true
	}
	if err := quick.Check(lives, &quick.Config{MaxCount: 300}); err != nil {
		t.Error(err)
	}
	if failed < 100 || recovered < 100 {
		t.Errorf("%d failures and %d recoveries: the laws are hardly tried", failed, recovered)
	}
}

// TestCallsNobody: a path holds nothing that it could call, so that no event can come
// to it while it judges another.
func TestCallsNobody(t *testing.T) {
	var walk func(reflect.Type, string)
	walk = func(x reflect.Type, name string) {
		switch x.Kind() {
		case reflect.Func, reflect.Interface, reflect.Chan, reflect.Map:
			t.Errorf("%s is a %s", name, x.Kind())
		case reflect.Pointer, reflect.Slice:
			walk(x.Elem(), name)
		case reflect.Struct:
			for f := range x.Fields() {
				if x != reflect.TypeFor[time.Time]() {
					walk(f.Type, name+"."+f.Name)
				}
			}
		}
	}
	walk(reflect.TypeFor[Path](), "Path")
	walk(reflect.TypeFor[Evidence](), "Evidence")
}
