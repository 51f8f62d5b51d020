package detect

import (
	"slices"
	"testing"
	"time"
)

// answer is of a probe sent and answered so many ms into a test.
func answer(seq uint32, sent, answered float64) Shot {
	return Shot{Seq: seq, Sent: at(sent), Answered: at(answered)}
}

// well is a witness that answers at once what was sent at these times.
func well(sent ...float64) []Witness {
	w := Witness{Name: "z"}
	for _, ms := range sent {
		w.Shots = append(w.Shots, answer(0, ms, ms+.2))
	}
	return []Witness{w}
}

// in is a path that came to a state by the shortest way: suspected at 0 ms, with probes
// without answer at 0, 2 and 4 ms, found to fail at 8, down at 12.
func in(t *testing.T, s State, params *Params) *Path {
	t.Helper()
	p := New(params)
	if s >= Suspect {
		p.Suspect(at(-6), at(0))
		for i := range uint32(3) {
			p.Sent(100+i, at(2*float64(i)))
		}
	}
	if s >= Confirming {
		p.Tick(at(8), Evidence{Until: at(8), Witnesses: well(0, 2, 4)})
	}
	if s == Down {
		p.Confirm(at(12), Agrees)
	}
	if p.State() != s {
		t.Fatalf("%s, want %s", p.State(), s)
	}
	return &p
}

// TestTransitions goes through every row of the table by events as they come, and checks
// that each event leads nowhere else.
func TestTransitions(t *testing.T) {
	params := Pairs()
	for _, tt := range []struct {
		on    Event
		begin State
		do    func(*Path) Action
	}{
		{Silent, Up, func(p *Path) Action { return p.Suspect(at(14), at(20)) }},
		{Signaled, Up, func(p *Path) Action { return p.Signaled(at(20)) }},
		{Signaled, Suspect, func(p *Path) Action { return p.Signaled(at(20)) }},
		{Signaled, Confirming, func(p *Path) Action { return p.Signaled(at(20)) }},
		{Passes, Suspect, func(p *Path) Action {
			p.Answer(answer(101, 2, 6), false)
			return p.Tick(at(7), Evidence{Until: at(7)})
		}},
		{Passes, Suspect, func(p *Path) Action { return p.Tick(at(7), Evidence{Until: at(7), Came: at(6.5)}) }},
		{Passes, Confirming, func(p *Path) Action {
			p.Answer(answer(102, 4, 8.5), false)
			return p.Tick(at(9), Evidence{Until: at(9), Witnesses: well(0, 2, 4)})
		}},
		{Passes, Confirming, func(p *Path) Action { return p.Tick(at(9), Evidence{Until: at(9), Came: at(6.5)}) }},
		{Expires, Suspect, func(p *Path) Action { return p.Tick(at(1001), Evidence{Until: at(1001)}) }},
		{Expires, Confirming, func(p *Path) Action { return p.Tick(at(1001), Evidence{Until: at(1001)}) }},
		{Overdue, Suspect, func(p *Path) Action { return p.Tick(at(8), Evidence{Until: at(8), Witnesses: well(0, 2, 4)}) }},
		{Retracted, Confirming, func(p *Path) Action {
			return p.Tick(at(9), Evidence{Until: at(9), Witnesses: well(0, 2, 4), Late: 20 * time.Millisecond})
		}},
		{Agreed, Confirming, func(p *Path) Action { return p.Confirm(at(9), Agrees) }},
		{Agreed, Confirming, func(p *Path) Action { return p.Confirm(at(12), Undecided) }},
		{Denied, Confirming, func(p *Path) Action { return p.Confirm(at(9), Denies) }},
		{Overruled, Suspect, func(p *Path) Action { p.Overrule(at(0), at(9)); return 0 }},
		{Overruled, Confirming, func(p *Path) Action { p.Overrule(at(0), at(9)); return 0 }},
		{Overruled, Down, func(p *Path) Action { p.Overrule(at(0), at(20)); return 0 }},
		{Answered, Down, func(p *Path) (do Action) {
			for i := range uint32(10) {
				do = asked(p, 200+i, 100+float64(i))
			}
			return do
		}},
	} {
		i := slices.IndexFunc(Table(), func(r Transition[State, Event]) bool { return r.From == tt.begin && r.On == tt.on })
		if i < 0 {
			t.Errorf("%s in %s is not in the table", tt.on, tt.begin)
			continue
		}
		row, p := Table()[i], in(t, tt.begin, &params)
		asks := Ask | AskOthers | AskHosts // go on while it is suspected
		if do := tt.do(p); p.State() != row.To || do&^asks != row.Do&^asks || do&row.Do != row.Do {
			t.Errorf("%s in %s: %s, %b; want %s, %b", tt.on, tt.begin, p.State(), do, row.To, row.Do)
		}
	}
	seen := map[[2]uint8]bool{}
	for _, r := range Table() {
		if seen[[2]uint8{uint8(r.From), uint8(r.On)}] {
			t.Errorf("%s in %s is twice in the table", r.On, r.From)
		}
		seen[[2]uint8{uint8(r.From), uint8(r.On)}] = true
	}
}

