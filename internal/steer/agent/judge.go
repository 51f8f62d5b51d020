package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// judge says what is known of a pair, for the policy to decide by.
type judge struct {
	cfg      *Config
	members  *members
	recorder *recorder
	start    time.Time // of the agent
	classes  decide.ClassParams
	crowds   crowds
}

// decide lets the policy decide about a pair: about all its flows, or about each class apart.
func (j *judge) decide(p *pair, now time.Time) []decide.Decision {
	ev := j.rowEvidence(p, now)
	d := j.step(p, ev)
	for _, d := range d {
		j.recorder.add(recordOf(d.Evidence))
	}
	if p.pin() != "" {
		for i := range d {
			d[i] = p.keepPinned(d[i].Evidence, d[i])
		}
	}
	return d
}

// step is one of the policy's.
func (j *judge) step(p *pair, ev decide.RowEvidence) []decide.Decision {
	was := p.rows.Apart
	p.rows, p.decision = decide.StepRows(j.cfg.Policy, p.rows, ev, &j.classes)
	if was || p.rows.Apart {
		return slices.Clone(p.decision[:])
	}
	return slices.Clone(p.decision[:1])
}

// recordOf is a record of evidence. Those of classes are told apart by the name of the pair.
func recordOf(ev decide.PairEvidence) decide.Record {
	if ev.Class != "" {
		ev.Pair += " " + string(ev.Class)
	}
	return decide.Record{For: epoch, Evidence: ev}
}

// failOver lets the policy decide about a pair of which a path has failed.
func (j *judge) failOver(p *pair, now time.Time) []decide.Decision {
	d := j.step(p, j.rowEvidence(p, now))
	if !slices.ContainsFunc(d, p.leaves) && p.liftBars(now) {
		d = j.step(p, j.rowEvidence(p, now))
	}
	return d
}

// pin is the network that the pair is pinned to, "" for none: a user's order comes before what
// the cluster says of the pod.
func (p *pair) pin() string {
	if p.pinned != "" {
		return p.pinned
	}
	if _, ok := p.routes.byNetwork(p.local.Pin); ok {
		return p.local.Pin
	}
	return ""
}

// keepPinned lets only failure move a pinned pair, and brings it back.
func (p *pair) keepPinned(ev decide.PairEvidence, d decide.Decision) decide.Decision {
	if d.Kind == decide.Failover || d.Kind == decide.Fallback {
		return d
	}
	back := decide.Decision{Kind: decide.Switch, From: ev.Active, To: p.pin(), Buckets: decide.Buckets, Confidence: 1,
		Reason: "pinned here, and well again", Evidence: ev}
	for _, e := range ev.Paths {
		if e.Network == p.pin() && e.State == decide.Up && ev.Active != p.pin() {
			return back
		}
	}
	return decide.Decision{Kind: decide.Stay, From: ev.Active, To: ev.Active, Buckets: decide.Buckets, Reason: "pinned"}
}

// evidence is all that is known of a pair.
func (j *judge) evidence(p *pair, now time.Time) decide.PairEvidence {
	ev := decide.PairEvidence{At: now.Sub(j.start), Pair: p.name, Need: cmp.Or(decide.Need(p.local.Need), j.cfg.Need),
		Default: p.routes[0].Network, Active: p.on().Network, SwitchLoss: p.loss.Estimate()}
	var buckets [8]int
	if choices, err := p.local.plane.Choices(p.remote.UID); err == nil {
		for _, c := range choices {
			buckets[c.Path%len(buckets)]++
		}
	}
	total := 0.0
	j.crowds.take(j.members.pairs(), now)
	for i, r := range p.routes {
		ln := &p.lines[i]
		total += ln.tx + ln.rx
		on := j.crowds.of(between{p.host, r.Network})
		others := on.pairs
		if p.isOn(r.Network, now) {
			others--
		}
		e := decide.PathEvidence{Network: r.Network, State: decide.Up, Buckets: buckets[r.Index],
			Prior: j.cfg.Prior[r.Network], CPU: j.cfg.CPU[r.Network], OtherPairs: max(others, 0)}
		e.Data = p.data(i, now)
		if hp := p.host.paths[r.Network]; hp != nil {
			hp.fill(&e, hp.lastProbe(), now)
			e.Passes = e.Data.Tx > 0 && e.Data.Rx <= 0 && on.arrivals.pass(p, epoch, now)
		} else {
			e.State, e.Reason = decide.Ineligible, "the other host has no agent on it"
		}
		down := e.State == decide.Failed // between the hosts, of which more is known, as the direction
		if left := ln.bar.Left(now); left > 0 && !down {
			e.State, e.Reason = decide.Failed,
				fmt.Sprintf("this pair's packets do not pass: tried again in %v", left.Round(time.Second))
		}
		if ln.Down() && !down {
			e.State, e.Reason = decide.Failed,
				fmt.Sprintf("this pair's packets do not pass, since %v", now.Sub(ln.Since()).Round(10*time.Millisecond))
		}
		if r.Index != 0 && p.opened.IsZero() {
			e.State, e.Reason = decide.Ineligible, "the other agent has not confirmed the pair"
		}
		ev.Paths = append(ev.Paths, e)
	}
	ev.Pause = total == 0
	ev.Load.Connections = p.conns
	return ev
}

