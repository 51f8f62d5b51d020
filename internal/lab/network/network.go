// Package network is the catalogue of container networking solutions: what must
// run on each host, and the CNI configuration by which a pod is attached.
//
// A network only describes and builds; making namespaces, running plugins and
// removing everything afterwards is the lab's, and judging is bench's and rank's.
package network

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/topo"
)

// Network is one container networking solution as configured.
type Network interface {
	// Info says what the network is, without building anything.
	Info() Info
	// Build makes on each host of the site what the network needs there. It
	// returns as soon as daemons are started; Plug.Ready waits for them.
	// Whatever it makes lies in the site's namespaces and directory, so the
	// lab can remove it without asking the network.
	Build(ctx context.Context, site Site) (Plug, error)
}

// Info describes a network of the catalogue.
type Info struct {
	Name string `json:"name"`
	// Family groups networks that are built the same way.
	Family  string `json:"family"`
	Summary string `json:"summary"`
	// Overhead is what encapsulation takes from the underlay's MTU, in bytes.
	Overhead int `json:"overhead"`
	// Cannot says, for each placement in which pods do not reach each other, why.
	Cannot map[topo.Placement]string `json:"cannot,omitempty"`
	// Needs is what the machine must have.
	Needs []Need  `json:"-"`
	Row   Quality `json:"quality"`
	// Alone says why pods cannot be attached to this network and to others at
	// once; "" where they can.
	Alone string `json:"alone,omitempty"`
	// First says why the network cannot be added to pods of another one, but
	// only be their default; "" where it can.
	First string `json:"first,omitempty"`
	// Uplink names what receives the frames that reach a host's uplink before the
	// host does; "" where nothing does. A device has one such receiver
	// (net/core/dev.c, netdev_rx_handler_register), so networks with different
	// ones are not combined.
	Uplink string `json:"uplink,omitempty"`
	// OneKernel says why all hosts of the network must be on one kernel, so that
	// none of them can be a virtual machine; "" where that is not so.
	OneKernel string `json:"one_kernel,omitempty"`
	// Find is what the catalogue finds the network by in a virtual machine, whose
	// files are this machine's; "" where that is its name.
	Find string `json:"-"`
	// Families are the IP families, 4 and 6, of which pods get addresses where they are
	// asked for; nil means 4.
	Families []int `json:"families,omitempty"`
	// Closed marks a network that carries no traffic by design: a trial on it tries
	// that its pods are isolated.
	Closed bool `json:"closed,omitempty"`
	// Baseline marks the network that the others are compared with.
	Baseline bool `json:"baseline,omitempty"`
	// Extra is about how much longer than the half second of most networks it takes
	// to stand and to be ready, as to plan.
	Extra time.Duration `json:"-"`
	// Absent says what this machine, or the kernel that it was looked for on,
	// lacks to build it at all; "" for the networks of the catalogue.
	Absent string `json:"-"`
}

// Supports says whether pods so placed reach each other; if not, why.
func (i Info) Supports(p topo.Placement) (bool, string) {
	if i.Absent != "" {
		return false, i.Absent
	}
	why, no := i.Cannot[p]
	if p.Virtual() && !no {
		// Pods stand on two hosts there, of which at least one is a virtual machine.
		if why, no = i.Cannot[topo.TwoHosts]; !no && i.OneKernel != "" {
			why, no = i.OneKernel, true
		}
	}
	return !no, why
}

// Speaks says why pods have no addresses of the IP family; "" where they have.
func (i Info) Speaks(family int) string {
	have := i.Families
	if have == nil {
		have = []int{topo.IPv4}
	}
	switch {
	case slices.Contains(have, family):
		return ""
	case family == topo.IPv4:
		return "its pods get IPv6 addresses alone: expected family: 6"
	default:
		return "its pods get IPv4 addresses alone: expected family: 4"
	}
}

// Both are the IP families of a network whose pods get IPv6 addresses too where the site
// has IPv6.
func Both() []int { return []int{topo.IPv4, topo.IPv6} }

