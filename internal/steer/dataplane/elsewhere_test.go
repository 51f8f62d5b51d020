package dataplane

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// begin tells a pod's plane where flows with the other pod may begin.
func (b *bed) begin(pod int, where Beginnings) {
	b.t.Helper()
	if err := b.planes[pod].Begin(fmt.Sprintf("pod-%d", 3-pod), where); err != nil {
		b.t.Fatal(err)
	}
}

// TestOpenElsewhere: while the default network fails, a flow begins on the path where its
// bucket is if both ends allow it, whichever opens it and on whatever path it is answered, and
// goes on over the default network once that is back.
func TestOpenElsewhere(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"4", "6"} {
		for _, network := range []string{"tcp", "udp"} {
			for _, pod := range []int{1, 2} {
				for _, encap := range []bool{false, true} {
					if encap && family == "6" {
						continue // encapsulation is for IPv4 alone
					}
					t.Run(fmt.Sprintf("%s%s opened by pod %d, encapsulated %v", network, family, pod, encap), func(t *testing.T) {
						b := newBed(t)
						b.encap = encap
						openElsewhere(b, network+family, pod)
					})
				}
			}
		}
	}
}

func openElsewhere(b *bed, network string, pod int) {
	b.open(1)
	b.open(2)
	b.carry(false)
	b.move(pod, 2)
	for _, end := range []int{1, 2} {
		b.begin(end, Elsewhere)
	}
	format := "10.90.%d.2:7001"
	if network[3] == '6' {
		format = "[fd90:%d::2]:7001"
	}
	at := fmt.Sprintf(format, 3-pod)
	conn := b.echoFrom(pod, network, at, at)
	for range 3 {
		if err := exchange(conn, "begun elsewhere"); err != nil {
			b.t.Fatal(err)
		}
	}
	if n := b.planes[pod].Events().Elsewhere; n == 0 {
		b.t.Error("no packet is counted that opened a flow on a path")
	}
	near, far := ports(conn)
	proto := map[byte]uint8{'t': 6, 'u': 17}[network[0]]
	if c, s := b.role(pod, near, far, proto), b.role(3-pod, far, near, proto); c != roleOwner || s != roleFollow {
		b.t.Errorf("roles %d of the opener and %d of the other end, expected %d and %d", c, s, roleOwner, roleFollow)
	}
	b.carry(true)
	for _, end := range []int{1, 2} {
		b.begin(end, AtHome)
	}
	b.move(pod, 0)
	for range 3 {
		if err := exchange(conn, "on the default network"); err != nil {
			b.t.Fatal(err)
		}
	}
}

// carry has the default network carry packets between the pods, or drop them without a word.
func (b *bed) carry(so bool) {
	b.t.Helper()
	for _, family := range []string{"ipv4", "ipv6"} {
		for pod := 1; pod <= 2; pod++ {
			b.run(0, "sysctl", "-qw", fmt.Sprintf("net.%s.conf.p%dn0.forwarding=%d", family, pod, either(so, 1, 0)))
		}
	}
}