// data is what the pair's own traffic tells of path i.
func (p *pair) data(i int, now time.Time) decide.Data {
	ln := &p.lines[i]
	d := decide.Data{Goodput: 8 * ln.goodput, Tx: ln.tx, Rx: ln.rx, RTOs: ln.rtos, Retrans: ln.retrans}
	if o := p.outcome; o != nil {
		d.Blank = now.Sub(o.at) < max(2*ln.figures.SRTT, 10*time.Millisecond)
	}
	switch {
	case ln.reported(now):
		d.SRTT, d.AppLimited = ln.figures.SRTT.Seconds(), !p.limited.known || p.limited.part > 0.5
	case p.conns == 0:
		// Not TCP: what is sent is what the application wants to send.
		d.AppLimited = true
	}
	p.countedAway(&d, i, now)
	return d
}

// direction is where a failed path loses packets, as far as is known: probes of the other
// agent that come after it failed, and were not on their way by then, have come all the
// way from there.
func (hp *hostPath) direction(probed time.Time) detect.Direction {
	const onTheirWay = 100 * time.Millisecond // in the longest queues
	if probed.After(hp.Since().Add(onTheirWay)) {
		return detect.Forward
	}
	return hp.Verdict().Direction
}

// fill adds what probes tell. The other agent's own last came at probed.
func (hp *hostPath) fill(e *decide.PathEvidence, probed, now time.Time) {
	s := hp.summary
	e.Probe = decide.Probe{RTT: hp.rtt().Seconds(), Jitter: s.Jitter.Seconds(), Loss: s.Loss.Value(),
		Samples: min(s.Answered, 256)}
	if last := s.Last; !last.IsZero() {
		if hp.last.After(last) {
			last = hp.last
		}
		e.Probe.Age = max(now.Sub(last).Seconds(), 0)
	}
	unknown := s.Answered == 0
	if unknown && e.Data.Rx > 0 { // only the first probe was lost: the pair's packets pass
		e.Probe.Loss, unknown = 0, false
	}
	switch {
	case hp.Down():
		e.State, e.Reason = decide.Failed, fmt.Sprintf("failed %v ago%s", now.Sub(hp.Since()).Round(10*time.Millisecond),
			hp.direction(probed))
	case hp.unfit != "":
		e.State, e.Reason = decide.Ineligible, hp.unfit
	case s.MTUBlackHole:
		e.State, e.Reason = decide.Ineligible, "full-size packets do not pass"
	case unknown:
		e.State, e.Reason = decide.Ineligible, "no probe has been answered yet"
	case hp.Suspected():
		e.State, e.Reason = decide.Suspect, fmt.Sprintf("silent for %v", now.Sub(hp.Arose()).Round(time.Millisecond))
	}
}

// liftBars makes paths usable at once that are barred because a connection timed
// out on them, though probes pass: where the active path has failed, one that may
// not carry data is better than one that does not.
func (p *pair) liftBars(now time.Time) bool {
	found := false
	for i, r := range p.routes {
		hp := p.host.paths[r.Network]
		bar := &p.lines[i].bar
		if bar.Left(now) > 0 && !p.uses(r.Index) && hp != nil && !hp.Down() {
			bar.Lift(now)
			found = true
		}
	}
	return found
}

