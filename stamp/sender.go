package stamp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// SenderConfig is how a Sender works. Its zero value is unauthenticated.
type SenderConfig struct {
	// Keys make it authenticated, as the reflectors must be then.
	Keys Keys
	// Format is that of its timestamps, NTP by default.
	Format Format
	// Synchronized says that this machine's clock is, to UTC, to within ClockError:
	// what probes tell of it (RFC 8762, section 4.2.1; RFC 4656, section 4.1.2).
	Synchronized bool
	ClockError   time.Duration
	// SameClock says that reflectors read the very clock of this machine, as on loopback.
	SameClock bool
	// Deadline is how long a probe may be on its way, 1 s by default.
	Deadline time.Duration
	// MaxOutstanding bounds the probes that are remembered, answered ones too, 4096 by
	// default: at least what is sent within Deadline.
	MaxOutstanding int
	// OnReply and OnLost are told what became of each probe, one at a time, from the
	// goroutine of Run, Drain or Expire. They may call Send, but neither Drain nor Run.
	OnReply func(Reply)
	OnLost  func(Lost)
	// Polled: nobody waits for replies. Run must not be called then, but Drain and
	// Expire from time to time; replies are dated by the kernel, so that they lose
	// nothing by it. The socket is the Sender's then, to be closed by Close: it is
	// taken out of the runtime's poller, which would wake the process for each reply.
	Polled bool
	// Network, if it has a name (of up to 255 octets), is the one that every probe is
	// bound to in authenticated mode, as to the addresses of both ends; answers must be
	// bound to the same. The socket must be bound to an address then.
	Network string
	// Now is the clock, time.Now by default; Seed, read once, is what must not be
	// guessed, from crypto/rand by default.
	Now  func() time.Time
	Seed io.Reader
}

// SendOptions is one probe. The zero value is the least packet: a base without TLVs.
type SendOptions struct {
	// Size of the UDP payload in octets, up to 65507; zero is the least that holds the
	// rest. It is reached by an Extra Padding TLV (RFC 8972, section 4.1), whose head
	// takes four octets: sizes between the least and four more cannot be.
	Size int
	// SSID of the session, 0 for the Sender's own, which is random.
	SSID uint16
	// DSCP, 0 to 63, and ECN, 0 to 3, of the packet.
	DSCP, ECN uint8
	// ClassOfService adds that TLV (RFC 8972, section 4.4): the reply tells the DSCP that arrived, and
	// is to carry ReplyDSCP itself. Without it a reply carries what arrived.
	ClassOfService bool
	ReplyDSCP      uint8
	// DirectMeasurement adds that TLV (RFC 8972, section 4.5).
	DirectMeasurement bool
	// TLVs of experimental types, 240 to 250, for a reflector's OnTLV; the binding and
	// the HMAC are added.
	TLVs []TLV
	// Deadline for the reply, the Sender's by default.
	Deadline time.Duration
	// Key names the one that signs the probe; the current one by default, and where
	// the Sender does not have it.
	Key KeyID
}

// Sent is a probe on its way.
type Sent struct {
	To   netip.AddrPort
	SSID uint16
	Seq  uint32
	Size int
	At   time.Time // when the socket had taken it
}

// Lost is a probe that was not answered by its deadline. Its reply may yet come.
type Lost struct {
	To     netip.AddrPort
	SSID   uint16
	Seq    uint32
	Size   int
	SentAt time.Time
	At     time.Time
}

// Sender probes any number of peers from one socket.
type Sender struct {
	cfg   SenderConfig
	conn  *net.UDPConn
	own   *os.File // in place of conn, if polled
	v6    bool
	raw   syscall.RawConn
	self  ErrorEstimate
	mode  Mode
	ssid  uint16
	local netip.Addr
	wake  chan struct{}
	count [sentReasons]atomic.Uint64

	sending sync.Mutex // of the following
	signs   ring
	noise   *mathrand.ChaCha8
	padding []byte
	out     []byte
	oob     []byte
	outbox  mailbox
	next    map[sessionKey]*sending

	mu      sync.Mutex // of the following; taken last
	flights *flights
	looks   time.Time // when deadlines are looked at next

	receiving sync.Mutex // of the following; taken first
	checks    ring
	inbox     *mailbox
	tlvs      []TLV
}

// sending is a session as its sender keeps it.
type sending struct{ seq, sent uint32 }

