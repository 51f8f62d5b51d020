package dataplane

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Actors beyond the pair: neighbour is a pod on all networks without a data plane,
// segment a namespace on network 1's bridge that is no pod.
const neighbour, segment = 3, 4

// strangers adds them to the bed.
func (b *bed) strangers() {
	b.t.Helper()
	for _, name := range []string{"-n", "-s"} {
		ns := b.prefix + name
		if err := netns.Create(ns); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			if err := netns.Delete(ns); err != nil {
				b.t.Error(err)
			}
		})
		b.pods = append(b.pods, ns)
	}
	for n := range b.mtu {
		b.plug(neighbour, n, b.mtu[n])
	}
	b.plug(segment, 1, b.mtu[1])
}

// gun sends frames of one's own making from a pod's interface.
type gun struct {
	fd int
	to unix.SockaddrLinklayer
	// frame begins each: the destination's and the source's address.
	frame []byte
}

// gun opens an AF_PACKET socket (CAP_NET_RAW) that claims to be pod as and sends to pod to:
// on a bridge by their own addresses, elsewhere by the router. bypass leaves out the
// queueing discipline, and with it the hooks on egress.
func (b *bed) gun(actor int, dev string, as, to int, bypass bool) *gun {
	b.t.Helper()
	g := &gun{fd: -1}
	hop, src := b.mac(to, dev), b.mac(as, dev)
	if dev != "net1" {
		hop, src = b.mac(0, fmt.Sprintf("p%dn%s", actor, map[string]string{"eth0": "0", "net2": "2"}[dev])), b.mac(actor, dev)
	}
	g.frame = slices.Concat([]byte(hop), []byte(src))
	if err := netns.Do(b.pods[actor], func() (err error) {
		g.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	if bypass {
		if err := unix.SetsockoptInt(g.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
			b.t.Fatal(err)
		}
	}
	g.to = unix.SockaddrLinklayer{Ifindex: b.index(actor, dev)}
	b.t.Cleanup(func() { unix.Close(g.fd) })
	return g
}

// fire sends an IP packet. A full queue drops it, as a switch would.
func (g *gun) fire(t testing.TB, packet []byte) {
	proto := []byte{8, 0}
	if packet[0]>>4 == 6 {
		proto = []byte{0x86, 0xdd}
	}
	err := unix.Sendto(g.fd, slices.Concat(g.frame, proto, packet), 0, &g.to)
	if err != nil && err != unix.ENOBUFS {
		t.Fatal(err)
	}
}

// ip4 is an IPv4 packet; frag is its flags and offset.
func ip4(src, dst string, tos byte, id, frag uint16, proto byte, payload []byte) []byte {
	p := make([]byte, 20, 20+len(payload))
	p[0], p[1], p[8], p[9] = 0x45, tos, 64, proto
	binary.BigEndian.PutUint16(p[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(p[4:], id)
	binary.BigEndian.PutUint16(p[6:], frag)
	copy(p[12:], netip.MustParseAddr(src).AsSlice())
	copy(p[16:], netip.MustParseAddr(dst).AsSlice())
	binary.BigEndian.PutUint16(p[10:], ^sum16(p))
	return append(p, payload...)
}

// ip6 is an IPv6 packet with a flow label.
func ip6(src, dst string, class byte, label uint32, proto byte, payload []byte) []byte {
	p := make([]byte, 40, 40+len(payload))
	binary.BigEndian.PutUint32(p, 6<<28|uint32(class)<<20|label)
	binary.BigEndian.PutUint16(p[4:], uint16(len(payload)))
	p[6], p[7] = proto, 64
	copy(p[8:], netip.MustParseAddr(src).AsSlice())
	copy(p[24:], netip.MustParseAddr(dst).AsSlice())
	return append(p, payload...)
}

// l4 is a transport's packet, its checksum right for that pair of addresses. flags are
// TCP's; for ICMP sport is the identifier.
func l4(proto byte, from, to string, sport, dport uint16, flags byte, payload string) []byte {
	var p []byte
	at := 0
	switch proto {
	case unix.IPPROTO_TCP:
		p, at = make([]byte, 20), 16
		binary.BigEndian.PutUint32(p[4:], 12345)
		binary.BigEndian.PutUint32(p[8:], 54321)
		p[12], p[13], p[14] = 5<<4, flags, 0xff
	case unix.IPPROTO_UDP:
		p, at = make([]byte, 8), 6
		binary.BigEndian.PutUint16(p[4:], uint16(8+len(payload)))
	default:
		p, at = []byte{8, 0, 0, 0, byte(sport >> 8), byte(sport), 0, 1}, 2
		if proto == unix.IPPROTO_ICMPV6 {
			p[0] = 128
		}
	}
	if proto == unix.IPPROTO_TCP || proto == unix.IPPROTO_UDP {
		binary.BigEndian.PutUint16(p, sport)
		binary.BigEndian.PutUint16(p[2:], dport)
	}
	p = append(p, payload...)
	var pseudo []byte
	if proto != unix.IPPROTO_ICMP {
		pseudo = slices.Concat(netip.MustParseAddr(from).AsSlice(), netip.MustParseAddr(to).AsSlice(),
			[]byte{0, proto, byte(len(p) >> 8), byte(len(p))})
	}
	binary.BigEndian.PutUint16(p[at:], ^sum16(append(pseudo, p...)))
	return p
}

// standing is what nobody but the two agents may change, and what has come into a pod.
type standing struct {
	own, follow [Buckets]Choice
	flows       map[bpfFlow]uint8
	last        [3]Tally
}

func (b *bed) standing(pod int) (s standing) {
	b.t.Helper()
	p, uid := b.planes[pod], fmt.Sprintf("pod-%d", 3-pod)
	var err error
	if s.own, err = p.Choices(uid); err == nil {
		s.follow, err = p.Followed(uid)
	}
	s.flows = map[bpfFlow]uint8{}
	for k, v := range p.flows(b.t) {
		s.flows[k] = v.Role
	}
	for path := range s.last {
		if err == nil {
			_, s.last[path], err = p.Tallies(uid, path)
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// unmoved fails the test where choices or parts are others than before.
func (b *bed) unmoved(what string, pod int, before standing) {
	b.t.Helper()
	now := b.standing(pod)
	if now.own != before.own || now.follow != before.follow {
		b.t.Errorf("%s: pod %d: choices have moved", what, pod)
	}
	if !maps.Equal(now.flows, before.flows) {
		b.t.Errorf("%s: pod %d: flows were %v and are %v", what, pod, before.flows, now.flows)
	}
}

// snmp is what a pod's stack has taken in, by protocol and name (/proc/net/snmp, snmp6).
func (b *bed) snmp(pod int) map[string]uint64 {
	b.t.Helper()
	out := map[string]uint64{}
	lines := strings.Split(b.run(pod, "cat", "/proc/net/snmp"), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		for j := 1; j < len(names); j++ {
			var n uint64
			_, _ = fmt.Sscan(values[j], &n) // a column may be negative
			out[names[0]+names[j]] = n
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(b.run(pod, "cat", "/proc/net/snmp6")), "\n") {
		var name string
		var n uint64
		_, _ = fmt.Sscan(line, &name, &n)
		out[name] = n
	}
	return out
}

// taken is how many packets got as far as a transport or a socket.
func (b *bed) taken(pod int) (n uint64) {
	b.t.Helper()
	s := b.snmp(pod)
	for _, name := range []string{"Tcp:InSegs", "Udp:InDatagrams", "Udp:NoPorts", "Udp:InErrors", "Icmp:InMsgs",
		"Udp6InDatagrams", "Udp6NoPorts", "Udp6InErrors", "Icmp6InEchos", "Icmp6InPktTooBigs"} {
		v, ok := s[name]
		if !ok {
			b.t.Fatalf("the kernel does not count %s", name)
		}
		n += v
	}
	return n
}
