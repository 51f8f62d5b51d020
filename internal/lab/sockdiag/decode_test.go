package sockdiag

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

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
		if err != nil || s.Local.String() != c.local || s.Remote.String() != c.remote || s.ID != 99 ||
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
		if s, err := decodeSocket(b); err == nil && !s.Remote.IsValid() {
			t.Errorf("%x: %+v", b, s)
		}
	})
}
