package decide

import "slices"

// mixed tells whether the schedule's pair has flows of both classes.
func (s Schedule) mixed() bool {
	return slices.ContainsFunc(s.Phases, func(p Phase) bool { return p.Answers > 0 })
}

// queueMost bounds how long packets wait in the queue of a network that bulk fills, in
// seconds.
const queueMost = 0.2

// wait is how long packets wait in the network's full queue, in seconds, where it carries so much: it is full in bytes,
// so the slower, the longer.
func (n SimNetwork) wait(connections int, carries float64) float64 {
	return min(n.Queue*n.at(connections)/carries, queueMost)
}

// queues are what the bulk's flows do to other packets on the networks that they fill, as
// delays.
func (w *world) queues(p Phase) (out []Impairment) {
	for _, n := range w.s.Networks {
		d, o := w.last[n.Name].data, p.offers(n)
		if d.AppLimited || d.Goodput <= 0 || o.carries <= 0 || o.lost > 0 {
			continue
		}
		out = append(out, Impairment{Network: n.Name, Fault: Delay, Factor: n.wait(p.Load.Connections, o.carries) / 2})
	}
	return out
}

// answering is the phase as the flows that wait for answers find it: they never pause, and
// meet the queues of the bulk.
func (p Phase) answering(queues []Impairment) Phase {
	p.Load, p.Pause = Load{Connections: p.Answers}, false
	p.Impairments = slices.Concat(p.Impairments, queues)
	return p
}

// playMixed plays a schedule with flows of both classes: each class is steered by what its
// own flows show, or both by what the bulk's do where the schedule says together, as the
// bulk has nearly all the bytes. The best in hindsight of each class is what it would have
// alone.
func playMixed(s Schedule, policy Policy, seed uint64) Result {
	bulk, other := playBoth(s, policy, seed, s.Together)
	out := Result{Policy: policy.Name(), Pairs: 1, Classes: []Result{bulk.result(Bulk), other.result(Interactive)}}
	for _, c := range out.Classes {
		out.Epochs, out.Switches, out.Failovers = out.Epochs+c.Epochs, out.Switches+c.Switches, out.Failovers+c.Failovers
		out.Canaries, out.False = out.Canaries+c.Canaries, out.False+c.False
		out.Hindsight, out.HindsightFree = out.Hindsight+1, out.HindsightFree+ratio(c.HindsightFree, c.Hindsight)
		out.Achieved += c.OfHindsight()
	}
	for _, n := range s.Networks {
		bulk, other := playBoth(s, Static{Network: n.Name}, seed, true)
		both := ratio(bulk.book.achieved, out.Classes[0].Hindsight) + ratio(other.book.achieved, out.Classes[1].Hindsight)
		if both > out.Static {
			out.Static, out.StaticNetworks = both, []string{n.Name}
		}
	}
	return out
}

// playBoth plays both classes. What they are is learned from what their flows do, as agents
// learn it, and each goes by the row of its class.
func playBoth(s Schedule, policy Policy, seed uint64, together bool) (bulk, other *simulation) {
	answers, by := s, DefaultClasses()
	answers.Need, answers.Windows = Latency, false // they send far less than a window
	bulk, other = newSimulation(s, policy, seed), newSimulation(answers, policy, seed+1<<32)
	var rows Rows
	var flows [2]Learner
	for _, phase := range s.Phases {
		for range int(phase.For / Period) {
			ev := RowEvidence{All: bulk.w.evidence(phase, bulk.at)}
			ev.Of = [2]PairEvidence{other.w.evidence(phase.answering(bulk.w.queues(phase)), other.at), ev.All}
			looks := [2]Look{other.w.answered(other.rate), bulk.w.sent(phase.Load.Connections)}
			for row, k := range looks {
				flows[row] = flows[row].Learn(k, &by)
				ev.Live[row] = !together && !k.idle() && flows[row].Class() == ClassOf(row)
			}
			var d [2]Decision
			rows, d = StepRows(policy, rows, ev, &by)
			bulk.play(phase, phase, d[1])
			other.play(phase.answering(bulk.w.queues(phase)), phase.answering(nil), d[0])
		}
	}
	return bulk, other
}

// sent is what one of the bulk's flows did in the period before.
func (w *world) sent(connections int) (k Look) {
	const segment = 1448
	k.For = Period
	for _, s := range w.last {
		k.Sent += s.data.Goodput / 8 * Period.Seconds() / float64(max(connections, 1))
		k.Waits = k.Waits || !s.data.AppLimited
	}
	k.SegmentsOut = k.Sent / segment
	return k
}

// answered is what a flow did that got so many answers a second.
func (w *world) answered(rate float64) Look {
	const request = 128
	n := rate * Period.Seconds()
	return Look{For: Period, Sent: n * request, Received: n * request, SegmentsOut: n, SegmentsIn: n}
}

// result is what the flows of a class achieved.
func (r *simulation) result(class Class) Result {
	out := Result{Class: class, Policy: r.policy.Name(), Pairs: 1}
	r.book.close(&out)
	if class == Interactive && len(out.StaticNetworks) > 0 {
		out.Slower50, out.Slower99 = r.book.slower(out.StaticNetworks[0], 0.5), r.book.slower(out.StaticNetworks[0], 0.99)
	}
	return out
}

// slower is a quantile of the time of an operation, over the same one on a network alone;
// times in which one of them gives nothing are left out. 0 is unknown.
func (l *ledger) slower(network string, q float64) float64 {
	var ours, alone []float64
	for i, e := range l.epochs {
		if best, got := e.truth[network], l.rates[i]; best > 0 && got > 0 {
			ours, alone = append(ours, 1/got), append(alone, 1/best)
		}
	}
	if len(ours) == 0 {
		return 0
	}
	at := int(q * float64(len(ours)-1))
	return slices.Sorted(slices.Values(ours))[at] / slices.Sorted(slices.Values(alone))[at]
}
