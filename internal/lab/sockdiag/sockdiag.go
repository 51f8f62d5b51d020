// Package sockdiag reads what the kernel says of a network namespace's TCP
// connections, by sock_diag(7).
//
// It keeps nothing between two readings: what changed is its callers' business.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Socket is what a TCP connection says of itself (struct tcp_info). Counters
// are since it was opened.
type Socket struct {
	Local, Remote netip.AddrPort
	ID            uint64 // the kernel's socket cookie: never used again
	State         uint8  // TCP_ESTABLISHED is 1

	SRTT, RTTVar, MinRTT, RTO time.Duration
	Backoff                   uint8  // doublings of RTO in force
	Unanswered                uint8  // timeouts in a row
	Window                    uint32 // congestion window, segments
	SegmentSize               uint32 // most bytes of data in one
	Unacked, Lost             uint32 // segments in flight, and of them held for lost
	Retransmits               uint32 // segments
	Spurious                  uint32 // reported as needless by the peer (DSACK)
	Reordered                 uint32
	OutOfOrder                uint32 // packets that came in out of order
	BytesAcked, BytesReceived uint64
	SegmentsOut, SegmentsIn   uint32
	DataOut, DataIn           uint32        // segments of them that carried data
	Unsent                    uint32        // bytes waiting to be sent
	DeliveryRate              uint64        // bytes a second
	AppLimited                bool          // of that rate, the best sample kept (tcp_rate_gen): not of now; Unsent is
	SentAgo, ReceivedAgo      time.Duration // since data was last sent, received
	AckedAgo                  time.Duration // since an acknowledgment last came

	// Busy is how long there was data to send or under way; of it, ByWindow how long the
	// peer's window, ByBuffer how long the own send buffer kept it from being sent
	// (Linux 4.10).
	Busy, ByWindow, ByBuffer time.Duration
	// MaxPacing is the most that the application asked to send, bytes a second.
	MaxPacing uint64
	// Sizes of the socket's buffers in bytes, with what the kernel needs around data.
	SendBuffer, ReceiveBuffer uint32
}

// Sizes and numbers of linux/inet_diag.h.
const (
	diagMessage = 72 // struct inet_diag_msg
	diagRequest = 56 // struct inet_diag_req_v2
	diagInfo    = 2  // INET_DIAG_INFO
	diagMemory  = 7  // INET_DIAG_SKMEMINFO
	// Connections that have data to send or to receive.
	diagStates = 1<<unix.BPF_TCP_ESTABLISHED | 1<<unix.BPF_TCP_FIN_WAIT1 | 1<<unix.BPF_TCP_CLOSE_WAIT
)

// ErrSocket means bytes that describe no TCP socket.
var ErrSocket = errors.New("malformed socket description")

// Each lists the TCP connections of the namespace called name that can still send,
// IPv4 and IPv6, one by one, as there may be very many. Connections may come and go
// while it lists; the kernel looks at every connection of the machine for it. The
// library's own SocketDiagTCPInfo is not used: it dumps sockets in all states, and its
// app-limited flag reads the wrong bit on little-endian machines.
func Each(name string, see func(Socket)) error {
	err := netns.Do(name, func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			if err := dump(family, see); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list connections of namespace %s: %w", name, err)
	}
	return nil
}

// request is a netlink payload.
type request []byte

func (r request) Len() int          { return len(r) }
func (r request) Serialize() []byte { return r }

// dump asks for all sockets of a family in the thread's namespace.
func dump(family uint8, see func(Socket)) error {
	body := make(request, diagRequest)
	body[0], body[1], body[2] = family, unix.IPPROTO_TCP, 1<<(diagInfo-1)|1<<(diagMemory-1)
	binary.NativeEndian.PutUint32(body[4:], diagStates)
	req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	req.AddData(body)
	var bad error
	err := req.ExecuteIter(unix.NETLINK_SOCK_DIAG, nl.SOCK_DIAG_BY_FAMILY, func(msg []byte) bool {
		s, err := decodeSocket(msg)
		if err != nil {
			bad = err
			return false
		}
		see(s)
		return true
	})
	// An interrupted dump may lack a socket; the next poll has it.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("dump sockets: %w", err)
	}
	return bad
}

