package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
)

func demoKind() kind {
	return kind{
		name: "demo", about: "the second act of \"make demo\": traffic that follows the better network, against each network kept throughout",
		defaults: Options{Repetitions: 1, For: 4 * time.Second, Capacity: 400e6}, keys: []string{"for", "capacity"},
		length: func(o Options, f File) time.Duration {
			return time.Duration(len(f.Networks)+1)*(4*o.For+time.Second) + 12*time.Second
		},
		run: runDemo, figures: demoFigures,
	}
}

// script is what happens in the demonstration, on two networks.
func script(networks []string, span time.Duration, capacity float64) []leg {
	first, second := networks[0], networks[1]
	rates := func(share float64) map[string]float64 { // of the second network
		return map[string]float64{first: capacity, second: share * capacity}
	}
	return []leg{
		{what: "calm: " + first + " is the faster network", span: span, connections: 4, rates: rates(0.75)},
		{what: "the load changes: other pods crowd " + first, span: span, connections: 4, rates: rates(0.75),
			crowd: map[string]float64{first: 0.9 * capacity}},
		{what: second + " is limited to a tenth of its rate", span: span, connections: 4, rates: rates(0.075)},
		{what: first + " turns into a black hole", span: span, connections: 4, rates: rates(0.75),
			holes: map[string]string{first: "both"}},
	}
}

// sort tells what a leg does, against the first: "fault" takes a network away,
// "limit" makes one worse, "load" changes what is asked.
func (l leg) sort(first leg) string {
	if len(l.holes) > 0 {
		return "fault"
	}
	for network, rate := range l.rates {
		if rate < first.rates[network] {
			return "limit"
		}
	}
	return "load"
}

// Second is a point of the demonstration's time series.
type Second struct {
	Run string `json:"run"`
	// At is the time since the run's first leg began, in seconds.
	At      float64 `json:"at_s"`
	Rate    float64 `json:"rate"`
	Network string  `json:"network"`
	Leg     int     `json:"leg"`
}

// Mark is an event in the time series.
type Mark struct {
	At   float64 `json:"at_s"`
	Kind string  `json:"kind"`
	From string  `json:"from,omitempty"`
	To   string  `json:"to,omitempty"`
	Text string  `json:"text"`
}

// Act is the demonstration's time series: what a report plots.
type Act struct {
	Networks []string `json:"networks"`
	// Started is when the steered run's first leg began.
	Started time.Time `json:"started"`
	// Legs are when what happened, Marks what the agents did. A leg's change may come a
	// little before its first point.
	Legs    []Mark   `json:"legs"`
	Marks   []Mark   `json:"marks"`
	Seconds []Second `json:"seconds"`
	// Spans are the nominal lengths of the legs in seconds, and Rates the mean rate of each
	// leg by run: what was achieved is counted by them alone, here and in reports.
	Spans []float64            `json:"spans_s,omitempty"`
	Rates map[string][]float64 `json:"rates,omitempty"`
	// Events are all that the agents noted in the steered run.
	Events []agent.Event `json:"events"`
}