// TestNothingHappens: what is not in the table changes nothing.
func TestNothingHappens(t *testing.T) {
	params := Hosts()
	for _, tt := range []struct {
		name  string
		begin State
		do    func(*Path) Action
	}{
		{"silence of what is suspected", Suspect, func(p *Path) Action { return p.Suspect(at(14), at(20)) }},
		{"silence of what has failed", Down, func(p *Path) Action { return p.Suspect(at(14), at(20)) }},
		{"a word about what has failed", Down, func(p *Path) Action { return p.Signaled(at(20)) }},
		{"an answer to what is well", Up, func(p *Path) Action { return p.Answer(answer(1, 0, 1), false) }},
		{"time", Up, func(p *Path) Action { return p.Tick(at(5000), Evidence{Until: at(5000)}) }},
		{"time goes on", Down, func(p *Path) Action { return p.Tick(at(5000), Evidence{Until: at(5000)}) }},
		{"agreement about what nobody asked", Suspect, func(p *Path) Action { return p.Confirm(at(9), Agrees) }},
		{"the other level takes a moment", Confirming, func(p *Path) Action { return p.Confirm(at(9), Undecided) }},
		{"failed before the hosts suspected it", Down, func(p *Path) Action { p.Overrule(at(13), at(20)); return 0 }},
		{"what is well is overruled", Up, func(p *Path) Action { p.Overrule(at(13), at(20)); return 0 }},
		{"nobody else answers", Confirming, func(p *Path) Action { return p.Tick(at(8.5), Evidence{Until: at(8.5)}) & Fail }},
	} {
		p := in(t, tt.begin, &params)
		if do := tt.do(p); p.State() != tt.begin || do != 0 {
			t.Errorf("%s: %s, %b; want %s and nothing to be done", tt.name, p.State(), do, tt.begin)
		}
	}
}

// TestSoonAgain: what was found to be nothing is not suspected again at once.
func TestSoonAgain(t *testing.T) {
	params := Pairs()
	p := in(t, Suspect, &params)
	p.Answer(answer(100, 0, 1), false)
	p.Tick(at(1), Evidence{Until: at(1)})
	if p.Suspect(at(0), at(10)); p.State() != Up {
		t.Error("suspected again after 9 ms")
	}
	if p.Suspect(at(0), at(11)); p.State() != Suspect || !p.Silent().Equal(at(0)) {
		t.Error("not suspected again after 10 ms")
	}
}

// TestRounds: a suspicion asks at once, the others and the hosts when it is their turn,
// and does not go on at the pace at which it began.
func TestRounds(t *testing.T) {
	for name, params := range map[string]Params{"hosts": Hosts(), "pairs": Pairs()} {
		p := New(&params)
		rounds, others, hosts := 0, 0, 0
		count := func(do Action) {
			if do.Has(Ask) {
				rounds++
			}
			if do.Has(AskOthers) && others == 0 {
				others = rounds
			}
			if do.Has(AskHosts) && hosts == 0 {
				hosts = rounds
			}
		}
		count(p.Suspect(at(-6), at(0)))
		for ms := 1.; ms < 1000; ms++ {
			count(p.Tick(at(ms), Evidence{Until: at(ms)}))
		}
		if least := params.Burst; rounds <= least || rounds > least+50 || others != params.OthersFrom ||
			hosts != params.HostsFrom {
			t.Errorf("%s: %d rounds in a second, the others from %d on, the hosts from %d on", name, rounds, others, hosts)
		}
	}
}

