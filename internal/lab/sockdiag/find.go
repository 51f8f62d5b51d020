package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Find reads some TCP connections of the namespace called name, by their local and remote
// ends. The kernel finds each by its hash, however many there are. Connections that are not
// there, or cannot send any more, are left out.
func Find(name string, ends [][2]netip.AddrPort) (out []Socket, err error) {
	err = netns.Do(name, func() error {
		for _, e := range ends {
			s, err := find(e[0], e[1])
			switch {
			case errors.Is(err, unix.ENOENT):
			case err != nil:
				return err
			case diagStates>>s.State&1 == 1:
				out = append(out, s)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find connections of namespace %s: %w", name, err)
	}
	return out, nil
}

// find asks for one connection in the thread's namespace (inet_diag_find_one_icsk).
func find(local, remote netip.AddrPort) (s Socket, err error) {
	body := make(request, diagRequest)
	body[0], body[1], body[2] = unix.AF_INET, unix.IPPROTO_TCP, 1<<(diagInfo-1)
	if !local.Addr().Is4() {
		body[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(body[4:], diagStates)
	binary.BigEndian.PutUint16(body[8:], local.Port())
	binary.BigEndian.PutUint16(body[10:], remote.Port())
	copy(body[12:28], local.Addr().AsSlice())
	copy(body[28:44], remote.Addr().AsSlice())
	const anyCookie = ^uint64(0) // INET_DIAG_NOCOOKIE, twice
	binary.NativeEndian.PutUint64(body[48:], anyCookie)
	req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	req.AddData(body)
	msgs, err := req.Execute(unix.NETLINK_SOCK_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return Socket{}, fmt.Errorf("find socket %v to %v: %w", local, remote, err)
	}
	if len(msgs) != 1 {
		return Socket{}, fmt.Errorf("find socket %v to %v: %d answers: %w", local, remote, len(msgs), ErrSocket)
	}
	return decodeSocket(msgs[0])
}
