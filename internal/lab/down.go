package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/oci"
)

// ErrOwned: a living process holds the lab.
var ErrOwned = errors.New("in use")

// Down removes the lab called name, no matter which process made it. A lab that a living
// process owns is left alone, with ErrOwned, unless force is set.
func (s Store) Down(ctx context.Context, name string, force bool) error {
	if err := s.MayDown(name, force); err != nil {
		return err
	}
	return s.remove(ctx, name)
}

// MayDown says why Down would leave the lab alone. It changes nothing.
func (s Store) MayDown(name string, force bool) error {
	dir, err := s.find(name)
	if err != nil {
		return err
	}
	if !force && owned(dir) {
		st, _ := s.Load(name) // only for the number in the message
		return fmt.Errorf("lab %q is %w by pathwise process %d: stop that, or use --force", name, ErrOwned, st.Owner)
	}
	return nil
}

// remove takes everything down in the order in which nothing new can appear:
// CNI DEL while plugins still find their namespaces, then processes, then what
// they lived in. Each step does nothing where there is nothing left to do.
func (s Store) remove(ctx context.Context, name string) error {
	dir, err := s.find(name)
	if err != nil {
		return err
	}
	var deletes error
	if st, err := s.Load(name); err == nil {
		deletes = runDeletes(ctx, dir, st)
	}
	made, foreign := s.own(name, resources(dir))
	errs := []error{killAll(dir, made)}
	for _, r := range made {
		switch r.Kind {
		case kindNetns:
			errs = append(errs, netns.Delete(r.Name))
		case kindCgroup:
			err := oci.RemoveCgroups(ctx, r.Name)
			if err != nil { // a process that ended late may have started another
				err = errors.Join(killAll(dir, made), oci.RemoveCgroups(ctx, r.Name))
			}
			errs = append(errs, err)
		case kindMount:
			errs = append(errs, unmount(r.Name))
		case kindDir:
			_ = os.Remove(r.Name) // somebody may have put something there
		}
	}
	errs = append(errs, oci.Detach(dir))
	if err := errors.Join(errs...); err != nil {
		// The record stays, so that the next try knows what is left.
		return fmt.Errorf("remove lab %s: %w", name, err)
	}
	if err := removeRecord(dir); err != nil {
		return fmt.Errorf("remove lab %s: %w", name, err)
	}
	// A failed DEL is told, but not tried again: what it could undo is gone.
	return errors.Join(deletes, foreign, s.Tidy())
}

// Tidy removes the store itself, and the mount it made, once no lab is left and
// no bench runs.
func (s Store) Tidy() error {
	if left, err := os.ReadDir(s.labs()); err == nil && len(left) > 0 {
		return nil
	}
	if locked(s.benchLock()) {
		return nil
	}
	if err := netns.Release(); err != nil {
		return err
	}
	// Not RemoveAll: another process may be making a lab just now.
	for _, path := range []string{s.benchLock(), s.labs(), s.Root} {
		_ = os.Remove(path)
	}
	return nil
}

// dying is how long processes that were killed may take to end, on a busy machine.
const dying = 15 * time.Second

// killAll ends every process that carries the lab's mark or lives in one of
// its namespaces or in its cgroup, and waits until none is left: a process may
// have started another while it was being looked at. In the cgroup alone is a
// container that its runtime has made and not started yet.
func killAll(dir string, made []resource) error {
	inodes, cgroups, err := where(made)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(dying)
	for {
		found := processes(dir, inodes, cgroups)
		if len(found) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end", found)
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// where finds the namespaces, by inode, and the cgroups in which a lab's processes live.
func where(made []resource) (inodes map[uint64]bool, cgroups []string, err error) {
	own, err := netns.InodeOf("self")
	if err != nil {
		return nil, nil, err
	}
	inodes = map[uint64]bool{}
	for _, r := range made {
		if r.Kind == kindCgroup {
			cgroups = append(cgroups, r.Name)
		}
		if r.Kind != kindNetns || !netns.Exists(r.Name) {
			continue
		}
		if ino, err := netns.Inode(r.Name); err == nil && ino != own {
			inodes[ino] = true
		}
	}
	return inodes, cgroups, nil
}

// Processes lists the processes of the lab on this kernel: the daemons of its network,
// and what runs in its pods.
func (l *Lab) Processes() ([]int, error) {
	inodes, cgroups, err := where(resources(l.rec.dir))
	if err != nil {
		return nil, fmt.Errorf("list processes of lab %s: %w", l.plan.Spec.Name, err)
	}
	return processes(l.rec.dir, inodes, cgroups), nil
}

// processes lists the lab's processes, zombies and this one excepted.
func processes(dir string, inodes map[uint64]bool, cgroups []string) []int {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	var inside, out []int
	for _, path := range cgroups {
		inside = append(inside, oci.Processes(path)...)
	}
	for _, p := range all {
		if p.PID == os.Getpid() || p.PID == 1 {
			continue
		}
		if (marked(p, labEnv+"="+dir) || lives(p.PID, inodes) || slices.Contains(inside, p.PID)) && !zombie(p) {
			out = append(out, p.PID)
		}
	}
	return out
}

func marked(p procfs.Proc, mark string) bool {
	env, err := p.Environ()
	return err == nil && slices.Contains(env, mark)
}

func lives(pid int, inodes map[uint64]bool) bool {
	ino, err := netns.InodeOf(strconv.Itoa(pid))
	return err == nil && inodes[ino]
}

// zombie reports whether the process has ended and waits for its parent.
func zombie(p procfs.Proc) bool {
	s, err := p.Stat()
	return err != nil || s.State == "Z" || s.State == "X"
}
