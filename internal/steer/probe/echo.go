package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Echoer asks peers by ICMP echo (RFC 792, of IPv6 RFC 4443). It needs no agent at the
// other end: the kernel answers, at once, however busy its processors are. What
// that comes says that packets pass both ways, and no more; it is not
// authenticated, but who has not seen the question cannot answer it.
//
// It is for one goroutine.
type Echoer struct {
	fd      int
	v6      bool
	now     func() time.Time
	noise   *mathrand.ChaCha8
	id, seq uint16
	flights [EchoesKept]echo
	in, oob []byte
}

// EchoesKept is how many echoes are remembered: a later one takes the place of
// one so many before.
const EchoesKept = 1024

// echo is one sent; zero where none is outstanding.
type echo struct {
	seq   uint16
	to    netip.Addr
	nonce [16]byte
	sent  time.Time
}

// Echo is one answered.
type Echo struct {
	Seq        uint16
	From       netip.Addr
	SentAt, At time.Time // At is when the kernel received it
}

// echoDSCP is class selector 6, network control (RFC 2474, section 4.2.2.2). Being
// of the sender's choice it also keeps the data plane from steering the echo.
const echoDSCP = 48

const (
	icmpEchoReply, icmpEcho     = 0, 8
	icmpv6EchoReply, icmpv6Echo = 129, 128
)

// Socket opens a raw ICMP socket of the family in the caller's namespace.
func Socket(v6 bool) (fd int, err error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if v6 {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return -1, fmt.Errorf("open raw socket: %w", err)
	}
	return fd, nil
}

// NewEchoer prepares a raw ICMP socket of the namespace that it is to ask from, see Socket,
// and owns it from now on. Seed is what must not be guessed.
func NewEchoer(fd int, v6 bool, seed io.Reader, now func() time.Time) (*Echoer, error) {
	var raw [34]byte
	if _, err := io.ReadFull(seed, raw[:]); err != nil {
		return nil, fmt.Errorf("seed echoes: %w", err)
	}
	e := &Echoer{fd: fd, v6: v6, now: now, noise: mathrand.NewChaCha8([32]byte(raw[:32])),
		id: binary.BigEndian.Uint16(raw[32:]), in: make([]byte, 256), oob: make([]byte, 256)}
	filter := e.filter()
	err := errors.Join(
		unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		e.setDSCP(),
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
	if err != nil {
		return nil, fmt.Errorf("set options of ICMP socket: %w", err)
	}
	return e, nil
}

// filter takes nothing but answers to this echoer: others, such as those to a ping in the
// pod, must not fill the socket. A raw socket of IPv6 has no IP header before them.
func (e *Echoer) filter() []unix.SockFilter {
	header, reply := unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH}, uint32(icmpEchoReply)
	if e.v6 {
		header, reply = unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_W | unix.BPF_IMM}, icmpv6EchoReply
	}
	return []unix.SockFilter{
		header, // the IP header's length
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND}, // ICMP type
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: reply},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 4}, // identifier
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(e.id)},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
}

func (e *Echoer) setDSCP() error {
	if e.v6 {
		return unix.SetsockoptInt(e.fd, unix.SOL_IPV6, unix.IPV6_TCLASS, echoDSCP<<2)
	}
	return unix.SetsockoptInt(e.fd, unix.SOL_IP, unix.IP_TOS, echoDSCP<<2)
}

// Close ends it.
func (e *Echoer) Close() error {
	if err := unix.Close(e.fd); err != nil {
		return fmt.Errorf("close ICMP socket: %w", err)
	}
	return nil
}

// Send asks to, from an address of the namespace and by the interface with the
// index. The sequence number tells the answer.
func (e *Echoer) Send(from, to netip.Addr, ifindex int) (seq uint16, at time.Time, err error) {
	e.seq++
	f := &e.flights[e.seq%EchoesKept]
	*f = echo{seq: e.seq, to: to}
	_, _ = e.noise.Read(f.nonce[:]) // it never fails
	b := make([]byte, 8, 8+len(f.nonce))
	b[0] = icmpEcho
	if e.v6 {
		b[0] = icmpv6Echo
	}
	binary.BigEndian.PutUint16(b[4:], e.id)
	binary.BigEndian.PutUint16(b[6:], e.seq)
	b = append(b, f.nonce[:]...)
	f.sent = e.now()
	if err := e.transmit(b, from, to, ifindex); err != nil {
		*f = echo{}
		return e.seq, e.now(), fmt.Errorf("send echo to %s: %w", to, err)
	}
	return e.seq, f.sent, nil
}