// TestOpenElsewhereNeedsBoth: a path opens nothing that one of the two ends does not allow, nor
// where no agent lives, and what is refused harms no flow that there is.
func TestOpenElsewhereNeedsBoth(t *testing.T) {
	t.Parallel()
	for name, who := range map[string][]int{"nobody": nil, "the opener alone": {1}, "the other end alone": {2}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.open(1)
			b.open(2)
			before := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
			if err := exchange(before, "on the default network"); err != nil {
				t.Fatal(err)
			}
			b.move(1, 2)
			b.carry(false)
			for _, pod := range who {
				b.begin(pod, Elsewhere)
			}
			b.serve(2, "tcp", "10.90.2.2:7002")
			if conn, err := b.dial(1, "tcp", "10.90.2.2:7002", option{value: 1500 * time.Millisecond}); err == nil {
				conn.Close()
				t.Error("a connection has begun on a path")
			}
			if err := exchange(before, "moved away"); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("without an agent", func(t *testing.T) {
		b := newBed(t)
		b.lease = 500 * time.Millisecond
		b.open(1)
		b.open(2)
		b.move(1, 2)
		b.begin(1, Elsewhere)
		b.begin(2, Elsewhere)
		b.carry(false)
		b.serve(2, "tcp", "10.90.2.2:7002")
		time.Sleep(time.Second) // nobody renews the lease
		if conn, err := b.dial(1, "tcp", "10.90.2.2:7002", option{value: 1500 * time.Millisecond}); err == nil {
			conn.Close()
			t.Error("a connection has begun on a path without an agent")
		}
	})
}

// TestBeginsAsOneEndIsBack: the default network is back, and one of the two ends knows it already. What the other one
// begins on a path is taken, and so are its answers.
func TestBeginsAsOneEndIsBack(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp4", "udp4", "tcp6", "udp6"} {
		for _, back := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, pod %d is back", network, back), func(t *testing.T) {
				b := newBed(t)
				b.open(1)
				b.open(2)
				for pod := 1; pod <= 2; pod++ {
					b.move(pod, 2)
					b.begin(pod, Elsewhere)
				}
				b.begin(back, TakenElsewhere)
				at := map[byte]string{'4': "10.90.2.2:7001", '6': "[fd90:2::2]:7001"}[network[3]]
				conn := b.echoFrom(1, network, at, at)
				for range 3 {
					if err := exchange(conn, "begun as one end is back"); err != nil {
						t.Fatal(err)
					}
				}
				for pod := 1; pod <= 2; pod++ {
					if n := b.planes[pod].Events().Unadmitted; n != 0 {
						t.Errorf("pod %d has refused %d packets", pod, n)
					}
				}
			})
		}
	}
}

// TestAskedForIsReported: a pod whose link address is asked for is reported to the agent, as no packet to
// it gets to the programs where nobody answers; and what is no such question is not.
func TestAskedForIsReported(t *testing.T) {
	b := newBed(t)
	p := b.open(1)
	v4, v6 := netip.MustParseAddr("10.90.77.2"), netip.MustParseAddr("fd90:77::2")
	p.SetCandidates(NewCandidates(slices.Values([]netip.Addr{v4, v6})))
	eth := append(bytes.Repeat([]byte{0xff}, 12), 0x08, 0x06)
	arp := func(op byte) []byte {
		out := append(bytes.Clone(eth), 0, 1, 8, 0, 6, 4, 0, op)
		out = append(out, make([]byte, 16)...)
		return append(out, v4.AsSlice()...)
	}
	solicit := func(kind byte) []byte {
		eth[12], eth[13] = 0x86, 0xdd
		out := append(bytes.Clone(eth), 0x60, 0, 0, 0, 0, 24, 58, 255)
		for _, a := range []string{"fd90:1::2", "ff02::1:ff00:2"} {
			out = append(out, netip.MustParseAddr(a).AsSlice()...)
		}
		return append(append(out, kind, 0, 0, 0, 0, 0, 0, 0), v6.AsSlice()...)
	}
	for _, c := range []struct {
		name  string
		frame []byte
		want  []netip.Addr
	}{
		{"ARP request", arp(1), []netip.Addr{v4}},
		{"ARP reply", arp(2), nil},
		{"cut short", arp(1)[:40], nil},
		{"neighbour solicitation", solicit(135), []netip.Addr{v6}},
		{"neighbour advertisement", solicit(136), nil},
	} {
		verdict, err := p.objs.PwEgress.Run(&ebpf.RunOptions{Data: c.frame, DataOut: make([]byte, 256)})
		if err != nil || verdict != verdictNext {
			t.Errorf("%s: verdict %d, %v", c.name, int32(verdict), err)
		}
		if got := p.Misses(); !slices.Equal(got, c.want) {
			t.Errorf("%s: told of %v, expected %v", c.name, got, c.want)
		}
	}
}