// NewSender prepares conn for probing, and leaves it to the caller to close unless it is
// Polled. Run receives. The error is ErrKey, or that of a socket that takes no options.
func NewSender(conn *net.UDPConn, cfg SenderConfig) (*Sender, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Seed == nil {
		cfg.Seed = rand.Reader
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = time.Second
	}
	if cfg.MaxOutstanding <= 0 {
		cfg.MaxOutstanding = 4096
	}
	s := &Sender{
		cfg: cfg, conn: conn, mode: cfg.Keys.mode(), wake: make(chan struct{}, 1),
		self: EstimateError(cfg.Synchronized, cfg.Format, cfg.ClockError),
		next: map[sessionKey]*sending{}, flights: newFlights(cfg.MaxOutstanding),
		inbox: newMailbox(largest + 1), padding: make([]byte, 2048),
	}
	var seed [32]byte
	if _, err := io.ReadFull(cfg.Seed, seed[:]); err != nil {
		return nil, fmt.Errorf("seed sender: %w", err)
	}
	s.noise = mathrand.NewChaCha8(seed)
	_, _ = s.noise.Read(s.padding)
	for s.ssid == 0 {
		s.ssid = uint16(s.noise.Uint64())
	}
	if err := s.setKeys(cfg.Keys); err != nil {
		return nil, err
	}
	if conn == nil {
		return s, nil
	}
	s.local = plain(conn.LocalAddr().(*net.UDPAddr).AddrPort()).Addr()
	var err error
	if s.v6, err = prepare(conn); err != nil {
		return nil, err
	}
	if cfg.Polled {
		if s.own, err = unpolled(conn); err != nil {
			return nil, err
		}
		s.raw, err = s.own.SyscallConn()
	} else {
		s.raw, err = conn.SyscallConn()
	}
	if err != nil {
		return nil, fmt.Errorf("reach socket: %w", err)
	}
	return s, nil
}

// Close closes the socket of a polled Sender; that of another is its maker's.
func (s *Sender) Close() error {
	if s.own == nil {
		return nil
	}
	return s.own.Close()
}

// write sends s.out with s.oob.
func (s *Sender) write(to netip.AddrPort) error {
	if s.own == nil {
		_, _, err := s.conn.WriteMsgUDPAddrPort(s.out, s.oob, to)
		return err
	}
	var err error
	cerr := s.raw.Control(func(fd uintptr) { err = s.outbox.send(int(fd), s.out, s.oob, to, s.v6) })
	return errors.Join(cerr, os.NewSyscallError("sendmsg", err))
}

// SSID is the Sender's own session identifier.
func (s *Sender) SSID() uint16 { return s.ssid }

func (s *Sender) setKeys(k Keys) (err error) {
	if s.signs, err = newRing(k); err != nil {
		return err
	}
	s.checks, err = newRing(k) // a signer is for one goroutine
	return err
}

// SetKeys changes the keys, as [Reflector.SetKeys] does.
func (s *Sender) SetKeys(k Keys) error {
	s.receiving.Lock()
	defer s.receiving.Unlock()
	s.sending.Lock()
	defer s.sending.Unlock()
	if k.mode() != s.mode {
		return fmt.Errorf("change mode by keys: %w", ErrKey)
	}
	return s.setKeys(k)
}

// Forget drops what is kept of the sessions with a peer that went.
func (s *Sender) Forget(to netip.AddrPort) {
	s.sending.Lock()
	defer s.sending.Unlock()
	for k := range s.next {
		if k.from == plain(to) {
			delete(s.next, k)
		}
	}
}

// Send sends one probe. Its reply, or its loss, is told to OnReply or OnLost, by Run. Its
// number within the session is Sent.Seq, from 0. The error is ErrSize, ErrType, ErrBusy,
// or the socket's: then nothing was sent, and the number is given to the next.
func (s *Sender) Send(to netip.AddrPort, o SendOptions) (Sent, error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	if o.SSID == 0 {
		o.SSID = s.ssid
	}
	if o.Deadline <= 0 {
		o.Deadline = s.cfg.Deadline
	}
	k := sessionKey{plain(to), o.SSID}
	ses := s.next[k]
	if ses == nil {
		ses = &sending{}
		s.next[k] = ses
	}
	now := s.cfg.Now()
	test := TestPacket{Seq: ses.seq, Time: s.stamp(now), Error: s.self, SSID: o.SSID}
	if err := s.build(test, o, k.from.Addr(), ses.sent+1); err != nil {
		return Sent{}, fmt.Errorf("build probe: %w", err)
	}
	s.mu.Lock()
	fl := s.flights.add(flight{
		key: flightKey{k.from, o.SSID, test.Seq}, wire: test.Time, sent: now,
		deadline: now.Add(o.Deadline), size: len(s.out),
	})
	s.mu.Unlock()
	if fl == nil {
		return Sent{}, fmt.Errorf("send probe to %s: %w", to, ErrBusy)
	}
	s.oob = appendTOS(s.oob[:0], to.Addr(), o.DSCP<<2|o.ECN&3)
	if err := s.write(to); err != nil {
		s.mu.Lock()
		s.flights.forget(fl)
		s.mu.Unlock()
		return Sent{}, fmt.Errorf("send probe to %s: %w", to, err)
	}
	ses.seq, ses.sent = ses.seq+1, ses.sent+1
	at := s.cfg.Now()
	s.settleDeadline(fl, test.Time, at.Add(o.Deadline))
	return Sent{To: k.from, SSID: o.SSID, Seq: test.Seq, Size: len(s.out), At: at}, nil
}