func (j *judge) status(p *pair, ev decide.PairEvidence, e decide.PathEvidence) PathStatus {
	s := PathStatus{Host: j.cfg.Host, Pair: p.name, Network: e.Network, State: string(e.State), RTT: e.Probe.RTT,
		Jitter: e.Probe.Jitter, Loss: e.Probe.Loss, Goodput: e.Data.Goodput, Retrans: e.Data.Retrans, SRTT: e.Data.SRTT,
		CPU: e.CPU, Buckets: e.Buckets, Active: e.Network == ev.Active, Pinned: p.pin() == e.Network, Why: e.Reason,
		Policy: p.local.Policy}
	r, _ := p.routes.byNetwork(e.Network)
	s.Encapsulated = r.Encap
	row := ev.Class.Row()
	if s.Class = string(ev.Class); s.Class != "" {
		s.Buckets /= flow.Rows
	}
	s.Score = decide.Scores(p.rows.Of[row], ev)[e.Network]
	pending := s.Pinned && !s.Active
	followed, follows := p.follows(j.cfg.Now())
	if follows {
		s.Buckets, s.Active = followed[r.Index], r.Index == slices.Index(followed[:], slices.Max(followed[:]))
	}
	if s.Pending = pending; s.Pending {
		s.Why = "pinned, pending"
		if e.Reason != "" {
			s.Why += ": " + e.Reason
		}
	}
	if s.Why == "" && s.Active {
		s.Why = p.decision[row].Reason
		if follows {
			s.Why = "no flows of its own: follows the other end"
		} else if s.Pinned {
			s.Why = "pinned by " + cmp.Or(p.pinner(), "the user")
		}
		if p.local.DryRun {
			s.Why = p.wouldSay(p.decision[row])
		}
	}
	if shares := p.assignments()[row].With.On(e.Network); s.Why == "" && shares > 0 && !follows {
		s.Why = "shares the flows: " + p.decision[row].Reason
	}
	if r.Index == 0 && p.opening.elsewhere() {
		s.Why = strings.TrimPrefix(s.Why+"; new flows begin elsewhere", "; ")
	}
	if slices.Contains(p.notIn6, e.Network) {
		s.Why = strings.TrimPrefix(s.Why+"; IPv6 is not steered here", "; ")
	}
	return s
}

// pinner is what pins the pair, "" where that is a user or nobody.
func (p *pair) pinner() string {
	if p.pinned != "" || p.pin() == "" {
		return ""
	}
	return p.local.Policy
}

// wouldSay tells what a decision would do if the pod's flows were moved.
func (p *pair) wouldSay(d decide.Decision) string {
	text := "a dry run by " + p.local.Policy + ": "
	if d.Moves() && d.To != d.From {
		return text + fmt.Sprintf("%s to %s would follow: %s", d.Kind, d.To, d.Reason)
	}
	return text + cmp.Or(d.Reason, "nothing was decided yet")
}

// follows says for a pair whose packets are all of flows that the peer has opened how many
// buckets of those are on each path, by index: where its own flows would be tells nothing
// of where its packets go.
func (p *pair) follows(now time.Time) (on [dataplane.MaxPaths]int, only bool) {
	if now.Sub(p.own) < quiet || now.Sub(p.active) >= quiet {
		return on, false
	}
	choices, err := p.local.plane.Followed(p.remote.UID)
	for _, c := range choices {
		on[c.Path%len(on)]++
	}
	return on, err == nil
}

// stranded reports whether a path that the pair is on has failed. That of a pair
// that has opened no flow must be left too, if not at once, for want of one that was
// known to be well, then later: its pod is made fit for where the peer's flows are.
func (p *pair) stranded() bool {
	return slices.ContainsFunc(p.used(), p.down)
}

// atOnce is how many pairs are decided about in every epoch.
const atOnce = 8

// recorder writes down what decisions were made on, apart from who decides: a disk may be
// slow.
type recorder struct {
	*journal
	out  io.Writer // nil: nobody wants it
	todo chan decide.Record
}

// recordsMost is how many records wait to be written. Further ones are lost.
const recordsMost = 4096

func newRecorder(j *journal) *recorder {
	room := recordsMost
	if j.cfg.Evidence == nil {
		room = 0 // nothing is handed over
	}
	return &recorder{journal: j, out: j.cfg.Evidence, todo: make(chan decide.Record, room)}
}

// add hands over a record.
func (r *recorder) add(rec decide.Record) {
	if r.out == nil {
		return
	}
	select {
	case r.todo <- rec:
	default:
		r.warn("record evidence: the disk is too slow: some is lost")
	}
}

// run writes until ctx ends, and what is left by then; or until one cannot be written.
func (r *recorder) run(ctx context.Context) error {
	var err error
	write := func(rec decide.Record) {
		if err != nil {
			return
		}
		if err = decide.WriteRecord(r.out, rec); err != nil {
			r.warn("record evidence: %v", err)
		}
	}
	for {
		select {
		case rec := <-r.todo:
			write(rec)
		case <-ctx.Done():
			for len(r.todo) > 0 {
				write(<-r.todo)
			}
			return nil
		}
	}
}
