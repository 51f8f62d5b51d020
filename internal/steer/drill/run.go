package drill

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// Run runs every repetition that is not in Done. Each is written whole as it
// ends; when ctx ends, the one under way is dropped and the labs are removed.
func Run(ctx context.Context, c Config) error {
	left, total := Remaining(c.File, c.Done)
	done := total - len(left)
	var s *session
	var errs error
	leave := func() {
		if s != nil {
			errs = errors.Join(errs, s.close(context.WithoutCancel(ctx)))
			s = nil
		}
	}
	defer leave()
	for i, u := range left {
		if s == nil || s.entry.Name != u.Entry.Name {
			leave()
			k, err := findKind(u.Entry.Drill)
			if err != nil {
				return err
			}
			s = &session{Config: c, kind: k, entry: u.Entry, grounds: map[string]*ground{}, memory: map[string]any{}}
		}
		s.repetition, s.rand = u.Repetition, rand.New(rand.NewPCG(c.Seed, unitSeed(u)))
		p := Progress{Drill: u.Entry.Name, Repetition: u.Repetition, Done: done + i, Total: total,
			Left: timeLeft(c.File, left[i:])}
		c.observe(p)
		samples, err := s.kind.run(ctx, s)
		if err != nil || ctx.Err() != nil {
			leave()
			return errors.Join(fmt.Errorf("drill %s, repetition %d: %w", u.Entry.Name, u.Repetition,
				errors.Join(err, ctx.Err())), errs)
		}
		if err := c.Write(samples); err != nil {
			return err
		}
		p.Ended, p.Samples, p.Done = true, samples, done+i+1
		p.Left = timeLeft(c.File, left[i+1:])
		c.observe(p)
	}
	leave()
	return errs
}

func (c Config) observe(p Progress) {
	if c.Observe != nil {
		c.Observe(p)
	}
}

// Unit is one repetition of one drill.
type Unit struct {
	Entry      Entry
	Repetition int
}

func unitSeed(u Unit) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", u.Entry.Name, u.Repetition) // never fails
	return h.Sum64()
}

// Remaining lists the repetitions that are not among the samples, and how many
// there are in all.
func Remaining(f File, done []Sample) (left []Unit, total int) {
	type key struct {
		drill      string
		repetition int
	}
	have := map[key]bool{}
	for _, s := range done {
		have[key{s.Drill, s.Repetition}] = true
	}
	for _, e := range f.Drills {
		for r := 1; r <= e.Repetitions; r++ {
			total++
			if !have[key{e.Name, r}] {
				left = append(left, Unit{e, r})
			}
		}
	}
	return left, total
}

func timeLeft(f File, units []Unit) (d time.Duration) {
	for _, u := range units {
		d += Estimate(f, u.Entry)
	}
	return d
}

// Estimate is about how long one repetition of the drill takes.
func Estimate(f File, e Entry) time.Duration {
	k, err := findKind(e.Drill)
	if err != nil {
		return 0
	}
	return k.length(e.Options, f)
}

// About says in a line what the drill does.
func About(drill string) string {
	k, err := findKind(drill)
	if err != nil {
		return ""
	}
	return k.about
}

// close removes the session's labs.
func (s *session) close(ctx context.Context) error {
	var errs []error
	for _, g := range s.grounds {
		errs = append(errs, g.close(ctx))
	}
	s.grounds = map[string]*ground{}
	return errors.Join(errs...)
}

// try runs one variant; what goes wrong in it is data, as long as the run goes
// on: a variant that fails is a result.
func (s *session) try(ctx context.Context, variant string, f func(*Sample) error) (Sample, error) {
	out := s.sample(variant)
	if err := f(&out); err != nil {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		out.Error = err.Error()
	}
	out.Took = s.Now().Sub(out.At)
	if s.congestion != "" {
		out.Text[textCongestion] = s.congestion
	}
	for key, v := range out.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) { // a ratio of nothing: JSON has no word for it
			delete(out.Values, key)
			out.Text[key] = "not a number"
		}
	}
	return out, nil
}
