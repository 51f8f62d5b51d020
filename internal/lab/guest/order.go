package guest

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// order is what the guest's init is told.
type order struct {
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	WorkDir string   `json:"work_dir,omitempty"`
	// Modules is the directory of the kernel's modules; "" where all is built in.
	Modules string `json:"modules,omitempty"`
	// Share is how the host's shared directory is mounted; nil without one.
	Share *mount `json:"share,omitempty"`
}

// mount is one call of mount(2).
type mount struct {
	Source string  `json:"source"`
	Target string  `json:"target"`
	Type   string  `json:"type"`
	Flags  uintptr `json:"flags,omitempty"`
	Data   string  `json:"data,omitempty"`
	// Optional: a kernel without it will do.
	Optional bool `json:"optional,omitempty"`
}

func newOrder(c Config) order {
	o := order{Argv: c.Argv, Env: c.Env, WorkDir: c.WorkDir, Modules: c.Kernel.Modules}
	if !slices.ContainsFunc(o.Env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		o.Env = append(slices.Clone(o.Env), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	if c.Share != "" {
		m := shared(c.Kernel.Name, c.Share, c.Share, shareTag)
		o.Share = &m
	}
	return o
}

// Tags of the directories that a virtual machine is given.
const (
	rootTag    = "root"
	controlTag = "control"
	shareTag   = "share"
)

// shared is how a directory of the host is mounted in a guest.
func shared(kind, dir, target, tag string) mount {
	if kind == UML {
		return mount{Source: "none", Target: target, Type: "hostfs", Data: dir}
	}
	return mount{Source: tag, Target: target, Type: "virtiofs"}
}

// moduleDir is where modprobe looks.
const moduleDir = "/lib/modules"

// controlDir is where the guest sees its own directory of the host.
const controlDir = "/run/guest"

// table lists what init mounts in the new root, in this order. What programs of
// the host have left in /run, /dev/shm and CNI's state is not the guest's.
func (o order) table(control mount) []mount {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	out := []mount{
		{Source: "proc", Target: "/proc", Type: "proc", Flags: quiet},
		{Source: "sysfs", Target: "/sys", Type: "sysfs", Flags: quiet},
		{Source: "devtmpfs", Target: "/dev", Type: "devtmpfs", Flags: unix.MS_NOSUID, Data: "mode=0755"},
		{Source: "devpts", Target: "/dev/pts", Type: "devpts", Flags: unix.MS_NOSUID | unix.MS_NOEXEC,
			Data: "mode=0620,ptmxmode=0666"},
		{Source: "tmpfs", Target: "/dev/shm", Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=1777"},
		{Source: "tmpfs", Target: "/run", Type: "tmpfs", Flags: unix.MS_NOSUID | unix.MS_NODEV, Data: "mode=0755"},
		{Source: "tmpfs", Target: "/var/lib/cni", Type: "tmpfs", Flags: quiet, Data: "mode=0700"},
		{Source: "cgroup2", Target: "/sys/fs/cgroup", Type: "cgroup2", Flags: quiet, Optional: true},
		{Source: "bpf", Target: "/sys/fs/bpf", Type: "bpf", Flags: quiet, Data: "mode=0700", Optional: true},
		{Source: "debugfs", Target: "/sys/kernel/debug", Type: "debugfs", Flags: quiet, Optional: true},
		{Source: "tracefs", Target: "/sys/kernel/tracing", Type: "tracefs", Flags: quiet, Optional: true},
	}
	control.Target = controlDir
	out = append(out, control)
	if o.Share != nil {
		out = append(out, *o.Share)
	}
	return out
}

// preloaded are modules that nothing asks for by itself: /dev/net/tun is there
// only with its module, and a bridge calls netfilter where the host's does.
func preloaded() []string { return []string{"tun", "br_netfilter"} }
