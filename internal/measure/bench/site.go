package bench

import (
	"context"
	"fmt"
	"time"

	"pathwise.dev/pathwise/internal/explain/cost"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Lab is a network with pods on it, made for one trial, or for some that share it. *lab.Lab is
// one on this machine.
type Lab interface {
	workload.Ground
	Pods() []topo.Pod
	// Dir takes files of the trial.
	Dir() string
	Notes() []string
	Plug() network.Plug
	// Processes are the network's, on this machine.
	Processes() ([]int, error)
	Counters(d network.Device) (lab.Counters, error)
	Features(d network.Device) (map[string]bool, error)
	// Failed is why something of it has ended that should not have.
	Failed() error
	Down(ctx context.Context) error
}

// Site is where labs are, if not on this machine: the nodes of a cluster.
type Site interface {
	// Up makes a lab that the spec describes, of that network; waited is how long of it was
	// waiting for what was made.
	Up(ctx context.Context, s lab.Spec, networkName string) (l Lab, waited time.Duration, err error)
	// CPU is the time that the machines of the site have spent, by their names.
	CPU(ctx context.Context) (map[string]cost.Snapshot, error)
}

// Inspector is a Lab that says itself what is to be said of a trial's window that has ended.
type Inspector interface {
	Warnings() []sample.Warning
}

// up makes the cell's lab, on the site or on this machine, and says how long it took to build
// and to be ready.
func (r *runner) up(ctx context.Context, spec lab.Spec, name string,
	opts lab.Options) (l Lab, built, waited time.Duration, err error) {
	if r.Site == nil {
		own, err := r.Store.Up(ctx, spec, r.Networks[name], opts)
		if err != nil {
			return nil, 0, 0, err
		}
		return own, own.Built, own.Waited, nil
	}
	begin := r.Now()
	l, waited, err = r.Site.Up(ctx, spec, name)
	return l, r.Now().Sub(begin) - waited, waited, err
}

// machines is the CPU time of the machines that labs are on.
func (c Config) machines() (map[string]cost.Snapshot, error) {
	if c.Site == nil {
		s, err := cost.Read()
		return map[string]cost.Snapshot{"": s}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	return c.Site.CPU(ctx)
}

// asking is how long the machines of a site may take to answer.
const asking = 10 * time.Second

// watchIdle measures what the idle machine spends, to be subtracted later. The
// least busy of all such windows counts: other work on the machine comes and
// goes, and subtracting what is there now and gone later would hide real cost. A machine of a
// site that does not answer, as it is restarted, is told by the trials, which ask it as well.
func (r *runner) watchIdle(ctx context.Context) error {
	idle, idleFor, err := r.idles(ctx)
	if err != nil && r.Site != nil && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	r.disturbed = share(idle, idleFor)
	if r.idleFor == 0 || r.disturbed < share(r.idle, r.idleFor) {
		r.idle, r.idleFor = idle, idleFor
	}
	return nil
}

// idles measures what the machines spend in a window of some length.
func (r *runner) idles(ctx context.Context) (spent sample.CPU, window time.Duration, err error) {
	before, err := r.machines()
	if err != nil {
		return spent, 0, err
	}
	if err := sleep(ctx, idleWindow); err != nil {
		return spent, 0, err
	}
	after, err := r.machines()
	if err != nil {
		return spent, 0, err
	}
	a, b := cost.Sum(before), cost.Sum(after)
	return cost.Between(a, b), b.At.Sub(a.At), nil
}

// apart tells the CPU time of each machine apart, where there are several.
func apart(begin, end map[string]cost.Snapshot, t *sample.Trial) {
	if len(end) < 2 {
		return
	}
	if t.Details == nil {
		t.Details = map[string]string{}
	}
	for name, s := range end {
		c := cost.Between(begin[name], s)
		t.Details["CPU of "+name] = fmt.Sprintf("%.3g CPU-seconds of %d cores: user %.3g, system %.3g, softirq %.3g", c.Busy(),
			c.Cores, c.User, c.System, c.SoftIRQ+c.IRQ)
	}
}

// share is how much of the machine's time was used.
func share(c sample.CPU, window time.Duration) float64 {
	return c.Busy() / (float64(c.Cores) * window.Seconds())
}
