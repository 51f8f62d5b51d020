package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
)

func programsKind() kind {
	return kind{
		name: "programs", about: "the active path goes silent under real programs: the longest time in which nothing new was sent",
		defaults: Options{Repetitions: 30, Hold: 2 * time.Second, Programs: programNames(isOthers),
			Faults: []string{"both", "in", "out", "pod", "pod-in", "pod-out"}},
		keys: []string{"hold", "programs", "faults"},
		length: func(o Options, _ File) time.Duration {
			return time.Duration(len(o.Programs)*len(o.Faults)) * (o.Hold + 3500*time.Millisecond)
		},
		run: runPrograms, figures: programsFigures,
	}
}

func runPrograms(ctx context.Context, s *session) (out []Sample, err error) {
	o := s.options()
	for _, i := range s.order(len(o.Programs) * len(o.Faults)) {
		by, how := o.Programs[i/len(o.Faults)], o.Faults[i%len(o.Faults)]
		one, err := s.try(ctx, by+" "+how, func(out *Sample) error { return s.holeUnder(ctx, out, programNamed(by), how) })
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// holeUnder breaks the path that the agents have a program's connection on.
func (s *session) holeUnder(ctx context.Context, out *Sample, p realProgram, how string) error {
	g, err := s.ground(ctx, s.pair("steered"))
	if err != nil {
		return err
	}
	nets := g.nets
	if p.connects {
		nets = nets[:1] // where connections begin
	}
	network, where, err := s.aim(ctx, g, nets, how)
	if err != nil {
		return err
	}
	const least = 15 * time.Second // programs end by themselves, and not before the fault does
	t, err := p.begin(ctx, g, job{connections: 1, span: least + 3*s.options().Hold})
	if err != nil {
		return err
	}
	defer t.stop()
	opener, other := g.ends(p)
	if err := g.connected(ctx, t.port, 1); err != nil {
		return err
	}
	host := g.hostOf(opener)
	a := g.agents[host]
	err = s.moment(ctx, g, host, agent.Order{Local: opener.Name, Remote: other.Name, Network: network})
	since, sinceErr := a.lastEvent(ctx)
	if err := errors.Join(err, sinceErr); err != nil {
		return err
	}
	if err := g.breakUnder(ctx, out, t, where, network, how); err != nil {
		return err
	}
	events, err := a.events(ctx, since)
	out.found(events, opener.Name+">"+other.Name, network)
	if ofPair(how) || err != nil {
		g.stopAgents() // what a pair has found out about its path it believes for a while
	}
	return err
}

// found notes how a pair's agent found that a network had failed.
func (out *Sample) found(events []agent.Event, pair, network string) {
	for _, e := range moves(events) {
		if e.Pair == pair && e.From == network {
			out.Values["detected_s"], out.Text["moved"] = e.Detected.Seconds(), e.Kind+" to "+e.To+": "+e.Reason
			return
		}
	}
}

// usable notes how long after a fault was over the hosts held the network for usable again.
func (out *Sample) usable(events []agent.Event, network string, healed time.Time) {
	for _, e := range events {
		if e.Kind == agent.EventCleared && e.Pair == "" && e.To == network && e.At.After(healed) {
			out.Values["again_s"] = e.At.Sub(healed).Seconds()
			return
		}
	}
}

// breakUnder breaks a network for the time of the drill, and says for how long pod a sent nothing new.
func (g *ground) breakUnder(ctx context.Context, out *Sample, t *transfer, where, network, how string) error {
	pid := t.in.cmd.Process.Pid
	if err := steady(ctx, pid); err != nil {
		return err
	}
	before, err := sentOn(g.pod("a"))
	err = errors.Join(err, pause(ctx, 100*time.Millisecond))
	after, afterErr := sentOn(g.pod("a"))
	if err := errors.Join(err, afterErr); err != nil {
		return err
	}
	at, part := carrier(before, after)
	if out.Text["network"] = network; at != network {
		return fmt.Errorf("before the fault: %w: %.0f %% on %q, expected %q", errElsewhere, part*100, at, network)
	}
	watched, stop := make(chan time.Duration, 1), make(chan struct{})
	var watchErr error
	go func() {
		longest, err := silence(pid, stop)
		watchErr = err
		watched <- longest
	}()
	err = g.impair(where, network, fault(how))
	err = errors.Join(err, pause(ctx, g.s.options().Hold))
	close(stop)
	out.Values["stall_s"] = (<-watched).Seconds()
	err = errors.Join(err, watchErr, g.heal(), t.in.died())
	if err == nil && !ofPair(how) {
		err = g.healthy(ctx) // while traffic goes on: without it the agents look less often
	}
	return err
}

// steady waits until a program sends without breaks: some make one before they begin.
func steady(ctx context.Context, pid int) error {
	const window, most = 300 * time.Millisecond, 50 * time.Millisecond
	return until(ctx, 8*time.Second, 0, "the program sends without breaks", func() (bool, error) {
		stop := make(chan struct{})
		time.AfterFunc(window, func() { close(stop) })
		longest, err := silence(pid, stop)
		return err == nil && longest < most, err
	})
}

// silence is the longest time in which a process's network namespace sent no new data by TCP,
// until told to stop.
func silence(pid int, stop <-chan struct{}) (longest time.Duration, err error) {
	const every = 2 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, at := -1, program.Kernel()
	for {
		n, err := newData(pid)
		if err != nil {
			return longest, err
		}
		now := program.Kernel()
		if longest = max(longest, now-at); n != last {
			last, at = n, now
		}
		select {
		case <-stop:
			return longest, nil
		case <-tick.C:
		}
	}
}

// newData is how many segments of data the namespace's TCP has sent for the first time
// (TCPOrigDataSent of net/netstat). It is read 500 times a second next to what it watches, so procfs's 130
// figures of it are not.
func newData(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/netstat", pid))
	if err != nil {
		return 0, fmt.Errorf("read counters: %w", err)
	}
	return counter(string(text), "TcpExt:", "TCPOrigDataSent")
}

// counter finds a value in a table of a line of names and one of values (proc(5), net/snmp).
func counter(text, table, name string) (int, error) {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != table {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			if names[i] == name {
				return strconv.Atoi(fields[i])
			}
		}
	}
	return 0, fmt.Errorf("read counters: %w %s %s", errNoCounter, table, name)
}

var errNoCounter = errors.New("there is no")

// detection says how long this end took to find a fault. Where the other end found it first, an event
// has no time of its own (agent.Event.Detected is 0): such are counted, and not taken for 0 s.
func detection(all []Sample, variant string) string {
	found := values(all, variant, "detected_s")
	own := slices.DeleteFunc(slices.Clone(found), func(s float64) bool { return s == 0 })
	if len(found) == 0 {
		return "no failover of the pair: single connections at most were moved"
	}
	if len(own) == 0 {
		return "found by the other end's agent"
	}
	note := "detected after " + seconds(summary("", "s", own, median, nil).Value) + " (median)"
	if others := len(found) - len(own); others > 0 {
		note += fmt.Sprintf("; %d of %d found by the other end's agent", others, len(found))
	}
	return note
}

func programsFigures(o Options, all []Sample) (out []Figure) {
	for _, by := range o.Programs {
		for _, how := range o.Faults {
			v := by + " " + how
			stalls := values(all, v, "stall_s")
			if len(stalls) == 0 {
				continue
			}
			f := summary(v+": stall, median", "s", stalls, median, atMost(stallMedian))
			f.Note = detection(all, v)
			out = append(out, f, summary("... 99th percentile", "s", stalls, p99, atMost(stallP99)))
		}
	}
	return out
}
