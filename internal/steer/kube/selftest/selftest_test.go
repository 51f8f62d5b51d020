package selftest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// ground is a cluster on which all goes as it is to, unless a test bends it.
type ground struct {
	mu       sync.Mutex
	on       string
	switches int
	holes    int
	killed   int
	removed  int
	made     bool
	bend     func(*stream.Report)
	noMake   error
	calls    int
	inCall   func(n int)
}

// call counts what is asked of a cluster: nothing, once the test has been interrupted.
func (g *ground) call(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.inCall != nil {
		g.inCall(g.calls)
	}
	return ctx.Err()
}

func (g *ground) Make(ctx context.Context) error {
	g.made = true
	return cmp.Or(g.noMake, g.call(ctx))
}

func (g *ground) Remove(ctx context.Context) error { g.removed++; return ctx.Err() }

func (g *ground) Address(ctx context.Context, _ string) (string, error) {
	return "10.0.0.1", g.call(ctx)
}

func (g *ground) Run(ctx context.Context, _ string, input io.Reader, args ...string) ([]byte, error) {
	if err := g.call(ctx); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, input); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := stream.Report{Format: stream.Format, Kind: stream.Kind(args[2]), Role: "client", Unit: stream.Packets}
	r.Bins.Width = time.Millisecond
	r.Counts.Operations = 1000
	r.Gaps.List = []stream.Gap{{From: 0, To: 40 * time.Millisecond}}
	if g.bend != nil {
		g.bend(&r)
	}
	return json.Marshal(r)
}

func (g *ground) Paths(ctx context.Context) ([]agent.PathStatus, error) {
	if err := g.call(ctx); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []agent.PathStatus
	for _, n := range []string{Default, "x/fast", "x/bulk"} {
		out = append(out, agent.PathStatus{Network: n, State: "up", Active: n == g.on})
	}
	return out, nil
}

func (g *ground) Switch(ctx context.Context, network string) error {
	if err := g.call(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = network
	g.switches++
	return nil
}

func (g *ground) Pin(ctx context.Context, network string) error {
	if network == "" {
		return nil
	}
	return g.Switch(ctx, network)
}

func (g *ground) Hole(ctx context.Context, _ string) (io.Closer, error) {
	g.holes++
	return io.NopCloser(nil), g.call(ctx)
}

func (g *ground) Kill(ctx context.Context) error { g.killed++; return g.call(ctx) }

func (g *ground) Agents(ctx context.Context) error { return g.call(ctx) }

func plan() Plan {
	return Plan{Networks: []string{"x/fast", "x/bulk"}, Switches: 20, Holes: 1, Gap: time.Second}
}

// TestRun: every step passes where all is well, and what a report says of losses fails a step
// and the test, and all is removed.
func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		bend func(*stream.Report)
		want string
	}{
		"well": {nil, ""},
		"a connection lost": {func(r *stream.Report) { r.Counts.Connections.Lost = 1 },
			"FAIL  the pair has a path on default, x/fast, x/bulk: rr: 1 connections lost"},
		"a datagram lost": {func(r *stream.Report) {
			if r.Kind == stream.UDP {
				r.Counts.Datagrams.Lost = 2
			}
		}, "FAIL  TCP, UDP and ICMP over x/bulk: udp: 2 of 0 lost"},
		"little": {func(r *stream.Report) { r.Counts.Operations = 3 }, "only 3 came"},
		"a long gap": {func(r *stream.Report) { r.Gaps.List[0].To = 2 * time.Second },
			"FAIL  a black hole on x/fast is left: no answer for 2s: expected 1s at most"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &ground{bend: tc.bend}
			var out bytes.Buffer
			err := Run(t.Context(), g, plan(), &out)
			if (tc.want == "") != (err == nil) || err != nil && !errors.Is(err, ErrFailed) {
				t.Errorf("%s: %v\n%s", name, err, &out)
			}
			if !strings.Contains(out.String(), tc.want) || g.removed != 1 ||
				!strings.Contains(out.String(), "PASS  nothing of the test is left") {
				t.Errorf("removed %d times, want %q:\n%s", g.removed, tc.want, &out)
			}
			if tc.want == "" && (g.holes != 1 || g.killed != 1 || g.switches < 20) {
				t.Errorf("%+v\n%s", g, &out)
			}
		})
	}
}

// TestInterrupted: whenever the test is interrupted, what was made is removed, no step has failed,
// and none is begun.
func TestInterrupted(t *testing.T) {
	for n, began := 1, true; began; n++ {
		synctest.Test(t, func(t *testing.T) { began = interrupted(t, n) })
	}
}

// interrupted interrupts what the test asks of the cluster the n-th time, and tells whether it does.
func interrupted(t *testing.T, n int) bool {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := &ground{inCall: func(call int) {
		if call == n {
			cancel()
		}
	}}
	var out bytes.Buffer
	err := Run(ctx, g, plan(), &out)
	if g.calls < n {
		return false
	}
	if !errors.Is(err, context.Canceled) || g.removed != 1 || strings.Contains(out.String(), "FAIL") ||
		strings.Count(out.String(), ": interrupted") > 1 || !strings.Contains(out.String(), "PASS  nothing of the test") {
		t.Errorf("call %d: %v, removed %d times:\n%s", n, err, g.removed, &out)
	}
	return true
}

// TestNotBegun: without pods nothing is tried, and what there is of them is removed.
func TestNotBegun(t *testing.T) {
	g := &ground{noMake: errors.New("no image")}
	var out bytes.Buffer
	if err := Run(t.Context(), g, plan(), &out); !errors.Is(err, ErrFailed) || g.removed != 1 || g.switches > 0 ||
		!strings.Contains(out.String(), "FAIL  two pods on two nodes are Ready: no image") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := Run(t.Context(), g, Plan{}, &out); err == nil || errors.Is(err, ErrFailed) {
		t.Errorf("a plan without networks: %v", err)
	}
}
