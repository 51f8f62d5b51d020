package telemetry

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
)

// record is a struct event in bytes.
func record(kind, bucket uint8) []byte {
	b := make([]byte, eventSize)
	binary.LittleEndian.PutUint64(b, 123456789)
	binary.LittleEndian.PutUint64(b[8:], 4711)
	copy(b[16:], netip.MustParseAddr("::ffff:10.1.2.3").AsSlice())
	binary.LittleEndian.PutUint64(b[32:], 1<<40)
	binary.LittleEndian.PutUint32(b[40:], 3)
	binary.LittleEndian.PutUint32(b[44:], 0xdeadbeef)
	binary.LittleEndian.PutUint32(b[48:], 0xdeadc0de)
	binary.LittleEndian.PutUint16(b[52:], 40000)
	binary.LittleEndian.PutUint16(b[54:], 80)
	b[56], b[57] = bucket, kind
	return b
}

func TestDecodeEvent(t *testing.T) {
	got, err := decodeEvent(record(3, 52))
	want := Event{Key: Key{Netns: 4711, Remote: netip.MustParseAddr("10.1.2.3"), Bucket: 52}, Kind: Timeout,
		At: 123456789, Count: 3, Unacked: 0xdeadbeef, Next: 0xdeadc0de, Acked: 1 << 40, LocalPort: 40000, RemotePort: 80}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	want.Bucket, want.Theirs = 63, true
	if got, err = decodeEvent(record(3, 127)); err != nil || got != want {
		t.Errorf("of a connection that the other end has opened: %+v, %v", got, err)
	}
	late := record(1, 0)
	late[7] = 0x80
	for name, b := range map[string][]byte{
		"nothing": nil, "too short": record(1, 0)[:eventSize-1], "too long": append(record(1, 0), 0),
		"no kind": record(0, 0), "unknown kind": record(uint8(Delivered)+1, 0),
		"no bucket": record(1, 128), "beyond time": late,
	} {
		if e, err := decodeEvent(b); !errors.Is(err, ErrRecord) || e != (Event{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for kind := range uint8(Delivered) + 2 {
		f.Add(record(kind, 1))
	}
	f.Add([]byte{})
	f.Add(record(1, 1)[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEvent(b)
		if err == nil && (len(b) != eventSize || e.Bucket > 63 || e.Kind < Retransmit || e.Kind > Delivered ||
			!e.Remote.IsValid() || e.At < 0) {
			t.Errorf("%x: %+v", b, e)
		}
	})
}
