package dataplane

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/cilium/ebpf"
)

// What a tag says.
const (
	sayData      = uint8(bpfTagTAG_DATA)
	sayOpen      = uint8(bpfTagTAG_OPEN)
	sayAnswer    = uint8(bpfTagTAG_ANSWER)
	saySettled   = uint8(bpfTagTAG_SETTLED)
	sayForgotten = uint8(bpfTagTAG_FORGOTTEN)
)

// siphash13 is SipHash-1-3 of up to seven bytes.
func siphash13(k Key, m []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(k[:]), binary.LittleEndian.Uint64(k[8:])
	var block [8]byte
	copy(block[:7], m)
	block[7] = byte(len(m))
	w := binary.LittleEndian.Uint64(block[:])
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d, k0^0x6c7967656e657261, k1^0x7465646279746573
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	v3 ^= w
	round()
	v0 ^= w
	v2 ^= 0xff
	round()
	round()
	round()
	return v0 ^ v1 ^ v2 ^ v3
}

// TestSipHash holds it against vectors of Linux's hsiphash (lib/siphash_kunit.c: key 00
// to 0f, input 00 to the length less one).
func TestSipHash(t *testing.T) {
	var k Key
	for i := range k {
		k[i] = byte(i)
	}
	in := []byte{0, 1, 2, 3, 4, 5, 6}
	for n, want := range map[int]uint64{0: 0xabac0158050fc4dc, 1: 0xc9f49bf37d57ca93, 7: 0xd3927d989bb11140} {
		if got := siphash13(k, in[:n]); got != want {
			t.Errorf("%d octets: %#x, expected %#x", n, got, want)
		}
	}
}

// tagOf is the tag of a packet of a pair: lower is whether its sender has the lower
// stable address.
func tagOf(k Key, sport, dport uint16, proto, say uint8, lower bool) uint64 {
	tag := hashOf(k, sport, dport, proto, say, lower)
	for before := uint8(sayOpen); before < say; before++ {
		if alike(tag, tagOf(k, sport, dport, proto, before, lower)) {
			tag, before = tag+1, sayOpen-1
		}
	}
	return tag
}

// hashOf is the hash that a tag is made of.
func hashOf(k Key, sport, dport uint16, proto, say uint8, lower bool) uint64 {
	m := []byte{byte(sport), byte(sport >> 8), byte(dport), byte(dport >> 8), proto, say, 0}
	if lower {
		m[6] = 1
	}
	return siphash13(k, m)
}

// alike is whether one tag may be taken for the other where the DSCP is added to it.
func alike(a, b uint64) bool { return (a^b)&1023 == 0 }

// steered gives a packet of TCP or UDP over IPv4, as tcp and udp make them, the mark and
// the tag of one that a data plane has sent.
func steered(p []byte, k Key, say uint8, lower bool) []byte {
	ip := p[14:]
	sport, dport := binary.BigEndian.Uint16(ip[20:]), binary.BigEndian.Uint16(ip[22:])
	ip[1] = ip[1]&3 | markTOS
	binary.BigEndian.PutUint16(ip[4:], uint16(tagOf(k, sport, dport, ip[9], say, lower)))
	ip[6] |= 0x40
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^sum16(ip[:20]))
	return p
}

// markTOS is the traffic class of a steered packet whose application gave none.
const markTOS = 7 << 2

// keyOf is the bed's key for a network.
func keyOf(network int) Key {
	return DeriveKey([]byte("a test's cluster"), "pod-1", "pod-2", string(rune('0'+network)))
}

func keysOf(network int) Keys {
	return Keys{Send: keyOf(network), Accept: [4]Key{keyOf(network), keyOf(network)}}
}

// tableOf is the plane's table of flows.
func (p *Plane) tableOf(t testing.TB) (table *ebpf.Map) {
	t.Helper()
	if err := p.objs.PwFlows.Lookup(uint32(0), &table); err != nil {
		t.Fatal(err)
	}
	return table
}

// put4 enters a flow into the plane's table.
func (p *Plane) put4(t testing.TB, uid string, local, remote uint16, proto, role uint8) {
	t.Helper()
	p.putState(t, uid, local, remote, proto, bpfFlowState{Role: role, Seen: seenNow()})
}

// putState writes what is known of a flow.
func (p *Plane) putState(t testing.TB, uid string, local, remote uint16, proto uint8, v bpfFlowState) {
	t.Helper()
	table := p.tableOf(t)
	defer table.Close()
	key := bpfFlow{Peer: p.ids[uid], Generation: generation(uid), Local: local, Remote: remote, Proto: proto}
	if err := table.Put(key, v); err != nil {
		t.Fatal(err)
	}
}

// flows lists the plane's table.
func (p *Plane) flows(t testing.TB) map[bpfFlow]bpfFlowState {
	t.Helper()
	out := map[bpfFlow]bpfFlowState{}
	table := p.tableOf(t)
	defer table.Close()
	if err := each(table, func(k bpfFlow, v bpfFlowState) { out[k] = v }); err != nil {
		t.Fatal(err)
	}
	return out
}
