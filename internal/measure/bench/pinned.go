package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// pin places the ends of each pair as the scenario has it, and the programs of the
// network, which daemons lists, on the cores that have no end, where there are any: a
// user-space switch that the scheduler moves to and fro is noise of the same kind.
func pin(b *workload.Bed, c topo.Cores, daemons func() ([]int, error)) error {
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
	p, idle := pinned{b.Ground, map[string]int{}}, slices.Clone(cores)
	for i, pair := range b.Pairs {
		client, server := c.Ends(i, cores)
		p.core[pair.Client.Netns], p.core[pair.Server.Netns] = client, server
		idle = slices.DeleteFunc(idle, func(core int) bool { return core == client || core == server })
	}
	b.Ground = p
	if len(idle) == 0 {
		return nil
	}
	pids, err := daemons()
	if err != nil {
		return err
	}
	return keep(pids, idle)
}

// keep binds every thread of the processes to the cores; one that ends meanwhile needs none.
func keep(pids, cores []int) error {
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "task")
		threads, err := os.ReadDir(dir)
		for _, t := range threads {
			tid, bad := strconv.Atoi(t.Name())
			err = errors.Join(err, bad, unix.SchedSetaffinity(tid, &set))
		}
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("bind process %d to processors %v: %w", pid, cores, err)
		}
	}
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
