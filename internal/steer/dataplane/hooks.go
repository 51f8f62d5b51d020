package dataplane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// hooks are where a data plane's programs are attached: the pod's interfaces, and the
// links that are pinned.
type hooks struct {
	of Config
	// attaching is held where programs are attached or asked about, which other goroutines
	// than that of who calls the rest may do: see Direct and Plane.Memory. To attach waits
	// for the kernel (tcx_entry_sync).
	attaching sync.Mutex
	progs     bpfPrograms // as attached last
	devs      map[string]*net.Interface
	// InPlace: arrivals are delivered on the path's interface. It is false where
	// reverse path filtering is strict there, as they then must come by eth0.
	InPlace bool
	// loose: nor is it strict on eth0, where replies still come by the default
	// network while a direct route leads elsewhere.
	loose bool
}

// Index is the kernel's number of one of the pod's interfaces, 0 for others.
func (h *hooks) Index(dev string) int {
	if i := h.devs[dev]; i != nil {
		return i.Index
	}
	return 0
}

// find finds the interfaces and whether a path filters strictly (RFC 3704).
func (h *hooks) find() error { return netns.Do(h.of.Netns, h.look) }

func (h *hooks) look() error {
	h.devs = map[string]*net.Interface{}
	h.InPlace, h.loose = true, true
	for _, name := range append([]string{h.of.Dev}, h.of.PathDevs...) {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		h.devs[name] = dev
		// The kernel takes the larger of the two (ip-sysctl.rst, rp_filter).
		mode := 0
		for _, conf := range []string{"all", name} {
			raw, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", conf, "rp_filter"))
			if err != nil {
				return fmt.Errorf("read rp_filter: %w", err)
			}
			n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			if err != nil {
				return fmt.Errorf("read rp_filter: %w", err)
			}
			mode = max(mode, n)
		}
		h.InPlace = h.InPlace && (mode != 1 || name == h.of.Dev)
		h.loose = h.loose && mode != 1
	}
	return nil
}

// attach puts the programs on their hooks, or new ones into links that are
// pinned, which leaves no moment without.
func (h *hooks) attach(progs bpfPrograms) error {
	h.progs = progs
	return netns.Do(h.of.Netns, h.attachAll)
}

func (h *hooks) attachAll() error {
	// Out comes last, so that programs which watch or refuse see what the pod
	// sent; arrivals are translated first, so that they see stable addresses.
	if err := h.hook(h.of.Dev, "in", h.progs.PwIngress, ebpf.AttachTCXIngress, link.Head()); err != nil {
		return err
	}
	for _, dev := range h.of.PathDevs {
		if err := h.hook(dev, "path_in", h.progs.PwPathIngress, ebpf.AttachTCXIngress, link.Head()); err != nil {
			return err
		}
		if _, err := os.Stat(h.pinOf(dev, "out")); err == nil { // a predecessor's direct routes
			if err := h.hook(dev, "out", h.progs.PwEgress, ebpf.AttachTCXEgress, link.Head()); err != nil {
				return err
			}
		}
	}
	return h.hook(h.of.Dev, "out", h.progs.PwEgress, ebpf.AttachTCXEgress, link.Tail())
}

// pinOf is where the link of a program on an interface is pinned.
func (h *hooks) pinOf(dev, what string) string {
	return filepath.Join(h.of.PinDir, "link-"+dev+"-"+what)
}

func (h *hooks) hook(dev, what string, prog *ebpf.Program, at ebpf.AttachType, where link.Anchor) error {
	pin := h.pinOf(dev, what)
	old, err := link.LoadPinnedLink(pin, nil)
	if err == nil {
		defer old.Close()
		if on, err := attached(old, h.devs[dev].Index, at); err != nil {
			return fmt.Errorf("query %s: %w", dev, err)
		} else if on {
			if err := old.Update(prog); err != nil {
				return fmt.Errorf("update %s on %s: %w", what, dev, err)
			}
			return nil
		}
		// The interface was made again: the old link hangs on nothing.
		if err := old.Unpin(); err != nil {
			return fmt.Errorf("unpin %s: %w", pin, err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("load pinned link %s: %w", pin, err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: h.devs[dev].Index, Program: prog, Attach: at, Anchor: where})
	if err != nil {
		return fmt.Errorf("attach %s to %s: %w", what, dev, err)
	}
	defer l.Close()
	if err := l.Pin(pin); err != nil {
		return fmt.Errorf("pin %s: %w", pin, err)
	}
	return nil
}

// attached reports whether the link is on this very interface. The number in the
// link's information will not do: the interface may be one of another namespace,
// as when a pod's sandbox was made again and the old one lingers.
func attached(l link.Link, ifindex int, at ebpf.AttachType) (bool, error) {
	info, err := l.Info()
	if err != nil {
		return false, fmt.Errorf("read link: %w", err)
	}
	on, err := programs(ifindex, at)
	return slices.ContainsFunc(on, func(a link.AttachedProgram) bool {
		id, ok := a.LinkID()
		return ok && id == info.ID
	}), err
}

// programs lists those on a hook of an interface. The count is asked for before the
// list, and others attach theirs as they like: where the list has outgrown the count in
// between (ENOSPC), it is asked for again.
func programs(ifindex int, at ebpf.AttachType) ([]link.AttachedProgram, error) {
	for tries := 1; ; tries++ {
		on, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: at})
		switch {
		case err == nil:
			return on.Programs, nil
		case !errors.Is(err, unix.ENOSPC) || tries == 1000:
			return nil, fmt.Errorf("list programs: %w", err)
		}
	}
}
