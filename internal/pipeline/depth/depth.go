// Package depth says what packets cost in a pipeline: table lookups, resubmits, passes of
// the datapath and questions to the connection tracker, by class of traffic. Classes come
// from packets that are made to reach its flows, what they cost from following each;
// the mean of real traffic comes from the flows' counters. It reads values and asks no
// switch.
package depth

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// Report is what packets cost.
type Report struct {
	// Made is how many packets were made and followed, Skipped how many more were wanted:
	// those that were made had too much to do.
	Made    int     `json:"made"`
	Skipped int     `json:"skipped"`
	Classes []Class `json:"classes"`
	// Mean is that of the packets which the flows have counted, and nil where they count
	// none.
	Mean *Mean `json:"mean"`
	// Limits are how near packets come to those of a switch.
	Limits Limits `json:"limits"`
	// Reached is how many flows took a packet, of all.
	Reached int `json:"reached"`
	Flows   int `json:"flows"`
	// NotUnderstood is how many packets met something that is not.
	NotUnderstood int `json:"notUnderstood"`
}

// Class is packets that come and leave in the same way and take as many passes.
type Class struct {
	Name   string `json:"class"`
	Passes int    `json:"passes"`
	// Lookups and Resubmits are the fewest and the most.
	Lookups   [2]int `json:"lookups"`
	Resubmits [2]int `json:"resubmits"`
	// Nested is how deep lookups are in each other, Asks and Commits how often the
	// tracker is asked, and how many of those remember the connection: the most.
	Nested  int `json:"nested"`
	Asks    int `json:"asks"`
	Commits int `json:"commits"`
	// Packets of those that were made.
	Packets int `json:"packets"`
	// Example is a packet with the most lookups, Answers the tracker's.
	Example string   `json:"example"`
	Answers []string `json:"answers"`
}

// Mean is per packet.
type Mean struct {
	Packets uint64  `json:"packets"`
	Lookups float64 `json:"lookups"`
	Passes  float64 `json:"passes"`
	Asks    float64 `json:"asks"`
	Commits float64 `json:"commits"`
}

// Limits are the most that was met, of what a switch allows.
type Limits struct {
	Nested         int `json:"nested"`
	Resubmits      int `json:"resubmits"`
	Recirculations int `json:"recirculations"`
	// Failed are packets that met a limit.
	Failed []string `json:"failed"`
}

// mostWork is how much packets may have to do, as a mean (see walk.Walk): those of pipelines
// that people run have a tenth of that.
const mostWork = 1 << 17

// Of makes packets and follows them.
func Of(p *pipeline.Pipeline, packets int, random *rand.Rand) Report {
	w := walk.Through(p)
	maker := witness.New(w, random)
	maker.Deliver()
	r := Report{Flows: len(p.Flows), Mean: mean(p), Classes: []Class{}}
	r.Limits.Failed = []string{}
	reached := map[*pipeline.Flow]bool{}
	at := map[string]*Class{}
	var order []*Class
	work := 0
	for r.Made < packets && work <= packets*mostWork {
		c := maker.Make()
		packet, oracle := walk.NewPacket(c.Packet), c.Oracle()
		walked := w.Follow(packet, oracle)
		r.Made, work = r.Made+1, work+walked.Work
		if !walked.Understood() {
			r.NotUnderstood++
			continue
		}
		one := ClassOf(packet, walked)
		one.Example, one.Answers = p.PrintPacket(c.Packet), append([]string{}, oracle.Said...)
		r.Limits.met(one, walked)
		for _, pass := range walked.Passes {
			for _, s := range pass.Steps {
				if s.Flow != nil {
					reached[s.Flow] = true
				}
			}
		}
		k := fmt.Sprintf("%s %d", one.Name, one.Passes)
		if at[k] == nil {
			at[k] = &one
			order = append(order, &one)
		} else {
			at[k].add(one)
		}
	}
	for _, c := range order {
		r.Classes = append(r.Classes, *c)
	}
	slices.SortFunc(r.Classes, func(a, b Class) int {
		return cmp.Or(cmp.Compare(b.Passes, a.Passes), cmp.Compare(b.Lookups[1], a.Lookups[1]), cmp.Compare(a.Name, b.Name))
	})
	r.Reached, r.Skipped = len(reached), packets-r.Made
	return r
}

