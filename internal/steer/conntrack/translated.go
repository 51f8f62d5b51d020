package conntrack

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// SentTo is where the peer sends the packets of a TCP connection, of which the socket in the namespace has these ends:
// the namespace's own rules may hand them to another port (REDIRECT), as those of a service mesh's sidecar do. Where
// nothing is translated, or tracked, it is the local end. It asks the kernel for one entry: some ten microseconds.
func SentTo(ns string, local, remote netip.AddrPort) (to netip.AddrPort, err error) {
	err = netns.Do(ns, func() (err error) {
		to, err = sentTo(local, remote)
		return err
	})
	if err != nil {
		return local, fmt.Errorf("look up tracked connection: %w", err)
	}
	return to, nil
}

// sentTo is SentTo in the thread's namespace.
func sentTo(local, remote netip.AddrPort) (netip.AddrPort, error) {
	family := uint8(unix.AF_INET)
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	req := request(family, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_ACK)
	req.AddData(direction(nl.CTA_TUPLE_REPLY, Connection{From: local, To: remote}))
	messages, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case errors.Is(err, unix.ENOENT), unspoken(err):
		return local, nil
	case err != nil:
		return local, err
	}
	for _, m := range messages {
		// One that the namespace has opened has that tuple in its first direction.
		if e, ok := parse(m); ok && e.reply.From == local && e.orig.From == remote {
			return e.orig.To, nil
		}
	}
	return local, nil
}
