package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
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
	name := ""
	err := bed.Do(pod, func() (err error) {
		name, err = WantCongestion(Congestion)
		return err
	})
	if errors.Is(err, program.ErrElsewhere) {
		var res program.Result
		res, err = bed.Exec(ctx, pod, "sh", "-c", "echo "+Congestion+" 2>/dev/null >"+congestionFile+"; cat "+congestionFile)
		name = strings.TrimSpace(string(res.Stdout))
	}
	return name, err
}

// WantCongestion asks the kernel for a default congestion control in the network namespace of the caller's thread, and
// returns which one it is then: see AskCongestion.
func WantCongestion(name string) (is string, err error) {
	_ = os.WriteFile(congestionFile, []byte(name), 0) // what the kernel does not take, the next line tells
	raw, err := os.ReadFile(congestionFile)
	return strings.TrimSpace(string(raw)), err
}

// ParseCongestion reads the name of a congestion control, as the kernel would take it
// (TCP_CA_NAME_MAX). Which ones there are, it alone knows.
func ParseCongestion(s string) (string, error) {
	if !regexp.MustCompile(`^[a-z][a-z0-9_-]{0,14}$`).MatchString(s) {
		return s, fmt.Errorf("%q: expected the name of a congestion control, such as cubic or bbr", s)
	}
	return s, nil
}
