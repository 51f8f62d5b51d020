// Package impair makes a pod's attachment worse on purpose: a lower rate, loss,
// delay, jitter, reordering, or a silent black hole, one way or both. It uses
// netem where the kernel has it, and eBPF and a delay line of its own elsewhere.
//
// It acts at the far end of the wire, where the pod cannot see it: what the pod
// sends looks sent, also what a program in the pod has redirected to the
// interface, and what comes in is judged before any program of the pod. It does
// not act inside the network, and it measures nothing.
package impair

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Impairment is what is wrong with an attachment; the zero value is nothing, and
// all that is set acts together. A packet is what the kernel hands over at once:
// a whole burst of segments where the sender leaves segmentation to the device
// (GSO). Directions are the pod's.
type Impairment struct {
	// DropIngress and DropEgress lose all that comes in or goes out.
	DropIngress bool `json:"drop_in,omitempty"`
	DropEgress  bool `json:"drop_out,omitempty"`
	// LossIngress and LossEgress are the shares lost at random, 0 to 1.
	LossIngress float64 `json:"loss_in,omitempty"`
	LossEgress  float64 `json:"loss_out,omitempty"`
	// Only these packets are dropped or lost, as a filter on the way would.
	Only Only `json:"only,omitzero"`
	// Direction is which way Rate, Delay, Jitter and Reorder act.
	Direction Direction `json:"direction,omitempty"`
	// Rate bounds what passes, in bits per second; 0 means no bound.
	Rate uint64 `json:"rate,omitempty"`
	// Delay holds up every packet, and Jitter varies the delay of each by up to
	// so much, evenly: packets that are closer together may overtake each other.
	Delay  time.Duration `json:"delay_ns,omitempty"`
	Jitter time.Duration `json:"jitter_ns,omitempty"`
	// Reorder is the share of packets, 0 to 1, that are not held up and so
	// overtake those that are.
	Reorder float64 `json:"reorder,omitempty"`
}

// Direction is a way, or both, of a pod's traffic; the zero value is Out.
type Direction string

// Directions.
const (
	Out  Direction = "out"
	In   Direction = "in"
	Both Direction = "both"
)

func (d Direction) has(w way) bool { return d == Both || (d == In) == (w == intoPod) }

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
	if in, out := i.losses(); i.Only != (Only{}) && in == 0 && out == 0 {
		return fmt.Errorf("only %s: expected packets to be dropped or lost too", i.Only)
	}
	const most = time.Minute
	if i.Delay < 0 || i.Delay > most || i.Jitter < 0 || i.Jitter > i.Delay {
		return fmt.Errorf("delay %v, jitter %v: expected a delay of 0 to %v and a jitter that is no longer", i.Delay, i.Jitter, most)
	}
	if !(i.Reorder >= 0 && i.Reorder <= 1) || i.Reorder > 0 && i.Delay == 0 {
		return fmt.Errorf("reorder %v: expected a share from 0 to 1, and a delay for the others to be overtaken by", i.Reorder)
	}
	if d := i.Direction; d != "" && d != Out && d != In && d != Both {
		return fmt.Errorf("direction %q: expected in, out or both", d)
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
// with Clear, or with the namespaces, the file system of Pins and the processes
// of delay lines.
type Impairer struct {
	// Pins is a directory on a BPF file system. What is in force is recorded
	// alongside it.
	Pins string
	// Line is the command that runs a delay line, where the kernel has no netem:
	// it gets the port's three names and the directory of its socket as
	// arguments. Without, there are no delays on such a kernel.
	Line []string
	// Mark is a variable, NAME=VALUE, of the line's environment.
	Mark string
}

// Apply puts the impairment in place of any earlier one; doing it twice changes
// nothing. After an error the earlier one may be there in part: Clear it.
func (m Impairer) Apply(p Port, i Impairment) error {
	err := i.Check()
	if err == nil {
		err = m.apply(p, i)
	}
	if err != nil {
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
	plan, err := m.plan(w, i)
	if err != nil {
		return err
	}
	if plan, err = m.queue(p, w, plan); err != nil {
		return err
	}
	if err := m.line(p, plan); err != nil {
		return err
	}
	in, out := plan[intoPod].loss, plan[outOfPod].loss
	if err := errors.Join(m.lose(p, w, intoPod, in, i.Only), m.lose(p, w, outOfPod, out, i.Only)); err != nil {
		return err
	}
	return m.record(p, Force{Impairment: i, By: plan.means(), Index: w.near})
}

// wire is where the far end of a pod's interface is.
type wire struct {
	netns string
	index int
	// near is the index of the pod's interface in its own namespace.
	near, mtu int
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
	w := wire{netns: p.Host, index: far.Attrs().Index, near: near.Attrs().Index, mtu: near.Attrs().MTU}
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

// own reports whether the far end carries this pod's frames alone.
func (w wire) own() bool { return w.mac == nil }
