package oci

import (
	"time"

	"pathwise.dev/pathwise/internal/topo"
)

// Runtime starts containers.
type Runtime string

// Runtimes. Networks whose engine runs the pods have none of these.
const (
	Runc       Runtime = "runc"
	Containerd Runtime = "containerd"
)

// Launch is one start of a pod.
type Launch struct {
	Pod topo.Pod
	// Requested is when the pod was asked for.
	Requested time.Time
	// Network is how long the namespace and CNI ADD took, Runtime how long the
	// container runtime took to create and start the container.
	Network, Runtime time.Duration
	// Engine: the runtime attached the pod itself, so Runtime is all of it.
	Engine bool
}