// Quality is the network's row in the qualitative comparison of Suo et al.
// (2018). The booleans are claims that a test tries for real.
type Quality struct {
	Namespace  string `json:"namespace"`
	IntraHost  string `json:"intra_host"`
	InterHost  string `json:"inter_host"`
	Outside    string `json:"outside"`
	KeyValue   string `json:"key_value_store"`
	Encryption string `json:"encryption"`
	Isolation  string `json:"isolation"`

	// ReachIntra: a pod reaches a pod on its own host.
	ReachIntra bool `json:"reach_intra"`
	// ReachInter: a pod reaches the service port of a pod on another host.
	ReachInter bool `json:"reach_inter"`
	// ReachOwnHost: a pod reaches its own host's underlay address.
	ReachOwnHost bool `json:"reach_own_host"`
	// ReachOutside: a pod reaches an address on the underlay that is no host of the lab.
	ReachOutside bool `json:"reach_outside"`
	// OwnNamespace: the pod's network namespace is its own.
	OwnNamespace bool `json:"own_namespace"`
}

// Site is the ground that a network is built on.
type Site struct {
	// Index counts the networks of the lab, from 0, which is the pods' default
	// network. Names of devices and daemons that two networks of the catalogue
	// would both use are made of it.
	Index int
	// Hosts to build on, with their part of this network's pod range.
	Hosts []topo.Host
	// Everywhere lists all hosts of the network where some of them are on other
	// kernels, in virtual machines, each of which builds its own part of the site;
	// nil where Hosts is all of them. See All.
	Everywhere []topo.Host
	// Within: this part of the site is a virtual machine's. The namespace Underlay is
	// not here, and what a network needs once is another part's to start.
	Within bool
	// Mixed: the hosts are on kernels of different kinds.
	Mixed bool
	// Seed is the same in all parts of the site, and random: keys that the parts
	// must agree on are derived from it. Empty where there is one part.
	Seed []byte
	// Underlay is the namespace of the switch between the hosts; services that
	// the network needs once (a key-value store) run there, at Gateway.
	Underlay string
	Gateway  netip.Prefix
	// MTU of the underlay in bytes.
	MTU int
	// Pods is the range of all pods; each host's part is Host.Pods.
	Pods netip.Prefix
	// IPv6: hosts have IPv6 addresses too, and pods get such, as topo.Addr6 gives them.
	IPv6 bool
	// Dir takes the network's files; it goes with the lab.
	Dir string
	// Lab is the lab's own directory, for what several of its networks have in
	// common: a host has one Open vSwitch, whichever of them use it.
	Lab string
	// Self is the pathwise executable, which containers run; it links nothing.
	Self string
	Operator
}

// Operator does in the site's namespaces what a network asks for.
type Operator interface {
	// Netlink returns a handle in the namespace; the lab closes it.
	Netlink(netns string) (*netlink.Handle, error)
	// Run runs a command to its end in the namespace and returns its standard output.
	Run(ctx context.Context, netns string, argv ...string) ([]byte, error)
	// Start starts a daemon that runs until the lab goes down.
	Start(ctx context.Context, d Daemon) error
	// Cgroup names the lab's cgroup, in which a container engine makes those of
	// its containers. It goes with the lab, and so do the processes in it.
	Cgroup() (string, error)
}

// All returns every host of the network, also those of other parts of the site.
func (s Site) All() []topo.Host {
	if s.Everywhere != nil {
		return s.Everywhere
	}
	return s.Hosts
}

// Default reports whether the network is the pods' default one, to which
// everything goes that is on none of the others.
func (s Site) Default() bool { return s.Index == 0 }

// Beyond is what a pod reaches through the network's router: everything on the
// default network, otherwise own, which may be the zero value for nothing.
func (s Site) Beyond(own netip.Prefix) netip.Prefix {
	if s.Default() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return own
}

// Bridge is the name of the bridge that a CNI plugin makes on each host.
func (s Site) Bridge() string { return fmt.Sprintf("cni%d", s.Index) }

// UnderlayBridge is the switch between the hosts, in the namespace Site.Underlay.
const UnderlayBridge = "br0"

// OnUnderlay is the part of the underlay's own range from which pods of the host
// take addresses when the network puts them there: the hosts' addresses are in
// the first part, which is as large as a host's pod range, then come the parts of each network in the lab, as there may
// be several such.
func (s Site) OnUnderlay(h topo.Host) (netip.Prefix, error) {
	part, err := topo.HostPods(h.Addr.Masked(), h.Pods.Bits(), s.Index*len(s.All())+h.Index)
	if err != nil {
		return part, fmt.Errorf("cut pod range of host %s: %w", h.Name, err)
	}
	return part, nil
}

// Daemon is a long-running program of a network.
type Daemon struct {
	// Name is unique in the lab; the daemon's output goes to Name.log.
	Name  string
	Netns string
	Argv  []string
	Env   []string
}

// Mode says how a pod gets onto the network.
type Mode int

