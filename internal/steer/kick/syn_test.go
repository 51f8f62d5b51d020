package kick

import (
	"encoding/binary"
	"encoding/hex"
	"testing"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/probe"
)

// TestPrepare: a SYN gets its own checksum, whatever it had; what is no TCP, or not whole, is left out.
func TestPrepare(t *testing.T) {
	const segment = "c51c1151a5d1d2e300000000a002faf0abcd0000020405b40402080a8f4bb1d60000000001030307"
	for name, tc := range map[string]struct {
		in                string
		header, addresses int
	}{
		"IPv4":      {"4500003c1c4640004006b1e60a4d01020a4d0202" + segment, 20, 8},
		"with data": {"4500003d1c4640004006b1e50a4d01020a4d0202" + segment + "7f", 20, 8},
		"IPv6":      {"6000000000280640fd900001000000000000000000000002fd900002000000000000000000000002" + segment, 40, 32},
		"UDP":       {in: "4500001c000040004011000000000000000000000000000000000000"},
		"cut off":   {in: "45000028000040004006b1e60a4d01020a4d0202c51c1151"},
		"nothing":   {},
	} {
		b, err := hex.DecodeString(tc.in)
		if err != nil {
			t.Fatal(err)
		}
		to, ok := prepare(b)
		if ok != (tc.header > 0) {
			t.Errorf("%s: taken %v", name, ok)
		}
		if !ok {
			continue
		}
		all := append([]byte{}, b[tc.header-tc.addresses:]...)
		all = binary.BigEndian.AppendUint32(append(all, make([]byte, len(all)%2)...), unix.IPPROTO_TCP)
		all = binary.BigEndian.AppendUint32(all, uint32(len(b)-tc.header))
		if sum := probe.Checksum(all); sum != 0 {
			t.Errorf("%s: the sum of all is %#x", name, sum)
		}
		switch to := to.(type) {
		case *unix.SockaddrInet4:
			ok = to.Addr == [4]byte{10, 77, 2, 2}
		case *unix.SockaddrInet6:
			ok = to.Addr == [16]byte{0xfd, 0x90, 0, 2, 15: 2}
		}
		if !ok {
			t.Errorf("%s: to %v", name, to)
		}
	}
}
