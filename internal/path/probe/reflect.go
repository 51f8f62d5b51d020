package probe

import (
	"net/netip"
	"time"
)

// reflect makes the answer to one packet, and the DSCP and ECN to send it with.
// The answer is valid until the next call; it is nil where none is due.
func (r *Reflector) reflect(in []byte, a ancillary, sender netip.AddrPort) (out []byte, tos uint8) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[cReceived].Add(1)
	from, now := plain(sender), r.cfg.Now()
	s, test, ses, fresh, why := r.admit(in, from, now)
	if why != 0 {
		r.count[why].Add(1)
		return nil, 0
	}
	ses.seen = now
	ses.received++
	m := r.mode()
	out = r.out[:len(in)] // as long as the probe: RFC 8762, section 4.3
	copy(out, in)
	tos = uint8(max(a.tos, 0)) &^ 3 // the probe's DSCP, but no ECN: nothing here answers congestion marks

	st := inspect(in, m, s, toReflector)
	if r.flag(out, m, st) {
		tos = r.answerTLVs(out, m, ses, from, a, tos, st.bound && fresh)
	}
	reply := ReflectedPacket{
		Seq: ses.sent, Error: r.self, SSID: test.SSID, Sender: test,
		Received: r.cfg.Format.Encode(received(a, now)), TTL: uint8(max(a.ttl, 0)),
	}
	ses.sent++
	reply.Time = r.cfg.Format.Encode(r.cfg.Now())
	reply.Put(m, out)
	if s == nil {
		return out, tos
	}
	if st.bound {
		copy(out[st.binding+tlvHead:], s.ofBinding(toSender, out, st.binding))
	}
	// What did not authenticate is reflected but never signed: the signature
	// would make the TLVs good for a probe.
	if st.hmac != 0 && st.intact {
		copy(out[st.hmac+tlvHead:], s.ofTLVs(out, m.Base(), st.hmac))
	}
	s.signBase(out)
	return out, tos
}

func (r *Reflector) mode() Mode {
	if len(r.keys) > 0 {
		return Authenticated
	}
	return Open
}

// admit checks a packet, cheapest first, and finds or opens its session. why is
// the counter of what is wrong with it, or zero.
func (r *Reflector) admit(in []byte, from netip.AddrPort, now time.Time) (s *signer, t TestPacket, ses *session, fresh bool, why int) {
	m := r.mode()
	switch {
	case len(in) > r.cfg.MaxSize:
		return nil, t, nil, false, cOversized
	case len(in) < m.Base():
		return nil, t, nil, false, cShort
	case r.port != 0 && from.Port() == r.port:
		return nil, t, nil, false, cLoop
	}
	t, _ = ParseTest(m, in)
	k := sessionKey{from, t.SSID}
	if m == Open {
		// A replay cannot be told from a probe that anyone could have made.
		if ses = r.sessions.get(k); ses == nil {
			ses = r.sessions.add(k)
		}
		return nil, t, ses, true, 0
	}
	if s = r.keys.signedBy(in); s == nil {
		return nil, t, nil, false, cForged
	}
	sent, err := t.Error.Format().Decode(t.Time, now)
	if err != nil {
		return nil, t, nil, false, cBadTime
	}
	if r.recent.has(in, sent) {
		return nil, t, nil, false, cReplayed
	}
	ses, verdict := r.sessions.admit(k, t.Seq, sent, now, r.cfg.Freshness)
	switch verdict {
	case replayed:
		return nil, t, nil, false, cReplayed
	case stale:
		return nil, t, nil, false, cStale
	}
	r.recent.add(in, sent, now)
	return s, t, ses, sent.Sub(now).Abs() <= r.cfg.Freshness, 0
}

// received is when the packet came, by the kernel's clock if that is credible.
func received(a ancillary, now time.Time) time.Time {
	if lag := now.Round(0).Sub(a.at); !a.at.IsZero() && lag >= 0 && lag < 10*time.Second {
		return now.Add(-lag)
	}
	return now
}

// flag sets the flags of every reflected TLV as RFC 8972, section 4, says, and
// reports whether the TLVs may be acted on.
func (r *Reflector) flag(out []byte, m Mode, st tlvState) bool {
	set := func(t TLV, off int) {
		out[off] = 0
		if !st.intact {
			out[off] = FlagIntegrity
		}
		if !known(t.Type) && !(st.bound && (t.Type == TypeBinding || experimental(t.Type) && r.cfg.OnTLV != nil)) {
			out[off] |= FlagUnrecognized
		}
		if !wellFormed(t.Type, len(t.Value)) {
			out[off] |= FlagMalformed
			st.malformed = true
		}
	}
	for off := m.Base(); off < st.end; {
		t, next, _ := nextTLV(out, off)
		set(t, off)
		off = next
	}
	if st.end < len(out) && !zero(out[st.end:]) { // the one that does not fit
		out[st.end] = FlagMalformed
		if !st.intact {
			out[st.end] |= FlagIntegrity
		}
	}
	if !st.intact && (st.any || st.malformed) {
		r.count[cForgedTLV].Add(1)
	}
	if st.malformed {
		r.count[cBadTLV].Add(1)
	}
	return st.intact
}

// answerTLVs fills in what a reflector has to say, up to a malformed TLV.
func (r *Reflector) answerTLVs(out []byte, m Mode, ses *session, from netip.AddrPort, a ancillary, tos uint8, bound bool) uint8 {
	for off := m.Base(); ; {
		t, next, err := nextTLV(out, off)
		if err != nil || next == off || t.Flags&FlagMalformed != 0 {
			return tos
		}
		off = next
		switch {
		case t.Type == TypeClassOfService:
			tos = r.answerClass(t.Value, from, a, tos)
		case t.Type == TypeDirectMeasurement:
			d, _ := ParseDirectMeasurement(t.Value)
			d.ReflectorReceived, d.ReflectorSent = ses.received, ses.sent
			d.put(t.Value)
		case experimental(t.Type) && r.cfg.OnTLV != nil:
			if !bound {
				r.count[cUnbound].Add(1)
				continue
			}
			r.count[cDelivered].Add(1)
			r.mu.Unlock() // the hook may ask for Counters or Heard
			v := r.cfg.OnTLV(from, ses.key.ssid, t)
			r.mu.Lock()
			if v != nil {
				clear(t.Value[copy(t.Value, v):])
			}
		}
	}
}

// answerClass reports the class that came and chooses that of the answer: RFC
// 8972, section 4.4.
func (r *Reflector) answerClass(v []byte, from netip.AddrPort, a ancillary, tos uint8) uint8 {
	c, _ := ParseClassOfService(v)
	c.Received, c.ECN = uint8(max(a.tos, 0)>>2), uint8(max(a.tos, 0)&3)
	c.Refused = r.cfg.AllowDSCP != nil && !r.cfg.AllowDSCP(from, c.Reply)
	c.put(v)
	if c.Refused {
		return tos
	}
	return c.Reply << 2
}
