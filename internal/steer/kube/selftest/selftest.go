// Package selftest tries on a cluster whether agents do there what they are for: it makes two pods
// of its own on two nodes, has traffic between them, and moves and breaks what it goes over.
//
// It is a list of steps that pass or fail. What it needs of a cluster it is given: it speaks to
// no API server itself. It touches nothing but its own pods and the agent of one node, which it
// has be replaced.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// Default is the network that pods have in any case.
const Default = "default"

// The pods of a test, and ports of the server.
const (
	Client, Server = "client", "server"
	rrPort         = 7002
	udpPort        = 7003
)

// Ground is a cluster with the two pods.
type Ground interface {
	// Make makes the pods, after what an earlier test has left is gone, and Remove removes
	// all that was made.
	Make(ctx context.Context) error
	Remove(ctx context.Context) error
	// Address waits until the pod is Ready, and is where it answers.
	Address(ctx context.Context, pod string) (string, error)
	// Run runs the program in a pod until it ends, as it does when its input ends, and returns
	// what it printed.
	Run(ctx context.Context, pod string, input io.Reader, args ...string) ([]byte, error)
	// Paths are those of the client's pair with the server.
	Paths(ctx context.Context) ([]agent.PathStatus, error)
	// Switch moves the pair's flows that the client has opened, and Pin also keeps them there,
	// but for failures; with "" it lets the policy decide again.
	Switch(ctx context.Context, network string) error
	Pin(ctx context.Context, network string) error
	// Hole loses all that comes to the server over the network, until it is closed.
	Hole(ctx context.Context, network string) (io.Closer, error)
	// Kill kills the agent of the client's node; Agents waits until every agent is at work.
	Kill(ctx context.Context) error
	Agents(ctx context.Context) error
}

// Plan is what is tried.
type Plan struct {
	// Networks are those that flows may be moved to, besides the default one.
	Networks []string
	// Switches is how many are made under traffic, and Holes how many black holes.
	Switches, Holes int
	// Gap is the longest time without an answer that a black hole may make.
	Gap time.Duration
}

// Valid returns an error for the first figure out of range.
func (p Plan) Valid() error {
	switch {
	case p.Switches < 1 || p.Switches > 100000:
		return fmt.Errorf("switches %d: expected 1 to 100000", p.Switches)
	case p.Holes < 0 || p.Holes > 1000:
		return fmt.Errorf("holes %d: expected 0 to 1000", p.Holes)
	case p.Gap <= 0:
		return fmt.Errorf("gap %v: expected more than 0", p.Gap)
	}
	return nil
}

// ErrFailed: some step has failed, and that was said.
var ErrFailed = errors.New("some steps have failed")

// run is a test as it goes.
type run struct {
	Ground
	Plan
	w      io.Writer
	target string
	failed bool
}

// Run follows the plan and tells on w of each step. What it has made is removed also where ctx
// ends before.
func Run(ctx context.Context, g Ground, p Plan, w io.Writer) (err error) {
	if err := p.Valid(); err != nil {
		return err
	} else if len(p.Networks) == 0 {
		return errors.New("no PathNetwork allows to move flows to a network: there is nothing to try")
	}
	r := &run{Ground: g, Plan: p, w: w}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removing)
		defer cancel()
		r.step(ctx, "nothing of the test is left", func() (string, error) { return "", g.Remove(ctx) })
		if err == nil && r.failed {
			err = ErrFailed
		}
	}()
	r.all(ctx)
	return context.Cause(ctx)
}

// removing is how long that may take, and settling how long a pair may take to be up.
const removing, settling = 2 * time.Minute, 30 * time.Second

func (r *run) all(ctx context.Context) {
	if !r.step(ctx, "agents are at work", func() (string, error) { return "", r.Agents(ctx) }) ||
		!r.step(ctx, "two pods on two nodes are Ready", func() (string, error) { return "", r.begin(ctx) }) ||
		!r.step(ctx, "the pair has a path on "+strings.Join(r.networks(), ", "), func() (string, error) {
			return "", r.during(ctx, r.up, r.rr(settling+5*time.Second))
		}) {
		return
	}
	for _, n := range r.networks() {
		r.step(ctx, "TCP, UDP and ICMP over "+n, func() (string, error) { return r.carried(ctx, n) })
	}
	r.step(ctx, fmt.Sprintf("%d switches under TCP, UDP and ICMP lose nothing", r.Switches), func() (string, error) {
		return r.switches(ctx)
	})
	for n := range r.Holes {
		on := r.Networks[n%len(r.Networks)]
		r.step(ctx, "a black hole on "+on+" is left", func() (string, error) { return r.hole(ctx, on) })
	}
	r.step(ctx, "the client's agent is killed, and its successor goes on", func() (string, error) { return r.killed(ctx) })
}

// step tells whether what it does passes; what is interrupted is neither, and what follows is not
// begun.
func (r *run) step(ctx context.Context, what string, do func() (string, error)) bool {
	if ctx.Err() != nil {
		return false
	}
	said, err := do()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(r.w, "      %s: interrupted\n", what)
		return false
	case err != nil:
		r.failed = true
		fmt.Fprintf(r.w, "FAIL  %s: %s\n", what, strings.ReplaceAll(err.Error(), "\n", "; "))
		return false
	case said != "":
		what += ": " + said
	}
	fmt.Fprintf(r.w, "PASS  %s\n", what)
	return true
}

