package drawn

import (
	"fmt"
	"strings"
	"testing"
)

// Hostile are pipelines that nobody means, by what is wrong with them. What reads pipelines
// is to come to an end with each, in bounded memory.
func Hostile() map[string]string {
	r := strings.Repeat
	out := map[string]string{
		"a line of 10 MB": "ip,nw_src=" + r("1", 10<<20) + " actions=drop\nactions=output:1",
		"10 MB of lines":  r("ip,nw_src=10.0.0.1,tp_dst=80,tcp,priority=7 actions=output:1\n", 160_000),
		"a match of 1 MB": r("reg0=1,", 140_000) + " actions=output:1",
		"outputs without end": "actions=" + r("resubmit(,1),", 4000) + "\ntable=1 actions=" +
			r("output:2,", 3000),
		"pushes without end": "actions=" + r("push:NXM_NX_XXREG0[],output:2,", 5000),
		"an action set without end": "actions=" + r("write_actions(set_field:1->reg0,output:2),", 1000) +
			"resubmit(,1)\ntable=1 actions=write_actions(output:3)",
		"a circle of resubmits": "actions=resubmit(,1)\ntable=1 actions=resubmit(,0),resubmit(,1)",
		"a circle of tracking":  "ip actions=ct(table=0),ct(table=1)\ntable=1,ip actions=ct(table=0,zone=1),ct(table=1)",
		"missing tables": "ip actions=resubmit(,77),ct(table=99),goto_table:200\n" +
			"arp actions=resubmit(,8),resubmit(9,)",
		"unknown actions": "actions=frob(1),output:2\ntable=1,frob=2 actions=frob\n" +
			"table=300 actions=goto_table:1000\nfrob",
		"a circle of groups": "group_id=1,type=all,bucket=group:2,bucket=group:1\n" +
			"group_id=2,type=select,bucket=group:1,bucket=resubmit(,0),group:2\nactions=group:1,group:2,group:3",
		"conjunctions without parts": "conj_id=1 actions=1\nip actions=conjunction(1,1/64),conjunction(2,64/64)\n" +
			"table=1,conj_id=7 actions=2",
		"clones in each other": "actions=" + r("clone(", 1000) + "output:1" + r(")", 1000),
	}
	on := func(list string) func(int) string {
		return func(i int) string { return strings.ReplaceAll(list, "NEXT", fmt.Sprint(i+1)) }
	}
	out["255 tables"] = tables(on("resubmit(,NEXT)"))
	out["255 tables, twice each"] = tables(on("resubmit(,NEXT),resubmit(,NEXT)"))
	out["255 tables that track"] = tables(on("ct(table=NEXT),resubmit(,NEXT)"))
	var groups, masks, ties strings.Builder
	for i := range 60 {
		fmt.Fprintf(&groups, "group_id=%d,type=all,bucket=actions=group:%d,bucket=actions=group:%d\n", i, i+1, i+1)
	}
	out["groups that double"] = groups.String() + "group_id=60,type=all,bucket=output:1\nactions=group:0"
	for i := range 1000 {
		fmt.Fprintf(&masks, "priority=%d,reg0=%d/%#x,reg1=%d/%#x actions=resubmit(,1)\n", i, i, 2*i+1, i, 3*i+1)
		fmt.Fprintf(&ties, "ip,nw_src=10.0.0.%d,tcp,tp_dst=%d actions=%s\n", i%200, i, r("output:1,", 50))
	}
	out["a mask for each flow"] = masks.String()
	out["flows of one priority"] = ties.String()
	return out
}

// tables are 255 of one flow each, which leads on.
func tables(list func(int) string) string {
	var b strings.Builder
	for i := range 254 {
		fmt.Fprintf(&b, "table=%d,ip,reg0=0 actions=%s\n", i, list(i))
	}
	b.WriteString("table=254 actions=output:1\n")
	return b.String()
}

// Seeds gives a target for fuzzing those that are short enough to be changed fast, with more
// arguments after each.
func Seeds(f *testing.F, more ...any) {
	f.Helper()
	const short = 16 << 10
	for _, text := range Hostile() {
		if len(text) <= short {
			f.Add(append([]any{text}, more...)...)
		}
	}
}
