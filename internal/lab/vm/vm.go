// Package vm gives a lab hosts that are virtual machines: guests of package guest
// with an interface on the lab's underlay, and in each a Share of the lab, which
// builds and runs there what the lab asks for.
//
// A machine is spoken to over an interface of its own, whose other end is alone in a
// namespace: what goes over it crosses none of the lab's networks. What a network or
// a pod is, this package does not know.
package vm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

const (
	// controlMAC is that of every machine's interface to its host.
	controlMAC = "02:70:77:00:00:01"
	// port is where a machine listens for its host.
	port = 7077
)

// addresses returns both ends of the way to machine number n, the host's first:
// link-local ones (RFC 3927), as nothing is behind them.
func addresses(n int) (outer, inner netip.Prefix) {
	base := 4 * n
	at := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 77 + byte((base+i)>>8), byte(base + i)}), 30)
	}
	return at(1), at(2)
}

// Argument makes the executable serve a lab's share in a virtual machine:
// Argument ROOT CNIPATH ADDRESS.
const Argument = "vm-agent"

// Config says what machines to boot.
type Config struct {
	Kernel guest.Kernel
	// Self is the executable that knows Argument and is the guest's init.
	Self string
	// Root of the store in which a machine records its share of a lab; CNIPath
	// lists the directories of CNI plugins.
	Root    string
	CNIPath []string
	// Env is the environment of programs in the machine.
	Env []string
	// Memory of a machine in bytes; 0 means DefaultMemory.
	Memory int64
}

// DefaultMemory is enough for the daemons of any one network and its generators.
const DefaultMemory = 512 << 20

// Hypervisor boots machines that go with their lab.
type Hypervisor struct{ Config }

// Label implements lab.Hypervisor.
func (c Config) Label() string { return c.Kernel.Label() }

// Warning is what is to be said of figures from such machines; "" where the
// processor itself runs them.
func (c Config) Warning() string {
	const cost = "that a network works there is shown, and its cost relative to others in the same place; no figure says anything about a real machine's speed"
	switch {
	case c.Kernel.Name == guest.UML:
		return "virtual machines are User-mode Linux, processes with one processor and no virtualisation: " + cost
	case c.Kernel.Emulated():
		return "virtual machines have emulated processors: " + cost
	default:
		return ""
	}
}

// Note says how machines are joined to the wire, for the result.
func (c Config) Note() string {
	device := "virtio-net without vhost-net (this machine has no /dev/vhost-net)"
	switch {
	case c.Kernel.Name == guest.UML:
		device = "User-mode Linux's vector device"
	case c.Kernel.Emulated():
		device = "virtio-net without vhost-net (which is for machines that the processor itself runs)"
	case c.Kernel.Vhost():
		device = "virtio-net with vhost-net"
	}
	return fmt.Sprintf("virtual machines: %s, %s on a tap device", c.Label(), device)
}

// Boot implements lab.Hypervisor.
func (h Hypervisor) Boot(ctx context.Context, r lab.Room) (lab.Machine, error) {
	c := h.Config
	mac, err := newMAC()
	if err != nil {
		return nil, err
	}
	control, err := net.ParseMAC(controlMAC)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	if err := makeTaps(r); err != nil {
		return nil, err
	}
	memory := c.Memory
	if memory == 0 {
		memory = DefaultMemory
	}
	_, inner := addresses(r.Number)
	m := newMachine(r.Netns, inner.Addr(), mac)
	m.guest, err = guest.Start(ctx, guest.Config{Kernel: c.Kernel, Store: lab.Store{Root: c.Root}, Self: c.Self,
		Memory: memory,
		Argv: []string{c.Self, Argument, lab.DefaultRoot, strings.Join(c.CNIPath, string(filepath.ListSeparator)),
			inner.String()}, Env: c.Env, Netns: r.Netns,
		NICs: []guest.NIC{{Tap: r.Tap, MAC: mac, MTU: r.MTU}, {Tap: r.Control, MAC: control, MTU: topo.DefaultMTU}}}, r)
	if err != nil {
		return nil, err
	}
	if err := m.await(ctx); err != nil {
		return nil, errors.Join(err, m.Failed())
	}
	return m, nil
}

// newMAC returns a locally administered address (IEEE 802-2014 section 8.4).
func newMAC() (net.HardwareAddr, error) {
	mac := net.HardwareAddr{0x02, 0x70, 0x78, 0, 0, 0}
	if _, err := rand.Read(mac[3:]); err != nil {
		return nil, fmt.Errorf("choose address: %w", err)
	}
	return mac, nil
}

// makeTaps makes both tap devices, which stay when nobody has them open.
func makeTaps(r lab.Room) error {
	return netns.Do(r.Netns, func() error { // a tap device is its maker's namespace's
		nl, err := netlink.NewHandle()
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		defer nl.Close()
		for _, name := range []string{r.Tap, r.Control} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.MTU = name, r.MTU
			tap := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP,
				Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR}
			if err := nl.LinkAdd(tap); err != nil {
				return fmt.Errorf("create tap device: %w", err)
			}
			for _, f := range tap.Fds {
				f.Close()
			}
		}
		outer, _ := addresses(r.Number)
		return setAddress(nl, r.Control, outer)
	})
}

// setAddress gives the device its address and sets it up.
func setAddress(nl *netlink.Handle, dev string, addr netip.Prefix) error {
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	if err := nl.AddrAdd(link, &netlink.Addr{IPNet: network.IPNet(addr)}); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("set address of %s: %w", dev, err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", dev, err)
	}
	return nil
}
