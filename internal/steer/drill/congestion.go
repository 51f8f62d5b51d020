package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/measure/workload"
)

// textCongestion is in a sample's text where pods have another congestion control than workloads usually have.
const textCongestion = "congestion"

// congest has the lab's pods use the file's congestion control, as most programs cannot be told of one. Where the file
// leaves it open and the kernel allows the usual one to no pod (net.ipv4.tcp_allowed_congestion_control), they keep
// theirs. It returns which they have, or nothing where it is the usual one.
func (f File) congest(l *lab.Lab) (string, error) {
	var all []string
	for _, pod := range l.Pods() {
		is := ""
		err := l.Do(pod, func() (err error) {
			is, err = workload.WantCongestion(cmp.Or(f.Congestion, workload.Congestion))
			return err
		})
		if err != nil {
			return "", fmt.Errorf("set congestion control of pod %s: %w", pod.Name, err)
		}
		if f.Congestion != "" && is != f.Congestion {
			return "", fmt.Errorf(
				"set congestion control of pod %s to %s: it is still %s: expected one of net.ipv4.tcp_allowed_congestion_control",
				pod.Name, f.Congestion, is)
		}
		if is != workload.Congestion && !slices.Contains(all, is) {
			all = append(all, is)
		}
	}
	return strings.Join(all, ", "), nil
}

// congestions are those of samples that have another one than workloads usually have.
func congestions(samples []Sample) string {
	var all []string
	for _, s := range samples {
		if c := s.Text[textCongestion]; c != "" && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return strings.Join(all, ", ")
}
