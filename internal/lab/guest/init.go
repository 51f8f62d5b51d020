package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
)

// InitArgument is the argument with which a guest's kernel calls the executable.
const InitArgument = "guest-init"

// orderVariable says where the guest's directory is: a type of file system, a
// comma, and what to mount.
const orderVariable = "PATHWISE_GUEST"

// Inside reports whether this process is the first one of a guest.
func Inside() bool { return os.Getpid() == 1 && os.Getenv(orderVariable) != "" }

// Init is the first process of a guest: it makes the root, runs the command that
// the host ordered, and powers off. It returns only where even that fails.
func Init() error {
	if !Inside() {
		return fmt.Errorf("%s is for the kernel of a guest to run: see \"pathwise guest exec\"", InitArgument)
	}
	o, err := enter()
	if err == nil {
		err = o.serve()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "pathwise: guest: %v\n", err)
		// Where the guest's directory is not there yet the console has it.
		_ = writeOutcome(outcome{Error: "guest: " + err.Error()})
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		return fmt.Errorf("power off guest: %w", err)
	}
	time.Sleep(time.Minute) // the kernel panics when its first process ends
	return nil
}

// enter makes the guest's root: the host's, read-only, under a layer in memory.
func enter() (order, error) {
	const early = "/run"
	var o order
	if err := leaveInitramfs(); err != nil {
		return o, err
	}
	if err := try(mount{Source: "proc", Target: "/proc", Type: "proc"}); err != nil {
		return o, err
	}
	if err := try(mount{Source: "tmpfs", Target: early, Type: "tmpfs", Data: "mode=0755"}); err != nil {
		return o, err
	}
	control, err := controlMount()
	if err != nil {
		return o, err
	}
	if err := try(control); err != nil {
		return o, err
	}
	raw, err := os.ReadFile(filepath.Join(controlDir, orderFile))
	if err != nil {
		return o, fmt.Errorf("read order: %w", err)
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, fmt.Errorf("decode order: %w", err)
	}
	return o, o.layer(early, control)
}

// controlMount is how the guest's own directory of the host is mounted.
func controlMount() (mount, error) {
	kind, what, ok := strings.Cut(os.Getenv(orderVariable), ",")
	if !ok {
		return mount{}, fmt.Errorf("%s=%s: expected a type and what to mount", orderVariable, kind)
	}
	if kind == "hostfs" {
		return mount{Source: "none", Target: controlDir, Type: kind, Data: what}, nil
	}
	return mount{Source: what, Target: controlDir, Type: kind}, nil
}

// layer puts a file system in memory over the root and makes it the root.
func (o order) layer(early string, control mount) error {
	path := func(name string) string { return filepath.Join(early, name) }
	if o.Modules != "" {
		// modprobe wants the modules under lib/modules of some directory.
		if err := os.MkdirAll(path("mod/lib"), 0o755); err != nil {
			return fmt.Errorf("prepare modules: %w", err)
		}
		if err := os.Symlink(filepath.Dir(o.Modules), path("mod/lib/modules")); err != nil {
			return fmt.Errorf("prepare modules: %w", err)
		}
		if err := modprobe("-d", path("mod"), "overlay"); err != nil {
			return err
		}
	}
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(path(name), 0o755); err != nil {
			return fmt.Errorf("prepare root: %w", err)
		}
	}
	root := path("root")
	data := "lowerdir=/,upperdir=" + path("upper") + ",workdir=" + path("work")
	if err := try(mount{Source: "overlay", Target: root, Type: "overlay", Data: data}); err != nil {
		return err
	}
	for _, m := range o.table(control) {
		m.Target = filepath.Join(root, m.Target)
		if err := try(m); err != nil && !m.Optional {
			return err
		}
	}
	if o.Modules != "" {
		if err := try(mount{Source: filepath.Dir(o.Modules), Target: filepath.Join(root, moduleDir),
			Flags: unix.MS_BIND}); err != nil {
			return err
		}
	}
	return pivot(root)
}

// pivot makes dir the root and lets the old one go.
func pivot(dir string) error {
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	// The old root is stacked on the new one, and taken off: pivot_root(2), "pivot_root(".", ".")".
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root to %s: %w", dir, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let the old root go: %w", err)
	}
	return os.Chdir("/")
}

