// Package trial makes the pods of a bench's trials on the nodes of a cluster: it is the site
// where "bench --kube" has its labs. A network is one that the cluster has: the default one, a
// NetworkAttachmentDefinition, or that of the nodes.
//
// It builds no network and tunes nothing: pods are made for every repetition, and what is
// measured is the cluster as it is. What it needs of a cluster it is given; what runs in its pods
// (Run, Meter) is here too.
package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/explain/cost"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// Networks that are no NetworkAttachmentDefinitions.
const Default, Host = "default", "host"

// Cluster is what a site asks of one.
type Cluster interface {
	// Apply makes what the documents say.
	Apply(ctx context.Context, docs []byte) error
	// Remove removes the pods and returns when they have gone.
	Remove(ctx context.Context, namespace string, pods []string) error
	// Pod says how a pod is.
	Pod(ctx context.Context, namespace, name string) (Pod, error)
	// Stream runs the program in a pod until it ends, as it does when its input ends.
	Stream(ctx context.Context, namespace, pod string, in io.Reader, out io.Writer, args []string) error
}

// Pod is how a pod is.
type Pod struct {
	// Why it is not Ready; "" where it is.
	Why string
	// Addr is that on the default network, and Addrs those on others, by what they are called.
	Addr  netip.Addr
	Addrs map[string][]netip.Addr
}

// Plan is what is measured where.
type Plan struct {
	// Nodes are those of the clients and of the servers.
	Nodes [2]string
	// Image has the program as /pathwise.
	Image string
	// Self is what workloads call the program.
	Self string
	// Dir takes files of the trials, on this machine.
	Dir string
}

// Site is the nodes of a cluster, with a pod on each that tells of its machine.
type Site struct {
	Cluster
	Plan
	names  []string // of those pods
	gauges [2]*gauge
	meter  func(pod string) *gauge // until Close
	// behind is by how much the nodes' clocks are, off the bound of its error.
	behind, off [2]time.Duration
	// shared: both nodes are one machine.
	shared bool
	stop   context.CancelFunc
}

// readying is how long pods may take to be Ready.
const readying = 90 * time.Second

// Open puts a pod on each node that stays until Close. The namespace of a bench is there, and this
// run's alone.
func Open(ctx context.Context, c Cluster, p Plan) (s *Site, err error) {
	s = &Site{Cluster: c, Plan: p}
	var pods []manifest.BenchPod
	for i, node := range p.Nodes {
		pods = append(pods, manifest.BenchPod{Name: fmt.Sprintf("meter-%d", i+1), Node: node})
		s.names = append(s.names, pods[i].Name)
	}
	docs, err := manifest.Bench(p.Image, pods)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.meter = func(pod string) *gauge { return s.gauge(life, pod) }
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := c.Apply(ctx, docs); err != nil {
		return s, err
	}
	var boots [2]string
	for i := range pods {
		r, err := s.begin(ctx, i)
		if err != nil {
			return s, err
		}
		boots[i] = r.Boot
	}
	s.shared = boots[0] == boots[1]
	return s, nil
}

// Close removes all that was made.
func (s *Site) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readying)
	defer cancel()
	var errs []error
	for _, g := range s.gauges {
		if g != nil {
			errs = append(errs, g.close())
		}
	}
	s.stop()
	return errors.Join(append(errs, s.Remove(ctx, manifest.BenchNamespace, s.names))...)
}

// begin has the pod of a node tell of its machine, once it is Ready.
func (s *Site) begin(ctx context.Context, i int) (r Reading, err error) {
	if _, err := s.ready(ctx, s.names[i], ""); err != nil {
		return r, err
	}
	s.gauges[i] = s.meter(s.names[i])
	if r, _, err = s.gauges[i].ask(); err == nil {
		s.behind[i], s.off[i], err = s.gauges[i].ahead()
	}
	return r, err
}

// read reads a node's machine. Where that has been restarted, the pod is asked once it runs again.
func (s *Site) read(ctx context.Context, i int) (Reading, error) {
	r, _, err := s.gauges[i].ask()
	if err == nil {
		return r, nil
	}
	_ = s.gauges[i].close() // it has ended
	r, again := s.begin(ctx, i)
	if again != nil {
		return r, errors.Join(err, again)
	}
	return r, nil
}

// gauge has a pod tell of its machine until ctx ends.
func (s *Site) gauge(ctx context.Context, pod string) *gauge {
	return newGauge(func(in io.Reader, out io.Writer) error {
		return s.Stream(ctx, manifest.BenchNamespace, pod, in, out, []string{"generate", "meter"})
	})
}

// ready waits until the pod is Ready, and on the network.
func (s *Site) ready(ctx context.Context, name, network string) (Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readying, fmt.Errorf("not after %v", readying))
	defer cancel()
	for {
		p, err := s.Pod(ctx, manifest.BenchNamespace, name)
		if err == nil && p.Why == "" && strings.Contains(network, "/") && len(p.Addrs[network]) == 0 {
			return p, fmt.Errorf("pod %s has no address on %s: its network-status says nothing of it", name, network)
		}
		if err == nil && p.Why == "" && p.Addr.IsValid() {
			return p, nil
		}
		why := p.Why
		if err != nil {
			why = err.Error()
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("pod %s is not Ready (%s): %w", name, why, context.Cause(ctx))
		case <-time.After(150 * time.Millisecond):
		}
	}
}

// CPU implements bench.Site. Nodes that are one machine are counted once.
func (s *Site) CPU(ctx context.Context) (map[string]cost.Snapshot, error) {
	out := map[string]cost.Snapshot{}
	var errs [2]error
	var all [2]Reading
	var wg sync.WaitGroup
	for i := range s.gauges {
		wg.Go(func() { all[i], errs[i] = s.read(ctx, i) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	out["node "+s.Nodes[1]] = all[1].CPU
	if s.shared {
		return map[string]cost.Snapshot{strings.Join(s.Nodes[:], " and "): all[0].CPU}, nil
	}
	out["node "+s.Nodes[0]] = all[0].CPU
	return out, nil
}

// Up implements bench.Site.
func (s *Site) Up(ctx context.Context, spec lab.Spec, network string) (bench.Lab, time.Duration, error) {
	f := &field{site: s, network: network, gauges: map[string]*gauge{}, throttled: map[string]uint64{}}
	var pods []manifest.BenchPod
	for _, p := range spec.Pods {
		b := manifest.BenchPod{Name: spec.Name + "-" + p.Name, Node: s.Nodes[min(p.Host, 2)-1], Host: network == Host}
		if network != Host && network != Default {
			b.Attached = network
		}
		pods = append(pods, b)
		f.names = append(f.names, b.Name)
	}
	docs, err := manifest.Bench(s.Image, pods)
	if err != nil {
		return nil, 0, err
	}
	begin := time.Now()
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	if err = s.Apply(ctx, docs); err == nil {
		err = f.settle(ctx, life, spec)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Down(context.WithoutCancel(ctx)))
	}
	return f, time.Since(begin), nil
}

// order runs a program in a pod, and returns what it left.
func (s *Site) order(ctx context.Context, pod string, line []byte) ([]byte, error) {
	in, ours := io.Pipe()
	defer ours.Close()
	go func() { _, _ = ours.Write(append(line, '\n')) }() // ends with the pipe
	var out bytes.Buffer
	err := s.Stream(ctx, manifest.BenchNamespace, pod, in, &out, []string{"generate", "run"})
	in.Close()
	return out.Bytes(), err
}
