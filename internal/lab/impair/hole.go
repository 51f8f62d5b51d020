package impair

import (
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Hole loses all that comes in over the interface of the namespace called name, before any
// program of the pod sees it, until it is closed. It is not pinned: it ends with the process too.
// Unlike Impairer it needs nothing of the wire's other end.
func Hole(name, dev string) (io.Closer, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "pw_hole", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tcxDrop), asm.Return()}})
	if err != nil {
		return nil, fmt.Errorf("load program: %w", err)
	}
	defer prog.Close()
	h, err := netns.Netlink(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	at, err := h.LinkByName(dev)
	if err != nil {
		return nil, fmt.Errorf("find %s in %s: %w", dev, name, err)
	}
	var l link.Link
	err = netns.Do(name, func() error {
		l, err = link.AttachTCX(link.TCXOptions{Interface: at.Attrs().Index, Program: prog, Attach: ebpf.AttachTCXIngress,
			Anchor: link.Head()})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach program to %s in %s: %w", dev, name, err)
	}
	return l, nil
}
