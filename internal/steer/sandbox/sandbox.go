// Package sandbox finds which network namespace of a host is a pod's, as a container
// runtime of Kubernetes makes them: by the addresses in it.
//
// What the API says of a pod's attachments (status.podIPs, and the annotation network-status
// that Multus writes) may have been written by any who may patch the pod. So each statement is
// held against what the kernel has in the namespace, and the pod is refused where one is not
// true. No container runtime is asked, and no process of the pod looked for.
//
// It does not speak to an API server, and changes nothing.
package sandbox

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"pathwise.dev/pathwise/internal/topo"
)

// Default is what the cluster's default network is called, whatever its configuration's name.
const Default = "default"

// Interface is one interface in a namespace, as the kernel has it.
type Interface struct {
	Name  string
	MAC   net.HardwareAddr
	MTU   int
	Addrs []netip.Addr // without those of the link's own scope
}

// Sandbox is one namespace of the host.
type Sandbox struct {
	// Netns is the namespace's name in /run/netns, and Inode tells it from a later one.
	Netns      string
	Inode      uint64
	Interfaces []Interface
}

// Pod is what the API says of a pod's addresses.
type Pod struct {
	Name  string
	Addrs []netip.Addr // status.podIPs
	// Attachments are of the annotation; without it the pod is on the default network alone.
	Attachments []Statement
}

// Equal reports whether the same is said of both.
func (p Pod) Equal(other Pod) bool {
	return p.Name == other.Name && slices.Equal(p.Addrs, other.Addrs) &&
		slices.EqualFunc(p.Attachments, other.Attachments, func(a, b Statement) bool {
			return a.Network == b.Network && a.Dev == b.Dev && a.Default == b.Default && slices.Equal(a.Addrs, b.Addrs) &&
				slices.Equal(a.MAC, b.MAC)
		})
}

// MissingError says that no namespace has a pod's address, as when it is being made or removed.
type MissingError struct {
	Pod  string
	Addr netip.Addr
}

func (e MissingError) Error() string {
	return fmt.Sprintf("pod %s: no namespace has its address %s", e.Pod, e.Addr)
}

// Found is a pod's namespace, and its attachments as they are there.
type Found struct {
	Sandbox
	Attachments []topo.Attachment // the default network's first
}

// Find returns the namespace in which all is as it is said of the pod. It fails where there
// is none, or more than one: then nobody can tell which is the pod's.
func Find(p Pod, all []Sandbox) (Found, error) {
	if len(p.Addrs) == 0 {
		return Found{}, fmt.Errorf("pod %s: it has no address yet", p.Name)
	}
	var found []Found
	var unlike error
	for _, s := range all {
		dev, ok := s.holder(p.Addrs)
		if !ok {
			continue
		}
		at, err := s.attachments(p, dev)
		if err != nil {
			unlike = fmt.Errorf("pod %s: namespace %s: %w", p.Name, s.Netns, err)
			continue
		}
		found = append(found, Found{s, at})
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Found{}, fmt.Errorf("pod %s: both %s and %s have its address %s: expected one namespace", p.Name,
			found[0].Netns, found[1].Netns, p.Addrs[0])
	case unlike != nil:
		return Found{}, unlike
	}
	return Found{}, MissingError{p.Name, p.Addrs[0]}
}

// holder is the interface that has all of the addresses.
func (s Sandbox) holder(addrs []netip.Addr) (Interface, bool) {
	i := slices.IndexFunc(s.Interfaces, func(in Interface) bool { return in.has(addrs) })
	if i < 0 {
		return Interface{}, false
	}
	return s.Interfaces[i], true
}

func (in Interface) has(addrs []netip.Addr) bool {
	return !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !slices.Contains(in.Addrs, a) })
}

// attachments holds each statement against the namespace; dev has the pod's stable address.
func (s Sandbox) attachments(p Pod, dev Interface) ([]topo.Attachment, error) {
	out := []topo.Attachment{dev.attachment(Default, p.Addrs)}
	used := map[string]string{dev.Name: Default}
	for _, st := range p.Attachments {
		if st.Default {
			if err := st.check(dev); err != nil {
				return nil, err
			}
			continue
		}
		if len(st.Addrs) == 0 {
			continue // no path leads over it
		}
		in, ok := s.stated(st)
		if !ok {
			return nil, fmt.Errorf("no interface %s with %v, as network-status says of %s", st.Dev, st.Addrs, st.Network)
		}
		if err := st.check(in); err != nil {
			return nil, err
		}
		if other, twice := used[in.Name]; twice {
			return nil, fmt.Errorf("network-status says that %s is on both %s and %s", in.Name, other, st.Network)
		}
		used[in.Name] = st.Network
		out = append(out, in.attachment(st.Network, st.Addrs))
	}
	return out, nil
}

// stated is the interface that the statement is of: by its name, or where it gives none by
// its addresses.
func (s Sandbox) stated(st Statement) (Interface, bool) {
	if st.Dev == "" {
		return s.holder(st.Addrs)
	}
	i := slices.IndexFunc(s.Interfaces, func(in Interface) bool { return in.Name == st.Dev })
	if i < 0 {
		return Interface{}, false
	}
	return s.Interfaces[i], true
}

// check returns an error where the interface is not as stated.
func (st Statement) check(in Interface) error {
	switch {
	case st.Dev != "" && st.Dev != in.Name:
		return fmt.Errorf("network-status has %s on %s, but the address is on %s", st.Network, st.Dev, in.Name)
	case !in.has(st.Addrs):
		return fmt.Errorf("%s has %v, but network-status says %v of %s", in.Name, in.Addrs, st.Addrs, st.Network)
	case len(st.MAC) > 0 && !slices.Equal(st.MAC, in.MAC):
		return fmt.Errorf("%s has the hardware address %s, but network-status says %s of %s", in.Name, in.MAC, st.MAC,
			st.Network)
	}
	return nil
}

// attachment is what others have of the interface: its MTU is the namespace's.
func (in Interface) attachment(network string, addrs []netip.Addr) topo.Attachment {
	at := topo.Attachment{Network: network, Dev: in.Name, MTU: in.MTU, MAC: in.MAC.String()}
	at.SetAddrs(addrs)
	return at
}
