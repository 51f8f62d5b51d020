// Package proof decides whether two pipelines do the same. It shows that they do by
// walking through both at once for all packets, never by trying some; that they do not, by
// a packet that fares differently when both are walked through; and else says what it
// could not show. It reads values and asks no switch.
package proof

import (
	"math/rand/v2"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// Verdict is what was decided.
type Verdict string

// Verdicts.
const (
	Equal     Verdict = "EQUAL"
	Different Verdict = "DIFFERENT"
	Undecided Verdict = "UNDECIDED"
)

// Decision is a verdict and what it rests on.
type Decision struct {
	Verdict Verdict
	// Assumptions are what Equal takes for granted.
	Assumptions []string
	// Witness is a packet that fares differently, for Different.
	Witness *Witness
	// Reasons are what was not shown, for Undecided.
	Reasons []Reason
	// Tried is how many packets were.
	Tried int
	// Contradicted: equality was shown, and then a packet fared differently. That is a
	// mistake of this package; the packet counts.
	Contradicted bool
}

// Witness is a packet, the tracker's answers, and how it fares in both.
type Witness struct {
	Packet  *walk.Packet
	Answers []string
	A, B    *walk.Walk
	// InA and InB are the pipelines, to print walks with.
	InA, InB *walk.Pipeline
}

// Options say what counts.
type Options struct {
	// Strict has questions to the tracker count, also those of packets that are dropped.
	Strict bool
	// Packets is how many are tried at most where equality is not shown, fewer if they have much to do. It
	// also bounds what is done to find single ways on which the two part.
	Packets int
	Random  *rand.Rand
	// Doubt has equality be tried also where a packet was found soon, to see that it is not shown.
	Doubt bool
	// Once leaves out the second, closer look where equality is not shown at once.
	Once bool
}

// Of decides whether two pipelines, which were read with the same names, do the same (see Base.Of).
func Of(a, b *pipeline.Pipeline, o Options) Decision { return NewBase(a).Of(b, o) }

// entered decides it of packets that come to the first bridge.
func entered(a *entrance, b *pipeline.Pipeline, o Options) Decision {
	l := newLockstep(a.Pipeline, b, o.Strict)
	l.came = a
	d := Decision{Assumptions: assumptions(o)}
	if l.uses[pipeline.Learn] {
		d.Assumptions = append(d.Assumptions, "flows that were learnt before are the same in both")
	}
	if l.timed {
		d.Assumptions = append(d.Assumptions, "a flow that may time out is there in both or in neither, and stays if one has it alone")
	}
	var s *search
	shown := l.locally(nil) || l.locally(l.reached())
	if o.Random != nil && o.Packets > 0 {
		s = l.search(o)
		if !shown || o.Doubt {
			d.Witness = l.soon(s)
		}
		if d.Witness != nil && !o.Doubt {
			d.Verdict = Different
			return d
		}
	}
	if !shown {
		l.run()
		shown = len(l.obstacles) == 0
	}
	if d.Witness != nil {
		d.Verdict, d.Contradicted = Different, shown
		return d
	}
	if d.Witness, d.Tried, shown = l.look(s, o, shown); d.Witness != nil {
		d.Verdict, d.Contradicted = Different, shown
		return d
	}
	if shown {
		d.Verdict = Equal
		return d
	}
	d.Verdict, d.Reasons = Undecided, l.obstacles
	return d
}

// fewSteps and manySteps are how much is done to find a packet where the two part, before equality
// is tried and after it was not shown, if so many packets as manyPackets or more may be tried.
const (
	fewSteps    = 200_000
	manySteps   = 400_000
	manyPackets = 500
	// looksPerPacket is how many tables are looked at to plan packets against mistakes.
	looksPerPacket = 4
)

// worth is as much of something as so many packets are worth.
func (o Options) worth(n int) int { return n * min(o.Packets, manyPackets) / manyPackets }

// soon looks for a packet that fares differently where that costs little.
func (l *lockstep) soon(s *search) *Witness {
	defer func() { l.steps = 0 }()
	if w := l.divesLocally(s, l.reached(), s.worth(fewSteps)); w != nil {
		return w
	}
	l.steps = 0
	return l.dives(s, s.worth(fewSteps))
}

// look looks for a packet that fares differently: for few, against mistakes, if equality was
// shown. If it was not, and is not soon refuted, it is tried once more, with more care.
func (l *lockstep) look(s *search, o Options, shown bool) (w *Witness, tried int, equal bool) {
	const share = 20
	if s == nil {
		if !shown && !o.Once {
			l.refine()
		}
		return nil, 0, len(l.obstacles) == 0
	}
	if shown {
		for _, m := range s.makers {
			m.Spare(looksPerPacket * o.Packets)
		}
		return s.refute(o.Packets / share), s.tried, true
	}
	if w = l.divesLocally(s, l.reached(), l.steps+o.worth(manySteps)); w != nil {
		return w, s.tried, false
	}
	if w = l.dives(s, o.worth(manySteps)); w != nil {
		return w, s.tried, false
	}
	l.prefer(s)
	if w = s.refute(o.Packets / share); w != nil { // few, as most often none of them does
		return w, s.tried, false
	}
	if !o.Once {
		l.refine()
	}
	if shown = len(l.obstacles) == 0; shown {
		return nil, s.tried, true
	}
	s.limits = true
	l.steps = 0
	for _, m := range s.makers {
		m.More()
	}
	if w = l.divesLocally(s, l.reached(), o.worth(manySteps)); w != nil {
		return w, s.tried, false
	}
	if w = l.dives(s, o.worth(manySteps)); w != nil {
		return w, s.tried, false
	}
	return s.refute(o.Packets / 2), s.tried, false
}

// Assumptions are what any proof takes for granted of two of something, such as switches.
func Assumptions(two string) []string {
	return []string{
		"no packet meets a limit of Open vSwitch (64 nested resubmits, 4,096 in all, 10 recirculations)",
		"no packet has two VLAN tags when the datapath begins again with it",
		"where flows of one priority want the same packet, both " + two + " take the same one",
		"the tracker's reassembly of fragments is not observed where no flow reads it",
	}
}

// assumptions are what equality takes for granted.
func assumptions(o Options) []string {
	out := Assumptions("switches")
	if o.Strict {
		return out
	}
	return append(out, "questions to the tracker that commit nothing are not observed (see --strict): a connection of "+
		"which only they remind the tracker may time out")
}
