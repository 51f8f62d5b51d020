package impair

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// packet is what a frame of a test holds.
type packet struct {
	six        bool
	protocol   uint8
	from, to   uint16
	length     uint16
	fragment   uint16 // offset in units of eight bytes
	options    int    // words of four bytes
	dot1q, arp bool
}

func (p packet) frame() []byte {
	const room = 2000
	out := make([]byte, 14, room)
	if p.dot1q {
		return binary.BigEndian.AppendUint16(out[:12], unix.ETH_P_8021Q)[:64]
	}
	if p.arp {
		return binary.BigEndian.AppendUint16(out[:12], unix.ETH_P_ARP)[:42]
	}
	header := 20 + 4*p.options
	if p.six {
		header = 40
	}
	out = out[:14+header+4+int(max(p.length, 100))]
	ip := out[14:]
	if p.six {
		binary.BigEndian.PutUint16(out[12:], unix.ETH_P_IPV6)
		ip[0], ip[6] = 6<<4, p.protocol
		binary.BigEndian.PutUint16(ip[4:], p.length-40)
	} else {
		binary.BigEndian.PutUint16(out[12:], unix.ETH_P_IP)
		ip[0], ip[9] = 4<<4|uint8(header/4), p.protocol
		binary.BigEndian.PutUint16(ip[2:], p.length)
		binary.BigEndian.PutUint16(ip[6:], p.fragment)
	}
	binary.BigEndian.PutUint16(ip[header:], p.from)
	binary.BigEndian.PutUint16(ip[header+2:], p.to)
	return out
}

// TestOnlyThesePackets runs the program on packets: the kernel has its last word on each.
func TestOnlyThesePackets(t *testing.T) {
	tcp := packet{protocol: unix.IPPROTO_TCP, from: 40000, to: 443, length: 600}
	udp := packet{protocol: unix.IPPROTO_UDP, from: 53, to: 40000, length: 100}
	ping := packet{protocol: unix.IPPROTO_ICMP, from: 443, to: 443, length: 84}
	in6 := func(p packet) packet { p.six = true; return p }
	ping6 := in6(ping)
	ping6.protocol = unix.IPPROTO_ICMPV6
	back, options, later := tcp, tcp, tcp
	back.from, back.to = tcp.to, tcp.from
	options.options, later.fragment = 5, 100
	const redirected = 7 // TC_ACT_REDIRECT of linux/pkt_cls.h: to nowhere
	for text, tt := range map[string]struct{ lost, passed []packet }{
		"": {lost: []packet{tcp, udp, ping, ping6, {arp: true}, {dot1q: true}}},
		"tcp": {[]packet{tcp, back, options, later, in6(tcp)},
			[]packet{udp, ping, in6(udp), {arp: true}, {dot1q: true}}},
		"udp":  {[]packet{udp, in6(udp)}, []packet{tcp, ping, ping6}},
		"icmp": {[]packet{ping, ping6}, []packet{tcp, udp, in6(udp)}},
		"tcp:443": {[]packet{tcp, back, options, in6(tcp), in6(back)},
			[]packet{later, udp, ping, {protocol: unix.IPPROTO_TCP, from: 444, to: 1}}},
		"udp:53":     {[]packet{udp, in6(udp)}, []packet{tcp, {protocol: unix.IPPROTO_UDP, from: 54, to: 55}}},
		"above:599":  {[]packet{tcp, in6(tcp)}, []packet{udp, in6(udp), ping, {arp: true}}},
		"above:600":  {passed: []packet{tcp, in6(tcp), udp}},
		"above:1500": {[]packet{{protocol: unix.IPPROTO_TCP, length: 1501}}, []packet{tcp}},
	} {
		o, err := ParseOnly(text)
		if err != nil || o.String() != text {
			t.Errorf("%q: read as %q, %v", text, o, err)
		}
		for dir, drop := range map[way]uint32{outOfPod: tcxDrop, intoPod: redirected} {
			prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
				Instructions: dropping(1, o, wire{}, dir)})
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			defer prog.Close()
			next := int32(tcxNext)
			for want, packets := range map[uint32][]packet{drop: tt.lost, uint32(next): tt.passed} {
				for _, p := range packets {
					if got, _, err := prog.Test(p.frame()); err != nil || got != want {
						t.Errorf("%q, %s: %+v: verdict %d, %v, want %d", text, dir, p, int32(got), err, int32(want))
					}
				}
			}
		}
	}
}

func TestOnlyIsWritten(t *testing.T) {
	for _, text := range []string{"", "tcp", "udp", "icmp", "tcp:443", "udp:53", "above:1000"} {
		o, err := ParseOnly(text)
		if err != nil {
			t.Error(err)
		}
		raw, err := json.Marshal(Impairment{DropIngress: true, Only: o})
		var back Impairment
		if err != nil || json.Unmarshal(raw, &back) != nil || back.Only != o {
			t.Errorf("%q: written as %s, read as %q, %v", text, raw, back.Only, err)
		}
	}
	for _, text := range []string{"tcp:", "tcp:0", "tcp:65536", "icmp:1", "above", "above:0", "above:x", "sctp", "TCP",
		":", "443"} {
		if o, err := ParseOnly(text); err == nil {
			t.Errorf("%q: accepted as %q", text, o)
		}
	}
	if err := (Impairment{Rate: 1e6, Only: Only{Protocol: "tcp"}}).Check(); err == nil {
		t.Error("packets are chosen, and none is lost")
	}
}

func FuzzOnly(f *testing.F) {
	f.Add("tcp:443")
	f.Add("above:1000")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOnly(text)
		if err != nil {
			return
		}
		if again, err := ParseOnly(o.String()); err != nil || again != o {
			t.Errorf("%q: read as %q, and that as %q, %v", text, o, again, err)
		}
	})
}
