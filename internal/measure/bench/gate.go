package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/explain/cost"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Thresholds of the gates.
const (
	// saturatedIdle: with less of the machine's time idle, a throughput is bound by CPU.
	saturatedIdle = 0.05
	// noisySteal: with more of the time given to other guests, figures are noise.
	noisySteal = 0.05
	// otherWork: with more of the idle machine busy, somebody else is at work.
	otherWork = 0.10
	// generatorBound: a generator that spends more of its wall time in user
	// mode, where no networking is done, bounds the figure itself.
	generatorBound = 0.85
	// crossedShare of the payload must have passed the claimed devices. Traffic
	// that takes another way leaves next to nothing there; the rest allows for
	// a busy machine, on which counters are read late.
	crossedShare = 0.5
	// leastSeen is the share of the window that the meter must have seen. On a busy
	// machine its reading takes long; the generators count meanwhile, in the window
	// that was planned.
	leastSeen = 0.8
)

// windowGate begins the reason of a trial whose window was not seen whole.
const windowGate = "gate window: "

// cut says that CPU time and counters are not of the figures' window; "" if they are.
func cut(seen time.Duration, planned workload.Window, out workload.Outcome) string {
	want := cmp.Or(out.Window, planned.Duration)
	if seen.Seconds() >= leastSeen*want.Seconds() {
		return ""
	}
	return windowGate + fmt.Sprintf("CPU time and counters are of %v of a window of %v: the machine was too busy",
		seen.Round(time.Millisecond), want.Round(time.Millisecond))
}

// meter takes CPU time and device counters at the ends of the window.
type meter struct {
	devices    []device
	begin, end cost.Snapshot
	// spent is the CPU time of all machines, from and to what it was by machine.
	spent        func() (map[string]cost.Snapshot, error)
	from, to     map[string]cost.Snapshot
	before, then []counters
	// datapath is the network's, if it counts its packets; passed is what it had counted at
	// the beginning, and then what it counted in the window.
	datapath network.Datapath
	passed   network.Passed
	// lens looks inside the window; nil: nobody does.
	lens *lens
	err  error
}

// device is one whose counters are read.
type device struct {
	network.Device
	read func() (counters, error)
}

type counters struct{ bytes, packets uint64 }

// Begin implements workload.Meter.
func (m *meter) Begin() {
	m.before = m.count()
	m.passed = m.pass()
	if m.lens != nil {
		m.lens.begin()
	}
	m.begin, m.from = m.cpu()
}

// End implements workload.Meter.
func (m *meter) End() {
	m.end, m.to = m.cpu()
	if m.lens != nil {
		m.lens.end()
	}
	m.then = m.count()
	now := m.pass()
	m.passed = network.Passed{Packets: now.Packets - m.passed.Packets, Passes: now.Passes - m.passed.Passes}
}

func (m *meter) cpu() (cost.Snapshot, map[string]cost.Snapshot) {
	all, err := m.spent()
	m.err = errors.Join(m.err, err)
	return cost.Sum(all), all
}

// pass is what the network's datapath has counted so far. The daemon answers as fast as the
// machine lets it, and no context ends here: asking has a limit of its own.
func (m *meter) pass() network.Passed {
	if m.datapath == nil {
		return network.Passed{}
	}
	p, err := m.datapath.Count(context.Background())
	m.err = errors.Join(m.err, err)
	return p
}

func (m *meter) count() []counters {
	out := make([]counters, len(m.devices))
	for i, d := range m.devices {
		var err error
		out[i], err = d.read()
		m.err = errors.Join(m.err, err)
	}
	return out
}

// crossed says which claimed device the traffic did not pass; "" if it passed all.
func (m *meter) crossed(out workload.Outcome) string {
	for i, d := range m.devices {
		bytes := float64(m.then[i].bytes - m.before[i].bytes)
		packets := m.then[i].packets - m.before[i].packets
		if bytes < crossedShare*out.Bytes || packets == 0 {
			return fmt.Sprintf("gate device: %.0f bytes of payload, but %s in %s counted %.0f bytes: traffic took another way",
				out.Bytes, d.Name, d.Netns, bytes)
		}
	}
	return ""
}

// watch lists the devices that the traffic must pass: those that the network
// names, on the hosts that pods are on, when pods are on different hosts; and
// the first client's own interface where it has one, which must carry its share.
func watch(l Lab, b workload.Bed, s topo.Scenario) []device {
	var out []device
	if s.Placement.Hosts() > 1 {
		for _, d := range l.Plug().Crossing {
			out = append(out, reader(l, d))
		}
	}
	if m := l.Plug().Mode; (m == network.ByCNI || m == network.ByEngine) && s.Pairs == 1 {
		c := b.Pairs[0].Client
		out = append(out, reader(l, network.Device{Netns: c.Netns, Name: c.Attachments[0].Dev}))
	}
	if s.IP() == topo.IPv6 && s.Pairs == 1 {
		out = append(out, stack(l, b.Pairs[0].Client))
	}
	return out
}

