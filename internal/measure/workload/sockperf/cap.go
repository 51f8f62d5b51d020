package sockperf

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// mostPerCPU is more round trips a second than a CPU has been seen to do (some
// 130,000 between two network namespaces).
const mostPerCPU = 300_000

// rateCap is the --mps option, 0 for none. sockperf clears 16 bytes for every
// message that it could send in its time, by default 600,000 a second: for many
// pairs that would be more memory than the machine has. The cap lies well above
// a pair's share of what the CPUs can do, also when it is stretched.
//
// Nor may clearing take longer than clearTime in seconds of measuring: a machine
// on which it would, such as a guest of User-mode Linux, does far fewer round
// trips than leastCap.
func rateCap(pairs, cpus int, speed clearing, seconds int) int {
	const byDefault = 600_000
	limit := stretch * mostPerCPU * cpus / pairs
	each := float64(speed) * float64(min(cpus, pairs)) / float64(pairs) // bytes a second for a pair
	memory := each * clearTime.Seconds() / float64(16*seconds)
	if limit = min(limit, max(leastCap, int(min(memory, 2*byDefault)))); limit < byDefault {
		return limit
	}
	return 0
}

// Bounds of what clearing memory may cost.
const (
	clearTime = 200 * time.Millisecond
	leastCap  = 50_000
)

func (t *trial) cap() int { return rateCap(len(t.bed.Pairs), runtime.NumCPU(), t.speed, t.seconds()) }

// clearing is a speed in bytes per second.
type clearing float64

// clearingSpeed tries how fast fresh memory can be written: the fastest of a few
// tries, as others may keep the processor busy.
func clearingSpeed() (clearing, error) {
	const size, tries = 256 << 10, 5
	best := time.Minute
	for range tries {
		begin := time.Now()
		area, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return 0, fmt.Errorf("take memory: %w", err)
		}
		clear(area)
		best = min(best, max(time.Since(begin), time.Microsecond))
		if err := unix.Munmap(area); err != nil {
			return 0, fmt.Errorf("give memory back: %w", err)
		}
	}
	return clearing(size / best.Seconds()), nil
}

// patience is what a client may take to start besides settle, where the servers,
// which are the same program, took so long to start.
func patience(servers time.Duration) time.Duration {
	const usual = 50 * time.Millisecond
	if servers <= usual {
		return 0
	}
	return 2*servers + clearTime
}
