package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// ErrInUse means that another collector, maybe of another process, holds the pins.
var ErrInUse = errors.New("in use by another collector")

// Below a collector's directory of pins lie the link and one directory of maps,
// whose name tells which program they were made for.
const (
	linkPin    = "link"
	mapsPrefix = "maps-"
)

// Collector is an attached program and its maps. Its methods may be called from
// any goroutine.
type Collector struct {
	pins    string
	lock    *os.File // of pins; the kernel lets go of it when the process dies
	link    link.Link
	maps    map[string]*ebpf.Map
	adopt   *ebpf.Program
	survey  *link.Iter    // over the watched sockets; nil where the kernel refuses to walk a map's elements
	all     *ebpf.Program // then: over the sockets of a namespace
	adopted bool

	// walking is held while sockets and flows are read, which takes as long as there are
	// many. It guards what follows, up to mu. Who needs both takes walking first.
	walking sync.Mutex
	last    time.Duration
	before  counters
	now     table  // kept for its memory
	evicted uint64 // flows that the kernel forgot, as there were more than it has room for

	mu        sync.Mutex        // of what follows; not held while sockets are walked
	names     map[uint64]string // watched by this process, to find old connections of new peers
	reading   uint32            // the window that the program sorts RTT extremes by
	onlyPeers bool
}

// Attach observes the sockets of the cgroup directory (CgroupRoot, to see all)
// and pins link and maps in pinDir, a directory of its own on a bpffs. It
// adopts those of an earlier agent where they are of the same program; else it
// replaces the program in place, so that there are never two. ErrInUse while
// another collector has them.
func Attach(cgroupDir, pinDir string) (c *Collector, err error) {
	c = &Collector{pins: pinDir, maps: map[string]*ebpf.Map{}, names: map[uint64]string{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("attach telemetry: %w", errors.Join(err, c.Close()))
			c = nil
		}
	}()
	cgroup, err := cgroupID(cgroupDir)
	if err != nil {
		return c, err
	}
	if c.lock, err = lockDir(pinDir); err != nil {
		return c, err
	}
	spec, err := loadTelemetry()
	if err != nil {
		return c, fmt.Errorf("read object: %w", err)
	}
	chooseSurvey(spec)
	if c.adopted, err = c.takeOver(spec, cgroup); err != nil {
		return c, err
	}
	if !c.adopted {
		err = c.replace(spec, cgroupDir)
	} else {
		err = c.loadIterators(spec)
	}
	if err == nil && c.adopted && c.all != nil {
		err = c.findWatched()
	}
	if err != nil {
		return c, err
	}
	return c, c.baseline()
}

// chooseSurvey leaves out of the programs the survey that is not used. Some kernels refuse to
// walk the elements of maps, whatever the program: there all sockets of each namespace are walked.
func chooseSurvey(spec *ebpf.CollectionSpec) {
	of := spec.Programs[telemetryProgPwTcpSurvey]
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: of.Type, AttachType: of.AttachType, AttachTo: of.AttachTo,
		License: of.License, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		delete(spec.Programs, telemetryProgPwTcpSurvey)
		return
	}
	empty.Close()
	delete(spec.Programs, telemetryProgPwTcpSurveyAll)
}

// lockDir makes sure of pinDir and locks it.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create pins: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open pins: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// mapsDir names the maps of this program: others may lay them out differently.
func (c *Collector) mapsDir() string {
	sum := sha256.Sum256(_TelemetryBytes)
	return filepath.Join(c.pins, mapsPrefix+hex.EncodeToString(sum[:8]))
}

// takeOver adopts the pins if the pinned link is on this cgroup and its program
// works on exactly the pinned maps of this object. Whatever is amiss, the
// answer is no; only what is in the way of replacing them is an error.
func (c *Collector) takeOver(spec *ebpf.CollectionSpec, cgroup uint64) (bool, error) {
	l, err := link.LoadPinnedLink(filepath.Join(c.pins, linkPin), nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("open link: %w", err)
	}
	c.link = l
	on, err := onCgroup(l, cgroup)
	if err != nil {
		return false, err
	}
	if !on { // a link cannot be moved: remove it, replace makes another
		err := dropLink(l)
		c.link = nil
		return false, err
	}
	for name, m := range spec.Maps {
		pinned, err := ebpf.LoadPinnedMap(filepath.Join(c.mapsDir(), name), nil)
		if err != nil {
			return false, c.closeMaps()
		}
		c.maps[name] = pinned
		if m.Compatible(pinned) != nil {
			return false, c.closeMaps()
		}
	}
	if !c.worksOnMaps(l) {
		return false, c.closeMaps()
	}
	return true, nil
}

// dropLink ends a pinned link now: removing its pin alone leaves the program
// attached until the kernel gets round to freeing the inode.
func dropLink(l link.Link) error {
	if err := errors.Join(l.Detach(), l.Unpin(), l.Close()); err != nil {
		return fmt.Errorf("remove link: %w", err)
	}
	return nil
}

// cgroupID is the identity of a cgroup: its inode.
func cgroupID(dir string) (uint64, error) {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Statfs(dir, &fs), unix.Stat(dir, &st)); err != nil {
		return 0, fmt.Errorf("stat cgroup %s: %w", dir, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return 0, fmt.Errorf("%s: %w", dir, ErrNoCgroup)
	}
	return st.Ino, nil
}

