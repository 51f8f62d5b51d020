package stamp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Reply is a probe answered. Durations are of nanoseconds, as the kernel dates packets
// (SO_TIMESTAMPNS), but for NTP's fraction of the reflector's timestamps.
type Reply struct {
	From netip.AddrPort
	SSID uint16
	Seq  uint32
	Size int // octets of UDP payload
	// ReflectorSeq counts, from 0, what a stateful reflector sent; a stateless one copies
	// Seq.
	ReflectorSeq uint32
	SentAt, At   time.Time // At is when the kernel received it, if it tells
	// RTT is without ReflectorProcessing, the time between the reflector's
	// receiving and sending.
	RTT                 time.Duration
	ReflectorProcessing time.Duration
	// ForwardDelay and BackwardDelay are differences of two clocks' readings: they
	// mean what they say only if ClocksAgree. Their changes mean more.
	ForwardDelay, BackwardDelay time.Duration
	ClocksAgree                 bool // both ends say they are synchronised, or SameClock
	// DSCPSeen (0 to 63) and ECNSeen (0 to 3) are what arrived at the reflector, by the
	// CoS TLV, or -1. ReplyDSCP and ReplyTTL are what arrived here, or -1.
	DSCPSeen, ECNSeen, ReplyDSCP, ReplyTTL int
	// DSCPRefused says that the reflector did not use the wished ReplyDSCP.
	DSCPRefused bool
	TTL         uint8 // of the probe when it arrived at the reflector
	Direct      *DirectMeasurement
	// TLVs are those of experimental types that the reflector understood. In
	// authenticated mode they are bound to this very reply.
	TLVs []TLV
	// Late says that the probe was reported Lost before.
	Late bool
	// Key names the one that signed the reply, which its reflector therefore has.
	Key KeyID
}

// SenderCounters is what became of the packets that a Sender received.
type SenderCounters struct {
	Received  uint64
	Accepted  uint64 // of these, in time
	Late      uint64 // and after they had been reported lost
	Malformed uint64 // refused: too short, or with a timestamp that is none
	Forged    uint64 // refused: does not authenticate
	Unbound   uint64 // refused: not bound to this network and the addresses of both ends
	Unmatched uint64 // refused: answers no probe that is remembered
	Mismatch  uint64 // refused: answers one, but not with its timestamp
	Duplicate uint64 // refused: answers one that is answered
	BadTLV    uint64 // accepted without its TLVs: malformed, or marked so
	ForgedTLV uint64 // accepted without its TLVs: they do not authenticate, or did not at the reflector
	OddClock  uint64 // accepted, but the reflector's timestamps cannot be: its processing time counts as zero
	Lost      uint64 // probes
}

const (
	sReceived = iota
	sAccepted
	sLate
	sMalformed
	sForged
	sUnbound
	sUnmatched
	sMismatch
	sDuplicate
	sBadTLV
	sForgedTLV
	sOddClock
	sLost
	sentReasons
)

// Counters reads all counters; it may be called at any time.
func (s *Sender) Counters() SenderCounters {
	n := func(i int) uint64 { return s.count[i].Load() }
	return SenderCounters{
		Received: n(sReceived), Accepted: n(sAccepted), Late: n(sLate), Malformed: n(sMalformed),
		Forged: n(sForged), Unbound: n(sUnbound), Unmatched: n(sUnmatched), Mismatch: n(sMismatch), Duplicate: n(sDuplicate),
		BadTLV: n(sBadTLV), ForgedTLV: n(sForgedTLV), OddClock: n(sOddClock), Lost: n(sLost),
	}
}

// Run receives replies until ctx ends, which is no error. The socket stays open. It is to
// be called once at a time. The error is that of a socket that is of no more use.
func (s *Sender) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = s.conn.SetReadDeadline(time.Time{}) // that of a Run before
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	expired := make(chan struct{})
	go func() {
		defer close(expired)
		s.expire(ctx)
	}()
	var broken error
	err := s.raw.Read(func(fd uintptr) bool {
		for empty := false; !empty && broken == nil && ctx.Err() == nil; {
			_, empty, broken = s.drain(fd)
		}
		return broken != nil || ctx.Err() != nil
	})
	ended := ctx.Err() != nil
	cancel()
	<-expired
	if err := errors.Join(err, broken); !ended || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("receive replies: %w", err)
	}
	return nil
}

