package proof_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/proof"
)

// TestVainCopy: a copy in one pipeline alone makes no difference where nobody sees anything of it.
func TestVainCopy(t *testing.T) {
	for _, c := range []struct {
		copy string
		want proof.Verdict
	}{
		{"clone(set_field:1->reg0,resubmit(,1))", proof.Equal},
		{"clone(set_field:2->reg0,resubmit(,1))", proof.Undecided},
		{"clone(set_field:3->reg0,resubmit(,1))", proof.Undecided},
		{"clone(set_field:4->reg0,resubmit(,1))", proof.Undecided},
		{"clone(set_field:5->reg0,resubmit(,1))", proof.Equal},
		{"clone(ct(table=1,zone=1))", proof.Undecided}, // another pass, which might change the order of others
		{"clone(ct(commit,zone=1))", proof.Undecided},
		{"clone(clone(set_field:1->reg0,resubmit(,1)))", proof.Equal},
	} {
		names := pipeline.NewNames()
		rest := "table=1,reg0=1 actions=drop\ntable=1,reg0=2 actions=output:4\ntable=1,reg0=3 actions=ct(commit)\n" +
			"table=1,reg0=4,ip actions=dec_ttl\ntable=1,reg0=5 actions=set_field:7->reg1,resubmit(,2)"
		a := strings.Split("ip,in_port=1 actions="+c.copy+",output:2\n"+rest, "\n")
		b := strings.Split("ip,in_port=1 actions=output:2\n"+rest, "\n")
		d := proof.Of(read(t, names, a...), read(t, names, b...), proof.Options{})
		e := proof.Of(read(t, names, b...), read(t, names, a...), proof.Options{})
		if d.Verdict != c.want || e.Verdict != c.want {
			t.Errorf("%s: %s and %s, want %s: %+v", c.copy, d.Verdict, e.Verdict, c.want, d.Reasons)
		}
	}
}

// TestCopyThatClears: after a copy was cleared of the tracker's answer a switch does not clear the packet itself.
func TestCopyThatClears(t *testing.T) {
	const in = "ip actions=ct(table=1)\ntable=2,ct_state=+trk,ip actions=output:2\ntable=3 actions=ct_clear,resubmit(,2)\n" +
		"table=1,ip actions="
	for then, want := range map[string]proof.Verdict{
		"ct_clear,resubmit(,2)": proof.Different,
		"output:4,resubmit(,3)": proof.Different,
		"resubmit(,3)":          proof.Different,
		"resubmit(,2)":          proof.Equal,
		"output:3":              proof.Equal,
	} {
		names := pipeline.NewNames()
		a := read(t, names, strings.Split(in+"clone(ct_clear),"+then, "\n")...)
		b := read(t, names, strings.Split(in+then, "\n")...)
		o := proof.Options{}
		if want == proof.Different {
			o = proof.Options{Packets: 500, Random: rand.New(rand.NewPCG(1, 1)), Doubt: true}
		}
		if d := proof.Of(a, b, o); d.Verdict != want || d.Contradicted {
			t.Errorf("%s: %s, contradicted: %v, want %s: %+v", then, d.Verdict, d.Contradicted, want, d.Reasons)
		}
	}
}