// TestAsking: whether a path answers is not known while its first probe may be in a queue; once it was answered or is
// late, or where probes are refused, no more is to be waited for.
func TestAsking(t *testing.T) {
	params := Pairs()
	late := float64(params.GapNew / time.Millisecond)
	for name, tt := range map[string]struct {
		then func(p *Path)
		at   float64
		want bool
	}{
		"it has just gone":              {func(*Path) {}, 1, true},
		"it is late":                    {func(*Path) {}, late, false},
		"another has gone since":        {func(p *Path) { p.Sent(2, at(late-1)) }, late, false},
		"it was answered":               {func(p *Path) { p.Answer(answer(1, 0, 2), false) }, 3, false},
		"and then probes were refused":  {func(p *Path) { p.Answer(answer(1, 0, 2), false); p.Refused() }, late, false},
		"it was followed by very many":  {func(p *Path) { askMany(p, kept) }, late - 1, false},
		"it was followed by some, soon": {func(p *Path) { askMany(p, 3) }, late - 1, true},
	} {
		p := New(&params)
		if !p.Unasked() || p.Asking(at(0)) {
			t.Errorf("%s: it was asked before", name)
		}
		p.Sent(1, at(0))
		if tt.then(&p); p.Unasked() || p.Asking(at(tt.at)) != tt.want {
			t.Errorf("%s: %v", name, !tt.want)
		}
	}
}

// askMany sends so many probes at once.
func askMany(p *Path, n int) {
	for i := range n {
		p.Sent(uint32(2+i), at(1))
	}
}

// TestAnswersCountOnce: an answer counts for the probe that it belongs to, once.
func TestAnswersCountOnce(t *testing.T) {
	params := Pairs()
	p := New(&params)
	for i := range uint32(4) {
		p.Sent(65534+i, at(2*float64(i)))
	}
	if worst, median := p.Trips(); worst != 0 || median != 0 || p.Passed(at(0)) || p.Telling(at(0)) || !p.Unanswered() {
		t.Error("before any answer")
	}
	p.Answer(answer(65535, 2, 3), false)
	p.Answer(answer(65535, 2, 9), false)
	p.Answer(answer(65536, 4, 6), false)
	worst, median := p.Trips()
	if worst != 2*time.Millisecond || median != worst || !p.Passed(at(4)) || p.Passed(at(5)) || !p.Unanswered() {
		t.Errorf("worst %v, median %v; passed since 4 ms %v, since 5 ms %v", worst, median, p.Passed(at(4)), p.Passed(at(5)))
	}
	p.Answer(answer(65537, 6, 106), false)
	worst, median = p.Trips()
	if got := p.Usual(worst, median); got != params.WorstMost || p.Unanswered() {
		t.Errorf("usual with an answer after 100 ms: %v, want %v", got, params.WorstMost)
	}
	if !p.Telling(at(15105)) || p.Telling(at(15107)) {
		t.Error("not known for 15 s after an answer")
	}
	if p.Refused(); p.Telling(at(200)) {
		t.Error("it tells what is refused")
	}
	for i := range uint32(2 * kept) {
		p.Sent(i, at(200))
	}
	if len(p.shots) != kept {
		t.Errorf("%d probes are kept", len(p.shots))
	}
}