// Waiting reports whether the deadline of a probe is still to come.
func (s *Sender) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flights.due) > 0
}

// Drain receives all replies that have come, or the first 1024 packets of more, and says up to
// when that was ascertained. Who is about to judge by the absence of a reply calls it first:
// else a reply that lies in the socket, because this process was not scheduled,
// would look like one that never came.
func (s *Sender) Drain() (time.Time, error) {
	var at time.Time
	var err error
	cerr := s.raw.Control(func(fd uintptr) { at, _, err = s.drain(fd) })
	if err := errors.Join(cerr, err); err != nil {
		return at, fmt.Errorf("drain socket: %w", err)
	}
	return at, nil
}

// drainMost bounds what is received at once: somebody may send faster than it is read.
const drainMost = 1024

// drain reads until the socket is empty, or drainMost packets, and returns a time up to which all that had come was
// read: in that case when the last of them had, as the kernel dates it, or zero if it does not.
func (s *Sender) drain(fd uintptr) (at time.Time, empty bool, err error) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	for range drainMost {
		now := s.cfg.Now()
		in, oob, from, err := s.inbox.receive(int(fd))
		switch {
		case errors.Is(err, unix.EAGAIN):
			return now, true, nil
		case err != nil && passing(err):
			continue
		case err != nil:
			return now, false, os.NewSyscallError("recvmsg", err)
		}
		a := readAncillary(oob)
		at = a.at
		s.receive(in, a, from, s.cfg.Now())
	}
	return at, false, nil
}

// expire reports the probes whose deadlines pass.
func (s *Sender) expire(ctx context.Context) {
	const idle = time.Hour
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		s.mu.Lock()
		wait, now := idle, s.cfg.Now()
		if len(s.flights.due) > 0 {
			wait = s.flights.due[0].deadline.Sub(now)
		}
		s.looks = now.Add(wait)
		s.mu.Unlock()
		timer.Reset(max(wait, 0))
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			continue
		case <-timer.C:
		}
		now, err := s.Drain() // a reply that lies in the socket is not lost
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			now = s.cfg.Now()
		}
		s.Expire(now)
	}
}

// Expire reports as lost every probe whose deadline is not after now. Run does
// so by itself.
func (s *Sender) Expire(now time.Time) {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	for {
		s.mu.Lock()
		fl := s.flights.overdue(now)
		var l Lost
		if fl != nil {
			l = Lost{To: fl.key.to, SSID: fl.key.ssid, Seq: fl.key.seq, Size: fl.size, SentAt: fl.sent, At: now}
		}
		s.mu.Unlock()
		if fl == nil {
			return
		}
		s.count[sLost].Add(1)
		if s.cfg.OnLost != nil {
			s.cfg.OnLost(l)
		}
	}
}

// receive takes one packet.
func (s *Sender) receive(in []byte, a ancillary, from netip.AddrPort, now time.Time) {
	s.count[sReceived].Add(1)
	r, why := s.accept(in, a, from, now)
	if why != 0 {
		s.count[why].Add(1)
		return
	}
	if r.Late {
		s.count[sLate].Add(1)
	} else {
		s.count[sAccepted].Add(1)
	}
	if s.cfg.OnReply != nil {
		s.cfg.OnReply(r)
	}
}

