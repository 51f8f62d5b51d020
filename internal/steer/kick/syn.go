package kick

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/probe"
)

// sendAgain sends TCP segments of a family, whole packets, from the namespace in which the caller is. No message of
// ICMP takes back the first wait of a SYN, a second (RFC 6298), as it is no doubled one.
func sendAgain(packets [][]byte, v6 bool) error {
	family := unix.AF_INET
	if v6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("open raw socket: %w", err)
	}
	defer unix.Close(fd)
	for _, b := range packets {
		to, ok := prepare(b)
		if !ok {
			continue
		}
		if err := unix.Sendto(fd, b, 0, to); err != nil {
			return fmt.Errorf("send a SYN again: %w", err)
		}
	}
	return nil
}

// prepare completes a segment's checksum, and returns where the packet goes. ok is false for what is none.
func prepare(b []byte) (to unix.Sockaddr, ok bool) {
	var pseudo, segment []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4 && b[9] == unix.IPPROTO_TCP && len(b) >= int(b[0]&15)*4+20:
		segment = b[int(b[0]&15)*4:]
		pseudo = append(pseudo, b[12:20]...)
		to = &unix.SockaddrInet4{Addr: [4]byte(b[16:20])}
	case len(b) >= 60 && b[0]>>4 == 6 && b[6] == unix.IPPROTO_TCP:
		segment = b[40:]
		pseudo = append(pseudo, b[8:40]...)
		to = &unix.SockaddrInet6{Addr: [16]byte(b[24:40])}
	default:
		return nil, false
	}
	pseudo = binary.BigEndian.AppendUint32(pseudo, unix.IPPROTO_TCP)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(segment)))
	segment[16], segment[17] = 0, 0
	pseudo = append(pseudo, segment...)
	if len(pseudo)%2 == 1 {
		pseudo = append(pseudo, 0)
	}
	binary.BigEndian.PutUint16(segment[16:], probe.Checksum(pseudo))
	return to, true
}
