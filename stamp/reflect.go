package stamp

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
	p, why := r.admit(in, from, a, now)
	if why != 0 {
		r.count[why].Add(1)
		r.refused(p, from, now, why)
		return nil, 0
	}
	s, ses, st := p.key, p.session, p.tlvs
	ses.seen = now
	if p.fresh {
		ses.fresh = now
	} else if st.bound {
		r.refused(p, from, now, cStale)
	}
	ses.received++
	m := r.mode()
	out = r.out[:len(in)] // as long as the probe: RFC 8762, section 4.3
	copy(out, in)
	tos = uint8(max(a.tos, 0)) &^ 3 // the probe's DSCP, but no ECN: nothing here answers congestion marks

	if r.flag(out, m, st) {
		tos = r.answerTLVs(out, m, ses, from, a, tos, st.bound && p.fresh)
	}
	reply := ReflectedPacket{
		Seq: ses.sent, Error: r.self, SSID: p.test.SSID, Sender: p.test,
		Received: r.cfg.Format.Encode(received(a, now)), TTL: uint8(max(a.ttl, 0)),
	}
	ses.sent++
	reply.Time = r.cfg.Format.Encode(r.cfg.Now())
	reply.Put(m, out)
	if s == nil {
		return out, tos
	}
	if st.bound {
		copy(out[st.binding+tlvHead:], s.ofBinding(toSender, r.site(from, a), out, st.binding))
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
	return Unauthenticated
}

// refused tells of a packet that is refused for its key or its time.
func (r *Reflector) refused(p arrival, from netip.AddrPort, now time.Time, why int) {
	if r.cfg.OnRefused == nil {
		return
	}
	ahead := p.sent.Sub(now)
	switch {
	case why == cForged:
		r.cfg.OnRefused(Refusal{From: from, Key: true})
	case why == cStale && ahead.Abs() > r.cfg.Freshness: // or else it was sent before this began
		r.cfg.OnRefused(Refusal{From: from, Ahead: ahead})
	}
}

// site is what a packet came over.
func (r *Reflector) site(from netip.AddrPort, a ancillary) site {
	if a.dest.IsValid() {
		return site{r.cfg.Network, from.Addr(), plain(netip.AddrPortFrom(a.dest, 0)).Addr()}
	}
	return site{r.cfg.Network, from.Addr(), r.addr}
}

// arrival is a packet as far as it was understood.
type arrival struct {
	key     *signer
	test    TestPacket
	tlvs    tlvState
	session *session
	sent    time.Time // by its sender's clock
	fresh   bool
}

// admit checks a packet, cheapest first, and finds or opens its session. why is
// the counter of what is wrong with it, or zero. What is not for here leaves no
// trace: else a stranger who is faster could have the packet itself refused.
func (r *Reflector) admit(in []byte, from netip.AddrPort, a ancillary, now time.Time) (p arrival, why int) {
	m := r.mode()
	switch {
	case len(in) > r.cfg.MaxSize:
		return p, cOversized
	case len(in) < m.Base():
		return p, cShort
	case r.port != 0 && from.Port() == r.port:
		return p, cLoop
	}
	p.test, _ = ParseTest(m, in)
	k := sessionKey{from, p.test.SSID}
	if m == Unauthenticated {
		// A replay cannot be told from a probe that anyone could have made.
		if p.session = r.sessions.get(k); p.session == nil {
			p.session = r.sessions.add(k)
		}
		p.tlvs, p.fresh = inspect(in, m, nil, toReflector, site{}), true
		return p, 0
	}
	if p.key = r.keys.signedBy(in); p.key == nil {
		return p, cForged
	}
	p.tlvs = inspect(in, m, p.key, toReflector, r.site(from, a))
	if r.cfg.Network != "" && !p.tlvs.bound {
		return p, cElsewhere
	}
	var err error
	if p.sent, err = p.test.Error.Format().Decode(p.test.Time, now); err != nil {
		return p, cBadTime
	}
	if r.cfg.Replays.has(in, p.sent) {
		return p, cReplayed
	}
	ses, verdict := r.sessions.admit(k, p.test.Seq, p.sent, now, r.cfg.Freshness)
	switch {
	case verdict == stale:
		return p, cStale
	case verdict == replayed, !r.cfg.Replays.take(in, p.sent, now):
		return p, cReplayed
	}
	p.session, p.fresh = ses, p.sent.Sub(now).Abs() <= r.cfg.Freshness
	return p, 0
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
func (r *Reflector) answerTLVs(out []byte, m Mode, ses *session, from netip.AddrPort, a ancillary, tos uint8,
	bound bool) uint8 {
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
			r.mu.Unlock() // the hook may ask for Counters or LastProbe
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
