package impair

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Means by which an impairment acts.
const (
	ByProgram = "eBPF"
	ByShaper  = "tbf"
	ByNetem   = "netem"
	ByLine    = "delay line"
)

// plan says, for each direction, what acts by which means.
type plan map[way]course

// course is a plan for one direction.
type course struct {
	loss   float64 // by a program
	shaper uint64  // bit/s, by tbf
	netem  netem   // by netem
	line   *Hold   // by a delay line
}

// netem is what that queueing discipline does.
type netem struct {
	Hold
	loss float64
}

// ErrNoNetem: the kernel cannot delay packets.
var ErrNoNetem = errors.New("delay, jitter and reordering need the queueing discipline netem: a kernel with CONFIG_NET_SCH_NETEM")

// plan is the first one: with netem for delays, and for losses where the kernel
// has no hook for programs on a device (tcx, Linux 6.6).
func (m Impairer) plan(w wire, i Impairment) (plan, error) {
	in, out := i.losses()
	programs := true
	if in > 0 || out > 0 {
		var err error
		if programs, err = w.takesPrograms(); err != nil {
			return nil, err
		}
	}
	if !programs && i.Only != (Only{}) {
		return nil, fmt.Errorf("only %s: %w", i.Only, errNoPrograms)
	}
	p := plan{}
	for dir, loss := range map[way]float64{intoPod: in, outOfPod: out} {
		var c course
		if c.loss = loss; !programs {
			c.loss, c.netem.loss = 0, loss
		}
		if i.Direction.has(dir) {
			c.shaper, c.netem.Hold = i.Rate, Hold{Delay: i.Delay, Jitter: i.Jitter, Reorder: i.Reorder}
		}
		p[dir] = c
	}
	return p, nil
}

var errNoPrograms = errors.New("to choose packets needs programs on a device: a kernel with tcx, Linux 6.6")

// takesPrograms reports whether the far end has hooks for programs.
func (w wire) takesPrograms() (ok bool, err error) {
	err = netns.Do(w.netns, func() error {
		_, err := link.QueryPrograms(link.QueryOptions{Target: w.index, Attach: ebpf.AttachTCXIngress})
		return err
	})
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL):
		return false, nil
	case errors.Is(err, unix.ENOSPC):
		// There are hooks: a program came to one between the count and the list.
		return true, nil
	}
	return err == nil, err
}

// withoutNetem has a delay line do what netem would, and a rate where the line
// is in the way anyhow and nothing else can bound it.
func (p plan) withoutNetem(w wire) (plan, error) {
	out := plan{}
	for dir, c := range p {
		if c.netem.loss > 0 {
			return nil, errNoHook
		}
		hold := c.netem.Hold
		c.netem = netem{}
		if dir == intoPod && !w.own() {
			hold.Rate, c.shaper = c.shaper, 0
		}
		if hold != (Hold{}) {
			c.line = &hold
		}
		out[dir] = c
	}
	return out, nil
}

var errNoHook = errors.New("loss needs programs on a device (tcx, Linux 6.6) or the queueing discipline netem, and in the latter case a device of the pod's own in its host")

// lineAlone reports whether a queueing discipline cannot do what is planned: what
// comes into a pod by a device that is others' too.
func (p plan) lineAlone(w wire) bool {
	c := p[intoPod]
	return !w.own() && (c.shaper > 0 || c.netem != (netem{}))
}

// means lists what a plan uses.
func (p plan) means() (out []string) {
	for _, dir := range []way{outOfPod, intoPod} {
		c := p[dir]
		for name, used := range map[string]bool{ByProgram: c.loss > 0, ByShaper: c.shaper > 0, ByNetem: c.netem != (netem{}),
			ByLine: c.line != nil} {
			if used && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}
