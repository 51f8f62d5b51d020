package proof_test

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/explain/pipeline"
	"pathwise.dev/pathwise/internal/explain/pipeline/proof"
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
