package dataplane

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// BenchmarkPass is what a pass through each program takes, as the kernel times one
// run (BPF_PROG_TEST_RUN): medians, with the clock's own share, which "stranger"
// shows best, and with caches as a system call leaves them. In place a pass takes
// longer, as more has used the caches in between: see BenchmarkRoundTrip. It tells
// variants of the programs apart also where a busy machine hides the round trips'
// difference. Unlike in place, egress reads the clock each time. Packets are TCP over
// IPv4 with timestamps and a byte of data, but for one datagram.
func BenchmarkPass(b *testing.B) {
	p := benchPlane(b, 1)
	peer := benchPeer(0)
	stable, path := peer.Pairs[0], peer.Paths[0].Pairs[0]
	const owner, follower = roleOwner, roleFollow
	passes := []struct {
		name   string
		prog   *ebpf.Program
		path   int
		role   uint8
		packet []byte
		want   uint32
	}{
		{"stranger", p.objs.PwEgress, 0, owner, tcp(stable.Local, stable.Local, 0), verdictNext},
		{"egress-default", p.objs.PwEgress, 0, owner, tcp(stable.Local, stable.Remote, 0), verdictNext},
		{"ingress-default", p.objs.PwIngress, 0, owner, tcp(stable.Remote, stable.Local, 0), verdictNext},
		{"egress-steered", p.objs.PwEgress, 1, owner, tcp(stable.Local, stable.Remote, 0), verdictRedirect},
		{"egress-datagram", p.objs.PwEgress, 1, owner, udp(stable.Local, stable.Remote, 0, 7000, 7001), verdictRedirect},
		{"path_ingress-owned", p.objs.PwPathIngress, 1, owner,
			steered(tcp(path.Remote, path.Local, markTOS), keyOf(1), sayData, false), verdictNext},
		{"path_ingress-followed", p.objs.PwPathIngress, 1, follower,
			steered(tcp(path.Remote, path.Local, markTOS), keyOf(1), sayData, false), verdictNext},
	}
	took := make([][]float64, len(passes))
	for b.Loop() {
		for i, pass := range passes {
			if _, err := p.Switch(peer.UID, All, pass.path); err != nil {
				b.Fatal(err)
			}
			p.put4(b, peer.UID, 7000, 7001, 6, pass.role)
			p.put4(b, peer.UID, 7000, 7001, 17, pass.role)
			p.RenewLease()
			err := netns.Do(p.cfg.Netns, func() error {
				for range 20_000 {
					ret, ns, err := pass.prog.Benchmark(pass.packet, 1, nil)
					if err != nil || ret != pass.want {
						return fmt.Errorf("%s returned %d: %v", pass.name, int32(ret), err)
					}
					took[i] = append(took[i], float64(ns))
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for i, pass := range passes {
		report(b, pass.name, took[i])
	}
	if e := p.Events(); e != (Events{}) {
		b.Errorf("%+v", e)
	}
}

// tcp is a packet of an established connection.
func tcp(src, dst netip.Addr, tos byte) []byte {
	const headers, options = 14 + 20, 12
	p := make([]byte, headers+20+options+1)
	p[12], p[13] = 8, 0
	ip := p[14:]
	ip[0], ip[1], ip[8], ip[9] = 0x45, tos, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], src.AsSlice())
	copy(ip[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], ^sum16(ip[:20]))
	from, to := uint16(7000), uint16(7001)
	if tos != 0 || dst == netip.MustParseAddr("10.90.1.2") {
		from, to = to, from
	}
	binary.BigEndian.PutUint16(ip[20:], from)
	binary.BigEndian.PutUint16(ip[22:], to)
	ip[32], ip[33] = (20+options)/4<<4, 0x18
	return p
}
