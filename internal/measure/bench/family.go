package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// stack is a pod's IPv6 as a device that traffic must pass: what its kernel has sent and
// received in packets of IPv6, by its own count. A workload that speaks IPv4 all the same
// leaves nothing there.
func stack(l Lab, pod topo.Pod) device {
	return device{network.Device{Netns: pod.Netns, Name: "IPv6"}, func() (c counters, err error) {
		err = l.Do(pod, func() error {
			raw, err := os.ReadFile("/proc/thread-self/net/snmp6")
			if err != nil {
				return fmt.Errorf("read counters of IPv6: %w", err)
			}
			c, err = parseSNMP6(string(raw))
			return err
		})
		return c, err
	}}
}

// parseSNMP6 reads what IPv6 of a namespace carried both ways, as Ip6InOctets 1234: the
// counters of RFC 4293 (net/ipv6/proc.c, snmp6_ipstats_list).
func parseSNMP6(text string) (c counters, err error) {
	found := 0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		var to *uint64
		switch f[0] {
		case "Ip6InOctets", "Ip6OutOctets":
			to = &c.bytes
		case "Ip6InReceives", "Ip6OutRequests":
			to = &c.packets
		default:
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			return c, fmt.Errorf("read counters of IPv6: %s: %w", f[0], err)
		}
		*to += n
		found++
	}
	if found != 4 {
		return c, fmt.Errorf("read counters of IPv6: %d of 4 found", found)
	}
	return c, nil
}