// TestExpectedOfAFillingQueue: where traffic has come back after a lull, a path may take as
// long as it did before, within bounds.
func TestExpectedOfAFillingQueue(t *testing.T) {
	const ms = time.Millisecond
	params := Hosts()
	for _, tt := range []struct {
		name                string
		idle, since         time.Duration // before the traffic, and since it came
		worst, median, want time.Duration
	}{
		{"no lull", params.Lull, ms, 20 * ms, ms, params.WorstMost},
		{"a lull", params.Lull + 1, ms, 20 * ms, ms, 20 * ms},
		{"deeper than any queue", time.Second, ms, time.Second, ms, params.QueueMost},
		{"a queue that others fill", time.Second, ms, 90 * ms, 80 * ms, 80 * ms},
		{"never full", time.Second, ms, ms, ms, ms},
		{"probes know it again", time.Second, params.Refills, 20 * ms, ms, params.WorstMost},
	} {
		p := New(&params)
		p.Used(tt.idle, at(0))
		if got := p.Expected(at(0).Add(tt.since), tt.worst, tt.median); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestSignaledForgetsVerdict: what the other end says is no verdict of this one.
func TestSignaledForgetsVerdict(t *testing.T) {
	params := Hosts()
	p := in(t, Confirming, &params)
	if p.Signaled(at(20)); p.Verdict() != (Verdict{}) || !p.Silent().Equal(at(20)) || !p.Since().Equal(at(20)) {
		t.Errorf("%v, silent since %v, down since %v", p.Verdict(), p.Silent(), p.Since())
	}
}

// TestOldAnswers: what was sent before a path failed does not speak for it, however much
// of it is answered then: a path that has become slow answers all of a burst at once.
func TestOldAnswers(t *testing.T) {
	params := Hosts()
	p := in(t, Down, &params)
	for i := range uint32(20) {
		if do := p.Answer(answer(100+i, 0, 100), false); do != 0 || !p.Down() {
			t.Fatalf("recovered by answers to what was sent before it failed")
		}
	}
}

// asked has a path answer a probe that was sent so many ms into a test, at once.
func asked(p *Path, seq uint32, sent float64) Action {
	p.Sent(seq, at(sent))
	return p.Answer(answer(seq, sent, sent+.5), false)
}

// TestRecoversInARow: as many probes in a row as it takes, as they were sent, whenever it is known what became of them.
func TestRecoversInARow(t *testing.T) {
	params := Hosts()
	const every = 30
	type probe func(p *Path, seq uint32, sent float64) Action
	late := func(p *Path, seq uint32, sent float64) Action { // given up, and then answered
		p.Sent(seq, at(sent))
		p.Lost(at(sent))
		return p.Answer(answer(seq, sent, sent+1001), true)
	}
	lost := func(p *Path, seq uint32, sent float64) Action { p.Sent(seq, at(sent)); return 0 }
	full := func(p *Path, seq uint32, sent float64) Action { p.SentFull(seq, at(sent)); return 0 }
	passes := func(p *Path, seq uint32, sent float64) Action {
		full(p, seq, sent)
		return p.Answer(answer(seq, sent, sent+.5), false)
	}
	// An answer takes a while: it comes when the next ones have gone.
	slow := func(p *Path, seq uint32, sent float64) Action {
		p.Sent(seq, at(sent))
		return p.Answer(answer(seq-4, sent-4*every, sent+1), false)
	}
	for name, tt := range map[string]struct {
		before []probe
		then   probe
		want   int // such probes, up to the one that brings the path back; 0 for never
	}{
		"none is lost":                      {nil, asked, 10},
		"one was not answered":              {[]probe{asked, asked, lost}, asked, 10},
		"one was answered too late":         {[]probe{asked, asked, late}, asked, 10},
		"one of full size was not answered": {[]probe{asked, full}, asked, 0},
		"one of full size was answered":     {[]probe{asked, passes}, asked, 9},
		"answers are on their way":          {nil, slow, 14},
	} {
		p := in(t, Down, &params)
		seq, sent := uint32(200), 100.0
		next := func(do probe) Action {
			seq, sent = seq+1, sent+every
			return do(p, seq, sent)
		}
		for _, do := range tt.before {
			next(do)
		}
		got := 0
		for n := 1; n <= 40 && got == 0; n++ {
			if next(tt.then).Has(Recover) {
				got = n
			}
		}
		if got != tt.want {
			t.Errorf("%s: recovered by %d, want %d", name, got, tt.want)
		}
	}
}

// TestRecoversAtOnce: probes of the outage are given up long after the path passes those that are sent then, which
// does not make it come back later.
func TestRecoversAtOnce(t *testing.T) {
	params := Hosts()
	p := in(t, Down, &params)
	const every, outage, givenUp = 30, 1000, 1000
	for ms := 20.0; ; ms += every {
		if ms > givenUp {
			p.Lost(at(ms - givenUp))
		}
		if ms < outage {
			p.Sent(uint32(ms), at(ms))
		} else if asked(p, uint32(ms), ms).Has(Recover) {
			if most := float64(outage + every*params.AnswersInARow); ms > most {
				t.Errorf("recovered after %v ms, want %v", ms, most)
			}
			return
		}
		if ms > 5000 {
			t.Fatal("never recovered")
		}
	}
}

// TestSecondFault: what went unanswered in the first fault is no evidence of a second.
func TestSecondFault(t *testing.T) {
	params := Pairs()
	p := in(t, Suspect, &params) // three probes without answer
	p.Tick(at(1001), Evidence{Until: at(1001)})
	p.Suspect(at(1100), at(1106))
	do := p.Tick(at(1106.5), Evidence{Until: at(1106.5), Witnesses: well(1106)})
	if p.State() != Suspect || do.Has(Fail) {
		t.Errorf("%s at once, by probes of the first fault", p.State())
	}
}

// TestSilence: who is silent since when, by what counters tell.
func TestSilence(t *testing.T) {
	never := time.Time{}
	var s Silence
	for _, tt := range []struct {
		name  string
		count Count
		want  time.Time
	}{
		{"nothing", Count{}, never},
		{"a question", Count{Sent: true, LastSent: at(1)}, at(1)},
		{"another", Count{Sent: true, LastSent: at(2)}, at(1)},
		{"answered", Count{Received: true, LastSent: at(2), LastReceived: at(3)}, never},
		{"asked again, as it was answered", Count{Sent: true, Received: true, LastSent: at(5), LastReceived: at(4)}, at(5)},
		{"asked again", Count{Sent: true, Received: true, LastSent: at(7), LastReceived: at(6)}, at(7)},
		{"both stop", Count{LastSent: at(7), LastReceived: at(6)}, at(7)},
		{"an answer", Count{Received: true, LastSent: at(7), LastReceived: at(8)}, never},
		{"what wants no answer", Count{Sent: true, LastSent: at(7), LastReceived: at(8)}, at(9)},
	} {
		s.Counted(tt.count, at(9))
		if !s.Since.Equal(tt.want) || !s.Came.Equal(tt.count.LastReceived) {
			t.Errorf("%s: silent since %v, want %v", tt.name, s.Since, tt.want)
		}
	}
	if !s.Lasts(0, at(9)) || s.Lasts(6*time.Millisecond, at(14)) || !s.Lasts(6*time.Millisecond, at(15)) ||
		(Silence{}).Lasts(0, at(9)) {
		t.Error("it does not last as long as it does")
	}
}

// TestFullPaths: a failure is found however long a witness takes that is as full as the path was.
func TestFullPaths(t *testing.T) {
	for level, params := range map[string]Params{"hosts": Hosts(), "pairs": Pairs()} {
		for _, trip := range []float64{.2, 1, 3, 5, 10, 15, 20, 25, 30, 40} {
			took, found := fails(&params, trip)
			// The third round at 4 ms, its answer by the witness, and what the path is given then; answers
			// that are looked for in the slow rounds come up to two of these later.
			usual := time.Duration(trip * 1e6)
			most := 4*time.Millisecond + usual + params.deadline(usual) + params.ConfirmWithin + 2*params.Slow
			if t.Logf("%s, %v: %v after the suspicion", level, usual, took); !found || took > most {
				t.Errorf("%s, %v: found %v after %v, want %v at most", level, usual, found, took, most)
			}
		}
	}
}

// fails has a path fail, next to another one, on which echoes take so many ms.
func fails(params *Params, trip float64) (after time.Duration, found bool) {
	usual := time.Duration(trip * 1e6)
	p, other := New(params), New(params)
	seq := uint32(0)
	ask := func(do Action, ms float64) {
		if seq++; do.Has(Ask) {
			p.Sent(seq, at(ms))
		}
		if do.Has(AskOthers) {
			other.Sent(seq, at(ms))
		}
	}
	ask(p.Suspect(at(-6), at(0)), 0)
	for ms := 0.; ms < 1000; ms++ {
		for _, x := range other.shots {
			if !x.Sent.Add(usual).After(at(ms)) && x.Answered.IsZero() {
				other.Answer(Shot{Seq: x.Seq, Sent: x.Sent, Answered: x.Sent.Add(usual)}, false)
			}
		}
		ask(p.Tick(at(ms), Evidence{Until: at(ms), Expected: usual,
			Witnesses: []Witness{other.Testimony("z", usual, usual)}}), ms)
		if p.Confirm(at(ms), Undecided).Has(Fail) {
			return at(ms).Sub(at(0)), true
		}
	}
	return 0, false
}

// TestPassesByOthers: a probe that waits in a queue is overdue, and the path has not failed, as packets come that
// the queue lets out; and where a shaper lets out 64 kB at once, not before the next should have come.
func TestPassesByOthers(t *testing.T) {
	params := Hosts()
	for _, tt := range []struct {
		name       string
		came, next float64 // ms, as the path was suspected at 0
		want       State
	}{
		{"nothing came for long", -30, -30, Confirming},
		{"since", 3, 3, Up},
		{"just before, and little", -4, -3, Confirming},
		{"just before, of bulk", -4, 20, Suspect},
		{"of bulk, and long enough ago", -16, 8, Confirming},
	} {
		p := in(t, Suspect, &params)
		p.Tick(at(8), Evidence{Until: at(8), Came: at(tt.came), Next: at(tt.next), Witnesses: well(0, 2, 4)})
		if p.State() != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, p.State(), tt.want)
		}
	}
}

