package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/bench"
	"pathwise.dev/pathwise/internal/claim"
	"pathwise.dev/pathwise/internal/cost/limit"
	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/guest"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/machine"
	"pathwise.dev/pathwise/internal/result"
	"pathwise.dev/pathwise/internal/sample"
)

// measure runs the groups one after the other: nothing is compared across
// kernels, so that their trials need not be mixed.
func (b *benchRun) measure(ctx context.Context, out *result.Run, p *progress) (sample.Footer, error) {
	b.clear = p.clear
	var total sample.Footer
	for _, t := range out.Done {
		b.order = max(b.order, t.Order)
	}
	for i, g := range b.groups {
		watch := b.shifted(p, total.Trials, b.groups[i+1:], out.Done)
		run := b.onHost
		if g.label != "" && g.nowhere == "" {
			run = b.onGuest
		}
		footer, err := run(ctx, out, g, watch)
		if err != nil {
			return total, err
		}
		total.Trials += footer.Trials
		total.Wall += footer.Wall
		total.Warnings = append(total.Warnings, footer.Warnings...)
	}
	return total, nil
}

// doneOn returns the trials of earlier sessions on the group's kernel.
func doneOn(trials []sample.Trial, label string) []sample.Trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t sample.Trial) bool { return t.Scenario.Kernel != label })
}

// onHost runs a group on the host's kernel, or records of one whose kernel
// cannot be booted that it cannot run.
func (b *benchRun) onHost(ctx context.Context, out *result.Run, g group, watch func(bench.Event)) (sample.Footer, error) {
	c := b.config(g, out.Seed, doneOn(out.Done, g.label), out.Log, watch)
	c.After = b.order
	if b.explain {
		c.Explain = out.Profile
	}
	return bench.Run(ctx, c)
}

func (b *benchRun) config(g group, seed uint64, done []sample.Trial, log *sample.Writer, watch func(bench.Event)) bench.Config {
	return bench.Config{
		VMs:        hypervisors(g.vms),
		Experiment: g.exp, Networks: g.networks, Workloads: b.workloads, Seed: seed, Store: b.store(),
		Lab: lab.Options{CNIPath: lab.DefaultCNIPath(b.self), Owned: true, Self: b.self},
		Log: log, Done: done, Observe: watch, Now: b.now, Doubts: doubts(g.exp.Claims),
	}
}

// doubts has a run race for verdicts: measuring knows no claims, and is told which cells
// want more repetitions.
func doubts(claims []claim.Claim) func([]sample.Trial) []bench.Doubt {
	return func(trials []sample.Trial) (out []bench.Doubt) {
		for _, d := range claim.Doubts(claims, trials, bench.Level) {
			out = append(out, bench.Doubt(d))
		}
		return out
	}
}

// shifted shows a group's progress as a part of the whole run's: before is the
// number of trials of earlier groups, rest are the later ones.
func (b *benchRun) shifted(p *progress, before int, rest []group, done []sample.Trial) func(bench.Event) {
	var after int
	var left time.Duration
	for _, g := range rest {
		after += max(g.least(), len(doneOn(done, g.label)))
		left += g.shortest()
	}
	return func(e bench.Event) {
		if e.Ended {
			b.order = max(b.order, e.Trial.Order)
		}
		e.Done += before
		e.Total += before + after
		e.Left += left
		p.observe(e)
	}
}

// message is one line that the part of a run inside a guest tells the outside.
// One field is set, and Stacks beside Profile.
type message struct {
	Machine *machine.Record `json:"machine,omitempty"`
	Event   *bench.Event    `json:"event,omitempty"`
	Footer  *sample.Footer  `json:"footer,omitempty"`
	// Profile and its packed Stacks come before the end of their trial.
	Profile *explain.Record `json:"profile,omitempty"`
	Stacks  []byte          `json:"stacks,omitempty"`
}

// runInside does the guest's part of a run: what it measures it tells on standard
// output, as the result directory is the host's to write.
func runInside(ctx context.Context, e env, f benchFlags) error {
	kind, _, _ := strings.Cut(f.inside, "-")
	res, err := result.Open(f.out)
	if err != nil {
		return err
	}
	f.experiment = filepath.Join(f.out, result.ExperimentFile)
	exp, err := readExperiment(e, f)
	if err != nil {
		return err
	}
	b := newBenchRun(e, exp)
	if err := b.find(); err != nil {
		return err
	}
	b.inside = true
	g := b.part(kind, f.inside)
	if err := b.furnish(ctx, &g); err != nil {
		return err
	}
	tell := func(m message) error { return writeLine(e.stdout, m) }
	record := machine.Read(ctx, lab.DefaultCNIPath(e.self))
	if err := tell(message{Machine: &record}); err != nil {
		return err
	}
	log, err := sample.NewWriter(io.Discard, res.Samples.Header)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := func(ev bench.Event) {
		if err := tell(message{Event: &ev}); err != nil {
			cancel(err)
		}
	}
	c := b.config(g, res.Samples.Header.Seed, doneOn(res.Samples.Trials, f.inside), log, watch)
	c.Lab.Timeout = lab.GuestTimeout
	if f.explain {
		c.Explain = func(p explain.Profile) error {
			stacks, err := explain.Pack(p.Stacks)
			if err != nil {
				return err
			}
			return tell(message{Profile: &p.Record, Stacks: stacks})
		}
	}
	footer, err := bench.Run(ctx, c)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return tell(message{Footer: &footer})
}

