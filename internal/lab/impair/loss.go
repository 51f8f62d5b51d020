package impair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// way is a direction, from the pod's point of view.
type way string

const (
	intoPod  way = "in"
	outOfPod way = "out"
)

// lose loses the given share of those packets that go that way. The program is at the
// head of its hook (tcx, Linux 6.6), before any other there, and is exchanged in
// place where one is there already: nothing slips through in between.
func (m Impairer) lose(p Port, w wire, dir way, share float64, of Only) error {
	path := filepath.Join(m.Pins, fmt.Sprintf("impair-%s-%s-%s", p.Netns, p.Dev, dir))
	old, err := link.LoadPinnedLink(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		old = nil
	} else if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	if old != nil {
		defer old.Close()
	}
	if share == 0 {
		return remove(old, path)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "pw_impair", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: dropping(share, of, w, dir)})
	if err != nil {
		return fmt.Errorf("load program: %w", err)
	}
	defer prog.Close()
	if old != nil {
		err := old.Update(prog)
		if !errors.Is(err, unix.ENOLINK) {
			return err
		}
		// The interface that it was on has gone; this is another one.
		if err := remove(old, path); err != nil {
			return err
		}
	}
	return attach(prog, w, dir, path)
}

func remove(old link.Link, path string) error {
	if old == nil {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("unpin: %w", err)
	}
	return nil
}

// hook is where what goes that way passes. At the far end of a veth the pod's way
// out is the way in; but a macvlan's parent sends what the pod sends.
func (w wire) hook(dir way) ebpf.AttachType {
	if (dir == outOfPod) == (w.mac == nil) {
		return ebpf.AttachTCXIngress
	}
	return ebpf.AttachTCXEgress
}

// attach puts the program at the far end of the wire.
func attach(prog *ebpf.Program, w wire, dir way, path string) error {
	return netns.Do(w.netns, func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: w.index, Program: prog, Attach: w.hook(dir), Anchor: link.Head()})
		if err != nil {
			return fmt.Errorf("attach program: %w", err)
		}
		defer l.Close()
		if err := l.Pin(path); err != nil {
			return fmt.Errorf("pin %s: %w", path, err)
		}
		return nil
	})
}

// Verdicts of tcx programs (linux/bpf.h).
const (
	tcxNext = -1
	tcxDrop = 2
)

// delayed marks a frame on its way to or from a delay line, which then passes the
// hook of the wire for the second time; markAt is where programs find it in their
// context. A pod cannot forge it: a mark does not leave its namespace.
const (
	delayed = 0x70770001
	markAt  = 8
)

// onlyPods lets the program go on with the pod's frames alone, where the device
// carries others' too. It needs the context in R6, and spoils R0 to R5.
func (w wire) onlyPods(dir way) (out asm.Instructions) {
	if w.mac == nil {
		return nil
	}
	at := int32(0) // the frame's destination
	if dir == outOfPod {
		at = 6
	}
	for i := range int32(3) {
		out = append(out, asm.LoadAbs(at+2*i, asm.Half),
			asm.JNE.Imm(asm.R0, int32(binary.BigEndian.Uint16(w.mac[2*i:])), "next"))
	}
	return out
}

// dropping drops the share of those frames, or of those from or to w.mac if it is
// not nil, and leaves the others to the next program. A frame that comes from a
// delay line has had its turn before, or has it after the mark is taken off.
func dropping(share float64, of Only, w wire, dir way) asm.Instructions {
	const bits = 24 // of the random number: an operand holds no more than 31
	out := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R0, asm.R6, markAt, asm.Word),
		asm.JEq.Imm(asm.R0, delayed, "next"),
	}
	out = append(append(out, w.onlyPods(dir)...), of.instructions()...)
	out = append(out,
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, 1<<bits-1),
		asm.JGE.Imm(asm.R0, int32(share*(1<<bits)), "next"))
	if w.hook(dir) == ebpf.AttachTCXEgress {
		// A drop on the way out of a device is told to the sender, and TCP then
		// takes it for a full queue of its own. A redirection to no device loses
		// the packet as silently as a wire (sch_handle_egress in net/core/dev.c).
		out = append(out, asm.Mov.Imm(asm.R1, 0), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call())
	} else {
		out = append(out, asm.Mov.Imm(asm.R0, tcxDrop))
	}
	return append(out, asm.Return(), asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("next"), asm.Return())
}