// TestGapOf: bulk comes in lumps, the slower the farther apart.
func TestGapOf(t *testing.T) {
	params := Hosts()
	const mbit = 1e6 / 8.0
	for _, tt := range []struct {
		name       string
		size, rate float64
		least      time.Duration
		most       time.Duration
	}{
		{"nothing", 0, 0, 0, 0},
		{"small packets", 200, 8 * mbit, 1 * time.Millisecond, 2 * time.Millisecond},
		{"larger ones, which nobody hands over together", 700, 100 * mbit, 300 * time.Microsecond, time.Millisecond},
		{"bulk of 10 Gbit/s", 1448, 10000 * mbit, 0, time.Millisecond},
		{"bulk of a gigabit", 1448, 1000 * mbit, 3 * time.Millisecond, 4 * time.Millisecond},
		{"bulk of 200 Mbit/s, of which 33 are left", 1448, 200 * mbit, 15 * time.Millisecond, 17 * time.Millisecond},
		{"slow bulk, some of it sent again in part", 1316, 30 * mbit, params.GapMost, params.GapMost},
		{"slow bulk of large packets", 8900, 10 * mbit, params.GapMost, params.GapMost},
	} {
		if got := params.GapOf(tt.size, tt.rate); got < tt.least || got > tt.most {
			t.Errorf("%s: %v, want %v to %v", tt.name, got, tt.least, tt.most)
		}
	}
}

