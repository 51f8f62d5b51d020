package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// Order is what a virtual machine is told of the lab that it holds a host of.
type Order struct {
	plan
	// Find says for each network what the catalogue finds it by.
	Find []string `json:"find"`
	// Host is the index of the machine's own host, MAC that of its interface.
	Host int    `json:"host"`
	MAC  string `json:"mac"`
}

// Built is what a virtual machine says of the networks that it has built.
type Built struct {
	// Notes and Crossing are those of the plugs, by network.
	Notes    [][]string         `json:"notes"`
	Crossing [][]network.Device `json:"crossing"`
}

// Program is a program to be run in a virtual machine.
type Program struct {
	Netns string   `json:"netns"`
	Argv  []string `json:"argv"`
	// Ahead is how far the caller's monotonic clock is ahead of the machine's.
	Ahead time.Duration `json:"ahead"`
}

// Ran is how a program ended.
type Ran struct {
	program.Result
	Stderr string `json:"stderr,omitempty"`
	// Failure is empty where it ended well.
	Failure string `json:"failure,omitempty"`
}

// Operations that a Share serves.
const (
	opBuild    = "build"
	opReady    = "ready"
	opAttach   = "attach"
	opSettle   = "settle"
	opExec     = "exec"
	opCount    = "count"
	opFeatures = "features"
	opClock    = "clock"
)

// Share is the part of a lab that is in a virtual machine, as seen from within:
// one host with its pods. The lab outside asks for one operation after the other;
// what it asks for is done by the same code as on its own kernel.
type Share struct {
	store Store
	find  func(string) (network.Network, error)
	opts  Options
	lab   *local
}

// NewShare returns the share of no lab yet; find is the catalogue.
func NewShare(s Store, find func(string) (network.Network, error), opts Options) *Share {
	if opts.Timeout == 0 {
		opts.Timeout = GuestTimeout
	}
	return &Share{store: s, find: find, opts: opts.fill()}
}

// Serve does an operation; in and the result are JSON.
func (s *Share) Serve(ctx context.Context, op string, in []byte) (any, error) {
	switch op {
	case opClock:
		return program.Kernel(), nil
	case opBuild:
		return request(in, func(o Order) (Built, error) { return s.build(ctx, o) })
	}
	if s.lab == nil {
		return nil, errors.New("there is no lab in this virtual machine")
	}
	switch op {
	case opReady:
		return nil, s.lab.converge(ctx)
	case opAttach:
		err := s.lab.attach(ctx)
		return s.lab.op.rec.pods(), err
	case opSettle:
		return request(in, func(pods []topo.Pod) (any, error) {
			s.lab.op.rec.change(func(st *State) { st.Pods = pods })
			return nil, s.lab.settle(ctx)
		})
	case opExec:
		return request(in, func(p Program) (Ran, error) { return s.exec(ctx, p), nil })
	case opCount:
		return request(in, s.lab.count)
	case opFeatures:
		return request(in, s.lab.features)
	default:
		return nil, fmt.Errorf("unknown operation %q", op)
	}
}

// request decodes what fn takes.
func request[In, Out any](raw []byte, fn func(In) (Out, error)) (any, error) {
	var in In
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	return fn(in)
}

// build makes the machine's host and starts the networks on it.
func (s *Share) build(ctx context.Context, o Order) (Built, error) {
	var out Built
	if s.lab != nil {
		return out, fmt.Errorf("this virtual machine holds a host of lab %s already", s.lab.Spec.Name)
	}
	if len(o.Find) != len(o.Spec.Networks) {
		return out, fmt.Errorf("build host: %d networks to find: expected %d", len(o.Find), len(o.Spec.Networks))
	}
	var all []built
	for i, name := range o.Spec.Networks {
		n, err := s.find(o.Find[i])
		if err != nil {
			return out, err
		}
		all = append(all, built{Network: network.Named(n, name), name: name})
	}
	rec, err := s.store.open(&o.plan, all, s.opts)
	if err != nil {
		return out, err
	}
	l := newLocal(&o.plan, rec, all, s.opts, func(h topo.Host) bool { return h.Index == o.Host })
	l.within, l.uplink = true, nic{o.MAC, o.Spec.wireMTU(), l.op.wiring}.take
	s.lab = l
	if err := errors.Join(rec.save(), l.raise(ctx)); err != nil {
		return out, err
	}
	for _, n := range l.nets {
		out.Notes, out.Crossing = append(out.Notes, n.plug.Notes), append(out.Crossing, n.plug.Crossing)
	}
	return out, nil
}

func (s *Share) exec(ctx context.Context, p Program) Ran {
	res, err := s.lab.op.run(ctx, p.Netns, p.Argv, program.Ahead(p.Ahead))
	out := Ran{Result: res}
	var failed *program.Error
	switch {
	case errors.As(err, &failed):
		out.Failure, out.Stderr = failed.Err.Error(), failed.Stderr
	case err != nil:
		out.Failure = err.Error()
	}
	return out
}
