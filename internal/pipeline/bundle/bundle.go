// Package bundle changes the flows of a bridge of Open vSwitch, all of them or none, as
// package reduction found that they may be, and changes them back. It asks the bridge
// through ovs-ofctl, wants its flows to be those that were looked at, and writes the way
// back into a file before anything changes. Which flows change it does not decide.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
)

// Bridge is one by its name, or unix:SOCKET, as ovs-ofctl takes it.
type Bridge string

// ofctl runs ovs-ofctl with the versions of OpenFlow that it may speak.
func (b Bridge) ofctl(ctx context.Context, versions, input string, args ...string) (string, error) {
	return output(ctx, input, "ovs-ofctl", append([]string{"-O", versions}, args...)...)
}

// output runs a program of Open vSwitch. What it says on standard error is why it fails.
func output(ctx context.Context, input, program string, args ...string) (string, error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr, cmd.Stdin = &said, strings.NewReader(input)
	out, err := cmd.Output()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return "", errors.New(text)
	}
	return string(out), err
}

// Read adds the bridge's groups and flows to p, asked for in whichever version of OpenFlow
// it allows: 1.0 knows no groups, and has a flow with goto_table as one with resubmit.
func (b Bridge) Read(ctx context.Context, p *pipeline.Pipeline) error {
	const versions = "OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15"
	for _, dump := range []string{"dump-groups", "dump-flows"} {
		out, err := b.ofctl(ctx, versions, "", "--no-names", dump, string(b))
		switch {
		case errors.Is(err, exec.ErrNotFound):
			return fmt.Errorf("read flows of bridge %s: %w: expected a file of flows, or a bridge of this machine", b, err)
		case err != nil && strings.Contains(err.Error(), "is not a bridge"):
			return fmt.Errorf("%s: no file of flows, and no bridge of this machine", b)
		case err != nil:
			return fmt.Errorf("read flows of bridge %s: %w", b, err)
		}
		if err := p.Read(strings.NewReader(out)); err != nil {
			return err
		}
	}
	return nil
}

// read is what the bridge has now.
func (b Bridge) read(ctx context.Context) (*pipeline.Pipeline, error) {
	p := pipeline.New(nil)
	return p, b.Read(ctx, p)
}

// change has the bridge carry out all lines, or none.
func (b Bridge) change(ctx context.Context, lines []string) error {
	input := strings.Join(lines, "\n") + "\n"
	_, err := b.ofctl(ctx, "OpenFlow14,OpenFlow15", input, "--bundle", "add-flows", string(b), "-")
	if err != nil && strings.Contains(err.Error(), "version negotiation failed") {
		return fmt.Errorf("bridge %s takes no bundles: expected OpenFlow14 among its protocols"+
			" (ovs-vsctl get Bridge NAME protocols): %w", b, err)
	}
	return err
}

// Apply changes the flows from before to what r shortened them to. The way back is in the
// file first. It is refused if the bridge's flows are not those of before, and told if
// they are not the shortened ones afterwards. Between the last look and the change are a few
// milliseconds in which Open vSwitch offers nothing that would hold others off.
func (b Bridge) Apply(ctx context.Context, before *pipeline.Pipeline, r reduction.Result, file string) error {
	if err := b.vacant(ctx, file); err != nil {
		return err
	}
	now, err := b.read(ctx)
	if err != nil {
		return err
	}
	if other := differ(before, now); other != "" {
		return fmt.Errorf("apply to bridge %s: its flows have changed since they were looked at, nothing was done: %s:"+
			" expected flows that stay; try again", b, other)
	}
	if err := write(file, text(b, r)); err != nil {
		return err
	}
	if err := b.change(ctx, r.Apply); err != nil {
		return fmt.Errorf("apply to bridge %s: %w", b, b.none(ctx, before, file, err))
	}
	if now, err = b.read(ctx); err != nil {
		return fmt.Errorf("look at what was applied: %w: the way back is in %s", err, file)
	}
	if other := differ(r.Pipeline, now); other != "" {
		return fmt.Errorf("bridge %s was changed, but its flows are not what was proved: others change them too: %s:"+
			" the way back is in %s", b, other, file)
	}
	return nil
}

// none says what became of a change that failed, and removes its way back if nothing did.
func (b Bridge) none(ctx context.Context, before *pipeline.Pipeline, file string, err error) error {
	now, unread := b.read(ctx)
	if unread != nil || differ(before, now) != "" {
		return fmt.Errorf("%w: the way back, if anything was changed, is in %s", err, file)
	}
	if left := os.Remove(file); left != nil {
		return errors.Join(err, fmt.Errorf("remove the way back: %w", left))
	}
	return fmt.Errorf("%w: nothing was changed", err)
}

// vacant wants the file not to hold a way back that is still to be gone.
func (b Bridge) vacant(ctx context.Context, file string) error {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for an earlier way back: %w", err)
	}
	if w, err := parse(string(raw)); err == nil {
		now, err := b.read(ctx)
		if err != nil {
			return err
		}
		if unmet(now, w.back) == "" {
			return nil // it has been gone, or was never needed
		}
	}
	return fmt.Errorf("%s is there already: expected that it is reverted first (--revert %s), or another file (--keep FILE)",
		file, file)
}

// write writes the file whole, so that it outlasts a kill.
func write(file, text string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the way back: %w", err)
		}
	}()
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// Revert takes back what Apply did, by the file that it wrote. It reports whether there was
// anything to take back.
func (b Bridge) Revert(ctx context.Context, file string) (bool, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("read the way back: %w", err)
	}
	w, err := parse(string(raw))
	if err != nil {
		return false, fmt.Errorf("%s:%w", file, err)
	}
	now, err := b.read(ctx)
	if err != nil {
		return false, err
	}
	if unmet(now, w.back) == "" {
		return false, nil
	}
	if other := unmet(now, w.done); other != "" {
		return false, fmt.Errorf("revert bridge %s: its flows have changed since %s was written, nothing was done: %s:"+
			" to take it back all the same, give the file to ovs-ofctl --bundle add-flows", b, file, other)
	}
	if err := b.change(ctx, w.back); err != nil {
		return false, fmt.Errorf("revert bridge %s: %w", b, err)
	}
	if now, err = b.read(ctx); err != nil {
		return true, fmt.Errorf("look at what was reverted: %w", err)
	}
	if other := unmet(now, w.back); other != "" {
		return true, fmt.Errorf("bridge %s was changed back, but others change its flows too: %s", b, other)
	}
	return true, nil
}
