package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
)

// former is a data plane of another layout that a version before, or after, this one has
// left in the pod. Its agent is gone, so its lease is ended, and it has its flows go home
// and tells the other end so. What the other end has sent meanwhile it still translates:
// ours lets pass what it does not know while there is one. Once nothing has come for a
// while it is taken away, and the flows are learnt by ours; after an hour in any case, as
// it admits what ours would not: by then other hosts have been upgraded too, or find that
// the path is dead. All that is asked of a layout
// is that "heartbeat" begins with when its agent last gave a sign of life, in ns of
// CLOCK_MONOTONIC_COARSE, that "received" begins each entry with a count of packets, and
// that its links are called link-INTERFACE-PROGRAM.
type former struct {
	dir     string
	retired time.Time
	// came is the packets that had come when it was last looked, and quiet since when
	// no more did.
	came  uint64
	quiet time.Time
}

const (
	// saysBye is how long a retired data plane is left to tell the other end that flows
	// have gone home, stillComes how long nothing must have come over its paths, and
	// longestFormer how long it is kept whatever comes.
	saysBye, stillComes, longestFormer = time.Second, 5 * time.Second, time.Hour
)

// retire ends the lease of data planes of other layouts.
func (p *Plane) retire() {
	now := p.cfg.Now()
	for _, dir := range p.cfg.Former {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "heartbeat"), nil)
		if err != nil {
			continue // there is none, or not enough of one to be running
		}
		// A value of zero is an hour's silence or more, whatever the lease.
		if err := m.Put(uint32(0), make([]byte, m.ValueSize())); err == nil {
			p.former = append(p.former, &former{dir: dir, retired: now, quiet: now})
		}
		m.Close()
	}
	p.lenient(len(p.former) > 0)
}

// lenient has the data plane let pass what it does not know, for a former one.
func (p *Plane) lenient(on bool) {
	v := uint32(0)
	if on {
		v = 1
	}
	put32(p.mem.heartbeat, leaseLenient, v)
}

// Former takes away the data planes of other layouts that have nothing to do any more.
// Call it about twice a second; it returns how many there still are. Ours lets nothing
// pass from the moment before the last one goes: the stack would answer with resets. Not
// while Exchange or Remove is called.
func (p *Plane) Former() (int, error) {
	var errs []error
	var ended []*former
	now, left := p.cfg.Now(), p.former[:0]
	for _, f := range p.former {
		done, err := f.look(now)
		if err != nil {
			errs = append(errs, fmt.Errorf("retire data plane in %s: %w", f.dir, err))
		}
		if done {
			ended = append(ended, f)
		} else {
			left = append(left, f)
		}
	}
	if p.former = left; len(left) == 0 {
		p.lenient(false)
	}
	for _, f := range ended {
		errs = append(errs, Remove(f.dir))
	}
	return len(left), errors.Join(errs...)
}

// look reports whether it has nothing to do any more.
func (f *former) look(now time.Time) (done bool, err error) {
	if now.Sub(f.retired) < saysBye {
		return false, nil
	}
	// It sends nothing any more, and would mark what ours is to.
	pins, err := filepath.Glob(filepath.Join(f.dir, "link-*-out"))
	if err != nil {
		return false, err
	}
	for _, pin := range pins {
		detach(pin)
		if err := os.Remove(pin); err != nil {
			return false, err
		}
	}
	came, err := arrivals(f.dir)
	if err != nil {
		return false, err
	}
	if came != f.came {
		f.came, f.quiet = came, now
	}
	return now.Sub(f.quiet) >= stillComes || now.Sub(f.retired) >= longestFormer, nil
}

// arrivals counts the packets that have come over the paths of the data plane in dir: of
// all its sizes, as one that was killed while it made room has two.
func arrivals(dir string) (n uint64, err error) {
	sized, err := filepath.Glob(filepath.Join(dir, roomPins+"*", "received"))
	if err != nil {
		return 0, err
	}
	for _, at := range append(sized, filepath.Join(dir, "received")) {
		came, err := arrived(at)
		if err != nil {
			return 0, err
		}
		n += came
	}
	return n, nil
}

// arrived is arrivals of one map; 0 where there is none.
func arrived(pin string) (n uint64, err error) {
	m, err := ebpf.LoadPinnedMap(pin, nil)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer m.Close()
	value := make([]byte, m.ValueSize())
	for i := range m.MaxEntries() {
		if i%MaxPaths == 0 {
			continue // the default network, which needs no translation
		}
		if err := m.Lookup(i, &value); err != nil {
			return 0, err
		}
		n += native64(value)
	}
	return n, nil
}