func onCgroup(l link.Link, cgroup uint64) (bool, error) {
	info, err := l.Info()
	if err != nil {
		return false, fmt.Errorf("inspect link: %w", err)
	}
	cg := info.Cgroup()
	return cg != nil && cg.CgroupId == cgroup, nil // 0 if the cgroup was removed
}

// worksOnMaps tells whether the attached program uses c.maps and no others: an
// agent that died while replacing leaves new maps alongside an old program.
func (c *Collector) worksOnMaps(l link.Link) bool {
	info, err := l.Info()
	if err != nil {
		return false
	}
	prog, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return false
	}
	defer prog.Close()
	about, err := prog.Info()
	if err != nil {
		return false
	}
	used, ok := about.MapIDs()
	if !ok || len(used) != len(c.maps) {
		return false
	}
	for _, m := range c.maps {
		about, err := m.Info()
		if err != nil {
			return false
		}
		if id, ok := about.ID(); !ok || !slices.Contains(used, id) {
			return false
		}
	}
	return true
}

// loadIterators loads only the iterators, on adopted maps.
func (c *Collector) loadIterators(spec *ebpf.CollectionSpec) error {
	delete(spec.Programs, telemetryProgPwTcpObserve)
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: c.maps})
	if err != nil {
		return fmt.Errorf("load iterators: %w", err)
	}
	defer coll.Close()
	return c.takeIterators(coll)
}

// takeIterators keeps the iterators of what was loaded.
func (c *Collector) takeIterators(coll *ebpf.Collection) (err error) {
	c.adopt = coll.DetachProgram(telemetryProgPwTcpAdopt)
	if coll.Programs[telemetryProgPwTcpSurvey] == nil {
		c.all = coll.DetachProgram(telemetryProgPwTcpSurveyAll)
		return nil
	}
	c.survey, err = link.AttachIter(link.IterOptions{Program: coll.Programs[telemetryProgPwTcpSurvey],
		Map: c.maps[telemetryMapPwTcpSockets]})
	if err != nil {
		return fmt.Errorf("attach iterator of watched sockets: %w", err)
	}
	return nil
}

// replace makes and pins new maps and puts the program in the place of the one
// that is attached, if any.
func (c *Collector) replace(spec *ebpf.CollectionSpec, cgroupDir string) error {
	if err := c.removeMaps(); err != nil {
		return err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load programs: %w", err)
	}
	defer coll.Close() // what is not detached from it
	if err := os.Mkdir(c.mapsDir(), 0o700); err != nil {
		return fmt.Errorf("create pins: %w", err)
	}
	for name := range spec.Maps {
		m := coll.DetachMap(name)
		c.maps[name] = m
		if err := m.Pin(filepath.Join(c.mapsDir(), name)); err != nil {
			return fmt.Errorf("pin map %s: %w", name, err)
		}
	}
	if err := c.takeIterators(coll); err != nil {
		return err
	}
	prog := coll.Programs[telemetryProgPwTcpObserve]
	if c.link != nil {
		if err := c.link.Update(prog); err != nil {
			return fmt.Errorf("replace program: %w", err)
		}
		return nil
	}
	c.link, err = link.AttachCgroup(link.CgroupOptions{Path: cgroupDir, Attach: ebpf.AttachCGroupSockOps, Program: prog})
	if err != nil {
		return fmt.Errorf("attach program to %s: %w", cgroupDir, err)
	}
	if err := c.link.Pin(filepath.Join(c.pins, linkPin)); err != nil {
		return fmt.Errorf("pin link: %w", err)
	}
	return nil
}

// removeMaps unpins maps of whatever version.
func (c *Collector) removeMaps() error {
	entries, err := os.ReadDir(c.pins)
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), mapsPrefix) {
			if err := os.RemoveAll(filepath.Join(c.pins, e.Name())); err != nil {
				return fmt.Errorf("remove pins: %w", err)
			}
		}
	}
	return nil
}

func (c *Collector) closeMaps() error {
	var errs []error
	for name, m := range c.maps {
		errs = append(errs, m.Close())
		delete(c.maps, name)
	}
	return errors.Join(errs...)
}

// Close lets go of everything and leaves the pins: the program goes on, and a
// later Attach adopts it. It comes last: end Events first. Closing twice is fine.
func (c *Collector) Close() error {
	errs := []error{c.closeMaps()}
	for _, p := range []*ebpf.Program{c.adopt, c.all} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	if c.survey != nil {
		errs = append(errs, c.survey.Close())
	}
	if c.link != nil {
		errs = append(errs, c.link.Close())
	}
	if c.lock != nil {
		// A child that is being started has the file until it runs its program: the next Attach must not wait for it.
		errs = append(errs, unix.Flock(int(c.lock.Fd()), unix.LOCK_UN), c.lock.Close())
	}
	c.adopt, c.all, c.survey, c.link, c.lock = nil, nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close telemetry: %w", err)
	}
	return nil
}

// Remove detaches the program, removes the pins and closes the collector; it
// does nothing to a closed one.
func (c *Collector) Remove() error {
	if c.link == nil {
		return nil
	}
	errs := []error{dropLink(c.link)}
	c.link = nil
	errs = append(errs, c.removeMaps(), c.Close())
	if err := os.Remove(c.pins); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove pins: %w", err))
	}
	return errors.Join(errs...)
}
