package bench

import (
	"context"
	"errors"
	"slices"
	"testing"

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
	if err := pin(&b, topo.CoresSame); err != nil {
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
	if err := pin(&b, topo.CoresFree); err != nil || b.Ground != workload.Ground(a) {
		t.Errorf("free ends are bound: %v", err)
	}
}
