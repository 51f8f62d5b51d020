package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Look reads every namespace in /run/netns. One that goes meanwhile is left out. One that cannot be read has no
// interfaces, and faults tell of it.
func Look() (all []Sandbox, faults []error, err error) {
	files, err := os.ReadDir(netns.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil // no pod has been made yet
	} else if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", netns.Dir, err)
	}
	for _, f := range files {
		if !netns.Exists(f.Name()) {
			continue // what is left of one
		}
		s, err := read(f.Name())
		switch {
		case err == nil:
			all = append(all, s)
		case netns.Exists(f.Name()):
			faults = append(faults, err)
			if s.Inode != 0 { // it is there all the same: whose pod it was knows
				all = append(all, s)
			}
		}
	}
	return all, faults, nil
}

// read reads what is in the namespace called name.
func read(name string) (Sandbox, error) {
	s := Sandbox{Netns: name}
	var err error
	if s.Inode, err = netns.Inode(name); err != nil {
		return s, err
	}
	h, err := netns.Netlink(name)
	if err != nil {
		return s, err
	}
	defer h.Close()
	links, err := netns.Whole(h.LinkList)
	if err != nil {
		return s, fmt.Errorf("list interfaces of %s: %w", name, err)
	}
	addrs, err := netns.Whole(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return s, fmt.Errorf("list addresses of %s: %w", name, err)
	}
	for _, l := range links {
		at := l.Attrs()
		if at.Flags&net.FlagLoopback != 0 {
			continue
		}
		in := Interface{Name: at.Name, MAC: at.HardwareAddr, MTU: at.MTU}
		for _, a := range addrs {
			if ip, ok := netip.AddrFromSlice(a.IP); ok && a.LinkIndex == at.Index && !ip.IsLinkLocalUnicast() {
				in.Addrs = append(in.Addrs, ip.Unmap())
			}
		}
		s.Interfaces = append(s.Interfaces, in)
	}
	// Its name may be another's by now.
	if again, err := netns.Inode(name); err != nil || again != s.Inode {
		return Sandbox{}, errors.Join(fmt.Errorf("namespace %s was made again as it was read", name), err)
	}
	return s, nil
}
