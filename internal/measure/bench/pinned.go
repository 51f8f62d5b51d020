package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// pinned is a Ground on which what runs in a pod has a core of its own. Programs start with
// taskset, so that their children stay there too; what the kernel does for them elsewhere
// it does elsewhere.
type pinned struct {
	workload.Ground
	// core of each pod, by namespace.
	core map[string]int
}

// Exec implements workload.Ground.
func (p pinned) Exec(ctx context.Context, pod topo.Pod, argv ...string) (program.Result, error) {
	core, ok := p.core[pod.Netns]
	if !ok {
		return p.Ground.Exec(ctx, pod, argv...)
	}
	res, err := p.Ground.Exec(ctx, pod, append([]string{"taskset", "-c", strconv.Itoa(core)}, argv...)...)
	if e := (*program.Error)(nil); errors.As(err, &e) {
		e.Argv = argv // what the workload asked for
	}
	return res, err
}

// pin places the ends of each pair as the scenario has it.
func pin(b *workload.Bed, c topo.Cores) error {
	if c == topo.CoresFree {
		return nil
	}
	cores, err := allowed()
	if err != nil {
		return err
	}
	if err := c.Check(len(cores)); err != nil {
		return err
	}
	p := pinned{b.Ground, map[string]int{}}
	for i, pair := range b.Pairs {
		p.core[pair.Client.Netns], p.core[pair.Server.Netns] = c.Ends(i, cores)
	}
	b.Ground = p
	return nil
}

// allowed lists the processors that this process may use.
func allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the processors that may be used: %w", err)
	}
	var out []int
	for i := range 8 * len(set) * 8 {
		if set.IsSet(i) {
			out = append(out, i)
		}
	}
	return out, nil
}