// accept checks a packet and makes a Reply of it; why is the counter of what is
// wrong with it, or zero.
func (s *Sender) accept(in []byte, a ancillary, from netip.AddrPort, now time.Time) (Reply, int) {
	p, err := ParseReflected(s.mode, in)
	if err != nil {
		return Reply{}, sMalformed
	}
	var key *signer
	if s.mode == Authenticated {
		if key = s.checks.signedBy(in); key == nil {
			return Reply{}, sForged
		}
	}
	st := inspect(in, s.mode, key, toSender, site{s.cfg.Network, s.local, plain(from).Addr()})
	if s.mode == Authenticated && s.cfg.Network != "" && !st.bound {
		return Reply{}, sUnbound
	}
	at := received(a, now)
	f := p.Error.Format()
	t2, receivedErr := f.Decode(p.Received, at)
	t3, timeErr := f.Decode(p.Time, at)
	if receivedErr != nil || timeErr != nil {
		return Reply{}, sMalformed
	}
	fl, late, why := s.match(p, plain(from))
	if why != 0 {
		return Reply{}, why
	}
	r := Reply{
		From: fl.key.to, SSID: p.SSID, Seq: p.Sender.Seq, Size: fl.size, ReflectorSeq: p.Seq,
		SentAt: fl.sent, At: at, TTL: p.TTL, Late: late,
		ForwardDelay: t2.Sub(fl.sent), BackwardDelay: at.Round(0).Sub(t3),
		ClocksAgree: s.cfg.SameClock || p.Error.Synchronized() && s.cfg.Synchronized,
		DSCPSeen:    -1, ECNSeen: -1, ReplyDSCP: a.dscp(), ReplyTTL: a.ttl,
	}
	if key != nil {
		r.Key = key.id
	}
	total := max(at.Sub(fl.sent), 0)
	r.ReflectorProcessing = t3.Sub(t2)
	if r.ReflectorProcessing < 0 || r.ReflectorProcessing > total {
		s.count[sOddClock].Add(1)
		r.ReflectorProcessing = 0
	}
	r.RTT = total - r.ReflectorProcessing
	s.readTLVs(in, st, &r)
	return r, 0
}

// match finds the probe that a reply answers, and settles it. A reply must carry
// the probe's peer, SSID, sequence number and timestamp.
func (s *Sender) match(p ReflectedPacket, from netip.AddrPort) (fl flight, late bool, why int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.flights.byKey[flightKey{from, p.SSID, p.Sender.Seq}]
	switch {
	case e == nil:
		return fl, false, sUnmatched
	case e.wire != p.Sender.Time:
		return fl, false, sMismatch
	case e.fate == answered:
		return fl, false, sDuplicate
	}
	late = e.fate == lost
	s.flights.settle(e, answered)
	return *e, late, 0
}

// readTLVs takes from a reply's TLVs what the rules of RFC 8972, section 4, let
// a sender use.
func (s *Sender) readTLVs(in []byte, st tlvState, r *Reply) {
	var err error
	s.tlvs, err = ParseTLVs(s.tlvs[:0], in[s.mode.Base():])
	for _, t := range s.tlvs {
		st.intact = st.intact && t.Flags&FlagIntegrity == 0
	}
	if !st.intact {
		s.count[sForgedTLV].Add(1)
		return
	}
	for _, t := range s.tlvs {
		if t.Flags&FlagMalformed != 0 {
			s.count[sBadTLV].Add(1)
			return
		}
		if t.Flags&FlagUnrecognized == 0 {
			s.readTLV(t, st.bound, r)
		}
	}
	if err != nil {
		s.count[sBadTLV].Add(1)
	}
}

func (s *Sender) readTLV(t TLV, bound bool, r *Reply) {
	switch {
	case t.Type == TypeClassOfService:
		if c, err := ParseClassOfService(t.Value); err == nil {
			r.DSCPSeen, r.ECNSeen, r.DSCPRefused = int(c.Received), int(c.ECN), c.Refused
		}
	case t.Type == TypeDirectMeasurement:
		if d, err := ParseDirectMeasurement(t.Value); err == nil {
			r.Direct = &d
		}
	case experimental(t.Type) && (bound || s.mode == Unauthenticated):
		r.TLVs = append(r.TLVs, TLV{t.Flags, t.Type, append([]byte(nil), t.Value...)})
	}
}
