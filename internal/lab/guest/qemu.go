package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab/network"
)

// qemuProgram is the emulator and virtual machine monitor.
const qemuProgram = "qemu-system-x86_64"

// kernelVariable names another kernel for QEMU; its modules are next to it, in
// ../lib/modules.
const kernelVariable = "PATHWISE_QEMU_KERNEL"

// findQEMU looks for QEMU, what serves it files, and a kernel.
func findQEMU(p Place) Kernel {
	k := Kernel{Name: QEMU, How: emulation}
	if hasKVM() {
		k.How = "KVM"
	}
	if runtime.GOARCH != "amd64" {
		k.Missing = []network.Missing{{Kind: network.Program, Name: qemuProgram,
			Fix: "guests on virtual machines are built for x86-64 alone"}}
		return k
	}
	needs := []network.Need{network.NeedProgram(qemuProgram, "qemu-system-x86"), network.NeedProgram("modprobe", "kmod")}
	k.Missing = network.NewMachine(nil).Missing(needs)
	if fileServer() == "" {
		k.Missing = append(k.Missing, network.Missing{Kind: network.Program, Name: "virtiofsd",
			Fix: "apt-get install qemu-system-common (Debian 12) or virtiofsd (later ones)"})
	}
	if k.Image, k.Release, k.Modules = findKernel(p); k.Image == "" {
		k.Missing = append(k.Missing, network.Missing{Kind: network.File, Name: "a guest's kernel", Fix: "make guest-kernel"})
	}
	return k
}

// emulation is How of a virtual machine whose processor is a program.
const emulation = "emulation"

// hasKVM reports whether the processor itself runs guests. Where /dev/kvm is
// there without the processor's flags it is a hypervisor's substitute, on which
// Debian's 6.1 kernel was seen not to boot.
func hasKVM() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	cpus, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return false
	}
	defer cpus.Close()
	for lines := bufio.NewScanner(cpus); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 0 && words[0] == "flags" {
			return slices.Contains(words, "vmx") || slices.Contains(words, "svm")
		}
	}
	return false
}

// findKernel looks for a kernel with modules: the one that is named, those that
// "make guest-kernel" brought, then the machine's own.
func findKernel(p Place) (image, release, modules string) {
	candidates := []string{p.getenv(kernelVariable)}
	for _, dir := range []string{filepath.Join(filepath.Dir(p.Self), "guest", "boot"), "/boot"} {
		found, _ := filepath.Glob(filepath.Join(dir, "vmlinuz-*")) // the pattern is well formed
		slices.Reverse(found)
		candidates = append(candidates, found...)
	}
	for _, image := range candidates {
		release, ok := strings.CutPrefix(filepath.Base(image), "vmlinuz-")
		modules := filepath.Join(filepath.Dir(image), "../lib/modules", release)
		if ok && exists(image) && exists(filepath.Join(modules, "modules.dep")) {
			return image, release, modules
		}
	}
	return "", "", ""
}

// fileServer is the program that serves a directory to a virtual machine; "" if
// there is none.
func fileServer() string {
	for _, path := range []string{"/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd", "/usr/libexec/qemu/virtiofsd"} {
		if exists(path) {
			return path
		}
	}
	return ""
}

