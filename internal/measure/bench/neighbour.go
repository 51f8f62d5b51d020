package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
)

// neighbourTables are the kernel's tables of neighbours, of IPv4 (ARP) and IPv6: each is
// one for all namespaces together, and so is its limit gc_thresh3.
func neighbourTables() [2]neighbourTable {
	return [2]neighbourTable{{"ipv4", "/proc/net/stat/arp_cache"}, {"ipv6", "/proc/net/stat/ndisc_cache"}}
}

// neighbourTable is one by its name in sysctls, with its counters.
type neighbourTable struct{ name, stat string }

// overflows is how often each neighbour table was full since boot, summed over
// CPUs; 0 where the kernel does not tell.
func overflows() (n [2]uint64) {
	for i, t := range neighbourTables() {
		if raw, err := os.ReadFile(t.stat); err == nil {
			n[i] = parseOverflows(string(raw))
		}
	}
	return n
}

func parseOverflows(text string) (total uint64) {
	column := -1
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if column < 0 {
			if column = slices.Index(fields, "table_fulls"); column < 0 {
				return 0
			}
			continue
		}
		if column < len(fields) {
			n, err := strconv.ParseUint(fields[column], 16, 64)
			if err == nil {
				total += n
			}
		}
	}
	return total
}

// neighbourGate warns when a table was full during a trial: packets to hosts
// that are not in it were dropped, for want of an entry and not by the network.
func neighbourGate(before [2]uint64) (out []sample.Warning) {
	now := overflows()
	for i, t := range neighbourTables() {
		if n := now[i] - before[i]; n > 0 {
			out = append(out,
				sample.Warning{Gate: "neighbours", Text: fmt.Sprintf("the kernel's neighbour table was full %d times: packets were dropped; "+
					"raise net.%s.neigh.default.gc_thresh3", n, t.name)})
		}
	}
	return out
}
