package conntrack

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What the kernel tracks is asked for here, with a filter of the kernel's own (Linux 5.8): it goes
// through all entries, and gives those alone that are between the addresses that are named. To have it give
// all, and look for them here, takes some ten times as long.

// Messages, attributes and flags of linux/netfilter/nfnetlink_conntrack.h and of ctnetlink that package nl does
// not name.
const (
	ctStats         = 5 // IPCTNL_MSG_CT_GET_STATS
	ctaStatsEntries = 1 // CTA_STATS_GLOBAL_ENTRIES

	ctaFilter      = 25
	ctaFilterOrig  = 1
	ctaFilterReply = 2

	filterSource, filterDestination, filterProtocol = 1 << 0, 1 << 1, 1 << 3
)

// liberal is the flag of an end of an entry whose window is not looked at (IP_CT_TCP_FLAG_BE_LIBERAL), as those
// have that the kernel has taken up in the middle.
const liberal = 8

// entry is a TCP connection that the kernel tracks.
type entry struct {
	raw         []byte // as it was given, by which it is named
	orig, reply Connection
	state       uint8
	timeout     uint32 // in seconds
	strict      bool   // the window of an end is looked at
}

// dump asks for the entries from one address to another, of IPv4; for all where these are not valid. Of what comes it
// keeps what is wanted: a node may track half a million connections, whose entries take half a kilobyte each.
func dump(family uint8, from, to netip.Addr, wanted func(entry) bool) ([]entry, error) {
	req := request(family, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
	if from.IsValid() {
		filter := nested(ctaFilter)
		filter.AddRtAttr(ctaFilterOrig, nl.Uint32Attr(filterSource|filterDestination|filterProtocol))
		filter.AddRtAttr(ctaFilterReply, nl.Uint32Attr(0))
		req.AddData(direction(nl.CTA_TUPLE_ORIG, Connection{netip.AddrPortFrom(from, 0), netip.AddrPortFrom(to, 0)}))
		req.AddData(filter)
	}
	var found []entry
	err := req.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(message []byte) bool {
		if e, ok := parse(message); ok && wanted(e) {
			e.raw = slices.Clone(message) // which is a part of all that was read at once
			found = append(found, e)
		}
		return true
	})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	return found, nil // an interrupted one has nearly all, and another look follows
}

// total is how much the kernel tracks in the namespace, of whatever family.
func total() (int, error) {
	n, err := number(request(unix.AF_UNSPEC, ctStats, unix.NLM_F_ACK), ctaStatsEntries)
	return int(n), err
}

// number asks for an attribute that is a number; it is 0 where there is none.
func number(req *nl.NetlinkRequest, kind uint16) (uint32, error) {
	messages, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if n := body(m, kind); len(n) == 4 {
			return binary.BigEndian.Uint32(n), nil
		}
	}
	return 0, nil
}

// forget has the kernel forget the entry, and reports whether that was still there.
func (e entry) forget(family uint8) (bool, error) {
	req := request(family, nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK)
	req.AddRawData(e.raw[nl.SizeofNfgenmsg:])
	_, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// loosen has the kernel look at the entry's windows no more.
func (e entry) loosen(family uint8) error {
	all := e.raw[nl.SizeofNfgenmsg:]
	req := request(family, nl.IPCTNL_MSG_CT_NEW, unix.NLM_F_ACK|unix.NLM_F_REPLACE)
	for _, kind := range []uint16{nl.CTA_TUPLE_ORIG, nl.CTA_TUPLE_REPLY} {
		req.AddData(nl.NewRtAttr(int(kind)|unix.NLA_F_NESTED, attribute(all, kind)))
	}
	if zone := attribute(all, nl.CTA_ZONE); zone != nil {
		req.AddData(nl.NewRtAttr(nl.CTA_ZONE, zone))
	}
	info, tcp := nested(nl.CTA_PROTOINFO), nested(nl.CTA_PROTOINFO_TCP)
	for _, end := range []int{nl.CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, nl.CTA_PROTOINFO_TCP_FLAGS_REPLY} {
		tcp.AddRtAttr(end, []byte{liberal, liberal}) // the flag, and that no other is meant
	}
	info.AddChild(tcp)
	req.AddData(info)
	_, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil // it has gone meanwhile
	}
	return err
}

func request(family uint8, operation, flags int) *nl.NetlinkRequest {
	return requestOf(unix.NFNL_SUBSYS_CTNETLINK, family, operation, flags)
}

