package pipeline_test

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
)

// TestSecondDump: flows of two bridges in one input are told from those of one, which may come table by
// table, or in several messages.
func TestSecondDump(t *testing.T) {
	const one, two = " table=0, priority=1 actions=drop\n", " table=1, priority=1 actions=drop\n"
	for _, c := range []struct {
		text string
		want int
	}{
		{one + one + two, 0},
		{"NXST_FLOW reply (xid=0x4):\n" + one + two, 0},
		{"NXST_FLOW reply (xid=0x4): flags=[more]\n" + one + "NXST_FLOW reply (xid=0x4):\n" + one, 0},
		{"NXST_FLOW reply (xid=0x4):\n" + one + "NXST_FLOW reply (xid=0x4):\n" + two, 0},
		{"NXST_FLOW reply (xid=0x4):\n" + one + two + "NXST_FLOW reply (xid=0x4):\n" + one, 5},
		{"$ ovs-ofctl dump-flows br-int\nNXST_FLOW reply (xid=0x4):\n" + one + "$ ovs-ofctl dump-groups br-int\n" + two, 0},
		{"$ ovs-ofctl dump-flows br-int\n" + one + "$ ovs-ofctl --names dump-flows br-ex\n" + two, 4},
		{"# ovs-ofctl -O OpenFlow13 dump-flows br-int table=0\n" + one +
			"# ovs-ofctl -O OpenFlow13 dump-flows br-int table=1\n" + two, 0},
	} {
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(c.text)); err != nil || len(p.Lost) > 0 {
			t.Fatal(err, p.Lost)
		}
		if p.Second != c.want {
			t.Errorf("second dump at line %d, want %d: %s", p.Second, c.want, c.text)
		}
	}
}
