package stamp

import (
	"net/netip"
	"testing"
	"time"
)

// TestCodecAllocatesNothing: what runs for every packet leaves the collector
// alone.
func TestCodecAllocatesNothing(t *testing.T) {
	b := newBench(t, secret)
	probe := b.probe(SendOptions{Size: 300, ClassOfService: true})
	var p [authBase]byte
	tlvs := make([]TLV, 0, 8)
	key := newSigner(secret.Current)
	if n := testing.AllocsPerRun(100, func() {
		ReflectedPacket{Seq: 1}.Put(Authenticated, p[:])
		key.signBase(p[:])
		_, _ = ParseTest(Authenticated, probe)
		_, _ = ParseReflected(Authenticated, p[:])
		tlvs, _ = ParseTLVs(tlvs[:0], probe[authBase:])
		inspect(probe, Authenticated, key, toReflector, site{})
		_, _ = NTP.Decode(NTP.Encode(b.now), b.now)
	}); n != 0 {
		t.Errorf("codec: %v allocations a packet", n)
	}
	seq := uint32(100)
	if n := testing.AllocsPerRun(100, func() {
		seq++
		TestPacket{Seq: seq, Time: NTP.Encode(b.now), SSID: 7}.Put(Authenticated, probe)
		key.signBase(probe)
		if out, _ := b.r.reflect(probe, ancillary{}, b.from); out == nil {
			t.Fatalf("not answered: %+v", b.r.Counters())
		}
	}); n != 0 {
		t.Errorf("reflector: %v allocations a packet", n)
	}
}

func BenchmarkReflect(b *testing.B) {
	r, err := NewReflector(nil, ReflectorConfig{Keys: secret})
	if err != nil {
		b.Fatal(err)
	}
	key, p, from := newSigner(secret.Current), make([]byte, 172), netip.MustParseAddrPort("192.0.2.1:1")
	seq := uint32(0)
	for b.Loop() {
		TestPacket{Seq: seq, Time: NTP.Encode(time.Now()), SSID: 1}.Put(Authenticated, p)
		key.signBase(p)
		if out, _ := r.reflect(p, ancillary{}, from); out == nil {
			b.Fatal(r.Counters())
		}
		seq++
	}
}
