package trial

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"pathwise.dev/pathwise/internal/explain/cost"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/program"
)

// Reading is what a pod sees of its machine and of its own interfaces.
type Reading struct {
	// Clock is the machine's monotonic clock, Boot what tells this run of its kernel from others.
	Clock time.Duration `json:"clock"`
	Boot  string        `json:"boot"`
	CPU   cost.Snapshot `json:"cpu"`
	Links []Link        `json:"links"`
	// Throttled is how often the pod was kept from a processor by its limit.
	Throttled uint64 `json:"throttled"`
}

// Link is an interface of the pod.
type Link struct {
	Name  string         `json:"name"`
	MTU   int            `json:"mtu"`
	Addrs []netip.Prefix `json:"addrs,omitempty"`
	lab.Counters
}

// Meter answers each line that it reads by a Reading, in a pod, until its input ends.
func Meter(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	enc := json.NewEncoder(out)
	for lines.Scan() {
		r, err := read()
		if err == nil {
			err = enc.Encode(r)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func read() (r Reading, err error) {
	if r.CPU, err = cost.Read(); err != nil {
		return r, err
	}
	r.CPU.PerCore, r.Clock = nil, program.Kernel()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return r, fmt.Errorf("read the machine's boot: %w", err)
	}
	r.Boot, r.Throttled = strings.TrimSpace(string(boot)), throttled()
	r.Links, err = links()
	return r, err
}

func links() (out []Link, err error) {
	self, err := procfs.Self()
	var counts procfs.NetDev
	if err == nil {
		counts, err = self.NetDev()
	}
	if err != nil {
		return nil, fmt.Errorf("read counters of interfaces: %w", err)
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		n := counts[i.Name]
		l := Link{Name: i.Name, MTU: i.MTU,
			Counters: lab.Counters{Bytes: n.RxBytes + n.TxBytes, Packets: n.RxPackets + n.TxPackets}}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("read addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				l.Addrs = append(l.Addrs, p)
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// throttled reads nr_throttled of the container's own cgroup, of whichever version; 0 where it
// is not told.
func throttled() (n uint64) {
	for _, dir := range []string{"", "cpu", "cpu,cpuacct"} {
		raw, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", dir, "cpu.stat"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); ok {
				if n, err = strconv.ParseUint(text, 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return 0
}

// gauge is a Meter in a pod that is asked.
type gauge struct {
	mu    sync.Mutex // of in and out: one question at a time, until it is answered
	in    io.WriteCloser
	out   *json.Decoder
	ended chan error
}

// newGauge has run, which runs until its input ends, be a Meter.
func newGauge(run func(in io.Reader, out io.Writer) error) *gauge {
	in, theirs := io.Pipe()
	answers, ours := io.Pipe()
	g := &gauge{in: theirs, out: json.NewDecoder(answers), ended: make(chan error, 1)}
	go func() {
		err := run(in, ours)
		if err == nil {
			err = errors.New("it has ended")
		}
		in.CloseWithError(err)
		ours.CloseWithError(err)
		g.ended <- err
	}()
	return g
}

// ask returns a reading, and how long the answer took.
func (g *gauge) ask() (r Reading, took time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	begin := time.Now()
	if _, err = io.WriteString(g.in, "\n"); err == nil {
		err = g.out.Decode(&r)
	}
	took = time.Since(begin)
	r.CPU.At = begin.Add(took / 2) // by this machine's clock
	if err != nil {
		err = fmt.Errorf("read the meter in a pod: %w", err)
	}
	return r, took, err
}

// ahead is how far this machine's monotonic clock is ahead of the pod's, by the quickest of some
// answers; off is the error's bound.
func (g *gauge) ahead() (ahead, off time.Duration, err error) {
	off = time.Hour
	for range 8 {
		before := program.Kernel()
		r, took, err := g.ask()
		if err != nil {
			return 0, 0, err
		}
		if took/2 < off {
			ahead, off = before+took/2-r.Clock, took/2
		}
	}
	return ahead, off, nil
}

func (g *gauge) close() error { return g.in.Close() }
