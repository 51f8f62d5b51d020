package detect

import (
	"slices"
	"time"
)

// kept is how many probes a judgement looks back over: more than it asks for at once, as in a deep queue those
// that begin the row are judged when slow ones have followed. recent are those that tell the usual round trip.
const kept, recent = 32, 16

// Path is what is known of one path, and what of that is suspected. It is for one
// goroutine.
type Path struct {
	params *Params
	state  State
	// entered is when it came to its state.
	entered time.Time
	// suspected is when the latest suspicion arose, and silent since when packets had
	// gone out unanswered then; cleared is when the latest was found to be nothing.
	suspected, silent, cleared time.Time
	// well is when it last came back from a failure.
	well time.Time
	// weak is that the silence has lasted since before one was found to be nothing.
	weak bool
	// rounds of probes were asked for since, the latest at roundAt.
	rounds  int
	roundAt time.Time
	verdict Verdict
	// shots are the latest probes, the oldest first, and answered is when one last was. lost is when the latest
	// went of those that were given up.
	shots          []Shot
	answered, lost time.Time
	// full is the latest probe of the path's full size, which is not among them.
	full Shot
	// back is when a pair's packets took the path after a lull.
	back time.Time
}

// New is a path that is Up.
func New(params *Params) Path { return Path{params: params} }

// State is the path's.
func (p *Path) State() State { return p.state }

// Down reports whether the path has failed.
func (p *Path) Down() bool { return p.state == Down }

// Since is when the path came to its state.
func (p *Path) Since() time.Time { return p.entered }

// Suspected reports whether the path is suspected.
func (p *Path) Suspected() bool { return p.state == Suspect || p.state == Confirming }

// Arose is when the latest suspicion did.
func (p *Path) Arose() time.Time { return p.suspected }

// Silent is since when packets had gone out unanswered as the latest suspicion arose.
func (p *Path) Silent() time.Time { return p.silent }

// Verdict is the latest that was not in the path's favour.
func (p *Path) Verdict() Verdict { return p.verdict }

// Suspect is told that packets have gone out on the path since silent, and none have
// come in.
func (p *Path) Suspect(silent, now time.Time) Action {
	if p.state != Up || now.Sub(p.cleared) < p.params.Again {
		return 0
	}
	p.suspected, p.silent, p.rounds, p.roundAt, p.verdict = now, silent, 0, time.Time{}, Verdict{}
	p.weak = silent.Before(p.cleared)
	return p.step(Silent, now) | p.ask(now)
}

// Used is told that packets of a pair go over the path, after so long without.
func (p *Path) Used(idle time.Duration, now time.Time) {
	if idle > p.params.Lull {
		p.back = now
	}
}

// Refills reports whether the path's queue may be filling again, faster than probes or round trips tell.
func (p *Path) Refills(now time.Time) bool { return now.Sub(p.back) < p.params.Refills }

// Fresh reports whether a pair's packets have come to the path so lately that what it passes of them has not shown yet.
func (p *Path) Fresh(now time.Time) bool { return now.Sub(p.back) < p.params.GapNew }

// Gap is for how long nothing may come of bulk over the path, for which known is what has been seen of it so far.
// It may be longer where the bulk is in a queue of its pair's own.
func (p *Path) Gap(known time.Duration, own bool, now time.Time) time.Duration {
	switch {
	case !p.Fresh(now):
		return known
	case own:
		return max(known, p.params.GapAlone)
	}
	return max(known, p.params.GapMost)
}

// Usual is the round trip that a judgement may expect of the path, of which these are the
// worst and the median: the worst within bounds, and what half of them took in any case.
func (p *Path) Usual(worst, median time.Duration) time.Duration {
	return max(min(worst, p.params.WorstMost), median)
}

// Expected is the round trip that a judgement may expect of the path while it is
// suspected: where traffic has just come back, what it took while there was some before.
func (p *Path) Expected(now time.Time, worst, median time.Duration) time.Duration {
	usual := p.Usual(worst, median)
	if p.Refills(now) {
		return max(p.Queued(worst), usual)
	}
	return usual
}

// Queued is the round trip that a judgement may expect of probes behind traffic that takes so long: deeper queues are a
// fault.
func (p *Path) Queued(trip time.Duration) time.Duration { return min(trip, p.params.QueueMost) }

