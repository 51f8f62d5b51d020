package bench_test

import (
	"os"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// TestReceiveBuffers: the pods' sockets begin with what the scenario says, and the least
// and the most stay as the kernel has them. Autotuning without room is a stream held up.
func TestReceiveBuffers(t *testing.T) {
	const file = "/proc/sys/net/ipv4/tcp_rmem"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kernel := strings.Fields(string(raw))
	for rmem, want := range map[topo.Rmem]string{topo.RmemAuto: kernel[1], 256 << 10: "262144"} {
		var r run
		seen := 0
		w := datagrams{inPod: func(bed workload.Bed) {
			for _, pod := range []topo.Pod{bed.Pairs[0].Client, bed.Pairs[0].Server} {
				err := bed.Do(pod, func() error {
					got, err := os.ReadFile(file)
					if f := strings.Fields(string(got)); err == nil && (f[0] != kernel[0] || f[1] != want || f[2] != kernel[2]) {
						t.Errorf("rmem %s: the pod has %v, the kernel %v", rmem.Word(), f, kernel)
					}
					seen++
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		}}
		c := config(t, &r, w, plain.Host{}, vxlan.New())
		c.Experiment.Repeat.Min, c.Experiment.Repeat.Max = 1, 1
		c.Experiment.Entries[0].Scenarios[0].Rmem = rmem
		for _, trial := range r.do(t, c).Trials {
			if trial.Status != sample.OK || trial.Scenario.Rmem != rmem {
				t.Errorf("%v: %s", trial.Cell, trial.Reason)
			}
		}
		if seen != 4 {
			t.Errorf("%d pods seen", seen)
		}
		nothingLeft(t, &r)
	}
}
