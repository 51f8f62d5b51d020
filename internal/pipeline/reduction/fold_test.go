package reduction_test

import (
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline/reduction"
)

// TestFold holds what saves lookups alone, and what does not, to docs/explanation/pipelines.md.
func TestFold(t *testing.T) {
	for _, c := range []struct {
		why, flows string
		growth     int
		apply      string
	}{
		{"a table that only leads on", "ip actions=goto_table:1\ntable=1,priority=0 actions=goto_table:2\n" +
			"table=2,tcp actions=output:2\ntable=2,priority=1 actions=output:3\narp actions=goto_table:2", 0,
			"delete_strict table=1,priority=0\ndelete_strict table=2,tcp\ndelete_strict table=2,priority=1\n" +
				"add priority=32769,tcp actions=output:2\nadd ip actions=output:3\nadd arp actions=output:3"},
		{"a constant register", "ip,in_port=1 actions=load:5->NXM_NX_REG0[],resubmit(,1)\n" +
			"table=1,reg0=5 actions=output:2\ntable=1,reg0=6 actions=output:3\narp actions=drop", 0,
			"delete_strict table=1,reg0=0x5\nadd ip,in_port=1 actions=load:0x5->NXM_NX_REG0[],output:2\n" +
				"delete_strict table=1,reg0=0x6"},
		{"not where a table is led into from elsewhere too, and flows would become more",
			"ip,in_port=1 actions=goto_table:1\nip,in_port=2 actions=goto_table:1\n" +
				"table=1,tcp actions=output:2\ntable=1,udp actions=output:3", 0, ""},
		{"not where a flow is read that a controller is told of", "ip actions=goto_table:1\n" +
			"table=1,priority=0 actions=CONTROLLER:65535", 0, ""},
		{"not where what is read was moved", "ip actions=move:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15],goto_table:1\n" +
			"table=1,reg0=5 actions=output:2\ntable=1,priority=1 actions=output:3", 0, ""},
		{"a table that is looked up again", "priority=9,ct_state=-trk,ip actions=ct(table=0)\n" +
			"priority=5,ip,in_port=1 actions=goto_table:1\npriority=5,ip,in_port=2 actions=goto_table:2\n" +
			"table=1,ct_state=+est,ip actions=output:2\ntable=2,ct_state=+est,ip actions=output:3", 0,
			"delete_strict table=0,priority=9,ct_state=-trk,ip\nadd priority=5,ip,in_port=1 actions=ct(table=1)\n" +
				"add priority=5,ip,in_port=2 actions=ct(table=2)"},
	} {
		o := options()
		o.Fold, o.Growth = true, c.growth
		r := reduction.Of(read(t, c.flows), o)
		got := strings.Join(r.Apply, "\n")
		if sorted(got) != sorted(c.apply) {
			t.Errorf("%s:\n%s\nwant\n%s\nrefused %+v", c.why, got, c.apply, r.Refused)
		}
		if r.Masks[1] > r.Masks[0]+c.growth*len(r.Steps) {
			t.Errorf("%s: %d masks, then %d", c.why, r.Masks[0], r.Masks[1])
		}
	}
}

// sorted is lines in the order of the alphabet.
func sorted(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