// Sent is told of a probe on the path.
func (p *Path) Sent(seq uint32, at time.Time) {
	if len(p.shots) >= kept {
		p.shots = slices.Delete(p.shots, 0, 1)
	}
	p.shots = append(p.shots, Shot{Seq: seq, Sent: at})
}

// SentFull is told of a probe of the path's full size: no judgement goes by it, but a failed path that still loses
// such is not usable again.
func (p *Path) SentFull(seq uint32, at time.Time) { p.full = Shot{Seq: seq, Sent: at} }

// Answer is told of a probe that was answered, and whether that was after it was given up.
func (p *Path) Answer(a Shot, late bool) Action {
	p.answered = a.Answered
	for i := range p.shots {
		p.shots[i].answer(a)
	}
	p.full.answer(a)
	if p.state != Down || late || p.inARow() < p.params.AnswersInARow {
		return 0
	}
	return p.step(Answered, a.Answered)
}

// answer takes what came back of the probe, if that is what it is.
func (x *Shot) answer(a Shot) {
	if x.Seq == a.Seq && !x.Sent.IsZero() && x.Answered.IsZero() {
		x.Answered = a.Answered
	}
}

// inARow is how many probes in a row, as they were sent, were answered, up to the latest that was: of those that went
// since the path failed, and after all that were given up, or are of full size and on their way. Probes are given up
// long after the path passes again what is sent then: it matters when they went, and not when they are missed.
func (p *Path) inARow() (n int) {
	if !p.full.Sent.Before(p.entered) && p.full.Answered.IsZero() {
		return 0
	}
	for _, x := range slices.Backward(p.shots) {
		switch {
		case x.Sent.Before(p.entered) || !x.Sent.After(p.lost):
			return n
		case !x.Answered.IsZero():
			n++
		case n > 0:
			return n
		}
	}
	return n
}

// Lost is told that a probe of any size was given up, and when it went.
func (p *Path) Lost(sent time.Time) {
	if sent.After(p.lost) {
		p.lost = sent
	}
}

// Unanswered reports whether the latest probe was not answered yet.
func (p *Path) Unanswered() bool {
	last := len(p.shots) - 1
	return last >= 0 && p.shots[last].Answered.IsZero()
}

// Asked reports whether a probe has gone just now: less than half a round ago.
func (p *Path) Asked(now time.Time) bool {
	last := len(p.shots) - 1
	return last >= 0 && now.Sub(p.shots[last].Sent) < p.params.Every/2
}

// Telling reports whether answers have come lately: where none ever do, silence means
// nothing.
func (p *Path) Telling(now time.Time) bool {
	return !p.answered.IsZero() && now.Sub(p.answered) < p.params.KnownFor
}

// Asking reports whether the first probe has gone so lately that its answer may wait in a queue: whether the path
// answers any is not known yet.
func (p *Path) Asking(now time.Time) bool {
	return p.answered.IsZero() && !p.Unasked() && len(p.shots) < kept && now.Sub(p.shots[0].Sent) < p.params.GapNew
}

// MayTell reports whether silence tells something, or may, as far as is known.
func (p *Path) MayTell(now time.Time) bool { return p.Telling(now) || p.Asking(now) }

// Unasked reports whether no probe has gone yet.
func (p *Path) Unasked() bool { return len(p.shots) == 0 }

// Refused is told that probes cannot pass, for reasons that are no fault of the path.
func (p *Path) Refused() { p.answered = time.Time{} }

// Passed reports whether a probe was answered that was sent at t or later.
func (p *Path) Passed(t time.Time) bool {
	return !p.firstPassed(t).IsZero()
}

// firstPassed is when the first probe went that was answered, of those sent at t or later; zero if none was.
func (p *Path) firstPassed(t time.Time) (first time.Time) {
	for _, x := range p.shots {
		if !x.Answered.IsZero() && !x.Sent.Before(t) && (first.IsZero() || x.Sent.Before(first)) {
			first = x.Sent
		}
	}
	return first
}

// Holds is for how long the path holds up probes that were sent at t or later: what those took that were answered, or
// if none was, how long the first has waited, which is believed of a queue for so long that a connection is not asked
// about for GapAlone.
func (p *Path) Holds(t, now time.Time) (held time.Duration) {
	waits, answered := time.Duration(0), false
	for _, x := range p.shots {
		switch {
		case x.Sent.Before(t):
		case !x.Answered.IsZero():
			held, answered = max(held, x.Answered.Sub(x.Sent)), true
		case waits == 0:
			waits = now.Sub(x.Sent)
		}
	}
	if answered {
		return held
	}
	return min(waits, p.params.GapAlone/time.Duration(p.params.AckTrips))
}