// TestGapQueued: what is slow because it is in a queue is waited for as long as one hand-over takes, but what is
// slow as its program sends little shows no such round trips.
func TestGapQueued(t *testing.T) {
	const mbit, ms = 1e6 / 8, time.Millisecond
	params := Pairs()
	for _, tt := range []struct {
		name             string
		size, rate       float64
		trip, least, top time.Duration
		fills            bool
	}{
		{"15 Mbit/s", 1448, 15 * mbit, 60 * ms, 50 * ms, 55 * ms, false},
		{"5 Mbit/s", 1448, 5 * mbit, 90 * ms, 150 * ms, 160 * ms, false},
		{"hardly anything", 1448, mbit / 2, time.Second, params.PassingMost, params.PassingMost, false},
		{"a program that sends 5 Mbit/s", 1448, 5 * mbit, ms / 10, ms / 5, ms / 5, false},
		{"small packets in a queue", 300, mbit, 60 * ms, 0, 0, false},
		{"nothing", 1448, 0, 60 * ms, 0, 0, false},
		{"datagrams", 1448, 5 * mbit, 0, 0, 0, false},
		{"the queue fills", 1448, 5 * mbit, ms, params.GapAlone, params.GapAlone, true},
		{"fills again", 1448, 5 * mbit, 90 * ms, 150 * ms, 160 * ms, true},
	} {
		if got := params.GapQueued(tt.size, tt.rate, params.GapLimit(tt.trip, tt.fills)); got < tt.least || got > tt.top {
			t.Errorf("%s: %v, want %v to %v", tt.name, got, tt.least, tt.top)
		}
	}
}

