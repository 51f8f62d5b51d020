// Package cost accounts for the CPU time of the whole machine around a measured
// window. It counts for all processes and the kernel's own work alike: a
// process's own usage misses the softirqs that its packets cause elsewhere.
//
// It says nothing about where in the kernel the time went.
package cost

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// tick is the unit of /proc/stat: USER_HZ, 100 per second on every
// architecture that Go's Linux ports run on.
const tick = 10 * time.Millisecond

// Snapshot is the machine's CPU time since boot at one moment.
type Snapshot struct {
	At time.Time
	// CPU-seconds by mode.
	User, System, SoftIRQ, IRQ, Steal, Idle float64
	Cores                                   int
	// PerCore is the same by core, each with one core and no time.
	PerCore []Snapshot
}

// Read takes a snapshot of this machine.
func Read() (Snapshot, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Snapshot{}, fmt.Errorf("read CPU time: %w", err)
	}
	s, err := parse(raw)
	s.At = time.Now()
	return s, err
}

// parse reads the text of /proc/stat (proc_stat(5)).
func parse(raw []byte) (Snapshot, error) {
	var s Snapshot
	seen := false
	scan := bufio.NewScanner(bytes.NewReader(raw))
	scan.Buffer(nil, 1<<20) // the intr line is long on large machines
	for scan.Scan() {
		fields := strings.Fields(scan.Text())
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		line, err := parseModes(fields[1:])
		if err != nil {
			return s, err
		}
		if fields[0] != "cpu" {
			line.Cores = 1
			s.PerCore = append(s.PerCore, line)
			continue
		}
		seen = true
		line.PerCore = s.PerCore
		s = line
	}
	s.Cores = len(s.PerCore)
	if err := scan.Err(); err != nil {
		return s, fmt.Errorf("read /proc/stat: %w", err)
	}
	if !seen || s.Cores == 0 {
		return s, fmt.Errorf("read /proc/stat: no cpu lines")
	}
	return s, nil
}

// parseModes reads the figures of one line.
func parseModes(fields []string) (Snapshot, error) {
	var v [8]float64
	for i := range v {
		n, err := strconv.ParseUint(fields[i], 10, 64)
		if err != nil {
			return Snapshot{}, fmt.Errorf("read /proc/stat: field %d: %w", i+1, err)
		}
		v[i] = (time.Duration(n) * tick).Seconds()
	}
	// user, nice, system, idle, iowait, irq, softirq, steal; guest time is in user already.
	return Snapshot{User: v[0] + v[1], System: v[2], Idle: v[3] + v[4], IRQ: v[5], SoftIRQ: v[6], Steal: v[7]}, nil
}

// PerCore returns the CPU time spent from a to b by core. A core that was
// switched on or off in between is an error.
func PerCore(a, b Snapshot) ([]sample.CPU, error) {
	if len(a.PerCore) != len(b.PerCore) {
		return nil, fmt.Errorf("compare CPU time: %d cores before, %d after", len(a.PerCore), len(b.PerCore))
	}
	out := make([]sample.CPU, len(a.PerCore))
	for i := range out {
		out[i] = Between(a.PerCore[i], b.PerCore[i])
	}
	return out, nil
}

// Between returns the CPU time spent from a to b.
func Between(a, b Snapshot) sample.CPU {
	return sample.CPU{User: b.User - a.User, System: b.System - a.System, SoftIRQ: b.SoftIRQ - a.SoftIRQ,
		IRQ: b.IRQ - a.IRQ, Steal: b.Steal - a.Steal, Idle: b.Idle - a.Idle, Cores: b.Cores}
}

// Net returns used without what the idle machine spends in the same time. idle
// was measured over idleFor, used over usedFor.
func Net(used sample.CPU, usedFor time.Duration, idle sample.CPU, idleFor time.Duration) sample.CPU {
	if idleFor <= 0 {
		return used
	}
	share := usedFor.Seconds() / idleFor.Seconds()
	out := used
	out.User = max(0, used.User-idle.User*share)
	out.System = max(0, used.System-idle.System*share)
	out.SoftIRQ = max(0, used.SoftIRQ-idle.SoftIRQ*share)
	out.IRQ = max(0, used.IRQ-idle.IRQ*share)
	return out
}
