package telemetry

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// record is a struct event in bytes.
func record(kind, bucket uint8) []byte {
	b := make([]byte, eventSize)
	binary.LittleEndian.PutUint64(b, 123456789)
	binary.LittleEndian.PutUint64(b[8:], 4711)
	copy(b[16:], netip.MustParseAddr("::ffff:10.1.2.3").AsSlice())
	binary.LittleEndian.PutUint32(b[32:], 3)
	binary.LittleEndian.PutUint32(b[36:], 0xdeadbeef)
	binary.LittleEndian.PutUint16(b[40:], 40000)
	binary.LittleEndian.PutUint16(b[42:], 80)
	b[44], b[45] = bucket, kind
	return b
}

func TestDecodeEvent(t *testing.T) {
	got, err := decodeEvent(record(3, 52))
	want := Event{Key: Key{Netns: 4711, Remote: netip.MustParseAddr("10.1.2.3"), Bucket: 52}, Kind: Timeout,
		At: 123456789, Count: 3, Unacked: 0xdeadbeef, LocalPort: 40000, RemotePort: 80}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	late := record(1, 0)
	late[7] = 0x80
	for name, b := range map[string][]byte{
		"nothing": nil, "too short": record(1, 0)[:47], "too long": append(record(1, 0), 0),
		"no kind": record(0, 0), "unknown kind": record(4, 0), "no bucket": record(1, 64), "beyond time": late,
	} {
		if e, err := decodeEvent(b); !errors.Is(err, ErrRecord) || e != (Event{}) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for kind := range uint8(5) {
		f.Add(record(kind, 1))
	}
	f.Add([]byte{})
	f.Add(record(1, 1)[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEvent(b)
		if err == nil && (len(b) != eventSize || e.Bucket > 63 || e.Kind < Retransmit || e.Kind > Timeout ||
			!e.Remote.IsValid() || e.At < 0) {
			t.Errorf("%x: %+v", b, e)
		}
	})
}

// description is a struct inet_diag_msg with a struct tcp_info of n bytes.
func description(family uint8, n int) []byte {
	b := make([]byte, diagMessage)
	b[0], b[1] = family, unix.BPF_TCP_ESTABLISHED
	binary.BigEndian.PutUint16(b[4:], 40000)
	binary.BigEndian.PutUint16(b[6:], 80)
	local, remote := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	if family == unix.AF_INET {
		local, remote = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	}
	copy(b[8:], local.AsSlice())
	copy(b[24:], remote.AsSlice())
	binary.NativeEndian.PutUint64(b[44:], 99)
	attr := make([]byte, 4+n)
	binary.NativeEndian.PutUint16(attr, uint16(len(attr)))
	binary.NativeEndian.PutUint16(attr[2:], diagInfo)
	if n > 71 {
		attr[4+7] = 1                                     // app-limited
		binary.NativeEndian.PutUint32(attr[4+68:], 12345) // tcpi_rtt
	}
	return append(b, attr...)
}

func TestDecodeSocket(t *testing.T) {
	for _, c := range []struct {
		family        uint8
		size          int
		local, remote string
		limited       bool
	}{
		{unix.AF_INET, 232, "10.0.0.1:40000", "10.0.0.2:80", true},
		{unix.AF_INET6, 104, "[fd00::1]:40000", "[fd00::2]:80", true}, // an old kernel's shorter one
		{unix.AF_INET6, 0, "[fd00::1]:40000", "[fd00::2]:80", false},
	} {
		s, err := decodeSocket(description(c.family, c.size))
		if err != nil || s.Local.String() != c.local || s.Remote.String() != c.remote || s.ID != 99 || s.Bucket != 52 ||
			s.AppLimited != c.limited || (s.SRTT.Microseconds() == 12345) != c.limited {
			t.Errorf("%+v, %v", s, err)
		}
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "too short": description(unix.AF_INET, 0)[:diagMessage-1], "of no family": description(1, 8),
		"with an attribute too short": append(description(unix.AF_INET, 0), 3, 0, 2, 0),
		"and too long":                append(description(unix.AF_INET, 0), 5, 0, 2, 0),
	} {
		if _, err := decodeSocket(b); !errors.Is(err, ErrSocket) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeSocket(f *testing.F) {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6, 1} {
		for _, n := range []int{0, 8, 104, 232} {
			f.Add(description(family, n))
		}
	}
	f.Add(append(description(unix.AF_INET, 0), 0, 0, 2, 0)) // shorter than its own header
	f.Add(description(unix.AF_INET, 6))                     // not padded
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeSocket(b); err == nil && (!s.Remote.IsValid() || s.Bucket > 63) {
			t.Errorf("%x: %+v", b, s)
		}
	})
}