// Trips are the worst and the median round trip of the latest probes; 0 where none was
// answered.
func (p *Path) Trips() (worst, median time.Duration) {
	var rtts []time.Duration
	for _, x := range p.shots[max(len(p.shots)-recent, 0):] {
		if !x.Answered.IsZero() {
			rtts = append(rtts, x.Answered.Sub(x.Sent))
		}
	}
	if len(rtts) == 0 {
		return 0, 0
	}
	slices.Sort(rtts)
	return rtts[len(rtts)-1], rtts[len(rtts)/2]
}

// Testimony is what the path can say of another one, given its worst and median round
// trips.
func (p *Path) Testimony(name string, worst, median time.Duration) Witness {
	return Witness{Name: name, Usual: p.Usual(worst, median), Shots: p.shots}
}

// Evidence is what is known of a suspected path besides its own probes.
type Evidence struct {
	// Until is up to when answers are known to have been read, on all paths.
	Until time.Time
	// Expected is the round trip that may be expected of the path.
	Expected time.Duration
	// Late is how late this end has come to its own work since the silence began.
	Late time.Duration
	// Came is when a packet of the pair last came over the path, or between hosts one of a pair
	// that sends too: a queue that has just filled holds probes up for longer than could be
	// expected, and lets packets out all the time. Next is by when another should have come, of
	// what comes (GapOf), and Probed when one of the peer's own probes did. Zero if never, or not
	// known.
	Came, Next, Probed time.Time
	Witnesses          []Witness
}

// Tick judges a suspected path, and says what to ask.
func (p *Path) Tick(now time.Time, e Evidence) Action {
	if !p.Suspected() {
		return 0
	}
	v := p.params.judge(suspicion{start: p.suspected, shots: p.shots, well: p.well, weak: p.weak, Evidence: e})
	switch {
	case v.Alive, e.Came.After(p.suspected):
		return p.step(Passes, now)
	case now.Sub(p.suspected) > p.params.ExpiresAfter:
		return p.step(Expires, now)
	case v.Failed && now.Before(e.Next):
	case v.Failed:
		p.verdict = v
		p.step(Overdue, now)
	case v.Overdue < v.Needed:
		p.step(Retracted, now)
	}
	return p.ask(now)
}

// ask says whom to ask in this round, if one is due.
func (p *Path) ask(now time.Time) Action {
	every := p.params.Every
	if p.rounds >= p.params.Burst {
		every = p.params.Slow
	}
	if now.Sub(p.roundAt) < every {
		return 0
	}
	p.roundAt = now
	p.rounds++
	do := Ask
	if p.rounds >= p.params.OthersFrom {
		do |= AskOthers
	}
	if p.params.HostsFrom > 0 && p.rounds >= p.params.HostsFrom {
		do |= AskHosts
	}
	return do
}

// Opinion is what the other level says of a path that fails: of one between hosts the
// pairs on it, of a pair's the hosts.
type Opinion uint8

// The opinions.
const (
	Agrees    Opinion = iota // it does not know better
	Undecided                // it is about to know
	Passing                  // others' packets pass, and its own probes wait, perhaps in the same queue
	Denies                   // it knows that the path is well, or that it has found the failure itself
)

// Confirm acts on the verdict about a path that fails, unless the other level knows better.
func (p *Path) Confirm(now time.Time, o Opinion) Action {
	switch {
	case p.state != Confirming || o == Undecided && now.Sub(p.entered) < p.params.ConfirmWithin ||
		o == Passing && now.Sub(p.entered) < p.params.PassingMost:
		return 0
	case o == Denies:
		return p.step(Denied, now)
	}
	return p.step(Agreed, now)
}

// Signaled is told that the other end has found the path to fail.
func (p *Path) Signaled(now time.Time) Action {
	if p.state != Down {
		p.silent, p.verdict = now, Verdict{}
	}
	return p.step(Signaled, now)
}

// Overrule leaves the path to the hosts' verdict about it, which has come to what was
// suspected since then. What had failed before stays so.
func (p *Path) Overrule(since, now time.Time) {
	if p.state == Down && p.entered.Before(since) {
		return
	}
	p.step(Overruled, now)
}
