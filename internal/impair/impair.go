// Package impair makes a pod's attachment worse on purpose: a lower rate, loss,
// delay, or a silent black hole, one way or both.
//
// It acts at the far end of the wire, where the pod cannot see it: what the pod
// sends looks sent, also what a program in the pod has redirected to the
// interface, and what comes in is judged before any program of the pod. It does
// not act inside the network, and it measures nothing.
package impair

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/netns"
)

// Impairment is what is wrong with an attachment; the zero value is nothing.
// Directions are the pod's.
type Impairment struct {
	// Rate bounds what the pod sends, in bits per second; 0 means no bound.
	Rate uint64
	// DropIngress and DropEgress lose all that comes in or goes out.
	DropIngress, DropEgress bool
	// LossIngress and LossEgress are the shares lost at random, 0 to 1. What is
	// lost is what the kernel hands over at once: a whole burst of segments
	// where the sender leaves segmentation to the device (GSO).
	LossIngress, LossEgress float64
	// Delay and Jitter hold up what the pod sends.
	Delay, Jitter time.Duration
}

// MinRate is the lowest rate: below it a single burst would take seconds.
const MinRate = 64_000

// Check returns an error for the first value out of range.
func (i Impairment) Check() error {
	if i.Rate != 0 && i.Rate < MinRate {
		return fmt.Errorf("rate %d: expected %d bit/s or more", i.Rate, MinRate)
	}
	for _, loss := range []float64{i.LossIngress, i.LossEgress} {
		if !(loss >= 0 && loss <= 1) {
			return fmt.Errorf("loss %v: expected a share from 0 to 1", loss)
		}
	}
	const most = time.Minute
	if i.Delay < 0 || i.Delay > most || i.Jitter < 0 || i.Jitter > i.Delay {
		return fmt.Errorf("delay %v, jitter %v: expected a delay of 0 to %v and a jitter that is no longer", i.Delay, i.Jitter, most)
	}
	return nil
}

// losses returns the shares lost on the way into and out of the pod.
func (i Impairment) losses() (in, out float64) {
	in, out = i.LossIngress, i.LossEgress
	if i.DropIngress {
		in = 1
	}
	if i.DropEgress {
		out = 1
	}
	return in, out
}

// Port is the interface to be impaired.
type Port struct {
	// Netns and Dev are the pod's namespace and interface.
	Netns, Dev string
	// Host is the namespace of the pod's host, where the wire's other end is.
	Host string
}

// Impairer impairs ports. What it has done stays when the process ends: it goes
// with Clear, or with the namespaces and the file system of Pins.
type Impairer struct {
	// Pins is a directory on a BPF file system.
	Pins string
}

// Apply puts the impairment in place of any earlier one; doing it twice changes
// nothing. After an error the earlier one may be there in part: Clear it.
func (m Impairer) Apply(p Port, i Impairment) error {
	if err := i.Check(); err != nil {
		return fmt.Errorf("impair %s in %s: %w", p.Dev, p.Netns, err)
	}
	if err := m.apply(p, i); err != nil {
		return fmt.Errorf("impair %s in %s: %w", p.Dev, p.Netns, err)
	}
	return nil
}

// Clear ends every impairment of the port; none is no error.
func (m Impairer) Clear(p Port) error { return m.Apply(p, Impairment{}) }

func (m Impairer) apply(p Port, i Impairment) error {
	w, err := p.wire()
	if err != nil {
		return err
	}
	if err := shape(p, i); err != nil {
		return err
	}
	in, out := i.losses()
	return errors.Join(m.lose(p, w, intoPod, in), m.lose(p, w, outOfPod, out))
}

// wire is where the far end of a pod's interface is.
type wire struct {
	netns string
	index int
	// mac is the pod's address where the device carries other pods' frames too;
	// nil where it carries this pod's alone.
	mac []byte
}

// wire finds the far end of the pod's interface in its host.
func (p Port) wire() (wire, error) {
	pod, err := netns.Netlink(p.Netns)
	if err != nil {
		return wire{}, err
	}
	defer pod.Close()
	near, err := pod.LinkByName(p.Dev)
	if err != nil {
		return wire{}, fmt.Errorf("find %s: %w", p.Dev, err)
	}
	host, err := netns.Netlink(p.Host)
	if err != nil {
		return wire{}, err
	}
	defer host.Close()
	far, err := host.LinkByIndex(near.Attrs().ParentIndex)
	if err != nil {
		return wire{}, fmt.Errorf("find the other end of %s in %s: %w", p.Dev, p.Host, err)
	}
	w := wire{netns: p.Host, index: far.Attrs().Index}
	switch near.(type) {
	case *netlink.Veth:
		if far.Type() != "veth" || far.Attrs().ParentIndex != near.Attrs().Index {
			return wire{}, fmt.Errorf("the other end of %s is not in %s", p.Dev, p.Host)
		}
	case *netlink.Macvlan:
		w.mac = near.Attrs().HardwareAddr
	default:
		return wire{}, fmt.Errorf("%s is of type %s: only veth and macvlan can be impaired", p.Dev, near.Type())
	}
	return w, nil
}

// ParseRate reads bits per second as tc(8) writes them: 500mbit, 1.5gbit, 64kbit.
func ParseRate(text string) (uint64, error) {
	lower := strings.ToLower(text)
	for _, unit := range []struct {
		suffix string
		factor float64
	}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}} {
		cut, ok := strings.CutSuffix(lower, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(cut, 64)
		if err == nil && n*unit.factor >= MinRate && n*unit.factor <= 1e12 {
			return uint64(n * unit.factor), nil
		}
		break
	}
	return 0, fmt.Errorf("rate %q: expected 64kbit to 1000gbit, such as 500mbit", text)
}
