package dataplane

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// benchPlane is a plane with n peers, each on two paths.
func benchPlane(b testing.TB, n int) *Plane {
	b.Helper()
	bed := newBed(b)
	cfg := bed.config(1)
	cfg.Peers = 0
	cfg.Dev = "lo" // where a test run's packets are, in place of eth0 and of net1
	p, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Remove(); err != nil {
			b.Error(err)
		}
	})
	p.devs["net1"] = &net.Interface{Index: 1, Name: "net1"}
	for i := range n {
		if err := p.SetPeer(benchPeer(i)); err != nil {
			b.Fatal(err)
		}
	}
	return p
}

func benchPeer(i int) Peer {
	at := func(net, host byte) netip.Addr { return netip.AddrFrom4([4]byte{10, net, byte(i >> 8), host}) }
	remote := func(net byte) netip.Addr { return netip.AddrFrom4([4]byte{10, net, byte(i >> 8), byte(i)}) }
	return Peer{UID: fmt.Sprint("peer-", i), Pairs: []Pair{{netip.MustParseAddr("10.90.1.2"), remote(100)}}, Paths: []Path{
		{Index: 1, Dev: "net1", MTU: 1450, Keys: keysOf(1),
			Pairs: []Pair{{netip.AddrFrom4([4]byte{10, 91, 0, 1}), remote(101)}}},
		{Index: 2, Dev: "net2", MTU: 9000, Pairs: []Pair{{at(92, 2), remote(102)}}},
	}}
}

// udp is a packet of 64 bytes of payload.
func udp(src, dst netip.Addr, tos byte, sport, dport uint16) []byte {
	p := make([]byte, 14+28+64)
	p[12], p[13] = 8, 0
	ip := p[14:]
	ip[0], ip[1], ip[8], ip[9] = 0x45, tos, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], src.AsSlice())
	copy(ip[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], ^sum16(ip[:20]))
	binary.BigEndian.PutUint16(ip[20:], sport)
	binary.BigEndian.PutUint16(ip[22:], dport)
	binary.BigEndian.PutUint16(ip[24:], uint16(len(ip)-20))
	ip[26] = 1
	return p
}

// BenchmarkSwitch moves all flows of a pair.
func BenchmarkSwitch(b *testing.B) {
	p := benchPlane(b, 1)
	const rounds = 10_000
	for b.Loop() {
		took := make([]float64, rounds)
		for i := range took {
			begin := time.Now()
			if _, err := p.Switch("peer-0", All, 1+i%2); err != nil {
				b.Fatal(err)
			}
			took[i] = float64(time.Since(begin))
		}
		report(b, "switch", took)
	}
}

func report(b *testing.B, what string, ns []float64) {
	slices.Sort(ns)
	b.ReportMetric(ns[len(ns)/2], what+"-median-ns")
	b.ReportMetric(ns[len(ns)*99/100], what+"-p99-ns")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPeers times one run of the programs as the kernel does
// (BPF_PROG_TEST_RUN), with more and more peers entered. With "same", all packets
// are of one peer: what grows is the look-up. With "any", each is of a random
// one: that peers share the processor's cache is in it too. "stranger" is a
// packet of no peer: a look-up that finds nothing, with the clock's own share.
func BenchmarkPeers(b *testing.B) {
	for i := range 8 {
		n, any := []int{1, 10, 100, 1000}[i/2], i%2 == 1
		b.Run(fmt.Sprint(n, either(any, "any", "same")), func(b *testing.B) {
			p := benchPlane(b, n)
			me := netip.MustParseAddr("10.90.1.2")
			for i := range n {
				uid := benchPeer(i).UID
				if _, err := p.Switch(uid, All, 1); err != nil {
					b.Fatal(err)
				}
				p.put4(b, uid, 7000, 7001, 17, roleOwner)
			}
			one := func(prog *ebpf.Program, packet []byte, want uint32) float64 {
				ret, took, err := prog.Benchmark(packet, 1, nil)
				if err != nil || ret != want {
					b.Fatalf("returned %d: %v", int32(ret), err)
				}
				return float64(took)
			}
			out, in, stranger := make([]float64, 20_000), make([]float64, 20_000), make([]float64, 20_000)
			for b.Loop() {
				err := netns.Do(p.cfg.Netns, func() error {
					for i := range out {
						peer := benchPeer(n / 2)
						if any {
							peer = benchPeer(rand.IntN(n))
						}
						pair := peer.Paths[0].Pairs[0]
						out[i] = one(p.objs.PwEgress, udp(me, peer.Pairs[0].Remote, 0, 7000, 7001), verdictRedirect)
						in[i] = one(p.objs.PwPathIngress, steered(udp(pair.Remote, pair.Local, 0, 7001, 7000), keyOf(1), sayData, false),
							verdictNext)
						stranger[i] = one(p.objs.PwEgress, udp(me, me, 0, 7000, 7001), verdictNext)
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			p.RenewLease()
			report(b, "egress", out)
			report(b, "path_ingress", in)
			report(b, "stranger", stranger)
			if e := p.Events(); e != (Events{}) {
				b.Errorf("%+v", e)
			}
		})
	}
}