// transmit sends a message. Its checksum is the kernel's with IPv6 (RFC 3542, section 3.1).
func (e *Echoer) transmit(b []byte, from, to netip.Addr, ifindex int) error {
	if from.Is6() != e.v6 || to.Is6() != e.v6 {
		return unix.EAFNOSUPPORT
	}
	if e.v6 {
		oob := unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(ifindex), Addr: from.As16()})
		_, err := unix.SendmsgN(e.fd, b, oob, &unix.SockaddrInet6{Addr: to.As16()}, unix.MSG_DONTWAIT)
		return err
	}
	binary.BigEndian.PutUint16(b[2:], Checksum(b))
	oob := unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(ifindex), Spec_dst: from.As4()})
	_, err := unix.SendmsgN(e.fd, b, oob, &unix.SockaddrInet4{Addr: to.As4()}, unix.MSG_DONTWAIT)
	return err
}

// drainMost is how many packets are read at once: a peer may send answers as fast as they are read.
const drainMost = 512

// Drain gives take all answers that have come, many at most, and returns a time up to which
// that is known, as stamp.Sender.Drain does.
func (e *Echoer) Drain(take func(Echo)) (time.Time, error) {
	var latest time.Time
	for range drainMost {
		now := e.now()
		n, oobn, _, from, err := unix.Recvmsg(e.fd, e.in, e.oob, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return now, nil
		case err != nil && ofOnePacket(err):
			continue
		case err != nil:
			return now, os.NewSyscallError("recvmsg", err)
		}
		var peer netip.Addr
		switch from := from.(type) {
		case *unix.SockaddrInet4:
			peer = netip.AddrFrom4(from.Addr)
		case *unix.SockaddrInet6:
			peer = netip.AddrFrom16(from.Addr)
		}
		latest = received(e.oob[:oobn], e.now())
		if a, ok := e.accept(e.in[:n], peer); ok {
			a.At = latest
			take(a)
		}
	}
	return latest, nil // what came later may wait still
}

// ofOnePacket reports whether a socket's error says something of one packet or peer,
// and not that the socket is of no more use.
func ofOnePacket(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOBUFS, unix.ENOMEM, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH,
		unix.EHOSTDOWN, unix.ENETDOWN, unix.EINTR, unix.EMSGSIZE, unix.EPERM, unix.EACCES, unix.EINVAL,
		unix.EADDRNOTAVAIL}, func(e error) bool { return errors.Is(err, e) })
}

// received is when the kernel took the packet, where it tells and that is credible, or
// else now. The clock's monotonic reading is kept.
func received(oob []byte, now time.Time) time.Time {
	h, data, _, err := unix.ParseOneSocketControlMessage(oob)
	var ts unix.Timespec
	if err != nil || h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS ||
		len(data) < int(unsafe.Sizeof(ts)) {
		return now
	}
	if _, err := binary.Decode(data, binary.NativeEndian, &ts); err != nil {
		return now
	}
	if lag := now.Round(0).Sub(time.Unix(ts.Unix())); lag >= 0 && lag < 10*time.Second {
		return now.Add(-lag)
	}
	return now
}

// accept takes what may be an answer, an IPv4 packet or an ICMPv6 message; each is taken once.
func (e *Echoer) accept(b []byte, from netip.Addr) (Echo, bool) {
	reply, ok := byte(icmpv6EchoReply), true
	if !e.v6 {
		reply = icmpEchoReply
		b, ok = ipv4Payload(b)
	}
	if !ok || len(b) != 8+16 || b[0] != reply || binary.BigEndian.Uint16(b[4:]) != e.id {
		return Echo{}, false
	}
	seq := binary.BigEndian.Uint16(b[6:])
	f := &e.flights[seq%EchoesKept]
	if f.sent.IsZero() || f.seq != seq || f.to != from || [16]byte(b[8:]) != f.nonce {
		return Echo{}, false
	}
	a := Echo{Seq: seq, From: from, SentAt: f.sent}
	*f = echo{}
	return a, true
}

// ipv4Payload is what follows the header of an IPv4 packet. A header is 20 octets
// at least (RFC 791, section 3.1): one that says less would be taken for its own payload.
func ipv4Payload(b []byte) (payload []byte, ok bool) {
	const least = 20
	if len(b) < least || b[0]>>4 != 4 {
		return nil, false
	}
	header := int(b[0]&15) * 4
	if header < least || len(b) < header {
		return nil, false
	}
	return b[header:], true
}

// Checksum is that of RFC 1071, of an even number of octets.
func Checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
