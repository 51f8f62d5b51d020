// Package netns makes, enters and removes named network namespaces. It is the
// only package that calls setns or unshare; everything else names a namespace
// and says what is to happen in it.
//
// It knows nothing of labs, hosts or pods.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Dir is where iproute2 keeps named namespaces, so that "ip netns" sees ours.
const Dir = "/run/netns"

// Path is the file that holds the namespace called name. One that has no name is called by its
// file, an absolute path such as /proc/1/ns/net.
func Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(Dir, name)
}

// Exists reports whether a namespace of that name is there.
func Exists(name string) bool {
	var st unix.Statfs_t
	return unix.Statfs(Path(name), &st) == nil && st.Type == unix.NSFS_MAGIC
}

// Inode identifies the namespace called name, as /proc/PID/ns/net shows it.
func Inode(name string) (uint64, error) { return inode(Path(name)) }

// InodeOf identifies the namespace of process pid; "self" is this one.
func InodeOf(pid string) (uint64, error) { return inode("/proc/" + pid + "/ns/net") }

func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("stat namespace %s: %w", path, err)
	}
	return st.Ino, nil
}

// Mounted reports whether Dir is a mount point of its own, as it is once
// iproute2 or Prepare has made it one.
func Mounted() (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, Dir, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("stat %s: %w", Dir, err)
	}
	// STATX_ATTR_MOUNT_ROOT needs Linux 5.8.
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// marker says that Dir's mount was made by Prepare. It is one for the machine,
// as the mount is: the process that removes the last namespace undoes it.
const marker = "/run/pathwise-made-netns-mount"

// Prepare makes Dir a shared mount on itself, as iproute2 does on first use:
// otherwise a later "ip netns add" would hide our namespaces under such a mount.
// It notes first that the mount is ours to undo.
func Prepare() error { return alone(prepare) }

// alone keeps other processes of ours from making or removing Dir while fn looks
// at it and acts: another lab may be removing its last namespace just now. The
// lock is on the directory that is there anyway, so it leaves no file.
func alone(fn func() error) error {
	parent := filepath.Dir(Dir)
	f, err := os.Open(parent)
	if err != nil {
		return fmt.Errorf("open %s: %w", parent, err)
	}
	defer f.Close() // and unlocks
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err == nil {
			return fn()
		} else if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock %s: %w", parent, err)
		}
	}
}

func prepare() error {
	if ok, err := Mounted(); err != nil || ok {
		return err
	}
	if err := os.WriteFile(marker, nil, 0o644); err != nil {
		return fmt.Errorf("record mount of %s: %w", Dir, err)
	}
	if err := os.MkdirAll(Dir, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", Dir, err)
	}
	if err := unix.Mount(Dir, Dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", Dir, err)
	}
	if err := unix.Mount("", Dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share %s: %w", Dir, err)
	}
	return nil
}

// Release undoes Prepare when no namespace is left. It does nothing otherwise,
// nor where the mount is somebody else's.
func Release() error { return alone(release) }

func release() error {
	if _, err := os.Stat(marker); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	left, err := os.ReadDir(Dir)
	if len(left) > 0 {
		return nil
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list %s: %w", Dir, err)
	}
	if err := unix.Unmount(Dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", Dir, err)
	}
	for _, path := range []string{Dir, marker} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	return nil
}

// Create makes an empty namespace called name with its loopback up.
func Create(name string) error {
	return inNew(func() error {
		self := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		if err := attach(name, self); err != nil {
			return err
		}
		if err := loopbackUp(); err != nil {
			return errors.Join(err, Delete(name))
		}
		return nil
	})
}

// Attach gives the namespace that process pid lives in a name, as "ip netns
// attach" does. It then stays until Delete, whatever becomes of the process.
func Attach(name string, pid int) error {
	return attach(name, fmt.Sprintf("/proc/%d/ns/net", pid))
}

// attach makes the namespace in the file known as name, in Dir as Prepare makes
// it: a process that released it since then found no namespace in it.
func attach(name, file string) error {
	return alone(func() error {
		if err := prepare(); err != nil {
			return err
		}
		return bind(name, file)
	})
}

func bind(name, file string) error {
	path := Path(name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	f.Close()
	if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("mount namespace %s: %w", name, err), Delete(name))
	}
	return nil
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// Delete removes the namespace called name; one that is not there is no error.
// The kernel frees it when no process, socket or mount holds it any more.
func Delete(name string) error {
	path := Path(name)
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	return nil
}

// Do runs fn on a thread inside the namespace called name. fn must not start
// goroutines that rely on the namespace.
func Do(name string, fn func() error) error {
	return onThread(func() error { return do(name, fn) })
}

// onThread runs fn on a locked thread. It returns also where fn ends its goroutine, as Fatal
// of a test does.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("the function has ended its goroutine")
		defer func() { done <- err }()
		runtime.LockOSThread()
		err = fn()
	}()
	return <-done
}

// do enters the namespace on a locked thread of its own.
func do(name string, fn func() error) error {
	target, err := netns.GetFromPath(Path(name))
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open namespace %s: %w", name, err)
	}
	defer target.Close()
	return away(func() error {
		if err := netns.Set(target); err != nil {
			return fmt.Errorf("enter namespace %s: %w", name, err)
		}
		return nil
	}, fn)
}

// inNew runs fn on a thread in a new namespace.
func inNew(fn func() error) error {
	unshare := func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w", err)
		}
		return nil
	}
	return onThread(func() error { return away(unshare, fn) })
}

// away takes the locked thread elsewhere, runs fn there and brings it home, and
// only then gives it back. A thread that cannot come home stays locked and dies
// with its goroutine; but the main thread is parked by the Go runtime instead,
// and would hold the namespace for as long as the process lives, so letting
// threads die is the last resort and no rule.
func away(leave, fn func() error) error {
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own namespace: %w", err)
	}
	defer home.Close()
	if err := leave(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = fn()
	if back := netns.Set(home); back != nil {
		return errors.Join(err, fmt.Errorf("return to own namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// Throwaway runs fn on a thread in a new namespace, which goes when fn returns
// and holds nothing open.
func Throwaway(fn func() error) error { return inNew(fn) }

// Start starts cmd inside the namespace called name; "" is the caller's own.
// Mounts stay the caller's: /sys shows the caller's devices, /proc/sys/net the
// namespace's.
func Start(name string, cmd *exec.Cmd) error {
	if name == "" {
		return cmd.Start()
	}
	// fork and exec happen on the calling thread, so the child inherits its namespace.
	return Do(name, cmd.Start)
}

// Netlink returns a netlink handle that works inside the namespace called
// name from any thread. The caller closes it.
func Netlink(name string) (*netlink.Handle, error) { return NetlinkAt(Path(name)) }

// NetlinkAt is Netlink for the namespace in a file, as a container runtime names it.
func NetlinkAt(path string) (*netlink.Handle, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", path, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink in %s: %w", path, err)
	}
	return h, nil
}

// LinkFd opens the namespace for use as the target of a link; the caller closes it.
func LinkFd(name string) (*os.File, error) {
	f, err := os.Open(Path(name))
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", name, err)
	}
	return f, nil
}
