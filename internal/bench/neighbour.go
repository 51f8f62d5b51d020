package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
)

// neighbourStat counts for all namespaces together, as the kernel's table of
// neighbours (ARP) is one, and so is its limit net.ipv4.neigh.default.gc_thresh3.
const neighbourStat = "/proc/net/stat/arp_cache"

// overflows is how often the neighbour table was full since boot, summed over
// CPUs; 0 where the kernel does not tell.
func overflows() uint64 {
	raw, err := os.ReadFile(neighbourStat)
	if err != nil {
		return 0
	}
	return parseOverflows(string(raw))
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

// neighbourGate warns when the table was full during a trial: packets to hosts
// that are not in it were dropped, for want of an entry and not by the network.
func neighbourGate(before uint64) []sample.Warning {
	n := overflows() - before
	if n == 0 {
		return nil
	}
	return []sample.Warning{{Gate: "neighbours", Text: fmt.Sprintf("the kernel's neighbour table was full %d times: packets were dropped; "+
		"raise net.ipv4.neigh.default.gc_thresh3", n)}}
}
