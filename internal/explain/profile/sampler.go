// Package profile samples where all CPUs are during a window: kernel stacks, by
// an eBPF program that a timer runs on each, and the packets that pass devices.
// It counts in the kernel, so that nothing else runs while the window lasts.
//
// It does not say what the stacks mean: package explain does. The timer is a
// clock (perf's cpu-clock), which virtual machines have too. It waits while
// interrupts are off, so that such time counts for the function that turns them
// on again, most often _raw_spin_unlock_irqrestore; its caller is right, and
// callers are what explain attributes by.
package profile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:generate go tool bpf2go -tags linux -target bpfel -go-package profile profile profile.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu

// Frequency is how often a second each CPU is looked at: a prime, so that work
// that comes at round intervals is not seen always or never.
const Frequency = 997

// Sampler is a set of loaded programs; one serves one window.
type Sampler struct {
	objs   profileObjects
	links  []link.Link
	events []int
	// NoPackets says why packets are not counted; nil where they are.
	NoPackets error
}

// Open loads the programs and makes them ready. The kernel needs perf events,
// BPF and its type information (BTF). Where programs cannot be attached to
// packets, these are not counted, and softirqs are told by the task that they
// interrupted.
func Open() (s *Sampler, err error) {
	s = &Sampler{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open sampler: %w", errors.Join(err, s.Close()))
			s = nil
		}
	}()
	if err := loadProfileObjects(&s.objs, nil); err != nil {
		return s, fmt.Errorf("load programs: %w", err)
	}
	s.NoPackets = s.attachPackets()
	cpus, err := online()
	if err != nil {
		return s, err
	}
	for _, cpu := range cpus {
		if err := s.openEvent(cpu); err != nil {
			return s, fmt.Errorf("sample CPU %d: %w", cpu, err)
		}
	}
	return s, nil
}

// attachPackets attaches the programs that look at packets.
func (s *Sampler) attachPackets() error {
	for _, p := range []*ebpf.Program{s.objs.PwSent, s.objs.PwRecv} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return fmt.Errorf("attach to packets: %w", err)
		}
		s.links = append(s.links, l)
	}
	return nil
}

// openEvent makes one CPU's timer, off.
func (s *Sampler) openEvent(cpu int) error {
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unix.PERF_ATTR_SIZE_VER0),
		Sample: Frequency, Bits: unix.PerfBitDisabled | unix.PerfBitFreq,
	}, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open perf event: %w", err)
	}
	s.events = append(s.events, fd)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, s.objs.PwSample.FD()); err != nil {
		return fmt.Errorf("attach program: %w", err)
	}
	return nil
}

// Start begins the window.
func (s *Sampler) Start() error {
	err := s.objs.PwMeasuring.Put(uint32(0), uint32(1))
	for _, fd := range s.events {
		err = errors.Join(err, unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0))
	}
	if err != nil {
		return fmt.Errorf("start sampling: %w", err)
	}
	return nil
}

// Stop ends the window.
func (s *Sampler) Stop() error {
	var err error
	for _, fd := range s.events {
		err = errors.Join(err, unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0))
	}
	if err = errors.Join(err, s.objs.PwMeasuring.Put(uint32(0), uint32(0))); err != nil {
		return fmt.Errorf("stop sampling: %w", err)
	}
	return nil
}

// Close takes the programs away. Closing twice is fine.
func (s *Sampler) Close() error {
	var errs []error
	for _, fd := range s.events {
		errs = append(errs, unix.Close(fd))
	}
	for _, l := range s.links {
		errs = append(errs, l.Close())
	}
	s.events, s.links = nil, nil
	return errors.Join(append(errs, s.objs.Close())...)
}

// online lists the CPUs that are on.
func online() ([]int, error) {
	raw, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("list CPUs: %w", err)
	}
	out, err := parseList(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil, fmt.Errorf("list CPUs: %w", err)
	}
	return out, nil
}

// parseList reads the kernel's lists of CPUs, "0-3,8".
func parseList(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		a, errA := strconv.ParseUint(from, 10, 16)
		z, errZ := strconv.ParseUint(to, 10, 16)
		if errA != nil || errZ != nil || z < a {
			return nil, fmt.Errorf("%q: expected numbers and ranges such as 0-3,8", text)
		}
		for i := a; i <= z; i++ {
			out = append(out, int(i))
		}
	}
	return out, nil
}
