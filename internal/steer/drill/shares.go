package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// sharing is a course on which bulk of one pair may share networks.
type sharing struct {
	name string
	// networks that it is on, and whether one bottleneck is beneath them all.
	networks int
	beneath  bool
	// limits of the networks by leg, as parts of the capacity; a drawn course has others in
	// each repetition.
	legs func(r *rand.Rand, repetition int) []part
	// least is the bar of what is carried, of the best network alone.
	least float64
}

// part is a leg of such a course: its part of the time, its limits, and the network that is dead.
type part struct {
	span   float64
	limits []float64
	dead   int // from 1; 0 is none
}

// noLoss is what sharing must carry of the best network alone wherever it cannot win.
const noLoss = 0.98

// sharings are the courses of the drill.
func sharings() []sharing {
	steady := func(limits ...float64) func(*rand.Rand, int) []part {
		return func(*rand.Rand, int) []part { return []part{{span: 1, limits: limits}} }
	}
	return []sharing{
		{name: "two", networks: 2, legs: steady(1, 1), least: 1.8},
		{name: "three", networks: 3, legs: steady(1, 1, 1), least: 2.5},
		{name: "uneven", networks: 2, legs: steady(1, 0.5), least: 1.35},
		{name: "beneath", networks: 2, beneath: true, legs: steady(1), least: noLoss},
		{name: "fails", networks: 2, legs: failing, least: noLoss},
		{name: "swings", networks: 3, legs: swingingLimits, least: noLoss},
	}
}

// failing has a network fail for a quarter of the time once flows share it: the default one
// in every other repetition.
func failing(_ *rand.Rand, repetition int) []part {
	both := []float64{1, 1}
	return []part{{span: 0.5, limits: both}, {span: 0.25, limits: both, dead: 1 + repetition%2},
		{span: 0.25, limits: both}}
}

// swingingLimits have each network give now more and now less, whatever the others do.
func swingingLimits(r *rand.Rand, _ int) (out []part) {
	const legs = 8
	for range legs {
		p := part{span: 1.0 / legs}
		for range 3 {
			p.limits = append(p.limits, 0.25+0.75*r.Float64())
		}
		out = append(out, p)
	}
	return out
}

func sharingNames() (out []string) {
	for _, c := range sharings() {
		out = append(out, c.name)
	}
	return out
}

// named is the course of a name that the file's reader has taken.
func named(name string) sharing {
	all := sharings()
	return all[max(slices.IndexFunc(all, func(c sharing) bool { return c.name == name }), 0)]
}

func sharesKind() kind {
	return kind{
		name: "shares", about: "bulk of one pair by real programs, which may share networks, against each network alone",
		defaults: Options{Repetitions: 3, Limits: sharingNames(), Programs: programNames(isBulk), For: 20 * time.Second,
			Capacity: 80e6, Connections: 8},
		keys: []string{"limits", "programs", "for", "capacity", "connections"},
		length: func(o Options, _ File) time.Duration {
			variants := 0
			for _, name := range o.Limits {
				variants += named(name).networks + 1
			}
			return time.Duration(variants*len(o.Programs)) * (o.For + 4*time.Second)
		},
		run: runShares, figures: sharesFigures,
	}
}

// course is the legs of a sharing on networks, for so long.
func (c sharing) course(all []part, networks []string, o Options) (out []leg) {
	for i, p := range all {
		l := leg{what: fmt.Sprintf("%s, leg %d", c.name, i+1), goesOn: i > 0, connections: o.Connections,
			span: time.Duration(p.span * float64(o.For)), rates: map[string]float64{}, holes: map[string]string{}}
		for n, network := range networks {
			l.rates[network] = o.Capacity * p.limits[min(n, len(p.limits)-1)]
			if p.dead == n+1 {
				l.holes[network] = "both"
			}
		}
		out = append(out, l)
	}
	return out
}