// try makes the target and mounts.
func try(m mount) error {
	if _, err := os.Stat(m.Target); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(m.Target, 0o755); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	if err := unix.Mount(m.Source, m.Target, m.Type, m.Flags, m.Data); err != nil {
		return fmt.Errorf("mount %s (%s) on %s: %w", m.Type, m.Source, m.Target, err)
	}
	return nil
}

// modprobe loads modules.
func modprobe(args ...string) error {
	path, err := network.FindProgram("modprobe")
	if err != nil {
		return err
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("modprobe %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// serve readies the new root and runs the command.
func (o order) serve() error {
	if o.Modules != "" {
		for _, name := range preloaded() {
			_ = modprobe("-q", name) // a kernel may have it built in, or lack it: a network's needs tell
		}
	}
	if err := oldFirewall(); err != nil {
		return err
	}
	if err := allProcessors(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return fmt.Errorf("name guest: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := os.WriteFile(filepath.Join(controlDir, readyFile), nil, 0o600); err != nil {
		return fmt.Errorf("tell that the guest is ready: %w", err)
	}
	return o.command()
}

// allProcessors starts the processors that the kernel was told to leave; see
// quickBoot.
func allProcessors() error {
	files, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/online")
	if err != nil {
		return fmt.Errorf("list processors: %w", err)
	}
	for _, path := range files {
		on, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(on)) == "0" {
			err = os.WriteFile(path, []byte("1"), 0)
		}
		if err != nil {
			return fmt.Errorf("start processor: %w", err)
		}
	}
	return nil
}

// oldFirewall makes iptables the one that speaks to the kernel's older packet
// filter, where the kernel's newer one is none for IP: Debian's User-mode Linux
// 6.1 has neither CONFIG_NF_TABLES_IPV4 nor CONFIG_NF_TABLES_INET, and Debian's
// alternatives choose the newer.
func oldFirewall() error {
	nft, err := network.FindProgram("nft")
	if err != nil || exec.Command(nft, "add table ip guest; delete table ip guest").Run() == nil {
		return nil
	}
	const alternatives = "/etc/alternatives"
	for _, name := range []string{"iptables", "iptables-restore", "iptables-save", "ip6tables", "ip6tables-restore",
		"ip6tables-save"} {
		family, rest, _ := strings.Cut(name, "-")
		old, err := network.FindProgram(strings.TrimSuffix(family+"-legacy-"+rest, "-"))
		link := filepath.Join(alternatives, name)
		if err != nil || !exists(link) {
			continue
		}
		if err := errors.Join(os.Remove(link), os.Symlink(old, link)); err != nil {
			return fmt.Errorf("choose %s: %w", old, err)
		}
	}
	return nil
}

// command runs the order's command to its end, and waits for orphans meanwhile,
// as the first process must.
func (o order) command() error {
	for _, v := range o.Env {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	if o.WorkDir != "" {
		if err := os.Chdir(o.WorkDir); err != nil {
			return fmt.Errorf("start in working directory: %w", err)
		}
	}
	path, err := network.FindProgram(o.Argv[0])
	if err != nil {
		return err
	}
	files := make([]*os.File, 3)
	fds := make([]uintptr, 3)
	for i, name := range []string{os.DevNull, filepath.Join(controlDir, stdoutFile),
		filepath.Join(controlDir, stderrFile)} {
		if files[i], err = os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0); err != nil {
			return fmt.Errorf("open command's output: %w", err)
		}
		defer files[i].Close()
		fds[i] = files[i].Fd()
	}
	pid, err := syscall.ForkExec(path, o.Argv, &syscall.ProcAttr{Env: append(slices.Clone(o.Env), lab.GuestVariable+"=1"),
		Files: fds, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return fmt.Errorf("start %s: %w", o.Argv[0], err)
	}
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for %s: %w", o.Argv[0], err)
		case ended == pid:
			unix.Sync() // the outcome ends a virtual machine
			return writeOutcome(outcome{Code: exitCode(status)})
		}
	}
}

// exitCode is the command's, as a shell tells it.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// writeOutcome tells the host how the command ended, in one step.
func writeOutcome(o outcome) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode outcome: %w", err)
	}
	path := filepath.Join(controlDir, outcomeFile)
	if err := os.WriteFile(path+".tmp", raw, 0o600); err != nil {
		return fmt.Errorf("write outcome: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("write outcome: %w", err)
	}
	return nil
}
