package witness

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// Oracle answers for a case: in the order of its answers, but the same to the same question
// about the same header, also in another pipeline.
type Oracle struct {
	c     Case
	next  int
	known map[string]walk.Answer
	// Said is what was answered, in the order of the questions.
	Said []string
}

// Oracle is one for the case.
func (c Case) Oracle() *Oracle { return &Oracle{c: c, known: map[string]walk.Answer{}} }

// Again is an oracle that gives the answers that were given so far, to another pipeline.
func (o *Oracle) Again() *Oracle { return &Oracle{c: o.c, next: o.next, known: o.known} }

// Track implements walk.Oracle.
func (o *Oracle) Track(ask walk.Ask, p *walk.Packet) {
	about := fmt.Sprintf("%d %s", ask.Zone, header(p))
	a, ok := o.known[about]
	if !ok {
		if o.next < len(o.c.Answers) {
			a = o.c.Answers[o.next]
		} else {
			a = o.c.any(about)
		}
		a.Whole = o.c.Whole
		o.next++
		o.known[about] = a
		o.Said = append(o.Said, fmt.Sprintf("zone=%d,state=%v", ask.Zone, a))
	}
	a.Fill(p)
	walk.Translate(ask.NAT, p)
}

// Larger implements walk.Oracle.
func (o *Oracle) Larger(uint64) bool { return o.c.Larger }

// Choose implements walk.Oracle: the same for the same header.
func (o *Oracle) Choose(what string, of int, p *walk.Packet) int {
	return hash(what+header(p)) % of
}

// hash is a number that is the same for the same text.
func hash(s string) int {
	n := 0
	for _, c := range s {
		n = (n*31 + int(c)) & 0xffffff
	}
	return n
}

// Varied is the case with some other answers.
func (c Case) Varied(random *rand.Rand) Case {
	const fewest, labels = 2, 4
	c.Answers = append(slices.Clone(c.Answers), make([]walk.Answer, max(0, fewest-len(c.Answers)))...)
	all := states()
	for i := range c.Answers {
		if random.IntN(2) == 0 || c.Answers[i].State == 0 {
			c.Answers[i].State = all[random.IntN(len(all))]
			c.Answers[i].Label.Lo = random.Uint64N(labels)
		}
	}
	return c
}

// any is an answer to a question that the case did not foresee.
func (c Case) any(about string) walk.Answer {
	states := states()
	return walk.Answer{State: states[(hash(about)+c.Salt)%len(states)]}
}

func header(p *walk.Packet) string {
	var b strings.Builder
	for base := pipeline.VLAN; base < pipeline.TunMetadata0; base++ {
		if v := p.Get(base); !v.IsZero() {
			fmt.Fprintf(&b, "%d=%x.%x ", base, v.Hi, v.Lo)
		}
	}
	return b.String()
}