// part is the group of a kind of kernel, found without looking for the kernel:
// inside it there is none beside.
func (b *benchRun) part(kind, label string) group {
	var all []group
	var mine int
	for i, k := range b.exp.Kernels() {
		name := ""
		if k == kind {
			mine, name = i, label
		}
		exp := b.exp.On(k, name)
		all = append(all, group{label: name, exp: exp, cells: exp.Cells(infos(b.networks))})
	}
	share(all, b.exp.Budget)
	return all[mine]
}

// deaths is how many guests in a row may die before the run gives up.
const deaths = 3

// onGuest runs a group on a guest's kernel. A guest that dies costs the trial
// that ran in it, and the next one goes on from there.
func (b *benchRun) onGuest(ctx context.Context, out *result.Run, g group, watch func(bench.Event)) (sample.Footer, error) {
	for died := 0; ; {
		m := &merger{out: out, label: g.label, watch: watch, order: &b.order}
		err := b.guestSession(ctx, out.Dir, g, m)
		if err == nil && m.footer == nil {
			err = errors.New("the run inside ended without its last line")
		}
		if err == nil {
			return *m.footer, nil
		}
		if m.merged > 0 {
			died = 0
		}
		if died++; ctx.Err() != nil || !errors.Is(err, guest.ErrDied) || died >= deaths {
			return sample.Footer{}, fmt.Errorf("guest kernel %s: %w", g.label, err)
		}
		b.clear()
		fmt.Fprintf(b.stderr, "guest kernel %s: %v; booting it again\n", g.label, oneLine(err))
		if err := m.lost(err); err != nil {
			return sample.Footer{}, err
		}
	}
}

// guestSession boots one guest and lets it run what is left of the group.
func (b *benchRun) guestSession(ctx context.Context, dir string, g group, m *merger) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find result: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.fail = cancel
	var said bytes.Buffer
	c := b.guestConfig(g.kernel)
	c.Argv = []string{b.self, "bench", "--inside", g.label, "--out", dir}
	if b.explain {
		c.Argv = append(c.Argv, "--explain")
	}
	c.Stdout, c.Stderr = m, &said
	c.Ready = func(after time.Duration) {
		b.clear()
		b.guestReady(g.kernel)(after)
	}
	code, err := guest.Run(ctx, c)
	if err == nil && code != 0 {
		err = fmt.Errorf("the run inside ended with exit status %d: %s", code, strings.TrimPrefix(strings.TrimSpace(said.String()), "pathwise: "))
	}
	return err
}

// merger takes what the part of a run inside a guest tells into the result.
type merger struct {
	out   *result.Run
	label string
	watch func(bench.Event)
	fail  context.CancelCauseFunc
	// order is that of the run's last trial.
	order *int

	partial []byte
	// running is the trial in flight, and host the machine when it began; merged counts
	// those that have ended.
	running *sample.Trial
	host    limit.Host
	merged  int
	footer  *sample.Footer
}

// Write implements io.Writer; an error ends the guest too.
func (m *merger) Write(p []byte) (int, error) {
	m.partial = append(m.partial, p...)
	for {
		line, rest, ok := bytes.Cut(m.partial, []byte{'\n'})
		if !ok {
			return len(p), nil
		}
		if err := m.line(line); err != nil {
			m.fail(err)
			return 0, err
		}
		m.partial = rest
	}
}

func (m *merger) line(line []byte) error {
	var msg message
	if err := json.Unmarshal(line, &msg); err != nil {
		return fmt.Errorf("decode what guest %s tells: %w", m.label, err)
	}
	switch {
	case msg.Machine != nil:
		return m.out.Guest(m.label, *msg.Machine)
	case msg.Footer != nil:
		m.footer = msg.Footer
	case msg.Profile != nil:
		return m.profile(msg)
	case msg.Event != nil && msg.Event.Ended:
		m.running = nil
		m.merged++
		if err := m.log(&msg.Event.Trial); err != nil {
			return err
		}
		m.watch(*msg.Event)
	case msg.Event != nil:
		m.running = &msg.Event.Trial
		var err error
		if m.host, err = limit.ReadHost(); err != nil {
			return err
		}
		m.watch(*msg.Event)
	}
	return nil
}

// log adds a trial that the guest ran, numbered after those of the whole run.
func (m *merger) log(t *sample.Trial) error {
	*m.order++
	t.Order = *m.order
	return m.out.Log.Trial(*t)
}

// profile keeps what was seen inside the trial that is about to end, under the
// number that it will have.
func (m *merger) profile(msg message) error {
	p := explain.Profile{Record: *msg.Profile}
	p.Order = *m.order + 1
	now, err := limit.ReadHost()
	if err != nil {
		return err
	}
	if p.Limits != nil {
		p.Limits.Host = m.host.Until(now)
	}
	if p.Stacks, err = explain.Unpack("stacks of guest "+m.label, msg.Stacks); err != nil {
		return err
	}
	return m.out.Profile(p)
}

// lost records the trial that a guest took with it when it died.
func (m *merger) lost(why error) error {
	if m.running == nil {
		return nil
	}
	t := *m.running
	t.Status, t.Reason = sample.Failed, oneLine(why)
	return m.log(&t)
}