func runShares(ctx context.Context, s *session) (out []Sample, err error) {
	o := s.options()
	for _, name := range o.Limits {
		c := named(name)
		networks := s.File.Networks[:c.networks]
		all := c.course(c.legs(s.rand, s.repetition), networks, o)
		for _, by := range o.Programs {
			more, err := s.shareBy(ctx, c, by, all, networks)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// shareBy plays a course for a program with its flows shared, and with each network alone,
// in a random order.
func (s *session) shareBy(ctx context.Context, c sharing, by string, all []leg, networks []string) ([]Sample, error) {
	var out []Sample
	of := map[string]carried{}
	variants := append([]string{sharedVariant}, networks...)
	for _, i := range s.order(len(variants)) {
		v := variants[i]
		one, err := s.try(ctx, strings.Join([]string{c.name, by, v}, " "), func(out *Sample) error {
			play := s.playAlone
			if i == 0 {
				play = s.playShared
			}
			got, err := play(ctx, out, c, by, all, networks, v)
			if err == nil {
				of[v] = got
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	verdict, err := s.try(ctx, strings.Join([]string{c.name, by, "verdict"}, " "), func(out *Sample) error {
		if len(of) != len(variants) {
			return errIncomplete
		}
		return judgeShare(out, of)
	})
	return append(out, verdict), err
}

// sharedVariant has flows share networks as agents decide.
const sharedVariant = "shared"

// carried is what a program got through.
type carried struct {
	bits float64 // per second
	// again is the part of the sender's segments that were sent again.
	again float64
}

// judgeShare compares what was carried with the best network alone.
func judgeShare(out *Sample, of map[string]carried) error {
	var best carried
	for _, network := range sortedNames(of) {
		if got := of[network]; network != sharedVariant && got.bits > best.bits {
			best, out.Text["best network"] = got, network
		}
	}
	if !(best.bits > 0) {
		return errNothing
	}
	mine := of[sharedVariant]
	out.Values["of_best"] = mine.bits / best.bits
	out.Values["again_shared"], out.Values["again_best"] = mine.again, best.again
	return nil
}

var errNothing = errors.New("no network carried anything")

func sharesFigures(o Options, all []Sample) (out []Figure) {
	least := func(sorted []float64) float64 { return sorted[0] }
	for _, name := range o.Limits {
		for _, by := range o.Programs {
			v := strings.Join([]string{name, by, "verdict"}, " ")
			f := summary(name+", "+by+": shared / best network alone", "ratio", values(all, v, "of_best"), median,
				atLeast(named(name).least))
			if f.N == 0 {
				continue
			}
			again := func(key string) string {
				return Quantity(summary("", "", values(all, v, key), median, nil).Value, "share")
			}
			f.Note = fmt.Sprintf("sent again: %s of segments, %s on the best network alone (medians)", again("again_shared"),
				again("again_best"))
			out = append(out, f)
		}
	}
	out = append(out, summary("worst of all, shared / best network alone", "ratio", values(all, "", "of_best"), least,
		atLeast(noLoss)))
	if gaps := values(all, "", "gap_s"); len(gaps) > 0 {
		f := summary("a shared network fails: longest gap of a connection, median", "s", gaps, median, atMost(stallMedian))
		f.Note = "by Pathwise's own streams, which tell when bytes come on each connection: of the gaps that the failure began"
		whole := summary("... in the whole time that it fails, median", "s", values(all, "", "gap_outage_s"), median, nil)
		whole.Note = "as others begin on the network that is left, and full; in as long before: " +
			seconds(summary("", "s", values(all, "", "gap_before_s"), median, nil).Value) + " (median)"
		out = append(out, f, summary("... longest", "s", gaps, worst, atMost(stallP99)), whole)
	}
	if lost := lostShared(all); len(lost) > 0 {
		out = append(out, total("connections lost", lost, atMost(0)))
	}
	return out
}

// lostShared are the connections that were lost while flows were shared, as far as programs tell.
func lostShared(all []Sample) (lost []float64) {
	for _, s := range all {
		if n, ok := s.Values["connections_lost"]; ok && strings.HasSuffix(s.Variant, " "+sharedVariant) {
			lost = append(lost, n)
		}
	}
	return lost
}