// Modes.
const (
	// ByCNI: the pod has its own namespace, attached by a CNI configuration list.
	ByCNI Mode = iota
	// ShareHost: the pod is in its host's namespace.
	ShareHost
	// SharePod: all pods of a host are in one namespace, that of the first.
	SharePod
	// Closed: the pod has its own namespace and nothing but its loopback.
	Closed
	// ByEngine: the pod has its own namespace, attached by the container engine
	// that runs it (Plug.Run).
	ByEngine
)

// Plug is how pods are attached to a network that Build made.
type Plug struct {
	Mode Mode
	// Conflists holds each host's CNI configuration list by host index (modes ByCNI and SharePod).
	Conflists map[int]json.RawMessage
	// Conflist returns the list for one pod, where it is that pod's own, as it names
	// a device that was made for it; nil: Conflists holds everybody's. Calls for
	// pods of different hosts run side by side.
	Conflist func(ctx context.Context, pod topo.Pod) (json.RawMessage, error)
	// OnMachine: CNI plugins run in the machine's own namespace, where its cards
	// are, and not in the host's.
	OnMachine bool
	// Ready waits until the network's daemons have converged; nil if it has none.
	Ready func(ctx context.Context) error
	// Settled waits until pods that are attached reach each other, where the
	// network learns of them only then, and late; nil otherwise.
	Settled func(ctx context.Context, pods []topo.Pod) error
	// Patience bounds Ready, Settled and each Run where it is more than what the
	// lab gives; for large programs on a slow guest kernel.
	Patience time.Duration
	// Run runs a pod as a container of the network's own engine and returns a
	// process that lives in the pod's namespace; nil: the lab makes pods'
	// namespaces itself. Calls for pods of one host come one after the other.
	Run func(ctx context.Context, c Container) (pid int, err error)
	// Attached is what the network's controller does when it learns of a pod that
	// the plugins have just attached; nil if there is nothing to do. Calls for
	// pods of different hosts run side by side.
	Attached func(ctx context.Context, pod topo.Pod, a topo.Attachment) error
	// Unbound: plugins move routes of the pod's interface out of the main table, for
	// programs that bind to its address or its VRF; others are to have them too.
	Unbound bool
	// Notes are facts of how the network was built here that its name leaves
	// open, such as the version of a daemon: they stand in the result.
	Notes []string
	// Publish: a pod's service port is reached at its host's address (CNI portMappings).
	Publish bool
	// Crossing lists the devices over which traffic between hosts must pass.
	Crossing []Device
	// Datapath is what forwards the network's packets by flows that it caches, where it
	// can be asked; nil otherwise.
	Datapath Datapath
	// Delete: CNI DEL must run when the lab goes down, as the plugins may keep
	// state outside the lab (configurations that a user brings).
	Delete bool
}

// Container is a pod that a network's own engine is to run.
type Container struct {
	// Name is unique on the machine.
	Name string
	// Host is the index of the host.
	Host int
	// Leader is the container on the same host whose namespace this one shares
	// (mode SharePod); "" for one of its own.
	Leader string
	// Env is the environment of its processes, by which the lab knows them.
	Env []string
	// Listen is the pod's service port, TCP and UDP, and Published where it is
	// reached at the host's address; 0 where it is not.
	Listen, Published uint16
}

// Device is one network device of the site.
type Device struct {
	Netns string `json:"netns"`
	Name  string `json:"name"`
}

// Poll calls ready every few milliseconds until it returns nil, and its last
// error when ctx ends.
func Poll(ctx context.Context, every time.Duration, ready func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// IPNet returns the prefix as package netlink wants it.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Uplinks returns the hosts' interfaces on the underlay.
func Uplinks(site Site) []Device {
	var out []Device
	for _, h := range site.Hosts {
		out = append(out, Device{h.Netns, h.Dev})
	}
	return out
}

// Absent returns n as one that cannot be built here, for why.
func Absent(n Network, why string) Network { return absent{n, why} }

type absent struct {
	Network
	why string
}

// Info implements Network.
func (a absent) Info() Info {
	i := a.Network.Info()
	i.Absent = a.why
	return i
}

// Named returns n under another name: a configuration list of the user is
// called as the experiment calls it.
func Named(n Network, name string) Network {
	if n.Info().Name == name {
		return n
	}
	return named{n, name}
}

type named struct {
	Network
	name string
}

// Info implements Network.
func (n named) Info() Info {
	i := n.Network.Info()
	i.Name = n.name
	return i
}
