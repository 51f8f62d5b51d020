package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/explain/limit"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
)

// Inside does a guest's part of the campaign whose result is in dir: label is the guest's
// name there. What it measures it tells on w, as the result directory is the host's to write.
func (c *Campaign) Inside(ctx context.Context, label, dir string, w io.Writer) error {
	kind, _, _ := strings.Cut(label, "-")
	res, err := result.Open(dir)
	if err != nil {
		return err
	}
	if err := c.find(); err != nil {
		return err
	}
	c.inside = true
	g := c.part(kind, label)
	if err := c.furnish(ctx, &g); err != nil {
		return err
	}
	tell := teller(w)
	record := machine.Read(ctx, lab.DefaultCNIPath(c.Self))
	if err := tell(message{Machine: &record}); err != nil {
		return err
	}
	log, err := sample.NewWriter(io.Discard, res.Samples.Header)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := func(e bench.Event) {
		if err := tell(message{Event: &e}); err != nil {
			cancel(err)
		}
	}
	b := c.config(g, res.Samples.Header.Seed, doneOn(res.Samples.Trials, label), log, watch)
	b.Lab.Timeout = lab.GuestTimeout
	if c.Explain {
		b.Explain = func(p explain.Profile) error {
			stacks, err := explain.Pack(p.Stacks)
			if err != nil {
				return err
			}
			return tell(message{Profile: &p.Record, Stacks: stacks})
		}
	}
	footer, err := bench.Run(ctx, b)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return tell(message{Footer: &footer})
}

// part is the group of a kind of kernel, found without looking for the kernel:
// inside it there is no other.
func (c *Campaign) part(kind, label string) group {
	var all []group
	var mine int
	for i, k := range c.exp.Kernels() {
		name := ""
		if k == kind {
			mine, name = i, label
		}
		exp := c.exp.On(k, name)
		all = append(all, group{label: name, exp: exp, cells: exp.Cells(infos(c.networks))})
	}
	share(all, c.exp.Budget)
	return all[mine]
}

// deaths is how many guests in a row may die before the run gives up.
const deaths = 3

// onGuest runs a group on a guest's kernel. A guest that dies costs the trial
// that ran in it, and the next one goes on from there. clear takes away what is shown of
// the progress.
func (c *Campaign) onGuest(ctx context.Context, out *result.Run, g group, watch func(bench.Event),
	clear func()) (sample.Footer, error) {
	for died := 0; ; {
		m := &merger{out: out, trial: out.Log.Trial, look: limit.ReadHost, label: g.label, watch: watch, order: &c.order}
		err := c.session(ctx, out.Dir, g, m, clear)
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
		clear()
		fmt.Fprintf(c.Log, "guest kernel %s: %s; booting it again\n", g.label, bench.Reason(err))
		if err := m.lost(err); err != nil {
			return sample.Footer{}, err
		}
	}
}

// session boots one guest and lets it run what is left of the group.
func (c *Campaign) session(ctx context.Context, dir string, g group, m *merger, clear func()) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find result: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.fail = cancel
	var said bytes.Buffer
	boot := c.Kernels.boot.Config(g.kernel)
	boot.Argv = append([]string{c.Self}, c.Command(g.label, dir)...)
	boot.Stdout, boot.Stderr = m, &said
	boot.Ready = func(after time.Duration) {
		clear()
		c.Kernels.boot.Ready(g.kernel)(after)
	}
	code, err := guest.Run(ctx, boot)
	if err == nil && code != 0 {
		why := strings.TrimPrefix(strings.TrimSpace(said.String()), "pathwise: ")
		err = fmt.Errorf("the run inside ended with exit status %d: %s", code, why)
	}
	return err
}
