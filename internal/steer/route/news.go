package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// news is what the kernel tells of a namespace's interfaces, addresses, routes and rules
// (rtnetlink(7)). It is asked, and wakes nobody.
type news struct {
	fd  int
	buf [8192]byte // a message of one interface has less
}

// listen subscribes to a namespace's changes.
func listen(ns string) (*news, error) {
	n := &news{fd: -1}
	err := netns.Do(ns, func() (err error) {
		if n.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
			unix.NETLINK_ROUTE); err != nil {
			return os.NewSyscallError("socket", err)
		}
		return os.NewSyscallError("bind", unix.Bind(n.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
			Groups: unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV4_RULE}))
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen to the kernel: %w", err), n.close())
	}
	return n, nil
}

func (n *news) close() error {
	if n.fd < 0 {
		return nil
	}
	fd := n.fd
	n.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// read takes all that waits, and reports whether anything has changed but what Shape
// makes. It gives lost the interfaces that went down or away, or have lost an address; 0
// where more was told than there was room for.
func (n *news) read(lost func(index int)) (changed bool, err error) {
	for {
		size, _, err := unix.Recvfrom(n.fd, n.buf[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return changed, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS), err == nil && size > len(n.buf):
			lost(0)
			changed = true
			continue
		case err != nil:
			return changed, fmt.Errorf("read changes of interfaces: %w", os.NewSyscallError("recvfrom", err))
		}
		messages, err := syscall.ParseNetlinkMessage(n.buf[:size])
		if err != nil {
			return changed, fmt.Errorf("read changes of interfaces: %w", err)
		}
		for _, m := range messages {
			index, gone, ours := understand(m.Header.Type, m.Data)
			if gone {
				lost(index)
			}
			changed = changed || !ours
		}
	}
}

// understand tells of which interface a message says that it went down or away, or has
// lost an address, and whether the message is of a route of Shape's.
func understand(kind uint16, b []byte) (index int, gone, ours bool) {
	switch {
	case (kind == unix.RTM_NEWLINK || kind == unix.RTM_DELLINK) && len(b) >= unix.SizeofIfInfomsg:
		// struct ifinfomsg: index at 4, flags at 8.
		up := binary.NativeEndian.Uint32(b[8:])&unix.IFF_UP != 0
		return int(binary.NativeEndian.Uint32(b[4:])), kind == unix.RTM_DELLINK || !up, false
	case kind == unix.RTM_DELADDR && len(b) >= unix.SizeofIfAddrmsg:
		return int(binary.NativeEndian.Uint32(b[4:])), true, false // struct ifaddrmsg: index at 4
	case (kind == unix.RTM_NEWROUTE || kind == unix.RTM_DELROUTE) && len(b) >= unix.SizeofRtMsg:
		return 0, false, b[5] == protocol // struct rtmsg: protocol at 5
	}
	return 0, false, false
}
