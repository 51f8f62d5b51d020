package stamp

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

// seeds are packets of both directions and modes, and what is wrong with some.
func seeds(f *testing.F) {
	for _, k := range modes() {
		b := newBench(f, k)
		p := b.probe(SendOptions{Size: 300, ClassOfService: true, DirectMeasurement: true, TLVs: notice()})
		for _, in := range [][]byte{p, b.reflect(p), b.probe(SendOptions{}), p[:len(p)-1], p[:50],
			bytes.Repeat([]byte{0xff}, 200), nil} {
			f.Add(in, true)
			f.Add(in, false)
		}
	}
}

// FuzzReflector: whatever comes, the answer is as long as the packet, comes only
// when the packet's base authenticates, and no order that was not signed arrives.
func FuzzReflector(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte, auth bool) {
		k := Keys{}
		if auth {
			k = secret
		}
		b := newBench(t, k)
		key := newSigner(secret.Current)
		in = bytes.Clone(in) // seeds share memory
		before := bytes.Clone(in)
		out := b.reflect(in)
		if !bytes.Equal(in, before) {
			t.Error("the packet was changed")
		}
		if len(out) != 0 && len(out) != len(in) {
			t.Errorf("%d octets answered by %d", len(in), len(out))
		}
		if auth && len(out) > 0 && !key.checkBase(in) {
			t.Error("a forged packet was answered")
		}
		if auth && len(in) >= authBase { // as far as an attacker gets who can sign bases only
			TestPacket{Seq: 1, Time: NTP.Encode(b.now), SSID: 1}.Put(Authenticated, in)
			key.signBase(in)
			b.tlvs = nil
			out := b.reflect(in)
			if st := inspect(in, Authenticated, key, toReflector, site{}); len(b.tlvs) > 0 && !st.bound {
				t.Error("an order was taken that is not bound")
			}
			if len(out) != len(in) || !key.checkBase(out) {
				t.Fatalf("not answered well: %x, %+v", out, b.r.Counters())
			}
			st := inspect(out, Authenticated, key, toSender, site{})
			if p, err := ParseTLVs(nil, out[authBase:]); st.intact && err == nil {
				for _, x := range p {
					if x.Flags&FlagIntegrity != 0 {
						t.Error("an integrity flag was signed")
					}
				}
			}
		}
	})
}

// FuzzSender: whatever comes, no reply is made of it unless it answers.
func FuzzSender(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte, auth bool) {
		k := Keys{}
		if auth {
			k = secret
		}
		b := newBench(t, k)
		b.probe(SendOptions{})
		in = bytes.Clone(in) // seeds share memory
		before := bytes.Clone(in)
		r := b.deliver(in)
		if r != nil {
			p, err := ParseReflected(b.s.mode, in)
			if err != nil || p.Sender.Time != b.sent.Time || auth && !newSigner(secret.Current).checkBase(in) &&
				!newSigner(secret.Previous[0]).checkBase(in) {
				t.Errorf("accepted %x as %+v", in, r)
			}
		}
		if !bytes.Equal(in, before) {
			t.Error("the packet was changed")
		}
		if r != nil { // the probe is answered, and nothing else answers it
			if r := b.deliver(in); r != nil {
				t.Errorf("%x was accepted twice", in)
			}
			return
		}
		if len(in) >= b.s.mode.Base() { // as if it answered
			ReflectedPacket{SSID: b.sent.SSID, Sender: b.sent, Time: NTP.Encode(b.now), Received: NTP.Encode(b.now)}.Put(
				b.s.mode, in)
			if auth {
				newSigner(secret.Current).signBase(in)
			}
			if r := b.deliver(in); r == nil || auth && len(r.TLVs) > 0 && !inspect(in, Authenticated, newSigner(secret.Current),
				toSender, site{}).bound {
				t.Errorf("%x made %+v", in, r)
			}
		}
	})
}

// FuzzControl: control messages come from the kernel, but are parsed by offsets.
func FuzzControl(f *testing.F) {
	oob := appendSource(appendTOS(nil, netip.MustParseAddr("192.0.2.1"), 7), netip.MustParseAddr("192.0.2.1"))
	f.Add(appendSource(appendTOS(oob, netip.MustParseAddr("::1"), 7), netip.MustParseAddr("::1")))
	f.Add(oob[:20])
	f.Fuzz(func(t *testing.T, oob []byte) {
		if a := readAncillary(oob); a.ttl > 255 || a.tos > 255 {
			t.Errorf("%+v", a)
		}
		_ = received(readAncillary(oob), time.Unix(0, 0))
	})
}
