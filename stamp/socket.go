package stamp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ancillary is what the kernel tells of a received packet, alongside its bytes.
type ancillary struct {
	ttl  int        // TTL or hop limit, -1 if not told
	tos  int        // DSCP and ECN, -1 if not told
	at   time.Time  // when the kernel received it, zero if not told
	dest netip.Addr // the address it was sent to, if told
}

func (a ancillary) dscp() int {
	if a.tos < 0 {
		return -1
	}
	return a.tos >> 2
}

// oobSize holds every control message that prepare asks for, and more.
const oobSize = 256

// prepare asks the kernel to tell of each packet when it came, by which TTL,
// DSCP and destination, and never to fragment what is sent, whatever the path
// MTU it believes in: a probe of full size is to be lost where data would be.
// golang.org/x/net's control messages know neither IPv4's TOS nor timestamps.
func prepare(conn *net.UDPConn) (v6 bool, err error) {
	rc, err := conn.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("reach socket: %w", err)
	}
	cerr := rc.Control(func(fd uintptr) { v6, err = prepareFD(int(fd)) })
	if err := errors.Join(cerr, err); err != nil {
		return false, fmt.Errorf("set options of socket %s: %w", conn.LocalAddr(), err)
	}
	return v6, nil
}

// polledBuffer is the receive buffer of a polled socket in octets, used only in a
// flood: some thousand packets.
const polledBuffer = 8 << 20

// unpolled is the socket under another number, out of reach of the runtime's
// poller; conn is closed. The number is not a copy's: both are of one socket.
func unpolled(conn *net.UDPConn) (*os.File, error) {
	rc, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reach socket: %w", err)
	}
	fd := -1
	cerr := rc.Control(func(old uintptr) {
		// The runtime polls what does not block; each call here says that it must not.
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, false)
		}
		// Between two looks all that comes must find room, or who throws packets here
		// would not be counted, and would displace answers. It takes root.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, polledBuffer)
	})
	if err := errors.Join(cerr, err); err != nil {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, fmt.Errorf("take over socket %s: %w", conn.LocalAddr(), err)
	}
	name := conn.LocalAddr().String()
	if err := conn.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("take over socket %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

func prepareFD(fd int) (v6 bool, err error) {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return false, err
	}
	v6 = domain == unix.AF_INET6
	set := func(level, option, value int) error { return unix.SetsockoptInt(fd, level, option, value) }
	// Without kernel timestamps, and on kernels that lack one of the others,
	// measuring goes on with less.
	_ = set(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	// An IPv6 socket takes these for the IPv4 it may carry.
	v4 := errors.Join(
		set(unix.SOL_IP, unix.IP_RECVTTL, 1),
		set(unix.SOL_IP, unix.IP_RECVTOS, 1),
		set(unix.SOL_IP, unix.IP_PKTINFO, 1),
		set(unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE))
	if !v6 {
		return false, v4
	}
	return true, errors.Join(
		set(unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		set(unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1),
		set(unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1),
		set(unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE))
}

// readAncillary reads control messages; what it does not know it skips.
func readAncillary(oob []byte) ancillary {
	a := ancillary{ttl: -1, tos: -1}
	for len(oob) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		oob = rest
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPNS && len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			half := len(data) / 2
			a.at = time.Unix(nativeInt(data[:half]), nativeInt(data[half:]))
		case h.Level == unix.SOL_IP && h.Type == unix.IP_TTL, h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_HOPLIMIT:
			if len(data) >= 4 {
				a.ttl = int(nativeInt(data[:4])) & 0xff
			}
		case h.Level == unix.SOL_IP && h.Type == unix.IP_TOS:
			if len(data) >= 1 {
				a.tos = int(data[0])
			}
		case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_TCLASS:
			if len(data) >= 4 {
				a.tos = int(nativeInt(data[:4])) & 0xff
			}
		case h.Level == unix.SOL_IP && h.Type == unix.IP_PKTINFO:
			if len(data) >= 12 {
				a.dest = netip.AddrFrom4([4]byte(data[8:12]))
			}
		case h.Level == unix.SOL_IPV6 && h.Type == unix.IPV6_PKTINFO:
			if len(data) >= 16 {
				a.dest = netip.AddrFrom16([16]byte(data[:16])).Unmap()
			}
		}
	}
	return a
}

func nativeInt(b []byte) int64 {
	switch len(b) {
	case 4:
		return int64(int32(binary.NativeEndian.Uint32(b)))
	case 8:
		return int64(binary.NativeEndian.Uint64(b))
	}
	return 0
}

// appendControl adds one control message to oob.
func appendControl(oob []byte, level, kind int32, data []byte) []byte {
	at, space := len(oob), unix.CmsgSpace(len(data))
	for range space {
		oob = append(oob, 0)
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[at]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(len(data)))
	copy(oob[at+unix.CmsgLen(0):], data)
	return oob
}

// appendTOS sets DSCP and ECN of one packet to the destination to.
func appendTOS(oob []byte, to netip.Addr, tos uint8) []byte {
	var v [4]byte
	binary.NativeEndian.PutUint32(v[:], uint32(tos))
	if to.Unmap().Is4() {
		return appendControl(oob, unix.SOL_IP, unix.IP_TOS, v[:])
	}
	return appendControl(oob, unix.SOL_IPV6, unix.IPV6_TCLASS, v[:])
}

// appendSource sets the source address of one packet: that to which the probe
// was sent, which on a socket bound to no address the kernel would choose again.
func appendSource(oob []byte, from netip.Addr) []byte {
	if from.Is4() {
		var info [12]byte // ifindex, spec_dst, addr
		a := from.As4()
		copy(info[4:], a[:])
		return appendControl(oob, unix.SOL_IP, unix.IP_PKTINFO, info[:])
	}
	var info [20]byte // addr, ifindex
	a := from.As16()
	copy(info[:], a[:])
	return appendControl(oob, unix.SOL_IPV6, unix.IPV6_PKTINFO, info[:])
}

// plain is an address as a key: no zone, no IPv4 in IPv6's clothes.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// passing reports whether a socket's error says something of one packet or
// peer, and not that the socket is of no more use.
func passing(err error) bool {
	for _, e := range []error{
		unix.ENOBUFS, unix.ENOMEM, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN,
		unix.ENETDOWN, unix.EINTR, unix.EMSGSIZE, unix.EPERM, unix.EACCES, unix.EINVAL, unix.EADDRNOTAVAIL,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
