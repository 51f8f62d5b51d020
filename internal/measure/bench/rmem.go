package bench

import (
	"context"
	"fmt"

	"pathwise.dev/pathwise/internal/topo"
)

// setRmem has TCP sockets of all pods begin with a receive buffer of that size. See
// "The receive buffer" in docs/explanation/method.md for what it is good for.
func setRmem(ctx context.Context, l Lab, bytes topo.Rmem) error {
	if bytes == topo.RmemAuto {
		return nil
	}
	// The kernel's own least and most stay, but for a most that is less than asked for. It
	// is read by cat: a shell's read takes single bytes, and a sysctl gives one and no more.
	script := fmt.Sprintf(`set -- $(cat /proc/sys/net/ipv4/tcp_rmem)
most=$3
[ "$most" -ge %[1]d ] || most=%[1]d
echo "$1 %[1]d $most" > /proc/sys/net/ipv4/tcp_rmem`, bytes)
	for _, pod := range l.Pods() {
		if _, err := l.Exec(ctx, pod, "sh", "-c", script); err != nil {
			return fmt.Errorf("set the receive buffer of pod %s: %w", pod.Name, err)
		}
	}
	return nil
}
