package proof

import (
	"fmt"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
)

func lockstepOf(t *testing.T, la, lb []string) *lockstep {
	t.Helper()
	names := pipeline.NewNames()
	read := func(lines []string) *pipeline.Pipeline {
		p := pipeline.New(names)
		if err := p.Read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
			t.Fatal(err)
		}
		return p
	}
	return newLockstep(read(la), read(lb), false)
}

// TestNeeds: what packets must be to meet a flow that one pipeline has alone is found through
// writes, moves, trackers and tables that are looked up on the way.
func TestNeeds(t *testing.T) {
	last := "table=9,reg0=1,tcp,nw_src=10.0.0.1,tp_dst=80 actions=output:3"
	for _, c := range []struct{ way, want string }{
		{"in_port=1 actions=load:1->NXM_NX_REG0[],resubmit(,9)", "[tcp,in_port=1,nw_src=10.0.0.1,tp_dst=80]"},
		{"in_port=1 actions=load:2->NXM_NX_REG0[],resubmit(,9)", "[]"},
		{"in_port=1 actions=resubmit(,9)", "[tcp,reg0=0x1,in_port=1,nw_src=10.0.0.1,tp_dst=80]"},
		{"in_port=1 actions=move:NXM_NX_REG5[]->NXM_NX_REG0[],resubmit(,9)",
			"[tcp,reg5=0x1,in_port=1,nw_src=10.0.0.1,tp_dst=80]"},
		{"in_port=1 actions=load:1->NXM_NX_REG0[],ct(table=9,zone=1)", "[tcp,in_port=1,nw_src=10.0.0.1]"},
		{"in_port=1 actions=load:1->NXM_NX_REG0[],ct(table=9,zone=1,nat)", "[tcp,in_port=1]"},
		{"in_port=1 actions=load:2->NXM_NX_REG0[],resubmit(,5),resubmit(,9)", "[tcp,in_port=1,nw_src=10.0.0.1,tp_dst=80]"},
		{"in_port=1 actions=load:1->NXM_NX_REG0[],resubmit(7,9)", "[tcp,in_port=1,nw_src=10.0.0.1,tp_dst=80]"},
		{"in_port=1 actions=load:1->NXM_NX_REG0[],clone(mod_nw_src:10.0.0.1,resubmit(,9)),output:2",
			"[tcp,in_port=1,tp_dst=80]"},
	} {
		a := []string{c.way, "table=5,tcp actions=load:1->NXM_NX_REG0[]", last}
		if !strings.Contains(c.way, "resubmit(,5)") {
			a = append(a[:1], last)
		}
		l := lockstepOf(t, a, a[:len(a)-1])
		var got []string
		for _, m := range l.need.at[0] {
			got = append(got, l.a.PrintTerms(m))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %s, want %s", c.way, fmt.Sprint(got), c.want)
		}
	}
}

// TestFewSpots: packets that were asked about in many zones, or that meet no flow which the two
// have not in common, are not followed apart.
func TestFewSpots(t *testing.T) {
	var lines []string
	for i := 1; i < 100; i++ {
		lines = append(lines, fmt.Sprintf("in_port=%d actions=ct(table=1,zone=%d)", i, i))
	}
	for i := 1; i < 10; i++ {
		lines = append(lines, fmt.Sprintf("table=%d actions=resubmit(,%d)", i, i+1))
	}
	for _, of := range []string{"table=10,ip actions=output:3", "table=10,in_port=7,ip,nw_src=10.0.0.1 actions=output:3"} {
		l := lockstepOf(t, append(lines, of), lines)
		l.run()
		if n := len(l.at); n == 0 || n > 120 {
			t.Errorf("%s: %d places are looked at", of, n)
		}
		if len(l.obstacles) == 0 {
			t.Errorf("%s: said to be equal", of)
		}
	}
	if l := lockstepOf(t, append(lines, "table=10,in_port=700,ip actions=output:3"), lines); l.need == nil {
		t.Error("needs are not found")
	} else if l.run(); len(l.at) > 1 || len(l.obstacles) > 0 {
		t.Errorf("a flow that no packet meets: %d places, %v", len(l.at), l.obstacles)
	}
}

// TestBudget: pipelines that are too large end, and name the flows that they have not in common.
func TestBudget(t *testing.T) {
	a := []string{"actions=resubmit(,1)", "table=1,ip,nw_src=10.0.0.1 actions=output:3"}
	l := lockstepOf(t, a, a[:1])
	l.budget = 0
	l.run()
	if len(l.obstacles) != 1 || l.obstacles[0].LineA != 2 || !strings.Contains(l.obstacles[0].Why, "too large") {
		t.Errorf("%+v", l.obstacles)
	}
}