// add takes one more packet into the class.
func (c *Class) add(o Class) {
	if o.Lookups[1] > c.Lookups[1] {
		c.Example, c.Answers = o.Example, o.Answers
	}
	c.Lookups = [2]int{min(c.Lookups[0], o.Lookups[0]), max(c.Lookups[1], o.Lookups[1])}
	c.Resubmits = [2]int{min(c.Resubmits[0], o.Resubmits[0]), max(c.Resubmits[1], o.Resubmits[1])}
	c.Nested, c.Asks, c.Commits = max(c.Nested, o.Nested), max(c.Asks, o.Asks), max(c.Commits, o.Commits)
	c.Packets++
}

func (l *Limits) met(c Class, w *walk.Walk) {
	l.Nested, l.Recirculations = max(l.Nested, c.Nested), max(l.Recirculations, c.Passes-1)
	for _, p := range w.Passes {
		l.Resubmits = max(l.Resubmits, p.Resubmits)
		if p.Failed != "" && !slices.Contains(l.Failed, p.Failed) {
			l.Failed = append(l.Failed, p.Failed)
		}
	}
}

// ClassOf is the class of one packet, of how it was followed.
func ClassOf(packet *walk.Packet, w *walk.Walk) Class {
	c := Class{Passes: w.Depth(), Packets: 1}
	for _, p := range w.Passes {
		c.Lookups[1] += p.Lookups
		c.Resubmits[1] += p.Resubmits
		c.Nested = max(c.Nested, p.Deepest)
	}
	c.Lookups[0], c.Resubmits[0] = c.Lookups[1], c.Resubmits[1]
	var ends []string
	end := func(s string) {
		if !slices.Contains(ends, s) {
			ends = append(ends, s)
		}
	}
	service := false
	for _, e := range w.Events() {
		switch e.Kind {
		case walk.Commit:
			c.Asks, c.Commits = c.Asks+1, c.Commits+1
			service = service || strings.Contains(e.Text, "nat(dst=")
		case walk.Lookup:
			c.Asks++
		case walk.Output:
			end(leaving(packet, e))
		case walk.Controller, walk.TTL:
			end("the controller")
		}
	}
	slices.Sort(ends)
	from := "a port"
	if tunnelled(packet) {
		from = "a tunnel"
	}
	to := strings.Join(ends, " and ")
	switch {
	case to == "" && service:
		c.Name = from + " to a service, dropped"
	case to == "":
		c.Name = from + ", dropped"
	case service:
		c.Name = from + " to a service, on to " + to
	default:
		c.Name = from + " to " + to
	}
	return c
}

func tunnelled(p *walk.Packet) bool {
	return !p.Get(pipeline.TunID).IsZero() || !p.Get(pipeline.TunSrc).IsZero() || !p.Get(pipeline.TunIPv6Src).IsZero()
}

// leaving says where an output goes: into a tunnel if the packet was given what one needs.
func leaving(came *walk.Packet, e walk.Event) string {
	for _, b := range []pipeline.Base{pipeline.TunID, pipeline.TunDst, pipeline.TunIPv6Dst} {
		if v := e.Packet.Get(b); !v.IsZero() && v != came.Get(b) {
			return "a tunnel"
		}
	}
	if strings.HasPrefix(e.Text, "output:") || strings.HasPrefix(e.Text, "set_queue:") {
		return "a port"
	}
	return e.Text
}

// mean is what the flows' counters say: each packet counts once in each flow that takes it,
// cached or not.
func mean(p *pipeline.Pipeline) *Mean {
	var entered, back, matched, passes, asks, commits uint64
	counted := false
	entry := p.Entry()
	for _, f := range p.Flows {
		counted = counted || f.Counted
		matched += f.Packets
		if f.Table == entry {
			entered += f.Packets
		}
		p.Each(f.Actions, func(a pipeline.Action) {
			if a.Kind != pipeline.CT {
				return
			}
			asks += f.Packets
			if a.Track.Commit {
				commits += f.Packets
			}
			if a.Track.Table != pipeline.NoTable {
				passes += f.Packets
			}
		})
		ways, _ := p.Jumps(f.Actions, f.Table)
		for _, j := range ways {
			if j.To == entry {
				back += f.Packets
			}
		}
	}
	if !counted || entered <= back {
		return nil
	}
	n := float64(entered - back)
	return &Mean{Packets: entered - back, Lookups: float64(matched) / n, Passes: 1 + float64(passes)/n,
		Asks: float64(asks) / n, Commits: float64(commits) / n}
}