// decodeSocket reads a struct inet_diag_msg and its attributes.
func decodeSocket(b []byte) (Socket, error) {
	if len(b) < diagMessage {
		return Socket{}, fmt.Errorf("%w: %d bytes", ErrSocket, len(b))
	}
	var local, remote netip.Addr
	switch b[0] {
	case unix.AF_INET:
		local, remote = netip.AddrFrom4([4]byte(b[8:])), netip.AddrFrom4([4]byte(b[24:]))
	case unix.AF_INET6:
		local, remote = netip.AddrFrom16([16]byte(b[8:])).Unmap(), netip.AddrFrom16([16]byte(b[24:])).Unmap()
	default:
		return Socket{}, fmt.Errorf("%w: family %d", ErrSocket, b[0])
	}
	s := Socket{State: b[1], ID: binary.NativeEndian.Uint64(b[44:])}
	s.Local = netip.AddrPortFrom(local, binary.BigEndian.Uint16(b[4:]))
	s.Remote = netip.AddrPortFrom(remote, binary.BigEndian.Uint16(b[6:]))
	return s, s.attributes(b[diagMessage:])
}

// attributes reads struct rtattr after struct rtattr. The library's parser
// panics where the last one is not padded.
func (s *Socket) attributes(b []byte) error {
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return fmt.Errorf("%w: attribute of %d bytes in %d", ErrSocket, size, len(b))
		}
		switch body := info(b[unix.SizeofRtAttr:size]); binary.NativeEndian.Uint16(b[2:]) {
		case diagInfo:
			s.fill(body)
		case diagMemory: // enum SK_MEMINFO_VARS of linux/sock_diag.h
			s.ReceiveBuffer, s.SendBuffer = body.u32(4), body.u32(12)
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return nil
}

// info is a struct tcp_info (linux/tcp.h), as long as this kernel makes it;
// what lies beyond its end reads as 0.
type info []byte

func (b info) u8(at int) uint8 {
	if len(b) < at+1 {
		return 0
	}
	return b[at]
}

func (b info) u32(at int) uint32 {
	if len(b) < at+4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b[at:])
}

func (b info) u64(at int) uint64 {
	if len(b) < at+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b[at:])
}

func (s *Socket) fill(b info) {
	usec := func(at int) time.Duration { return us(uint64(b.u32(at))) }
	msec := func(at int) time.Duration { return time.Duration(b.u32(at)) * time.Millisecond }
	s.Unanswered, s.Backoff = b.u8(2), b.u8(4)
	s.AppLimited = b.u8(7)&1 != 0 // the first bit field: the lowest bit, little-endian
	s.RTO, s.SRTT, s.RTTVar, s.MinRTT = usec(8), usec(68), usec(72), usec(148)
	s.Unacked, s.Lost = b.u32(24), b.u32(32)
	s.SentAgo, s.ReceivedAgo, s.AckedAgo = msec(44), msec(52), msec(56)
	s.SegmentSize, s.Window, s.Retransmits = b.u32(16), b.u32(80), b.u32(100)
	s.BytesAcked, s.BytesReceived = b.u64(120), b.u64(128)
	s.SegmentsOut, s.SegmentsIn = b.u32(136), b.u32(140)
	s.Unsent, s.DeliveryRate = b.u32(144), b.u64(160)
	s.DataIn, s.DataOut = b.u32(152), b.u32(156)
	s.MaxPacing, s.Busy, s.ByWindow, s.ByBuffer = b.u64(112), us(b.u64(168)), us(b.u64(176)), us(b.u64(184))
	s.Spurious, s.Reordered, s.OutOfOrder = b.u32(216), b.u32(220), b.u32(224)
}

func us(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
