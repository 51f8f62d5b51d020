package stamp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ReflectorConfig is how a Reflector works. Its zero value answers anyone.
type ReflectorConfig struct {
	// Keys make it authenticated: a packet that none of them signed is not answered.
	Keys Keys
	// Format is that of its timestamps, NTP by default. Probes say their own.
	Format Format
	// Synchronized says that this machine's clock is, to UTC, to within ClockError:
	// what replies tell of it (RFC 8762, section 4.2.1; RFC 4656, section 4.1.2).
	Synchronized bool
	ClockError   time.Duration
	// MaxSessions bounds memory; 4096 by default, less than 400 octets each.
	MaxSessions int
	// MaxSize is the longest packet answered in octets of UDP payload; 9216 by default.
	MaxSize int
	// Freshness is how far a new session's timestamp may be from this machine's
	// clock in authenticated mode; DefaultFreshness by default.
	Freshness time.Duration
	// Network, if it has a name (of up to 255 octets), is the one that all probes must
	// be bound to, as to the addresses that they come from and to, in authenticated
	// mode: SenderConfig has the same. It works with this package's Sender alone.
	Network string
	// Replays is shared by the reflectors of a host; by default it is its own.
	Replays *ReplayCache
	// OnRefused is told of packets refused for their key or their time. It must not
	// wait, nor ask the reflector.
	OnRefused func(Refusal)
	// AllowDSCP is the policy for the DSCP, 0 to 63, that a CoS TLV wishes for the reply
	// (RFC 8972, section 4.4); nil allows all.
	AllowDSCP func(from netip.AddrPort, dscp uint8) bool
	// OnTLV is given, in authenticated mode, each TLV of types 240 to 250 that is fresh
	// and bound to its packet (see the package comment), once for each packet of
	// a session. What it returns is the reflected value, cut or filled with zeros
	// to the length of the received one, since replies are as long as probes; nil
	// reflects what was received. It runs on the reflector's only goroutine. The
	// value is only valid until it returns. That from is who sent it is not
	// authenticated without Network, as no MAC covers addresses then: a value should
	// say itself whose it is.
	OnTLV func(from netip.AddrPort, ssid uint16, t TLV) []byte
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Refusal is a packet that was refused, or whose TLVs of experimental types were.
type Refusal struct {
	From netip.AddrPort
	// Key: it authenticates by none. From may be anybody then.
	Key bool
	// Ahead is by how much its sender's clock is, at most, where it does authenticate.
	Ahead time.Duration
}

// ReflectorCounters is what became of the packets that came, by the reason.
type ReflectorCounters struct {
	Received   uint64 // all
	Reflected  uint64 // answered, if the socket took it
	Short      uint64 // refused: shorter than a base packet
	Oversized  uint64 // refused: longer than MaxSize
	Forged     uint64 // refused: authenticates by no key
	Elsewhere  uint64 // refused: not bound to this network and the addresses of both ends
	BadTime    uint64 // refused: a timestamp that is none
	Replayed   uint64 // refused: seen before
	Stale      uint64 // refused: a session not known, and a timestamp too old or too new
	Loop       uint64 // refused: sent from the reflector's own port, so perhaps by another reflector
	BadTLV     uint64 // answered with the M flag: a TLV was malformed
	ForgedTLV  uint64 // answered with the I flag: the TLVs do not authenticate
	Unbound    uint64 // answered, but an experimental TLV was not bound, or not fresh, and ignored
	Delivered  uint64 // TLVs given to OnTLV
	SendErrors uint64 // of these, answers that the socket did not take
	Sessions   uint64 // that are remembered now
}

// Reflector answers the probes that come to one socket.
type Reflector struct {
	cfg  ReflectorConfig
	conn *net.UDPConn
	port uint16
	v6   bool
	self ErrorEstimate
	addr netip.Addr
	out  []byte // the answer in the making

	mu       sync.Mutex // of the following
	keys     ring
	sessions *sessions

	count [reasons]atomic.Uint64
}

// What is counted, in the order of ReflectorCounters.
const (
	cReceived = iota
	cReflected
	cShort
	cOversized
	cForged
	cElsewhere
	cBadTime
	cReplayed
	cStale
	cLoop
	cBadTLV
	cForgedTLV
	cUnbound
	cDelivered
	cSendErrors
	reasons
)

// Port is the UDP port that reflectors listen on (RFC 8762, section 4.1).
const Port = 862

// NewReflector prepares conn for reflecting, and leaves it to the caller to close. Serve
// does the work. The error is ErrKey, or that of a socket that takes no options.
func NewReflector(conn *net.UDPConn, cfg ReflectorConfig) (*Reflector, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxSessions <= 0 {
		cfg.MaxSessions = 4096
	}
	if cfg.MaxSize <= 0 {
		cfg.MaxSize = 9216
	}
	cfg.MaxSize = min(cfg.MaxSize, largest)
	if cfg.Freshness <= 0 {
		cfg.Freshness = DefaultFreshness
	}
	if cfg.Replays == nil {
		cfg.Replays = NewReplayCache(cfg.Freshness)
	}
	r := &Reflector{
		cfg: cfg, conn: conn, out: make([]byte, cfg.MaxSize),
		self:     EstimateError(cfg.Synchronized, cfg.Format, cfg.ClockError),
		sessions: newSessions(cfg.MaxSessions, cfg.Now()),
	}
	var err error
	if r.keys, err = newRing(cfg.Keys); err != nil {
		return nil, err
	}
	if conn != nil {
		local := conn.LocalAddr().(*net.UDPAddr).AddrPort()
		r.addr, r.port = plain(local).Addr(), local.Port()
		if r.v6, err = prepare(conn); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// SetKeys changes the keys, also while Serve runs. It cannot change the mode: there must
// be a key now exactly if there was one before. The error is ErrKey.
func (r *Reflector) SetKeys(k Keys) error {
	keys, err := newRing(k)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if (len(keys) == 0) != (len(r.keys) == 0) {
		return fmt.Errorf("change mode by keys: %w", ErrKey)
	}
	r.keys = keys
	return nil
}

// Counters reads all counters; it may be called at any time.
func (r *Reflector) Counters() ReflectorCounters {
	n := func(i int) uint64 { return r.count[i].Load() }
	r.mu.Lock()
	sessions := uint64(len(r.sessions.byKey))
	r.mu.Unlock()
	return ReflectorCounters{
		Received: n(cReceived), Reflected: n(cReflected), Short: n(cShort), Oversized: n(cOversized),
		Forged: n(cForged), Elsewhere: n(cElsewhere), BadTime: n(cBadTime), Replayed: n(cReplayed), Stale: n(cStale),
		Loop: n(cLoop), BadTLV: n(cBadTLV), ForgedTLV: n(cForgedTLV), Unbound: n(cUnbound), Delivered: n(cDelivered),
		SendErrors: n(cSendErrors), Sessions: sessions,
	}
}

// LastProbe says when the last probe from a came that was answered: that the
// direction from a to here works. It is zero if none is remembered.
func (r *Reflector) LastProbe(a netip.Addr) time.Time {
	seen, _ := r.last(a)
	return seen
}

// LastFreshProbe says the same of probes whose timestamps were fresh.
func (r *Reflector) LastFreshProbe(a netip.Addr) time.Time {
	_, fresh := r.last(a)
	return fresh
}

func (r *Reflector) last(a netip.Addr) (seen, fresh time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, s := range r.sessions.byKey {
		if k.from.Addr() != a.Unmap().WithZone("") {
			continue
		}
		if s.seen.After(seen) {
			seen = s.seen
		}
		if s.fresh.After(fresh) {
			fresh = s.fresh
		}
	}
	return seen, fresh
}

// Serve answers probes until ctx ends, which is no error. The socket stays open. It is to
// be called once at a time. The error is that of a socket that is of no more use, such
// as a closed one.
func (r *Reflector) Serve(ctx context.Context) error {
	_ = r.conn.SetReadDeadline(time.Time{}) // that of a Serve before
	stop := context.AfterFunc(ctx, func() { _ = r.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	in := newMailbox(r.cfg.MaxSize + 1) // one more, to see what is too long
	answer := make([]byte, 0, oobSize)
	var broken error
	err = raw.Read(func(fd uintptr) bool {
		for n := 1; broken == nil && ctx.Err() == nil; n++ {
			var more bool
			if more, broken = r.serveOne(int(fd), in, answer); !more {
				break
			}
			if n%inARow == 0 {
				_, _ = unix.Poll(nil, 0) // it waits for nothing
			}
		}
		return broken != nil || ctx.Err() != nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("receive probe: %w", errors.Join(err, broken))
}

// inARow: after so many packets in a row a reflector makes a call that the runtime
// knows of. That wakes its monitor thread, which makes it give way to others: the
// calls of a mailbox do not, and a flood must not keep other goroutines waiting.
const inARow = 64

// serveOne answers the next packet, and reports whether there was one.
func (r *Reflector) serveOne(fd int, box *mailbox, answer []byte) (more bool, err error) {
	in, oob, from, err := box.receive(fd)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil && passing(err):
		return true, nil
	case err != nil:
		return false, os.NewSyscallError("recvmsg", err)
	}
	a := readAncillary(oob)
	p, tos := r.reflect(in, a, from)
	if p == nil {
		return true, nil
	}
	answer = appendTOS(answer[:0], from.Addr(), tos)
	if a.dest.IsValid() && !a.dest.IsMulticast() {
		answer = appendSource(answer, a.dest)
	}
	r.count[cReflected].Add(1) // before its sender can know
	if err := box.send(fd, p, answer, from, r.v6); err != nil {
		r.count[cSendErrors].Add(1)
	}
	return true, nil
}
