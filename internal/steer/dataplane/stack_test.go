package dataplane

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// TestStacksFit: the functions of a program that call each other have 512 bytes of stack, and before Linux 6.9 each
// counts as a multiple of 32 (check_max_stack_depth). This machine's kernel counts less, and takes more.
func TestStacksFit(t *testing.T) {
	spec, err := loadBpf()
	if err != nil {
		t.Fatal(err)
	}
	const most, step = 512, 32
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		p := spec.Programs[name]
		depths, calls := frames(p.Instructions)
		var deepest func(function string) int
		deepest = func(function string) (below int) {
			for _, callee := range calls[function] {
				below = max(below, deepest(callee))
			}
			return below + (max(depths[function], 1)+step-1)/step*step
		}
		n := deepest(name)
		if t.Logf("%s: %d bytes", name, n); n > most || n == 0 {
			t.Errorf("%s: %d bytes of stack, expected up to %d", name, n, most)
		}
	}
}

// frames are how deep the stack of each function is in bytes, and which others it calls.
func frames(all asm.Instructions) (depths map[string]int, calls map[string][]string) {
	depths, calls = map[string]int{}, map[string][]string{}
	function, frame := "", asm.R0
	for _, ins := range all {
		if s := ins.Symbol(); s != "" {
			function, frame = s, asm.R0
		}
		op := ins.OpCode
		switch {
		case ins.IsFunctionCall():
			calls[function] = append(calls[function], ins.Reference())
		case op.Class().IsLoad() && ins.Src == asm.RFP, op.Class().IsStore() && ins.Dst == asm.RFP:
			depths[function] = max(depths[function], -int(ins.Offset))
		case frame != asm.R0 && ins.Dst == frame && op.Class().IsALU() && op.ALUOp() == asm.Add:
			depths[function] = max(depths[function], -int(ins.Constant))
		}
		if frame = asm.R0; op.Class().IsALU() && op.ALUOp() == asm.Mov && op.Source() == asm.RegSource && ins.Src == asm.RFP {
			frame = ins.Dst // what is added next is an address within it
		}
	}
	return depths, calls
}
