package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// hello is what a client sends first on each TCP connection: what is asked of
// the server, so that only the client needs to be told.
type hello struct {
	Magic   [8]byte
	Kind    uint8
	Reverse bool
	// Conn is the connection's number in the client's report.
	Conn uint16
	// Size of a write in a stream, of an answer in RR.
	Size uint32
	// Requests are the sizes of requests, which Seed decides.
	Requests struct{ Min, Max uint32 }
	Seed     uint64
	// Rate in bit/s of a reversed stream; 0 is as fast as it goes.
	Rate uint64
}

// helloSize is the encoded size.
const helloSize = 8 + 1 + 1 + 2 + 4 + 8 + 8 + 8

// magic begins a hello; its last byte is the version.
const magic = "pwstrm\x00\x01"

// maxMessage bounds what a hello can make a server allocate.
const maxMessage = 16 << 20

// Kinds on the wire.
const (
	wireTCP = 1
	wireRR  = 2
)

func (h hello) encode() []byte {
	copy(h.Magic[:], magic)
	// Append fails only for types without a fixed size.
	out, _ := binary.Append(make([]byte, 0, helloSize), binary.BigEndian, h)
	return out
}

// parseHello reads a hello and refuses what a server cannot do.
func parseHello(raw []byte) (hello, error) {
	var h hello
	if _, err := binary.Decode(raw, binary.BigEndian, &h); err != nil {
		return h, fmt.Errorf("read greeting: %w", err)
	}
	switch {
	case string(h.Magic[:]) != magic:
		return h, errors.New("read greeting: not of this program and version")
	case h.Kind != wireTCP && h.Kind != wireRR:
		return h, fmt.Errorf("read greeting: unknown kind %d", h.Kind)
	case h.Size < 1 || h.Size > maxMessage:
		return h, fmt.Errorf("read greeting: messages of %d bytes", h.Size)
	case h.Kind == wireRR && (h.Requests.Min < 1 || h.Requests.Min > h.Requests.Max || h.Requests.Max > maxMessage):
		return h, fmt.Errorf("read greeting: requests of %d to %d bytes", h.Requests.Min, h.Requests.Max)
	case h.Rate > maxRate:
		return h, fmt.Errorf("read greeting: rate %d", h.Rate)
	}
	return h, nil
}

// request is the size of the connection's request number n. Both ends compute
// it: a pseudo-random one in the range (splitmix64; Steele, Lea, Flood 2014).
func (h hello) request(n uint64) int {
	z := h.Seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return int(uint64(h.Requests.Min) + z%uint64(h.Requests.Max-h.Requests.Min+1))
}
