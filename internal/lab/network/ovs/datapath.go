package ovs

import (
	"errors"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/network"
)

// Datapath is what forwards the packets of a bridge.
type Datapath string

// Datapaths, by the names that Open vSwitch gives them (Bridge.datapath_type).
const (
	// System is the kernel's, which hands only the first packets of a flow to user space.
	System Datapath = "system"
	// Netdev is ovs-vswitchd itself, which reads packets from its ports' sockets.
	Netdev Datapath = "netdev"
)

func (d Datapath) String() string {
	if d == System {
		return "kernel datapath"
	}
	return "user-space datapath"
}

// KernelDatapath is the kernel's part of Open vSwitch.
func KernelDatapath() network.Need {
	return network.NeedFamily("ovs_datapath", "CONFIG_OPENVSWITCH")
}

// Best is the kernel's datapath where the kernel has one, else that in user space.
func Best() Datapath {
	if len(network.NewMachine(nil).Missing([]network.Need{KernelDatapath()})) == 0 {
		return System
	}
	return Netdev
}

// BestTracking is Best for networks whose rules track connections, which the
// kernel's datapath does only where the kernel has zones for them.
func BestTracking() Datapath {
	if !tracksZones() {
		return Netdev
	}
	return Best()
}

// tracksZones reports whether the kernel's connection tracking knows zones
// (CONFIG_NF_CONNTRACK_ZONES). Open vSwitch names one in each action ct(); a
// kernel without them refuses the action, as Debian's User-mode Linux 6.1 does.
// It also refuses a question that names a zone, while one that has them looks
// for what else the question should hold (net/netfilter/nf_conntrack_netlink.c,
// ctnetlink_get_conntrack).
func tracksZones() bool {
	const zone = 18 // CTA_ZONE
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_ACK)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET, Version: nl.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(zone, []byte{0, 1}))
	_, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	return !errors.Is(err, unix.EOPNOTSUPP)
}