func reader(l Lab, d network.Device) device {
	return device{d, func() (counters, error) {
		c, err := l.Counters(d)
		return counters{c.Bytes, c.Packets}, err
	}}
}

// cpuGates says what the CPU time of the window means for the figures.
func cpuGates(raw sample.CPU, window time.Duration, out workload.Outcome) []sample.Warning {
	var w []sample.Warning
	whole := float64(raw.Cores) * window.Seconds()
	if whole <= 0 {
		return nil
	}
	if raw.Idle/whole < saturatedIdle {
		w = append(w,
			sample.Warning{Gate: "cpu-saturated", Text: "the whole machine was busy: both ends, the network and whatever else ran shared its CPU"})
	}
	if raw.Steal/whole > noisySteal {
		w = append(w,
			sample.Warning{Gate: "steal", Text: fmt.Sprintf("the hypervisor gave %.0f %% of the window to others",
				100*raw.Steal/whole)})
	}
	if out.GeneratorUser > generatorBound {
		w = append(w,
			sample.Warning{Gate: "generator-bound", Text: "the generator itself used a whole core: the network could do more"})
	}
	return w
}

// podGates looks at MTU and offloads of the first pair's interfaces.
func podGates(l Lab, b workload.Bed, info network.Info, wire int) []sample.Warning {
	c, s := b.Pairs[0].Client, b.Pairs[0].Server
	if len(c.Attachments) == 0 || len(s.Attachments) == 0 {
		return nil
	}
	var w []sample.Warning
	want, a, z := wire-info.Overhead, c.Attachments[0], s.Attachments[0]
	if a.MTU != z.MTU || (a.MTU != want && info.Family != "cni") {
		w = append(w,
			sample.Warning{Gate: "mtu", Text: fmt.Sprintf("pods have MTU %d and %d, expected %d", a.MTU, z.MTU, want)})
	}
	fa, errA := l.Features(network.Device{Netns: c.Netns, Name: a.Dev})
	fz, errZ := l.Features(network.Device{Netns: s.Netns, Name: z.Dev})
	if err := errors.Join(errA, errZ); err != nil {
		return append(w, sample.Warning{Gate: "offload", Text: "offloads could not be read: " + Reason(err)})
	}
	for _, name := range offloads() {
		if fa[name] != fz[name] {
			w = append(w, sample.Warning{Gate: "offload", Text: fmt.Sprintf("%s differs between the pods", name)})
		}
	}
	return w
}

// offloads are the features that move throughput most.
func offloads() []string {
	return []string{"tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro", "tx-checksum-ip-generic",
		"tx-udp-segmentation"}
}

// checkIsolation tries to get out of a pod that must not: it has no device
// besides loopback, and no way to the underlay or to the other pod's host.
func checkIsolation(l *lab.Lab, t *sample.Trial) {
	t.Status, t.Reason = sample.Refused, "carries no traffic, as it must"
	pod := l.Pods()[0]
	err := l.Do(pod, func() error {
		devs, err := net.Interfaces()
		if err != nil {
			return fmt.Errorf("list devices: %w", err)
		}
		if len(devs) != 1 {
			return fmt.Errorf("isolation broken: the pod has %d devices", len(devs))
		}
		targets := []netip.Addr{l.Gateway().Addr(), l.Gateway6().Addr()}
		for _, h := range l.Hosts() {
			targets = append(targets, h.Addr.Addr(), h.Addr6.Addr())
		}
		for _, a := range targets {
			if err := unreachable(a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Status, t.Reason = sample.Failed, Reason(err)
	}
}

// unreachable sends a datagram, which the kernel must refuse for want of a
// route. It uses the calling thread's namespace alone, so no net.Dialer. The zero
// address is that of a lab without IPv6.
func unreachable(a netip.Addr) error {
	family, to := syscall.AF_INET, syscall.Sockaddr(nil)
	switch {
	case !a.IsValid():
		return nil
	case a.Is4():
		to = &syscall.SockaddrInet4{Port: topo.ServicePort, Addr: a.As4()}
	default:
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: topo.ServicePort, Addr: a.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer syscall.Close(fd)
	err = syscall.Connect(fd, to)
	if !errors.Is(err, syscall.ENETUNREACH) {
		return fmt.Errorf("isolation broken: a route leads to %v: %v", a, err)
	}
	return nil
}