func (r *run) networks() []string { return append([]string{Default}, r.Networks...) }

func (r *run) begin(ctx context.Context) error {
	if err := r.Make(ctx); err != nil {
		return err
	}
	if _, err := r.Address(ctx, Client); err != nil {
		return err
	}
	var err error
	r.target, err = r.Address(ctx, Server)
	return err
}

// up waits until the pair has a path that is up on every network.
func (r *run) up(ctx context.Context) error {
	for end := time.Now().Add(settling); ; {
		all, err := r.Paths(ctx)
		if err == nil {
			missing := slices.DeleteFunc(r.networks(), func(n string) bool {
				return slices.ContainsFunc(all, func(p agent.PathStatus) bool { return p.Network == n && p.State == "up" })
			})
			if len(missing) == 0 {
				return nil
			}
			err = fmt.Errorf("after %v none is up on %s: %s", settling, strings.Join(missing, ", "), why(all, missing))
		}
		if time.Now().After(end) {
			return err
		}
		if err := wait(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

// why is what the agent says of the networks.
func why(all []agent.PathStatus, networks []string) string {
	var out []string
	for _, p := range all {
		if slices.Contains(networks, p.Network) {
			out = append(out, fmt.Sprintf("%s is %s (%s)", p.Network, p.State, p.Why))
		}
	}
	if out == nil {
		return "the agent does not know of it"
	}
	return strings.Join(out, ", ")
}

// on does something while the flows are on the network, and the policy leaves them there.
func (r *run) on(ctx context.Context, network string, do func() error) error {
	if err := r.up(ctx); err != nil {
		return err
	}
	if err := r.Pin(ctx, network); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, r.Pin(ctx, ""))
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// traffic is a generator in the client.
type traffic struct {
	args []string
	// least is how many operations or packets say that it ran.
	least int64
	got   stream.Report
}

func (r *run) rr(d time.Duration) *traffic {
	return r.generator("rr", rrPort, d, "--think", "1ms", "--connections", "2", "--gap", "5ms")
}

func (r *run) generator(kind string, port int, d time.Duration, more ...string) *traffic {
	target := r.target
	if port > 0 {
		target = fmt.Sprintf("%s:%d", r.target, port)
		if strings.Contains(r.target, ":") {
			target = fmt.Sprintf("[%s]:%d", r.target, port)
		}
	}
	args := append([]string{"generate", "stream", kind, "--duration", d.String(), "--target", target}, more...)
	return &traffic{args: args, least: 20}
}

// three are TCP, UDP and ICMP.
func (r *run) three(d time.Duration) []*traffic {
	return []*traffic{r.rr(d), r.generator("udp", udpPort, d, "--echo", "--interval", "2ms"),
		r.generator("icmp", 0, d, "--interval", "20ms")}
}

// during runs the traffic while do does its part, and a moment more, and wants all of it to come
// through.
func (r *run) during(ctx context.Context, do func(context.Context) error, all ...*traffic) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(all))
	var inputs []io.Closer
	end := func() {
		for _, input := range inputs {
			input.Close()
		}
	}
	defer end()
	for _, t := range all {
		input, ours := io.Pipe()
		inputs = append(inputs, ours)
		go func() { ended <- t.run(ctx, r.Ground, input) }()
	}
	did := make(chan error, 1)
	go func() { did <- do(ctx) }()
	var faults []error
	for n := 0; n < len(all); {
		select {
		case err := <-did:
			if err != nil {
				cancel()
				faults = append(faults, err)
			}
			did = nil
			time.AfterFunc(time.Second, end)
		case err := <-ended:
			n++
			if err != nil && (len(faults) == 0 || !errors.Is(err, context.Canceled)) {
				faults = append(faults, err)
			}
		}
	}
	if did != nil {
		cancel()
		<-did
		faults = append(faults, errors.New("the traffic has ended before"))
	}
	return errors.Join(faults...)
}

// run runs it, and judges what came of it.
func (t *traffic) run(ctx context.Context, g Ground, input io.Reader) error {
	out, err := g.Run(ctx, Client, input, t.args...)
	if err == nil {
		t.got, err = stream.Parse(out)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.args[2], err)
	}
	c := t.got.Counts
	n := c.Operations + c.Datagrams.Received
	switch {
	case len(t.got.Errors.Reasons) > 0 || c.Connections.Lost > 0:
		return fmt.Errorf("%s: %d connections lost, %v", t.args[2], c.Connections.Lost, t.got.Errors.Reasons)
	case c.Datagrams.Lost > 0:
		return fmt.Errorf("%s: %d of %d lost", t.args[2], c.Datagrams.Lost, c.Datagrams.Sent)
	case n < t.least:
		return fmt.Errorf("%s: only %d came", t.args[2], n)
	}
	return nil
}

// longest is the longest time without an answer.
func (t *traffic) longest() (d time.Duration) {
	for _, g := range t.got.Gaps.List {
		d = max(d, g.Length())
	}
	return d
}

func counts(all []*traffic) string {
	var out []string
	for _, t := range all {
		c := t.got.Counts
		out = append(out, fmt.Sprintf("%s %d", t.args[2], c.Operations+c.Datagrams.Received))
	}
	return strings.Join(out, ", ")
}
