package stamp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// What can be wrong with bytes from outside, and with what is asked for. Errors of this
// package wrap these: use errors.Is.
var (
	ErrShort     = errors.New("packet shorter than the base packet") // of Parse functions
	ErrTimestamp = errors.New("timestamp of no time")                // of Decode: 10^9 nanoseconds or more
	ErrTLV       = errors.New("malformed TLV")                       // of Parse functions
	ErrKey       = errors.New("key shorter than 16 octets")          // of New and SetKeys
	ErrSize      = errors.New("size that no packet can have")        // of Send
	ErrType      = errors.New("TLV type reserved for the protocol")  // of Send: not 240 to 250
	ErrBusy      = errors.New("too many probes outstanding")         // of Send: MaxOutstanding of them
)

// Mode is RFC 8762's: unauthenticated or authenticated.
type Mode uint8

// The modes: RFC 8762, section 4. Both ends and both directions use one mode.
const (
	Unauthenticated Mode = iota
	Authenticated
)

const (
	openBase = 44
	authBase = 112
	macAt    = 96 // the HMAC of an authenticated packet covers what is before
	macSize  = 16
	// largest is the most that a UDP datagram holds.
	largest = 65507
)

// Base is the length of a packet without TLVs in octets, the same in both directions:
// 44, or 112 in authenticated mode.
func (m Mode) Base() int {
	if m == Authenticated {
		return authBase
	}
	return openBase
}

// TestPacket is what a Session-Sender sends: RFC 8762, section 4.2, with the
// SSID of RFC 8972, section 3.
type TestPacket struct {
	Seq   uint32    // from 0 for each session
	Time  Timestamp // T1, when the sender sent, in the format that Error tells
	Error ErrorEstimate
	SSID  uint16 // of the session; 0 is that of a sender without RFC 8972
}

// ReflectedPacket is what a Session-Reflector answers: RFC 8762, section 4.3.
type ReflectedPacket struct {
	Seq      uint32    // from 0 for each session where the reflector is stateful, or else the probe's
	Time     Timestamp // T3, when the reflector sent
	Error    ErrorEstimate
	SSID     uint16
	Received Timestamp // T2, when the reflector received
	Sender   TestPacket
	TTL      uint8 // of the test packet when it arrived
}

// place is where a field lies in each mode.
type place [2]int

// at is the offset of a field in mode m.
func (m Mode) at(p place) int { return p[m&1] }

// The offsets of RFC 8762, figures 2 to 5. Constants cannot be arrays.
func timeAt() place       { return place{4, 16} }
func errorAt() place      { return place{12, 24} }
func ssidAt() place       { return place{14, 26} }
func receivedAt() place   { return place{16, 32} }
func senderSeqAt() place  { return place{24, 48} }
func senderTimeAt() place { return place{28, 64} }
func senderErrAt() place  { return place{36, 72} }
func ttlAt() place        { return place{40, 80} }

// Put writes the base packet to the start of b, and zeroes what must be zero. It panics
// where b is shorter than m.Base. An authenticated packet's HMAC is left zero.
func (p TestPacket) Put(m Mode, b []byte) {
	b = b[:m.Base()]
	clear(b)
	binary.BigEndian.PutUint32(b, p.Seq)
	binary.BigEndian.PutUint64(b[m.at(timeAt()):], uint64(p.Time))
	binary.BigEndian.PutUint16(b[m.at(errorAt()):], uint16(p.Error))
	binary.BigEndian.PutUint16(b[m.at(ssidAt()):], p.SSID)
}

// ParseTest reads a test packet's base; what follows it are TLVs. It does not
// authenticate. The error is ErrShort.
func ParseTest(m Mode, b []byte) (TestPacket, error) {
	if len(b) < m.Base() {
		return TestPacket{}, fmt.Errorf("parse test packet of %d octets: %w", len(b), ErrShort)
	}
	return TestPacket{
		Seq:   binary.BigEndian.Uint32(b),
		Time:  Timestamp(binary.BigEndian.Uint64(b[m.at(timeAt()):])),
		Error: ErrorEstimate(binary.BigEndian.Uint16(b[m.at(errorAt()):])),
		SSID:  binary.BigEndian.Uint16(b[m.at(ssidAt()):]),
	}, nil
}

// Put writes the base packet to the start of b, like TestPacket.Put.
func (p ReflectedPacket) Put(m Mode, b []byte) {
	TestPacket{p.Seq, p.Time, p.Error, p.SSID}.Put(m, b)
	binary.BigEndian.PutUint64(b[m.at(receivedAt()):], uint64(p.Received))
	binary.BigEndian.PutUint32(b[m.at(senderSeqAt()):], p.Sender.Seq)
	binary.BigEndian.PutUint64(b[m.at(senderTimeAt()):], uint64(p.Sender.Time))
	binary.BigEndian.PutUint16(b[m.at(senderErrAt()):], uint16(p.Sender.Error))
	b[m.at(ttlAt())] = p.TTL
}

// ParseReflected reads a reflected packet's base, like ParseTest. The sender's
// SSID is not sent twice: it is the packet's.
func ParseReflected(m Mode, b []byte) (ReflectedPacket, error) {
	if len(b) < m.Base() {
		return ReflectedPacket{}, fmt.Errorf("parse reflected packet of %d octets: %w", len(b), ErrShort)
	}
	own, _ := ParseTest(m, b)
	return ReflectedPacket{
		Seq: own.Seq, Time: own.Time, Error: own.Error, SSID: own.SSID,
		Received: Timestamp(binary.BigEndian.Uint64(b[m.at(receivedAt()):])),
		Sender: TestPacket{
			Seq:   binary.BigEndian.Uint32(b[m.at(senderSeqAt()):]),
			Time:  Timestamp(binary.BigEndian.Uint64(b[m.at(senderTimeAt()):])),
			Error: ErrorEstimate(binary.BigEndian.Uint16(b[m.at(senderErrAt()):])),
			SSID:  own.SSID,
		},
		TTL: b[m.at(ttlAt())],
	}, nil
}