// TestGap: of bulk that has just come to a path it is not known yet how slow the path is.
func TestGap(t *testing.T) {
	params := Pairs()
	for _, tt := range []struct {
		idle  time.Duration // before packets came to the path, at 0
		ask   float64       // ms after that
		known time.Duration
		own   bool
		fresh bool
		want  time.Duration
	}{
		{time.Second, 0, time.Millisecond, false, true, params.GapMost},
		{time.Second, 299, time.Millisecond, false, true, params.GapMost},
		{time.Second, 299, time.Millisecond, true, true, params.GapAlone},
		{time.Second, 300, time.Millisecond, true, false, time.Millisecond},
		{40 * time.Millisecond, 10, time.Millisecond, false, false, time.Millisecond}, // no lull
		{time.Second, 0, 150 * time.Millisecond, true, true, 150 * time.Millisecond},
	} {
		p := New(&params)
		p.Used(tt.idle, at(0))
		if got := p.Gap(tt.known, tt.own, at(tt.ask)); got != tt.want || p.Fresh(at(tt.ask)) != tt.fresh {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestHolds: a queue that has just filled is known by the probes that wait in it, or have; one that was lost before
// another passed tells nothing, and what waits for long is not in a queue.
func TestHolds(t *testing.T) {
	params := Pairs()
	most := params.GapAlone / time.Duration(params.AckTrips)
	for _, tt := range []struct {
		name  string
		shots []Shot
		want  time.Duration
	}{
		{"nothing was sent", nil, 0},
		{"sent before", []Shot{{Sent: at(0)}}, 0},
		{"waits", []Shot{{Sent: at(20)}, {Sent: at(25)}}, 10 * time.Millisecond},
		{"waits for long", []Shot{{Sent: at(-30)}, {Sent: at(10)}}, 20 * time.Millisecond},
		{"waited", []Shot{{Sent: at(10), Answered: at(28)}, {Sent: at(25), Answered: at(29)}}, 18 * time.Millisecond},
		{"lost before one passed", []Shot{{Sent: at(10)}, {Sent: at(20), Answered: at(21)}}, time.Millisecond},
	} {
		p := New(&params)
		p.shots = tt.shots
		if got := p.Holds(at(10), at(30)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	p := New(&params)
	p.Sent(1, at(0))
	if got := p.Holds(at(0), at(500)); got != most {
		t.Errorf("waits for half a second: %v, want %v", got, most)
	}
}

// TestPassing: as long as packets of others pass, a verdict about a pair waits for the hosts' probes, but no longer
// than TCP's shortest timeout.
func TestPassing(t *testing.T) {
	params := Pairs()
	p := in(t, Confirming, &params)
	for ms := 8.0; ms < 208; ms += 2 {
		if do := p.Confirm(at(ms), Passing); do != 0 || p.State() != Confirming {
			t.Fatalf("%s after %v ms", p.State(), ms)
		}
	}
	if do := p.Confirm(at(208), Passing); !do.Has(Fail) {
		t.Errorf("%s after 200 ms", p.State())
	}
}
