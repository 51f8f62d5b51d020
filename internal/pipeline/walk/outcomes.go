package walk

import (
	"fmt"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Outcome is one way for a packet to fare, and the answers that lead to it.
type Outcome struct {
	Walk *Walk
	// Answers are those of the first walk that came out so, Cases how many did.
	Answers []string
	Cases   int
}

// Outcomes follows a packet for every answer of the tracker that flows can tell apart, every
// size and every choice, up to so many walks. Whole is false if there are more.
func (p *Pipeline) Outcomes(packet *Packet, most int) (out []Outcome, whole bool) {
	e := &enumerator{answers: p.answers()}
	at := map[string]int{}
	for range most {
		e.begin()
		w := p.Follow(packet, e)
		k := p.Result(w)
		if i, ok := at[k]; ok {
			out[i].Cases++
		} else {
			at[k] = len(out)
			out = append(out, Outcome{w, e.said, 1})
		}
		if !e.advance() {
			return out, true
		}
	}
	return out, false
}

// Result is all that is observed of a walk, as text: equal for two that nobody outside can
// tell apart, but for questions to the tracker.
func (p *Pipeline) Result(w *Walk) string {
	var b strings.Builder
	for _, e := range w.Events() {
		if e.Kind != Lookup {
			fmt.Fprintf(&b, "%s %s\n", e.Text, p.Left(e.Packet))
		}
	}
	for _, n := range w.Unknown {
		fmt.Fprintf(&b, "line %d: %s\n", n.Line, n.Text)
	}
	for _, q := range w.Passes {
		if q.Failed != "" {
			fmt.Fprintf(&b, "%s\n", q.Failed)
		}
	}
	return b.String()
}

// Left is the packet as it leaves, whole.
func (p *Pipeline) Left(packet *Packet) string {
	packet = packet.bare()
	var m pipeline.Match
	for _, t := range packet.Terms(p.Words) {
		if Leaves(t.Base) {
			m = append(m, t)
		}
	}
	s := p.PrintTerms(m)
	if packet.tpid != 0 {
		s += fmt.Sprintf(" tpid %#x below %v", packet.tpid, packet.below)
	}
	return s + packet.labelled()
}

// answers lists those that flows can tell apart: each state, with each mark and label that
// some flow wants.
func (p *Pipeline) answers() (out []Answer) {
	const most = 3 // marks and labels
	marks, labels := []uint64{0}, []pipeline.Value{{}}
	seen := map[pipeline.Term]bool{}
	for _, f := range p.Flows {
		for _, t := range f.Match {
			if seen[t] || t.Value.IsZero() {
				continue
			}
			seen[t] = true
			switch {
			case t.Base == pipeline.CTMark && len(marks) < most:
				marks = append(marks, t.Value.Lo)
			case t.Base == pipeline.CTLabel && len(labels) < most:
				labels = append(labels, t.Value)
			}
		}
	}
	for _, s := range []uint64{New, Established, Established | Reply, New | Related, Related | Reply, Invalid} {
		for _, m := range marks {
			for _, l := range labels {
				if s&(Established|Related) == 0 && (m != 0 || !l.IsZero()) {
					continue
				}
				out = append(out, Answer{State: s, Mark: m, Label: l})
			}
		}
	}
	return out
}

// enumerator is an oracle that gives other answers in each walk, until all were given. Asked
// for the same zone with the same header again, it gives the same one.
type enumerator struct {
	answers []Answer
	path    []choice
	at      int
	known   map[string]int
	said    []string
}

type choice struct{ taken, of int }

func (e *enumerator) begin() { e.at, e.known, e.said = 0, map[string]int{}, nil }

// next is the choice to take here, by what it is about.
func (e *enumerator) next(about string, of int) (taken int, asked bool) {
	if n, ok := e.known[about]; ok {
		return n, false
	}
	if e.at == len(e.path) {
		e.path = append(e.path, choice{0, of})
	}
	taken = e.path[e.at].taken
	e.at++
	e.known[about] = taken
	return taken, true
}

// advance goes on to the next choices, and says whether there are any.
func (e *enumerator) advance() bool {
	e.path = e.path[:e.at]
	for n := len(e.path); n > 0; n-- {
		c := &e.path[n-1]
		if c.taken+1 < c.of {
			c.taken++
			return true
		}
		e.path = e.path[:n-1]
	}
	return false
}

// Track implements Oracle.
func (e *enumerator) Track(ask Ask, p *Packet) {
	i, asked := e.next(fmt.Sprintf("zone %d %s", ask.Zone, headerKey(p)), len(e.answers))
	a := e.answers[i]
	if asked {
		e.said = append(e.said, fmt.Sprintf("zone=%d,state=%v", ask.Zone, a))
	}
	a.Fill(p)
	Translate(ask.NAT, p)
}

// Larger implements Oracle.
func (e *enumerator) Larger(n uint64) bool {
	i, asked := e.next(fmt.Sprintf("larger %d", n), 2)
	if asked {
		e.said = append(e.said, fmt.Sprintf("%s than %d bytes", [...]string{"not larger", "larger"}[i], n))
	}
	return i == 1
}

// Choose implements Oracle.
func (e *enumerator) Choose(what string, of int, p *Packet) int {
	i, asked := e.next(what+" "+headerKey(p), of)
	if asked {
		e.said = append(e.said, fmt.Sprintf("%s: %d of %d", what, i+1, of))
	}
	return i
}

// headerKey tells headers apart.
func headerKey(p *Packet) string {
	var b strings.Builder
	for i, v := range p.fields {
		if Header(pipeline.Base(i)) && !v.IsZero() {
			fmt.Fprintf(&b, "%d=%x.%x ", i, v.Hi, v.Lo)
		}
	}
	return b.String()
}
