package conntrack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Filters are those of a host: stateful ones treat a packet by what the kernel tracks of its connection. Where none
// is, packets that the tracker calls INVALID pass like all others. The zero value has not looked yet. It is not for
// concurrent use.
type Filters struct {
	generation uint32 // of the rules that were read
	read       bool
	stateful   bool
}

// Stateful looks, in the namespace called ns, "" for the caller's own, and reports whether some may be stateful. Rules
// are read where they are others than at the last look, or where some were stateful by then. What cannot be looked
// at may be. It does not know of programs of eBPF that ask the tracker (bpf_skb_ct_lookup, Linux 5.18).
func (f *Filters) Stateful(ns string) (stateful bool, err error) {
	look := func() (err error) {
		stateful, err = f.look()
		return err
	}
	if ns == "" {
		err = look()
	} else {
		err = netns.Do(ns, look)
	}
	if err != nil {
		return true, fmt.Errorf("read rules about tracked connections: %w", err)
	}
	return stateful, nil
}

// look is Stateful in the thread's namespace.
func (f *Filters) look() (bool, error) {
	if found, err := elsewhere(); found || err != nil {
		return found, err
	}
	generation, err := rulesGeneration()
	if err != nil || f.read && !f.stateful && generation == f.generation {
		return err != nil, err
	}
	stateful, err := statefulRules()
	if err != nil {
		return true, err
	}
	f.generation, f.read, f.stateful = generation, true, stateful
	return stateful, nil
}

// elsewhere reports whether there is what may be stateful by other means than nftables: the older tables of
// iptables-legacy, whose rules are not read, and switches of Open vSwitch's kernel datapath, which track in zones.
func elsewhere() (bool, error) {
	for _, names := range []string{"ip_tables_names", "ip6_tables_names"} {
		// A kernel without these has no such file.
		listed, err := os.ReadFile("/proc/thread-self/net/" + names)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return true, err
		}
		if len(listed) > 0 {
			return true, nil
		}
	}
	return switches()
}

// ovsDatapathGet is OVS_DP_CMD_GET, and ovsHeader the size of struct ovs_header (linux/openvswitch.h).
const ovsDatapathGet, ovsHeader = 3, 4

// switches reports whether the kernel has a datapath of Open vSwitch here.
func switches() (bool, error) {
	family, err := netlink.GenlFamilyGet("ovs_datapath")
	if errors.Is(err, unix.ENOENT) {
		return false, nil // the module is not there
	} else if err != nil {
		return true, err
	}
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	req.AddData(&nl.Genlmsg{Command: ovsDatapathGet, Version: uint8(family.Version)})
	req.AddRawData(make([]byte, ovsHeader)) // of any
	found, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return err != nil || len(found) > 0, err
}

// rulesGeneration is a number that changes with the rules of nftables.
func rulesGeneration() (uint32, error) {
	const id = 1 // NFTA_GEN_ID
	n, err := number(tables(unix.NFT_MSG_GETGEN, unix.NLM_F_ACK), id)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return 0, nil // a kernel without nftables
	}
	return n, err
}

// statefulRules reads all rules of nftables, among them those of iptables-nft.
func statefulRules() (bool, error) {
	rules, err := tables(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP).Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return false, nil
	case errors.Is(err, netlink.ErrDumpInterrupted):
		return true, nil // they change: the next look says
	case err != nil:
		return true, err
	}
	for _, r := range rules {
		if asking(body(r, unix.NFTA_RULE_EXPRESSIONS)) {
			return true, nil
		}
	}
	return false, nil
}

// asking reports whether an expression of a rule asks for what is tracked.
func asking(expressions []byte) bool {
	const ctSource, matchName = 4, 1 // NFTA_CT_SREG, NFTA_MATCH_NAME
	for len(expressions) >= unix.SizeofNlAttr {
		_, one, rest, ok := first(expressions)
		if !ok {
			return true // not understood
		}
		name, data := text(attribute(one, unix.NFTA_EXPR_NAME)), attribute(one, unix.NFTA_EXPR_DATA)
		switch {
		case name == "ct" && attribute(data, ctSource) == nil: // with a source it sets something
			return true
		case name == "match" && asks(text(attribute(data, matchName))):
			return true
		}
		expressions = rest
	}
	return false
}

// asks reports whether a match of iptables asks the tracker: conntrack, connmark, connlimit, connbytes, connlabel,
// state, helper.
func asks(match string) bool {
	return strings.HasPrefix(match, "conn") || match == "state" || match == "helper"
}

func text(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

// tables is a request about nftables of all families.
func tables(operation, flags int) *nl.NetlinkRequest {
	return requestOf(unix.NFNL_SUBSYS_NFTABLES, unix.AF_UNSPEC, operation, flags)
}
