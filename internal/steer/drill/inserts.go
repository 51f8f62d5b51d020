package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// paperInserts is by how much 3,000 switches lengthened 5,000 inserts in Table 7
// of Atici and Boluk (2020).
const paperInserts = 0.097

func insertsKind() kind {
	return kind{
		name: "inserts", about: "request-response operations with switches between them, without, and back at once, by turns",
		defaults: Options{Repetitions: 30, Inserts: 5000, Switches: 3000},
		keys:     []string{"inserts", "switches", "work", "workload", "server"},
		length: func(o Options, _ File) time.Duration {
			each := 50 * time.Microsecond
			switch {
			case o.Server != "":
				each = 1500 * time.Microsecond // FerretDB on SQLite; others may take longer
			case o.Workload != "":
				each = 300 * time.Microsecond
			}
			return time.Second + time.Duration(3*o.Inserts)*(each+o.Work)
		},
		run: runInserts, figures: insertsFigures,
	}
}

// runInserts lets a client insert, which moves its own flow.
func runInserts(ctx context.Context, s *session) ([]Sample, error) {
	g, err := s.ground(ctx, s.pair("inserts"))
	if err != nil {
		return nil, err
	}
	if err := g.byHand(); err != nil {
		return nil, err
	}
	one, err := s.try(ctx, "inserts", func(out *Sample) error { return g.inserts(ctx, out) })
	return []Sample{one}, err
}

func (g *ground) inserts(ctx context.Context, out *Sample) error {
	a, b, o := g.pod("a"), g.pod("b"), g.s.options()
	f, err := g.serveInserts(ctx, a, b)
	if err != nil {
		return err
	}
	plan, err := json.Marshal(Inserter{Local: a, Remote: b, Pins: g.pinsOf(a), PeerPins: g.pinsOf(b), Target: f.target,
		Inserts: o.Inserts, Switches: o.Switches, Work: o.Work, Workload: o.Workload, Capped: o.Server == "",
		Seed: g.s.rand.Uint64()})
	if err != nil {
		return errors.Join(fmt.Errorf("write plan: %w", err), f.abandon())
	}
	if f.client, err = g.generate(a, onCPU(lastCPU()), "inserts", "--plan", string(plan)); err != nil {
		return errors.Join(err, f.abandon())
	}
	if err := f.wait(ctx); err != nil {
		return errors.Join(err, f.abandon())
	}
	var got Inserted
	raw, err := f.client.finish()
	if err == nil {
		err = json.Unmarshal(raw, &got)
	} else {
		err = errors.Join(err, f.server.died())
	}
	var server stream.Report
	if o.Workload != "" {
		err = errors.Join(err, f.abandon()) // a server of documents reports nothing
	} else {
		var e error
		server, e = f.server.report()
		err = errors.Join(err, e)
	}
	if err != nil {
		return fmt.Errorf("inserts: %w", err)
	}
	out.Values["switching_s"], out.Values["switches"], out.Values["write_median_s"] = got.Switching, float64(got.Switches),
		got.Write
	for name, each := range map[string]map[int]float64{"still": got.Still, "back": got.Back} {
		for path, t := range each {
			out.Values[fmt.Sprintf("%s_%d_s", name, path)] = t
		}
		out.Values[name+"_s"] = mean(slices.Collect(maps.Values(each)))
	}
	judge(out, got.Stream, server)
	if o.Workload != "" {
		out.Text["workload"] = o.Workload
		if o.Server != "" {
			out.Text["server"] = o.Server
		}
		return nil
	}
	return g.s.keep(out, "client", got.Stream)
}

// serveInserts starts what answers the operations.
func (g *ground) serveInserts(ctx context.Context, from, to topo.Pod) (*flow, error) {
	if g.s.options().Workload != "" {
		return g.serveDocuments(to)
	}
	return g.serve(ctx, traffic{kind: stream.RR, from: from, to: to, pin: lastCPU()})
}

func insertsFigures(o Options, all []Sample) []Figure {
	var longer, cost, back []float64
	for _, s := range all {
		still, each := s.Values["still_s"], float64(o.Inserts)/s.Values["switches"]
		if s.Error != "" || still <= 0 {
			continue
		}
		longer = append(longer, s.Values["switching_s"]/still-1)
		cost = append(cost, (s.Values["switching_s"]-still)*each)
		if b, ok := s.Values["back_s"]; ok { // not before 2026-11-23
			back = append(back, (b-still)*each)
		}
	}
	f := summary("longer by switches", "change", longer, median, atMost(0.005))
	what := "operations"
	if o.Workload != "" {
		what = "operations of " + o.Workload
		if o.Server != "" {
			what += " at " + filepath.Base(strings.Fields(o.Server)[0])
		}
	}
	f.Note = fmt.Sprintf("%d switches among %d %s of %s, against as many on each path alone, by turns of %d; both ends on one core; the paper's manager: %+.1f %% (Atici and Boluk 2020, Table 7)",
		o.Switches, o.Inserts, what, seconds(summary("", "", values(all, "", "still_s"), median, nil).Value), blockLength,
		paperInserts*100)
	c := summary("... for each switch", "s", cost, median, nil)
	c.Note = "the map write is " + seconds(summary("", "", values(all, "", "write_median_s"), median, nil).Value) +
		" of it"
	b := summary("... to another path and back", "s", back, median, nil)
	b.Note = "two switches, after which the next operation is where the last was: what more the other takes is what another network takes whose code and data the processor's caches have lost"
	return []Figure{f, c, b, total("connections lost", values(all, "", "connections_lost"), atMost(0))}
}
