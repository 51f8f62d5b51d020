package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// congestionFile is the congestion control of programs that ask for none.
const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// Asked are the default congestion controls that a bed's pods have, once they were asked
// for Congestion.
type Asked []string

// AskCongestion asks the pods' kernels for the default congestion control, where programs
// cannot be told of one themselves. In a network namespace other than the first the kernel
// takes only those that the machine allows to everybody (tcp_set_default_congestion_control,
// net.ipv4.tcp_allowed_congestion_control).
func AskCongestion(ctx context.Context, bed Bed) (Asked, error) {
	var seen Asked
	for _, pair := range bed.Pairs {
		for _, pod := range []topo.Pod{pair.Client, pair.Server} {
			name, err := askCongestion(ctx, bed, pod)
			if err != nil {
				return nil, fmt.Errorf("read congestion control of pod %s: %w", pod.Name, err)
			}
			if !slices.Contains(seen, name) {
				seen = append(seen, name)
			}
		}
	}
	return seen, nil
}

// Tell adds to the outcome what the program used.
func (a Asked) Tell(o *Outcome, program string) {
	names := strings.Join(a, ", ")
	o.Details["congestion"] = names
	if names != Congestion {
		o.Notes = append(o.Notes, fmt.Sprintf("TCP's congestion control was %s, the machine's: %s cannot be told of %s, and the kernel allows it to no pod (net.ipv4.tcp_allowed_congestion_control)",
			names, program, Congestion))
	}
}

func askCongestion(ctx context.Context, bed Bed, pod topo.Pod) (string, error) {
	var raw []byte
	err := bed.Do(pod, func() (err error) {
		// What the kernel does not take, the next line tells.
		_ = os.WriteFile(congestionFile, []byte(Congestion), 0)
		raw, err = os.ReadFile(congestionFile)
		return err
	})
	if errors.Is(err, program.ErrElsewhere) {
		var res program.Result
		res, err = bed.Exec(ctx, pod, "sh", "-c", "echo "+Congestion+" 2>/dev/null >"+congestionFile+"; cat "+congestionFile)
		raw = res.Stdout
	}
	return strings.TrimSpace(string(raw)), err
}
