// Package cost accounts for the CPU time of the whole machine around a measured
// window. It counts for all processes and the kernel's own work alike: a
// process's own usage misses the softirqs that its packets cause elsewhere.
//
// It says nothing about where in the kernel the time went.
package cost

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/procfs"

	"pathwise.dev/pathwise/internal/sample"
)

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
func Read() (Snapshot, error) { return read(procfs.DefaultMountPoint) }

// read takes a snapshot from the directory where a proc file system is mounted.
func read(proc string) (Snapshot, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read CPU time: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return Snapshot{}, fmt.Errorf("read CPU time: %w", err)
	}
	if len(stat.CPU) == 0 || stat.CPUTotal == (procfs.CPUStat{}) {
		return Snapshot{}, fmt.Errorf("read CPU time: %s/stat has no cpu lines", proc)
	}
	s := modes(stat.CPUTotal)
	s.At, s.Cores = time.Now(), len(stat.CPU)
	for _, core := range slices.Sorted(maps.Keys(stat.CPU)) {
		line := modes(stat.CPU[core])
		line.Cores = 1
		s.PerCore = append(s.PerCore, line)
	}
	return s, nil
}

// modes sums up what is one thing here. Guest time is in user already (proc_stat(5)).
func modes(c procfs.CPUStat) Snapshot {
	return Snapshot{User: c.User + c.Nice, System: c.System, Idle: c.Idle + c.Iowait, IRQ: c.IRQ, SoftIRQ: c.SoftIRQ,
		Steal: c.Steal}
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
