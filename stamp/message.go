package stamp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mailbox receives and sends one packet at a time, by system calls that do not
// block. They are made without telling the runtime, as those of package unix do:
// that would wake its monitor thread, which costs more than the call. It is for one
// goroutine at a time.
type mailbox struct {
	in, oob []byte
	name    unix.RawSockaddrInet6 // large enough for both families
	iov     unix.Iovec
	msg     unix.Msghdr
}

// newMailbox receives packets of up to size octets; of longer ones, the beginning.
func newMailbox(size int) *mailbox {
	return &mailbox{in: make([]byte, size), oob: make([]byte, oobSize)}
}

// receive takes the next packet and its control messages; they are valid until the
// next call. The error is EAGAIN where none has come.
func (m *mailbox) receive(fd int) (in, oob []byte, from netip.AddrPort, err error) {
	m.point(m.in, m.oob, unix.SizeofSockaddrInet6)
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.msg)), unix.MSG_DONTWAIT)
	if errno != 0 {
		return nil, nil, from, errno
	}
	return m.in[:n], m.oob[:min(uint64(m.msg.Controllen), uint64(len(m.oob)))], m.source(), nil
}

// send sends b, with control messages, by a socket of IPv6 or IPv4.
func (m *mailbox) send(fd int, b, oob []byte, to netip.AddrPort, v6 bool) error {
	size := m.address(to, v6)
	m.point(b, oob, size)
	if _, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.msg)),
		unix.MSG_DONTWAIT); errno != 0 {
		return errno
	}
	return nil
}

// point makes the header that of these bytes.
func (m *mailbox) point(b, oob []byte, name uint32) {
	m.iov = unix.Iovec{Base: unsafe.SliceData(b)}
	m.iov.SetLen(len(b))
	m.msg = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&m.name)), Namelen: name, Iov: &m.iov, Control: unsafe.SliceData(oob)}
	m.msg.SetIovlen(1)
	m.msg.SetControllen(len(oob))
}

// address writes the name of a destination and returns its size.
func (m *mailbox) address(to netip.AddrPort, v6 bool) uint32 {
	var port uint16
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&port))[:], to.Port())
	if v6 {
		m.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: to.Addr().As16()}
		return unix.SizeofSockaddrInet6
	}
	*(*unix.RawSockaddrInet4)(unsafe.Pointer(&m.name)) = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port,
		Addr: to.Addr().Unmap().As4()}
	return unix.SizeofSockaddrInet4
}

// source is who sent what was received.
func (m *mailbox) source() netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&m.name.Port))[:])
	switch m.name.Family {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&m.name)).Addr), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(m.name.Addr).Unmap(), port)
	}
	return netip.AddrPort{}
}