// settleDeadline counts the deadline from when the socket had the packet: before
// that, this machine may have stalled.
func (s *Sender) settleDeadline(fl *flight, wire Timestamp, deadline time.Time) {
	s.mu.Lock()
	if fl.fate == pending && fl.wire == wire {
		s.flights.postpone(fl, deadline)
	}
	// Of many probes that are answered soon, the deadlines of few are waited for.
	sooner := len(s.flights.due) > 0 && s.flights.due[0].deadline.Before(s.looks)
	s.mu.Unlock()
	if sooner {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// stamp writes the time of sending. NTP's bits below this clock's nanoseconds,
// and some above, are made unguessable (as RFC 5905, section 6, does), which
// costs one-way delays a quarter of a microsecond and round trips nothing: in
// unauthenticated mode they are what a forger of replies lacks, with the SSID.
func (s *Sender) stamp(now time.Time) Timestamp {
	t := s.cfg.Format.Encode(now)
	if s.cfg.Format == NTP {
		t ^= Timestamp(s.noise.Uint64() & (1<<10 - 1))
	}
	return t
}

// build writes a probe to s.out.
func (s *Sender) build(t TestPacket, o SendOptions, to netip.Addr, nth uint32) error {
	b := append(s.out[:0], make([]byte, s.mode.Base())...)
	t.Put(s.mode, b)
	if o.ClassOfService {
		var v [4]byte
		ClassOfService{Reply: o.ReplyDSCP}.put(v[:])
		b = TLV{FlagUnrecognized, TypeClassOfService, v[:]}.Append(b)
	}
	if o.DirectMeasurement {
		var v [12]byte
		DirectMeasurement{SenderSent: nth}.put(v[:])
		b = TLV{FlagUnrecognized, TypeDirectMeasurement, v[:]}.Append(b)
	}
	for _, x := range o.TLVs {
		if !experimental(x.Type) {
			return fmt.Errorf("TLV type %d: %w", x.Type, ErrType)
		}
		if len(b)+tlvHead+len(x.Value) > largest {
			return fmt.Errorf("TLV of %d octets: %w", len(x.Value), ErrSize)
		}
		b = TLV{FlagUnrecognized, x.Type, x.Value}.Append(b)
	}
	var mac [macSize]byte
	binding, tag := 0, 0
	if s.mode == Authenticated && (len(o.TLVs) > 0 || s.cfg.Network != "") {
		binding = len(b)
		b = TLV{FlagUnrecognized, TypeBinding, mac[:]}.Append(b)
	}
	if s.mode == Authenticated && len(b) > s.mode.Base() {
		tag = len(b)
		b = TLV{FlagUnrecognized, TypeHMAC, mac[:]}.Append(b)
	}
	b, err := s.pad(b, o.Size)
	s.out = b
	if err != nil {
		return err
	}
	if s.mode == Unauthenticated {
		return nil
	}
	key := s.signs.named(o.Key)
	if binding > 0 {
		copy(b[binding+tlvHead:], key.ofBinding(toReflector, site{s.cfg.Network, s.local, to}, b, binding))
	}
	if tag > 0 {
		copy(b[tag+tlvHead:], key.ofTLVs(b, s.mode.Base(), tag))
	}
	key.signBase(b)
	return nil
}

// pad lengthens b to size by an Extra Padding TLV of noise (RFC 8972, section
// 4.1), which no link compresses.
func (s *Sender) pad(b []byte, size int) ([]byte, error) {
	n := size - len(b) - tlvHead
	switch {
	case size == 0 && len(b) <= largest, size == len(b):
		return b, nil
	case size > largest || n < 0:
		return b, fmt.Errorf("%d octets, with %d needed: %w", size, len(b), ErrSize)
	}
	b = append(b, FlagUnrecognized, TypePadding, byte(n>>8), byte(n))
	for n > 0 {
		k := min(n, len(s.padding))
		b, n = append(b, s.padding[:k]...), n-k
	}
	return b, nil
}
