package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// wiring makes namespaces, bridges and cables, each recorded before it is made.
type wiring struct {
	rec *record
	mu  sync.Mutex // guards handles: pods are attached on all hosts at once
	// handles are by namespace.
	handles map[string]*netlink.Handle
}

// Netlink implements network.Operator; the handle lives as long as the lab.
func (w *wiring) Netlink(ns string) (*netlink.Handle, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h, ok := w.handles[ns]; ok {
		return h, nil
	}
	h, err := netns.Netlink(ns)
	if err != nil {
		return nil, err
	}
	w.handles[ns] = h
	return h, nil
}

func (w *wiring) makeNetns(name string) error {
	if err := w.rec.intend(kindNetns, name); err != nil {
		return err
	}
	return netns.Create(name)
}

// makeBridge makes a bridge and sets it up.
func (w *wiring) makeBridge(ns, name string, mtu int) error {
	h, err := w.Netlink(ns)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := h.LinkAdd(br); err != nil {
		return fmt.Errorf("create bridge %s: %w", name, err)
	}
	if err := h.LinkSetUp(br); err != nil {
		return fmt.Errorf("set bridge %s up: %w", name, err)
	}
	return nil
}

// cable is a veth pair: its near end is a port of a bridge, or of nothing yet.
type cable struct {
	ns, bridge, name string
	peer, dev        string
	mtu              int
}

// plug makes the cable and sets its near end up.
func (w *wiring) plug(c cable) error {
	h, err := w.Netlink(c.ns)
	if err != nil {
		return err
	}
	ns, err := netns.LinkFd(c.peer)
	if err != nil {
		return err
	}
	defer ns.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = c.name, c.mtu
	if c.bridge != "" {
		br, err := h.LinkByName(c.bridge)
		if err != nil {
			return fmt.Errorf("find bridge %s: %w", c.bridge, err)
		}
		attrs.MasterIndex = br.Attrs().Index
	}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: c.dev, PeerMTU: uint32(c.mtu), PeerNamespace: netlink.NsFd(ns.Fd())}
	if err := h.LinkAdd(veth); err != nil {
		return fmt.Errorf("create %s: %w", c.dev, err)
	}
	if err := h.LinkSetUp(veth); err != nil {
		return fmt.Errorf("set %s up: %w", c.name, err)
	}
	return nil
}

// setUp sets a device up.
func (w *wiring) setUp(ns, dev string) error {
	nl, err := w.Netlink(ns)
	if err != nil {
		return err
	}
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", dev, err)
	}
	return nil
}

// enslave makes dev a port of the bridge and sets it up.
func (w *wiring) enslave(ns, dev, bridge string) error {
	nl, err := w.Netlink(ns)
	if err != nil {
		return err
	}
	link, err := nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("find %s: %w", dev, err)
	}
	br, err := nl.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find %s: %w", bridge, err)
	}
	if err := nl.LinkSetMasterByIndex(link, br.Attrs().Index); err != nil {
		return fmt.Errorf("join %s to %s: %w", dev, bridge, err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", dev, err)
	}
	return nil
}

// sysctl sets values by their path under /proc/sys in the namespace; keys that
// the kernel does not have are left out.
func sysctl(ns string, values map[string]string) error {
	return netns.Do(ns, func() error {
		for key, value := range values {
			err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0o644)
			if err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("set sysctl %s: %w", key, err)
			}
		}
		return nil
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// close closes the handles.
func (w *wiring) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.handles {
		h.Close()
	}
	w.handles = nil
}
