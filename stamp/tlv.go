package stamp

import (
	"encoding/binary"
	"fmt"
)

// The TLV types that this package knows: RFC 8972, section 5.1. Types 240 to 251
// are for experiments; the last is the binding that the package comment explains.
const (
	TypePadding           = 1
	TypeClassOfService    = 4
	TypeDirectMeasurement = 5
	TypeHMAC              = 8
	FirstExperimental     = 240
	LastExperimental      = 250
	TypeBinding           = 251
)

// The flags of a TLV: RFC 8972, section 4. A sender sets U alone; a reflector
// clears it where it understood.
const (
	FlagUnrecognized = 0x80
	FlagMalformed    = 0x40
	FlagIntegrity    = 0x20
)

const tlvHead = 4

// TLV is one extension: RFC 8972, section 4. Value, of up to 65535 octets, is opaque here;
// where it was parsed it points into the packet.
type TLV struct {
	Flags uint8
	Type  uint8
	Value []byte
}

func experimental(t uint8) bool { return t >= FirstExperimental && t <= LastExperimental }

// known reports whether a reflector understands the type.
func known(t uint8) bool {
	return t == TypePadding || t == TypeClassOfService || t == TypeDirectMeasurement || t == TypeHMAC
}

// wellFormed reports whether a value of n octets is right for the type.
func wellFormed(t uint8, n int) bool {
	switch t {
	case TypeClassOfService:
		return n == 4
	case TypeDirectMeasurement:
		return n == 12
	case TypeHMAC:
		return n == macSize
	}
	return true
}

// nextTLV reads the TLV that starts at off and says where the next one does.
// The end is off itself: at the end of b, or where only zeros are left, which is
// how a TWAMP-Light sender pads (RFC 8762, section 4.6).
func nextTLV(b []byte, off int) (t TLV, next int, err error) {
	if off >= len(b) || zero(b[off:]) {
		return TLV{}, off, nil
	}
	if len(b)-off < tlvHead {
		return TLV{}, off, fmt.Errorf("parse TLV at %d: %w", off, ErrTLV)
	}
	n := int(binary.BigEndian.Uint16(b[off+2:]))
	next = off + tlvHead + n
	if next > len(b) {
		return TLV{}, off, fmt.Errorf("parse TLV at %d: %w", off, ErrTLV)
	}
	return TLV{Flags: b[off], Type: b[off+1], Value: b[off+tlvHead : next : next]}, next, nil
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// ParseTLVs appends to dst the TLVs of b, which is what follows a base packet.
// Those before a malformed one are returned with the error, which is ErrTLV.
func ParseTLVs(dst []TLV, b []byte) ([]TLV, error) {
	for off := 0; ; {
		t, next, err := nextTLV(b, off)
		if err != nil || next == off {
			return dst, err
		}
		dst, off = append(dst, t), next
	}
}

// Append writes the TLV to the end of b.
func (t TLV) Append(b []byte) []byte {
	b = append(b, t.Flags, t.Type)
	b = binary.BigEndian.AppendUint16(b, uint16(len(t.Value)))
	return append(b, t.Value...)
}

// ClassOfService is the value of a CoS TLV: RFC 8972, section 4.4, with
// erratum 8199.
type ClassOfService struct {
	Reply    uint8 // DSCP1: what the reflected packet is to carry
	Received uint8 // DSCP2: what the test packet carried when it arrived
	ECN      uint8 // likewise
	Refused  bool  // RP: the reflector did not use Reply
}

// put writes the value over the four octets of b, whose reserved half it clears.
func (c ClassOfService) put(b []byte) {
	v := uint32(c.Reply&63)<<26 | uint32(c.Received&63)<<20 | uint32(c.ECN&3)<<18
	if c.Refused {
		v |= 1 << 16
	}
	binary.BigEndian.PutUint32(b, v)
}

// ParseClassOfService reads the value of a CoS TLV, of four octets. The error is ErrTLV.
func ParseClassOfService(b []byte) (ClassOfService, error) {
	if len(b) != 4 {
		return ClassOfService{}, fmt.Errorf("parse class of service of %d octets: %w", len(b), ErrTLV)
	}
	v := binary.BigEndian.Uint32(b)
	return ClassOfService{
		Reply: uint8(v >> 26), Received: uint8(v >> 20 & 63), ECN: uint8(v >> 18 & 3), Refused: v>>16&3 == 1,
	}, nil
}

// DirectMeasurement is the value of that TLV: RFC 8972, section 4.5. What is in
// profile here are the probes of the session.
type DirectMeasurement struct {
	SenderSent, ReflectorReceived, ReflectorSent uint32
}

func (d DirectMeasurement) put(b []byte) {
	binary.BigEndian.PutUint32(b, d.SenderSent)
	binary.BigEndian.PutUint32(b[4:], d.ReflectorReceived)
	binary.BigEndian.PutUint32(b[8:], d.ReflectorSent)
}

// ParseDirectMeasurement reads the value of a direct measurement TLV, of twelve octets.
// The error is ErrTLV.
func ParseDirectMeasurement(b []byte) (DirectMeasurement, error) {
	if len(b) != 12 {
		return DirectMeasurement{}, fmt.Errorf("parse direct measurement of %d octets: %w", len(b), ErrTLV)
	}
	return DirectMeasurement{
		binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]),
	}, nil
}