// runDemo plays the script steered, then with each network kept.
func runDemo(ctx context.Context, s *session) ([]Sample, error) {
	networks := s.File.Networks[:2]
	all := script(networks, s.options().For, s.options().Capacity)
	act := Act{Networks: networks, Rates: map[string][]float64{}}
	for _, l := range all {
		act.Spans = append(act.Spans, l.span.Seconds())
	}
	kept := map[string]outcome{}
	var mine outcome
	var out []Sample
	for i, run := range append([]string{"steered"}, networks...) {
		one, err := s.try(ctx, run, func(out *Sample) (err error) {
			w := newWatcher(s, run, i == 0)
			defer w.stop()
			var r outcome
			if i == 0 {
				s.say("\nlive traffic from pod a to pod b, steered by agents; %s is the default network", networks[0])
				var events []agent.Event
				r, events, err = s.steered(ctx, networks, all, "cost-aware", "", w.begun)
				mine = r
				act.take(r, all, events)
			} else {
				s.say("\nthe same with the traffic kept on %s", run)
				r, err = s.kept(ctx, networks, all, run, w.begun)
				kept[run] = r
			}
			w.stop()
			if err != nil {
				return err
			}
			act.Seconds = append(act.Seconds, series(run, r)...)
			act.Rates[run] = r.rates
			for k, rate := range r.rates {
				out.Values[fmt.Sprintf("rate %d", k+1)], out.Text[fmt.Sprintf("leg %d", k+1)] = rate, all[k].what
				err = errors.Join(err, s.keep(out, fmt.Sprintf("leg%d", k+1), r.report[k]))
			}
			out.Values["bits"] = achieved(all, r)
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if len(kept) == len(networks) && len(mine.rates) == len(all) && complete(kept, len(all)) {
		compare(out, all, mine, kept)
		s.say("\n%s", comparison(all, networks, mine, kept))
	}
	f, err := s.file("", "act.json")
	if err != nil {
		return nil, err
	}
	enc := json.NewEncoder(f)
	enc.SetIndent("", " ")
	return out, errors.Join(enc.Encode(act), f.Close())
}

// compare has the steered sample say what it achieved of hindsight, and of the best network.
func compare(out []Sample, all []leg, mine outcome, kept map[string]outcome) {
	best, single, which := hindsight(all, kept)
	got := achieved(all, mine)
	for i := range out {
		if out[i].Variant == "steered" {
			out[i].Values["of_hindsight"], out[i].Values["of_static"] = got/best, got/single
			out[i].Text["best network"] = which
		}
	}
}

func complete(kept map[string]outcome, legs int) bool {
	for _, r := range kept {
		if len(r.rates) != legs {
			return false
		}
	}
	return true
}

// take notes when the legs began and what the agents did, in the course's time.
func (a *Act) take(r outcome, all []leg, events []agent.Event) {
	if len(r.wall) == 0 {
		return
	}
	a.Started, a.Events = r.wall[0], events
	for i := range r.wall {
		at := max(r.came[i].Sub(r.wall[0]).Seconds(), 0)
		a.Legs = append(a.Legs, Mark{At: at, Kind: all[i].sort(all[0]), Text: all[i].what})
	}
	for _, e := range events {
		if e.Pair == "a>b" {
			a.Marks = append(a.Marks, Mark{At: e.At.Sub(r.wall[0]).Seconds(), Kind: e.Kind, From: e.From, To: e.To,
				Text: e.Reason})
		}
	}
}

// series is what the application received, by steps of 100 ms and a little more. A leg's
// flow is the application's from the moment on at which the one before ended: what comes
// between that and the time that counts, as a fault does, is shown too.
func series(run string, r outcome) (out []Second) {
	for i, rep := range r.report {
		from := r.from[i]
		if i > 0 {
			from = r.to[i-1]
		}
		for _, p := range stream.Series(rep, from, r.to[i], 100*time.Millisecond) {
			out = append(out, Second{Run: run, Leg: i, At: (p.At - r.from[0]).Seconds(), Rate: 8 * p.Rate})
		}
	}
	return out
}

// watcher prints a line each second while a course goes on.
type watcher struct {
	s       *session
	run     string
	steered bool
	mu      sync.Mutex // of started and what, which the printing goroutine takes
	started bool
	what    string
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

func newWatcher(s *session, run string, steered bool) *watcher {
	return &watcher{s: s, run: run, steered: steered, cancel: func() {}}
}

func (w *watcher) begun(g *ground, l leg, _ int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what = l.what
	if !w.started {
		w.started = true
		ctx, cancel := context.WithCancel(context.Background())
		w.cancel = cancel
		w.wg.Go(func() { w.watch(ctx, g) })
	}
}

func (w *watcher) stop() {
	w.cancel()
	w.wg.Wait()
}

// watch tells each second what arrived at pod b and by which network.
func (w *watcher) watch(ctx context.Context, g *ground) {
	last, err := receivedOn(g.pod("b"))
	since := 0
	if w.steered {
		since, _ = g.agents["h1"].lastEvent(ctx) // older events are then told too
	}
	for n := 1; err == nil; n++ {
		if pause(ctx, time.Second) != nil {
			return
		}
		var now map[string]uint64
		now, err = receivedOn(g.pod("b"))
		at, _ := carrier(last, now)
		bits := 0.0
		for k, v := range now {
			bits += 8 * float64(v-last[k])
		}
		last = now
		w.mu.Lock()
		note := w.what
		w.what = ""
		w.mu.Unlock()
		if w.steered {
			events, err := g.agents["h1"].events(ctx, since)
			for _, e := range events {
				since = e.ID
				if err == nil && e.Pair == "a>b" && describe(e) != "" {
					note = strings.TrimPrefix(note+"; "+describe(e), "; ")
				}
			}
		}
		w.s.say("%4ds %12s  %-12s %-20s %s", n, Quantity(bits, "bit/s"), at,
			strings.Repeat("#", int(min(20*bits/w.s.options().Capacity, 20))), note)
	}
}

// describe puts a decision in few words; "" for other events.
func describe(e agent.Event) string {
	switch decide.Kind(e.Kind) {
	case decide.Canary:
		return "tries " + e.To
	case decide.Share:
		return "shares with " + e.To
	case decide.Stay:
		return "stays on " + e.To
	case decide.Failover:
		if e.Detected == 0 {
			return "failover to " + e.To
		}
		return fmt.Sprintf("failover to %s, %v after the first silence", e.To, e.Detected.Round(time.Millisecond))
	case decide.Switch, decide.Fallback:
		return e.Kind + " to " + e.To
	}
	return ""
}

// comparison is a table of the legs' rates.
func comparison(all []leg, networks []string, mine outcome, kept map[string]outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-48s %12s", "Mbit/s on average", "steered")
	for _, n := range networks {
		fmt.Fprintf(&b, " %16s", "kept "+n)
	}
	row := func(what string, of func(outcome) float64) {
		fmt.Fprintf(&b, "\n%-48s %12.0f", what, of(mine)/1e6)
		for _, n := range networks {
			fmt.Fprintf(&b, " %16.0f", of(kept[n])/1e6)
		}
	}
	span := 0.0
	for i, l := range all {
		row(l.what, func(r outcome) float64 { return r.rates[i] })
		span += l.span.Seconds()
	}
	row("all", func(r outcome) float64 { return achieved(all, r) / span })
	return b.String()
}

func demoFigures(_ Options, all []Sample) []Figure {
	f := summary("steered, of the best choice in hindsight", "ratio", values(all, "steered", "of_hindsight"), median,
		atLeast(0.97))
	return []Figure{f, summary("steered, of the best single network", "ratio", values(all, "steered", "of_static"), median,
		atLeast(0.98))}
}