// requestOf is one to a part of nfnetlink.
func requestOf(subsystem int, family uint8, operation, flags int) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(subsystem<<8|operation, flags)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	return req
}

// direction is the attribute that names TCP connections in one of their directions: those with these ports, where they
// are not 0.
func direction(kind int, c Connection) *nl.RtAttr {
	src, dst := nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	if c.From.Addr().Is6() {
		src, dst = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	ip, proto := nested(nl.CTA_TUPLE_IP), nested(nl.CTA_TUPLE_PROTO)
	ip.AddRtAttr(src, c.From.Addr().AsSlice())
	ip.AddRtAttr(dst, c.To.Addr().AsSlice())
	proto.AddRtAttr(nl.CTA_PROTO_NUM, []byte{unix.IPPROTO_TCP})
	for kind, port := range map[int]uint16{nl.CTA_PROTO_SRC_PORT: c.From.Port(), nl.CTA_PROTO_DST_PORT: c.To.Port()} {
		if port != 0 {
			proto.AddRtAttr(kind, binary.BigEndian.AppendUint16(nil, port))
		}
	}
	tuple := nested(kind)
	tuple.AddChild(ip)
	tuple.AddChild(proto)
	return tuple
}

func nested(kind int) *nl.RtAttr { return nl.NewRtAttr(kind|unix.NLA_F_NESTED, nil) }

// attribute is that of a kind in a message, nil where there is none.
func attribute(b []byte, kind uint16) []byte {
	for len(b) >= unix.SizeofNlAttr {
		is, value, rest, ok := first(b)
		if !ok {
			break
		}
		if is == kind {
			return value
		}
		b = rest
	}
	return nil
}

// first is the first attribute, and what follows it; ok is whether it is whole.
func first(b []byte) (kind uint16, value, rest []byte, ok bool) {
	n := int(nl.NativeEndian().Uint16(b))
	if n < unix.SizeofNlAttr || n > len(b) {
		return 0, nil, nil, false
	}
	return nl.NativeEndian().Uint16(b[2:]) & nl.NLA_TYPE_MASK, b[unix.SizeofNlAttr:n], b[min((n+3)&^3, len(b)):], true
}

// body is an attribute of a message of nfnetlink.
func body(message []byte, kind uint16) []byte {
	if len(message) < nl.SizeofNfgenmsg {
		return nil
	}
	return attribute(message[nl.SizeofNfgenmsg:], kind)
}

// parse reads an entry, if it is of TCP.
func parse(message []byte) (e entry, ok bool) {
	if len(message) < nl.SizeofNfgenmsg {
		return e, false
	}
	all := message[nl.SizeofNfgenmsg:]
	tcp := attribute(attribute(all, nl.CTA_PROTOINFO), nl.CTA_PROTOINFO_TCP)
	state := attribute(tcp, nl.CTA_PROTOINFO_TCP_STATE)
	timeout := attribute(all, nl.CTA_TIMEOUT)
	if len(state) != 1 || len(timeout) != 4 {
		return e, false
	}
	e = entry{raw: message, orig: tuple(attribute(all, nl.CTA_TUPLE_ORIG)),
		reply: tuple(attribute(all, nl.CTA_TUPLE_REPLY)), state: state[0], timeout: binary.BigEndian.Uint32(timeout)}
	for _, end := range []uint16{nl.CTA_PROTOINFO_TCP_FLAGS_ORIGINAL, nl.CTA_PROTOINFO_TCP_FLAGS_REPLY} {
		flags := attribute(tcp, end)
		e.strict = e.strict || len(flags) > 0 && flags[0]&liberal == 0
	}
	return e, true
}

func tuple(b []byte) Connection {
	ip, proto := attribute(b, nl.CTA_TUPLE_IP), attribute(b, nl.CTA_TUPLE_PROTO)
	at := func(v4, v6, port uint16) netip.AddrPort {
		b := attribute(ip, v4)
		if b == nil {
			b = attribute(ip, v6)
		}
		addr, _ := netip.AddrFromSlice(b) // no address is nobody's
		var n uint16
		if p := attribute(proto, port); len(p) == 2 {
			n = binary.BigEndian.Uint16(p)
		}
		return netip.AddrPortFrom(addr, n)
	}
	return Connection{at(nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC, nl.CTA_PROTO_SRC_PORT),
		at(nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST, nl.CTA_PROTO_DST_PORT)}
}
