package dataplane

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Direct makes ready for routes that lead from the pod straight to a path's
// interface, or ends that: such routes must be gone then, as what they lead there
// would leave as it is. A packet that is led there needs neither eth0's hook nor the
// redirection and the second passage through the device layer. What its flow's choice
// has on another path is redirected, as from eth0: a direct route makes the common
// way short, it chooses nothing. Package route makes them (Form.Direct). Any goroutine may
// call it.
func (h *hooks) Direct(dev string, ready bool) error {
	h.attaching.Lock()
	defer h.attaching.Unlock()
	if h.devs[dev] == nil || dev == h.of.Dev {
		return fmt.Errorf("%q is no path's interface of this pod", dev)
	}
	if !ready {
		pin := h.pinOf(dev, "out")
		detach(pin)
		if err := os.Remove(pin); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove pin: %w", err)
		}
		return nil
	}
	// First there: what it redirects is none of the interface's.
	return netns.Do(h.of.Netns, func() error {
		return h.hook(dev, "out", h.progs.PwEgress, ebpf.AttachTCXEgress, link.Head())
	})
}

// MayDirect reports whether direct routes are harmless: no other program is to see what
// leaves by eth0 (queueing disciplines and filters of tc come behind ours and see nothing
// of what is redirected either), and reverse paths are not filtered strictly (RFC 3704),
// as answers may come by another interface. Any goroutine may ask.
func (h *hooks) MayDirect() (ok bool, err error) {
	if !h.InPlace || !h.loose {
		return false, nil
	}
	err = netns.Do(h.of.Netns, func() error {
		on, err := programs(h.devs[h.of.Dev].Index, ebpf.AttachTCXEgress)
		ok = len(on) == 1
		return err
	})
	return ok, err
}
