package agent

import (
	"io"
	"log/slog"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/stamp"
)

// DefaultRTOMin has TCP send its last segment again 12 to 16 ms after it, as Linux counts in 4 ms, and once more as
// long after that: two copies by the time that an agent judges (detect.Params.AckWithin). With 20 ms stalls are 14 ms
// longer, and where one packet in a hundred is lost a connection asks half as often (Linux 6.18, round trips of
// 0.1 ms). Least timeouts of a millisecond were found safe in datacenters (Vasudevan et al. 2009).
const DefaultRTOMin = 8 * time.Millisecond

// Config is what an agent works with.
type Config struct {
	// Host is the name of the agent's host in the cluster.
	Host string
	// Source tells the cluster; it is asked again every second.
	Source func() (Cluster, error)
	// News says that Source tells something else by now; nil where nobody says so.
	News <-chan struct{}
	// HostNetns is the file of the host's network namespace, where the agent is in another; "" takes
	// it from the cluster, or for the agent's own.
	HostNetns string
	// Keys authenticate probes and notices; all agents of a cluster share them. They
	// are asked for at every look at the cluster, and may be others each time.
	Keys func() (stamp.Keys, error)
	// PinDir is a directory on a bpf file system, this host's own.
	PinDir string
	// Cgroup is the root of the cgroup v2 hierarchy that holds the pods; "" does
	// without what connections tell.
	Cgroup string
	Policy decide.Policy
	// Need of all pairs; "" learns it.
	Need decide.Need
	// Prior is what a bench promises: bit/s by network.
	Prior map[string]float64
	// CPU is the cost by network, in CPU-seconds per GB, as a bench measured it.
	CPU map[string]float64
	// DryRun decides and logs, but moves nothing.
	DryRun bool
	// RTOMin is the least retransmission timeout of TCP towards pods that can be
	// reached by other paths (DefaultRTOMin); 0 leaves the kernel's 200 ms.
	RTOMin time.Duration
	// Events takes every event as a line of JSON; Evidence the records that
	// decisions were made on, for replay. Both may be nil.
	Events, Evidence io.Writer
	Log              *slog.Logger
	Now              func() time.Time

	hold probe.Hold // how long withdrawn keys are accepted; DefaultHold by default
	// leave is how long a pair without traffic stays entered, leaveAfter by default, and
	// peers how many a pod may have at a time, steer.DefaultPeers by default.
	leave    time.Duration
	peers    int
	barFirst time.Duration // as in detect.Params
}

// Pace of the loop.
const (
	// fastTick is how often counters are looked at while a pair has much traffic, and
	// slowTick where it has little. What goes right after a look has been silent for
	// so long at the next one, instead of for silence, and 25 ms are not over then.
	fastTick, slowTick = 3 * time.Millisecond, 10 * time.Millisecond
	// suspectTick is the same while a path is suspected.
	suspectTick = time.Millisecond
	// idleTick is the same while none has.
	idleTick = 50 * time.Millisecond
	// epoch is the period of evidence.
	epoch = 100 * time.Millisecond
	// refresh is the period of heartbeats and of looking at the cluster.
	refresh = 500 * time.Millisecond
	// quiet is how long a pair without packets still counts as having traffic.
	quiet = 2 * time.Second
)