// bootQEMU starts a virtual machine and what serves it files.
func bootQEMU(ctx context.Context, c Config, in place) (*process, error) {
	path, err := network.FindProgram(qemuProgram)
	if err != nil {
		return nil, err
	}
	image, err := os.OpenFile(filepath.Join(in.Dir(), initramfsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create initramfs: %w", err)
	}
	if err := errors.Join(initramfs(image, c.Self, c.Kernel.Modules), image.Close()); err != nil {
		return nil, err
	}
	shares := map[string]string{rootTag: "/", controlTag: in.Dir()}
	if c.Share != "" {
		shares[shareTag] = c.Share
	}
	tags := []string{}
	for tag, dir := range shares {
		tags = append(tags, tag)
		if err := serve(ctx, c, in, tag, dir); err != nil {
			return nil, err
		}
	}
	slices.Sort(tags)
	return start(ctx, in, program{argv: append([]string{path}, qemuArguments(c, tags)...), log: consoleFile,
		netns: c.Netns, alone: c.Alone})
}

// initramfsFile lies in the guest's directory.
const initramfsFile = "initramfs"

// serve starts what serves a directory. It is given the socket that listens: of
// one that it made itself, virtiofsd would keep a lock under a name that the
// sockets of all guests share, and leave it behind.
func serve(ctx context.Context, c Config, in place, tag, dir string) error {
	ear, err := listenIn(in.Dir(), tag+".sock")
	if err != nil {
		return fmt.Errorf("serve %s to the guest: %w", dir, err)
	}
	defer ear.Close()
	_, err = start(ctx, in, program{alone: c.Alone, log: "virtiofsd-" + tag + ".log", files: []*os.File{ear},
		argv: []string{fileServer(),
			"--fd=3", "-o", "source=" + dir, "-o", "cache=always", "-o", "sandbox=chroot"}})
	return err
}

// listenIn makes a socket that listens in a directory, whose path may be longer
// than a socket's may be (108 bytes, unix(7)).
func listenIn(dir, name string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ear, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), Net: "unix"})
	if err != nil {
		return nil, err
	}
	ear.SetUnlinkOnClose(false)
	defer ear.Close()
	return ear.File()
}

// quickBoot spares an emulated processor work: the kernel's tests of its own
// ciphers, waits for grace periods, and, until init calls for them, further
// processors, which would contend for the host's while the kernel starts on one.
const quickBoot = "cryptomgr.notests rcupdate.rcu_expedited=1 maxcpus=1"

// Vhost reports whether the kernel carries packets between a tap device and the
// guest itself, by vhost-net, and not QEMU. It is for guests that the processor runs:
// with an emulated one the guest's own work hides what it saves.
func (k Kernel) Vhost() bool { return k.Name == QEMU && !k.Emulated() && exists("/dev/vhost-net") }

// qemuArguments is the command line of the virtual machine.
func qemuArguments(c Config, tags []string) []string {
	accel, cpu := "tcg,thread=multi,tb-size=512", "max"
	if c.Kernel.How != emulation {
		accel, cpu = "kvm", "host"
	}
	size := fmt.Sprintf("%dM", c.Memory>>20)
	args := []string{"-accel", accel, "-cpu", cpu, "-smp", fmt.Sprint(min(runtime.NumCPU(), 4)), "-machine", "q35",
		"-m", size,
		// What serves files reads and writes the guest's memory.
		"-object", "memory-backend-memfd,id=mem,size=" + size + ",share=on", "-numa", "node,memdev=mem",
		"-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"}
	for _, tag := range tags {
		args = append(args, "-chardev", "socket,id="+tag+",path="+tag+".sock", "-device", "vhost-user-fs-pci,chardev="+tag+
			",tag="+tag)
	}
	vhost := "off"
	if c.Kernel.Vhost() {
		vhost = "on"
	}
	for i, n := range c.NICs {
		args = append(args, "-netdev", fmt.Sprintf("tap,id=nic%d,ifname=%s,script=no,downscript=no,vhost=%s", i,
			n.Tap, vhost),
			// Without a ROM: nothing boots from it, and its package need not be there.
			"-device", fmt.Sprintf("virtio-net-pci,netdev=nic%d,mac=%v,host_mtu=%d,romfile=", i, n.MAC, n.MTU))
	}
	return append(args, "-kernel", c.Kernel.Image, "-initrd", initramfsFile, "-append",
		"console=ttyS0 quiet panic=-1 mitigations=off selinux=0 apparmor=0 "+quickBoot+" "+orderVariable+"=virtiofs,"+
			controlTag+" "+InitArgument)
}
