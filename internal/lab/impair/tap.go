package impair

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tap is a device whose frames a delay line reads and writes, each behind a
// virtio_net_hdr (linux/virtio_net.h): bursts of segments (GSO) stay whole, and
// checksums that a device is to fill in stay for a device to fill in.
type tap struct {
	fd, index int
	// ends are the programs of the tap itself, diversion is that on the wire.
	ends      []link.Link
	diversion link.Link
}

const (
	virtioHeader = 10
	// burstRoom is how many packets wait in the kernel while the line sleeps.
	burstRoom = 8192
)

// openTap makes a tap in the namespace that the process lives in. It goes when
// the process ends.
func openTap(mtu int) (*tap, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	t := &tap{fd: fd}
	if err := t.setUp(mtu); err != nil {
		return nil, errors.Join(fmt.Errorf("make tap: %w", err), t.close())
	}
	return t, nil
}

func (t *tap) setUp(mtu int) error {
	req, err := unix.NewIfreq("pwdl%d") // the kernel numbers it
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(t.fd, unix.TUNSETIFF, req); err != nil {
		return err
	}
	const segments = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	// Bursts of UDP since Linux 6.2; before, the kernel cuts them up.
	if unix.IoctlSetInt(t.fd, unix.TUNSETOFFLOAD, segments|unix.TUN_F_USO4|unix.TUN_F_USO6) != nil {
		if err := unix.IoctlSetInt(t.fd, unix.TUNSETOFFLOAD, segments); err != nil {
			return fmt.Errorf("set offloads: %w", err)
		}
	}
	l, err := netlink.LinkByName(req.Name())
	if err != nil {
		return err
	}
	t.index = l.Attrs().Index
	return errors.Join(netlink.LinkSetMTU(l, mtu), netlink.LinkSetTxQLen(l, burstRoom))
}

// join has frames that are written come out at the hook of the wire, marked, and
// lets nothing be read but what a line's program has sent: a device that is up
// gets frames of the kernel's own too, such as neighbour discovery.
func (t *tap) join(w wire, hook ebpf.AttachType) error {
	flags := int32(0)
	if hook == ebpf.AttachTCXIngress {
		flags = unix.BPF_F_INGRESS
	}
	back := asm.Instructions{
		asm.Mov.Imm(asm.R2, delayed),
		asm.StoreMem(asm.R1, markAt, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R1, int32(w.index)), asm.Mov.Imm(asm.R2, flags), asm.FnRedirect.Call(), asm.Return(),
	}
	only := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, markAt, asm.Word),
		asm.Mov.Imm(asm.R0, tcxNext),
		asm.JEq.Imm(asm.R2, delayed, "pass"),
		asm.Mov.Imm(asm.R0, tcxDrop),
		asm.Return().WithSymbol("pass"),
	}
	for _, p := range []struct {
		hook ebpf.AttachType
		text asm.Instructions
	}{{ebpf.AttachTCXIngress, back}, {ebpf.AttachTCXEgress, only}} {
		l, err := attached(p.text, t.index, p.hook)
		if err != nil {
			return err
		}
		t.ends = append(t.ends, l)
	}
	l, err := netlink.LinkByIndex(t.index)
	if err != nil {
		return fmt.Errorf("find tap: %w", err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("set tap up: %w", err)
	}
	return nil
}

// divert sends what passes the hook of the wire to the tap, but for what comes
// from there. Where the wire has lines of several pods, each lets the frames of the
// others alone, with their marks: one that is taken off would send them round for
// ever. The program goes when the process ends: nothing is held up then.
func (t *tap) divert(w wire, dir way) error {
	if t.diversion != nil {
		return nil
	}
	text := append(asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, w.onlyPods(dir)...)
	text = append(text,
		asm.LoadMem(asm.R2, asm.R6, markAt, asm.Word),
		asm.JNE.Imm(asm.R2, delayed, "fresh"),
		// Nobody behind us is to wonder about the mark.
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(asm.R6, markAt, asm.R2, asm.Word),
		asm.Ja.Label("next"),
		asm.Mov.Imm(asm.R2, delayed).WithSymbol("fresh"),
		asm.StoreMem(asm.R6, markAt, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R1, int32(t.index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return(),
		asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("next"), asm.Return())
	l, err := attached(text, w.index, w.hook(dir))
	t.diversion = l
	return err
}

// letGo ends the diversion; what is held comes out still.
func (t *tap) letGo() error {
	if t.diversion == nil {
		return nil
	}
	l := t.diversion
	t.diversion = nil
	return l.Close()
}

func (t *tap) close() error {
	errs := []error{t.letGo()}
	for _, l := range t.ends {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, unix.Close(t.fd))...)
}

func attached(text asm.Instructions, index int, hook ebpf.AttachType) (link.Link, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "pw_delay", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: text})
	if err != nil {
		return nil, fmt.Errorf("load program: %w", err)
	}
	defer prog.Close()
	l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: prog, Attach: hook, Anchor: link.Head()})
	if err != nil {
		return nil, fmt.Errorf("attach program: %w", err)
	}
	return l, nil
}
