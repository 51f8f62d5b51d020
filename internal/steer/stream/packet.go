package stream

import (
	"encoding/binary"
	"time"
)

// packet is the head of a datagram, or of the data of an ICMP echo. The times
// are the sender's monotonic clock.
type packet struct {
	what packetType
	flow uint32
	// seq counts from 0; in an ending packet it is how many there were.
	seq uint64
	// due is when it should have been sent, sent when it was handed to the kernel.
	due, sent time.Duration
}

// packetType says what is to be done with a packet.
type packetType uint8

const (
	oneWay packetType = 1 + iota
	toEcho
	echoed
	lastCall
)

// packetSize is the encoded size: magic and type, flow, padding, three words.
const packetSize = 40

// packetMagic begins a packet; the type follows.
const packetMagic = 0x70777300 // "pws"

func (p packet) put(buf []byte) {
	binary.BigEndian.PutUint32(buf, packetMagic|uint32(p.what))
	binary.BigEndian.PutUint32(buf[4:], p.flow)
	binary.BigEndian.PutUint64(buf[8:], 0)
	binary.BigEndian.PutUint64(buf[16:], p.seq)
	binary.BigEndian.PutUint64(buf[24:], uint64(p.due))
	binary.BigEndian.PutUint64(buf[32:], uint64(p.sent))
}

// setType turns a packet into one of another type.
func setType(buf []byte, t packetType) { buf[3] = byte(t) }

// parsePacket reads what put wrote; not ok if it is something else.
func parsePacket(buf []byte) (p packet, ok bool) {
	if len(buf) < packetSize {
		return p, false
	}
	head := binary.BigEndian.Uint32(buf)
	p = packet{
		what: packetType(head & 0xff),
		flow: binary.BigEndian.Uint32(buf[4:]),
		seq:  binary.BigEndian.Uint64(buf[16:]),
		due:  time.Duration(binary.BigEndian.Uint64(buf[24:])),
		sent: time.Duration(binary.BigEndian.Uint64(buf[32:])),
	}
	return p, head&^0xff == packetMagic && p.what >= oneWay && p.what <= lastCall && p.due >= 0 && p.sent >= 0
}
