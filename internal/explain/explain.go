// Package explain says where the CPU time of a trial went and what bounds it:
// it attributes sampled stacks to the stages of a packet's way, sums them up
// per network and question, and derives one sentence from the sums.
//
// It is pure: it takes no sample itself (cost/profile does) and reads no file
// (result does). It explains figures and does not rank them.
package explain

import (
	"slices"

	"pathwise.dev/pathwise/internal/sample"
)

// Context is the kind of work that a CPU was at.
type Context string

// The contexts.
const (
	User    Context = "user"
	System  Context = "system"
	SoftIRQ Context = "softirq"
	Free    Context = "idle"
)

// Contexts lists them in the order in which they are shown.
func Contexts() []Context { return []Context{User, System, SoftIRQ, Free} }

// Place is whose namespace a CPU was working for: the current task's, or in a
// softirq that of the packet that the CPU received last.
type Place string

// The places of a lab.
const (
	Client     Place = "client"
	ClientHost Place = "client-host"
	Server     Place = "server"
	ServerHost Place = "server-host"
	// Shared is what client and server have in common: the host of both, or
	// the namespace of both on the networks host and container.
	Shared Place = "shared"
	// Underlay is what represents the wire.
	Underlay Place = "underlay"
	// Outside is what is not the lab's: other programs, the kernel's own threads.
	Outside Place = "outside"
)

// Places lists them in the order in which they are shown.
func Places() []Place {
	return []Place{Client, ClientHost, Underlay, ServerHost, Server, Shared, Outside}
}

// Stack is how often one stack was seen.
type Stack struct {
	CPU     int
	Context Context
	Place   Place
	// Process is the name of the thread group's leader.
	Process string
	// Frames of the kernel, the root first; none in user mode.
	Frames []string
	Count  uint64
}

// Device is what passed a device in the window.
type Device struct {
	// Role is "pod" (a pod's own interface) or "uplink" (its host's on the underlay).
	Role  string `json:"role"`
	Place Place  `json:"place"`
	Name  string `json:"name"`
	// Direction is "sent" (given to the device) or "received" (entered the stack).
	Direction string `json:"direction"`
	Packets   uint64 `json:"packets"`
	Bytes     uint64 `json:"bytes"`
	// Segments is how many packets of at most the MTU they would be on a wire;
	// 0 where it is not known.
	Segments uint64 `json:"segments,omitempty"`
	// Sizes counts packets of 2^i up to 2^(i+1) bytes; empty where it is not known.
	Sizes []uint64 `json:"sizes,omitempty"`
}

// Scaled returns d with the segments and sizes that all its packets have, if
// they are like those that were looked at.
func (d Device) Scaled(looked Device) Device {
	if looked.Packets == 0 {
		return d
	}
	by := float64(d.Packets) / float64(looked.Packets)
	d.Segments = uint64(float64(looked.Segments)*by + 0.5)
	d.Sizes = make([]uint64, len(looked.Sizes))
	for i, n := range looked.Sizes {
		d.Sizes[i] = uint64(float64(n)*by + 0.5)
	}
	return d
}

// The roles and directions of a device.
const (
	PodDevice = "pod"
	Uplink    = "uplink"
	Sent      = "sent"
	Received  = "received"
)

// Record is what is known of one trial besides its stacks.
type Record struct {
	sample.Cell
	Repetition int `json:"repetition"`
	Order      int `json:"order"`
	// Frequency is how often a second each CPU was looked at.
	Frequency int `json:"frequency,omitempty"`
	// Window in seconds.
	Window float64 `json:"window"`
	// Cores is the CPU time of each core in the window by /proc/stat, whole machine.
	Cores []sample.CPU `json:"cores"`
	// Bytes of payload and Operations done in the window.
	Bytes      float64 `json:"bytes,omitempty"`
	Operations float64 `json:"operations,omitempty"`
	// GeneratorUser is as in workload.Outcome.
	GeneratorUser float64  `json:"generator_user,omitempty"`
	Devices       []Device `json:"devices,omitempty"`
	// Limits is nil where nobody read their counters.
	Limits *Limits `json:"limits,omitempty"`
	// Lost samples had no room in the sampler's tables.
	Lost uint64 `json:"lost,omitempty"`
	// Missing says why there are no stacks; "" where there are.
	Missing string `json:"missing,omitempty"`
}

// Profile is a trial's record and stacks.
type Profile struct {
	Record
	Stacks []Stack `json:"-"`
}

// ContextOf tells a stack's context from its frames, root first.
func ContextOf(t *Table, frames []string) Context {
	if len(frames) == 0 {
		return User
	}
	if slices.ContainsFunc(frames, isSoftIRQ) {
		return SoftIRQ
	}
	if t.Kernel(frames) == Idle {
		return Free
	}
	return System
}

// isSoftIRQ: handle_softirqs since Linux 6.10, __do_softirq before.
func isSoftIRQ(name string) bool {
	name = plain(name)
	return name == "handle_softirqs" || name == "__do_softirq"
}

// StageOf attributes a stack to a stage.
func (t *Table) StageOf(s Stack) Stage {
	if len(s.Frames) > 0 {
		return t.Kernel(s.Frames)
	}
	switch {
	case isDaemon(s.Process):
		return Datapath
	case s.Place == Client || s.Place == Server || s.Place == Shared:
		return Generator
	case s.Place == ClientHost || s.Place == ServerHost || s.Place == Underlay:
		return Datapath
	}
	return Unattributed
}

// isDaemon names the processes that carry packets in user space. On the networks
// host and container they share their namespace with the pods.
func isDaemon(process string) bool {
	return slices.Contains([]string{"ovs-vswitchd", "flanneld", "tincd", "pathwise-wireguard-go", "pathwise-wiregu"},
		process)
}
