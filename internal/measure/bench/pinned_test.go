package bench

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// asked is a Ground that remembers what it was asked to run, and runs nothing.
type asked struct {
	workload.Ground
	argv []string
}

func (a *asked) Exec(_ context.Context, _ topo.Pod, argv ...string) (program.Result, error) {
	a.argv = argv
	return program.Result{}, &program.Error{Argv: argv, Err: errors.New("fails")}
}

func TestPin(t *testing.T) {
	bed := func() (workload.Bed, *asked) {
		a := &asked{}
		return workload.Bed{Ground: a,
			Pairs: []workload.Pair{{Client: topo.Pod{Netns: "c1"}, Server: topo.Pod{Netns: "s1"}}}}, a
	}
	cores, err := allowed()
	if err != nil || len(cores) == 0 {
		t.Fatalf("cores %v: %v", cores, err)
	}
	b, a := bed()
	if err := pin(&b, topo.CoresSame, nobody); err != nil {
		t.Fatal(err)
	}
	_, err = b.Exec(context.Background(), b.Pairs[0].Server, "iperf3", "-s")
	var e *program.Error
	if !errors.As(err, &e) || e.Argv[0] != "iperf3" || !slices.Equal(a.argv[:2], []string{"taskset", "-c"}) ||
		a.argv[3] != "iperf3" {
		t.Errorf("ran %v, error of %v", a.argv, e)
	}
	if _, _ = b.Exec(context.Background(), topo.Pod{Netns: "other"}, "true"); len(a.argv) != 1 {
		t.Errorf("a pod of no pair: %v", a.argv)
	}
	b, a = bed()
	if err := pin(&b, topo.CoresFree, nobody); err != nil || b.Ground != workload.Ground(a) {
		t.Errorf("free ends are bound: %v", err)
	}
}

func nobody() ([]int, error) { return nil, nil }

// TestDaemonsKeepOff: a program of the network, with all of its threads, leaves the core
// of the ends to them.
func TestDaemonsKeepOff(t *testing.T) {
	cores, err := allowed()
	if err != nil || len(cores) < 2 {
		t.Skipf("cores %v: %v: a daemon needs a second one", cores, err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := workload.Bed{Pairs: []workload.Pair{{Client: topo.Pod{Netns: "c1"}, Server: topo.Pod{Netns: "s1"}}}}
	gone := func() ([]int, error) { return []int{cmd.Process.Pid, 1 << 22}, nil } // no such process, by pid_max
	if err := pin(&b, topo.CoresSame, gone); err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(cmd.Process.Pid, &set); err != nil || set.IsSet(cores[0]) || !set.IsSet(cores[1]) {
		t.Errorf("bound to %v: %v", set, err)
	}
}
