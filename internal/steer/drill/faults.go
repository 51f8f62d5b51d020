package drill

import (
	"errors"
	"fmt"
	"sync"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
)

// faults are the impairments of a ground's attachments.
type faults struct {
	lab      *lab.Lab
	impairer impair.Impairer
	bad      map[string]impair.Port // ports that are impaired now
}

// ports are the attachments to a network of a pod, or of all pods of a host, the
// agent's among them.
func (f *faults) ports(where, network string) (map[string]impair.Port, error) {
	out := map[string]impair.Port{}
	for _, p := range f.lab.Pods() {
		h := f.lab.Hosts()[p.Host-1]
		if at, ok := p.On(network); ok && (p.Name == where || h.Name == where) {
			out[p.Name+" "+network] = impair.Port{Netns: p.Netns, Dev: at.Dev, Host: h.Netns}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("impair %s of %s: %w", network, where, errNoPort)
	}
	return out, nil
}

// impair makes attachments worse, all of them at once: as one fault, not as one
// pod's after the other's.
func (f *faults) impair(where, network string, bad impair.Impairment) error {
	ports, err := f.ports(where, network)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, 0, len(ports))
	var mu sync.Mutex
	for key, port := range ports {
		f.bad[key] = port
		wg.Go(func() {
			err := f.impairer.Apply(port, bad)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("impair %s: %w", key, err))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// prepare makes the attachments ready for a fault: with a loss too small to lose
// anything the programs are there, and the fault is then an exchange of
// programs, which takes far less time than what is to be measured.
func (f *faults) prepare(where, network string) error {
	const nothing = 1e-9
	return f.impair(where, network, impair.Impairment{LossIngress: nothing, LossEgress: nothing})
}

var errNoPort = errors.New("no such attachment")

// heal ends every impairment.
func (f *faults) heal() error {
	var errs []error
	for key, port := range f.bad {
		errs = append(errs, f.impairer.Clear(port))
		delete(f.bad, key)
	}
	return errors.Join(errs...)
}

// Faults that the hosts' probes and the pair's echoes pass.
const faultTCP, faultLarge = "tcp", "large"

// fault is an impairment by name; directions are those of pods on host h1. Where
// one way stays good the other's program is left as it was prepared.
func fault(name string) impair.Impairment {
	const nothing = 1e-9
	out := impair.Impairment{LossIngress: 1, LossEgress: 1}
	switch name {
	case "out", "pod-out":
		out.LossIngress = nothing
	case "in", "pod-in":
		out.LossEgress = nothing
	case faultTCP:
		out.Only = impair.Only{Protocol: "tcp"}
	case faultLarge:
		const large = 1000
		out.Only = impair.Only{Above: large}
	}
	return out
}
