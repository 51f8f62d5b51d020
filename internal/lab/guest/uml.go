package guest

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/network"
)

// tracer is what ptrace.c says, as a shared object for x86-64.
//
//go:generate gcc -O2 -Wall -Werror -shared -fPIC -nostdlib -fno-tree-loop-distribute-patterns -s -Wl,--build-id=none -Wl,-z,noexecstack -o ptrace_amd64.so -x c ptrace.c
//go:embed ptrace_amd64.so
var tracer []byte

// imageVariable names another User-mode Linux than the package's.
const imageVariable = "PATHWISE_UML"

// findUML looks for User-mode Linux.
func findUML(p Place) Kernel {
	k := Kernel{Name: UML, How: "a process"}
	if runtime.GOARCH != "amd64" {
		k.Missing = []network.Missing{{Kind: network.Program, Name: "linux.uml", Fix: "User-mode Linux runs on x86-64 alone"}}
		return k
	}
	image := p.getenv(imageVariable)
	if image == "" {
		image = "linux.uml"
	}
	needs := []network.Need{network.NeedProgram(image, "user-mode-linux"), network.NeedProgram("modprobe", "kmod")}
	k.Missing = network.NewMachine(nil).Missing(needs)
	path, err := network.FindProgram(image)
	if err != nil {
		return k
	}
	k.Image = path
	version, err := exec.Command(path, "--version").Output()
	if k.Release = strings.TrimSpace(string(version)); err != nil || k.Release == "" ||
		strings.ContainsAny(k.Release, " /\n") {
		k.Missing = append(k.Missing,
			network.Missing{Kind: network.Program, Name: image, Fix: fmt.Sprintf("it does not tell its version: %v", err)})
		k.Release = ""
	}
	for _, dir := range []string{filepath.Join(filepath.Dir(path), "modules", k.Release),
		filepath.Join("/usr/lib/uml/modules", k.Release)} {
		if _, err := os.Stat(filepath.Join(dir, "modules.dep")); err == nil && k.Release != "" {
			k.Modules = dir
			break
		}
	}
	return k
}

// bootUML starts User-mode Linux.
func bootUML(ctx context.Context, c Config, in place) (*process, error) {
	room, err := memoryDir(c.Memory, "/dev/shm", "/tmp", "/var/tmp")
	if err != nil {
		return nil, err
	}
	preload, err := memoryFile("pathwise-ptrace", tracer)
	if err != nil {
		return nil, err
	}
	defer preload.Close()
	return start(ctx, in, program{
		argv:  append([]string{c.Kernel.Image}, umlArguments(c, in.Dir())...),
		env:   []string{"LD_PRELOAD=/proc/self/fd/3", "TMPDIR=" + room},
		files: []*os.File{preload},
		log:   consoleFile,
		netns: c.Netns, alone: c.Alone,
	})
}

// umlArguments is the command line of the kernel. Words that it does not know go
// to init: those with "=" into its environment, the others as its arguments.
func umlArguments(c Config, dir string) []string {
	args := []string{
		"rootfstype=hostfs", "rootflags=/", "ro", "init=" + c.Self,
		fmt.Sprintf("mem=%dM", c.Memory>>20),
		"con=null", "con0=null,fd:1", "con1=null", "quiet",
		// Alongside the guest's other files, and short: a socket's path has 108 bytes.
		"uml_dir=uml/", "umid=guest",
	}
	for i, n := range c.NICs {
		// depth and gro: without them each packet would be a system call of its own.
		args = append(args, fmt.Sprintf("vec%d:transport=tap,ifname=%s,mac=%v,mtu=%d,depth=128,gro=1", i, n.Tap, n.MAC, n.MTU))
	}
	return append(args, orderVariable+"=hostfs,"+dir, InitArgument)
}

// memoryDir is the first directory with room for the guest's memory, which is a
// file there without a name that the guest executes from. A container's /dev/shm
// has 64 MB, beyond which the guest would die at some later moment.
func memoryDir(size int64, dirs ...string) (string, error) {
	for _, dir := range dirs {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Flags&unix.MS_NOEXEC == 0 && int64(st.Bavail)*st.Bsize >= size {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no room for the guest's memory: expected %d MB in %s, not mounted noexec", size>>20,
		strings.Join(dirs, " or "))
}

// memoryFile makes a file that lies in no file system: a directory of Pathwise's
// may be mounted noexec, as /run is by systemd.
func memoryFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create memory file %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("write memory file %s: %w", name, err)
	}
	return f, nil
}
