package walk_test

import (
	"fmt"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

func follow(t *testing.T, packet string, flows ...string) (*walk.Pipeline, *walk.Walk) {
	t.Helper()
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(strings.Join(flows, "\n"))); err != nil {
		t.Fatal(err)
	}
	m, err := p.ReadPacket(packet)
	if err != nil {
		t.Fatal(err)
	}
	w := walk.Through(p)
	return w, w.Follow(walk.NewPacket(m), walk.Given{All: walk.Answer{State: walk.New}})
}

func texts(w *walk.Walk) string {
	var out []string
	for _, e := range w.Events() {
		out = append(out, e.Text)
	}
	return strings.Join(out, "; ")
}

// TestTracking: what tables see of the tracker, as docs/explanation/pipelines.md has it.
func TestTracking(t *testing.T) {
	for _, c := range []struct {
		flows, want string
		passes      int
	}{
		// ct(commit),goto_table is not ct(commit,table): the table sees no answer.
		{"ip actions=ct(commit),goto_table:1\ntable=1,ct_state=+trk actions=output:2\ntable=1,priority=1 actions=output:3",
			"ct(commit,zone=0); output:3", 1},
		{"ip actions=ct(commit,table=1)\ntable=1,ct_state=+trk+new,ip actions=output:2\ntable=1,priority=1 actions=output:3",
			"ct(commit,zone=0); output:2", 2},
		// The original goes on, with registers as they are; so does the copy.
		{"ip actions=load:5->NXM_NX_REG0[],ct(table=1,zone=NXM_NX_REG0[0..15]),load:6->NXM_NX_REG0[],output:4\n" +
			"table=1,reg0=5,ct_zone=5,ip actions=output:2", "ct(zone=5); output:4; output:2", 2},
		{"ip actions=ct(commit,exec(load:1->NXM_NX_CT_MARK[3],set_field:5->ct_label)),output:2",
			"ct(commit,zone=0,mark=0x8/0x8,label=0x5); output:2", 1},
	} {
		_, w := follow(t, "tcp,in_port=1,nw_ttl=64", strings.Split(c.flows, "\n")...)
		if got := texts(w); got != c.want || w.Depth() != c.passes {
			t.Errorf("%s: %s in %d passes, want %s in %d", c.flows, got, w.Depth(), c.want, c.passes)
		}
	}
}

// TestFragment: once the tracker has made a whole packet of a first fragment and others, lookups see its ports.
func TestFragment(t *testing.T) {
	flows := "ip actions=ct(table=1)\ntable=1,tcp,tp_dst=80 actions=output:2\ntable=1,priority=1,ip,nw_frag=first actions=output:3"
	p := pipeline.New(pipeline.NewNames())
	if err := p.Read(strings.NewReader(flows)); err != nil {
		t.Fatal(err)
	}
	m, err := p.ReadPacket("tcp,tp_dst=80,nw_frag=first")
	if err != nil {
		t.Fatal(err)
	}
	for whole, want := range map[string]string{"0": "output:3", "1": "output:2"} {
		var given walk.Given
		if err := given.Read("state=new,whole=" + whole); err != nil {
			t.Fatal(err)
		}
		seen := walk.Through(p).Follow(walk.NewPacket(m), given).Events()
		if got := seen[len(seen)-1].Text; got != want {
			t.Errorf("whole=%s: %s, want %s", whole, got, want)
		}
	}
}

// TestLimits: a walk ends at the limits of a switch, and says so.
func TestLimits(t *testing.T) {
	for flows, want := range map[string]string{
		"actions=output:2,resubmit(,0)":                                                  "over 64 resubmits in each other",
		"actions=output:2,resubmit(,1),resubmit(,1)\n" + doubling(20):                    "over 4096 resubmits",
		"actions=group:1\ngroup_id=1,type=all,bucket=group:1":                            "over 64 groups in each other",
		"ip actions=output:2,ct(table=0)":                                                "over 64 passes",
		"actions=push:NXM_NX_REG0[],resubmit(,1)\ntable=1 actions=output:2,resubmit(,0)": "over 64 resubmits in each other",
	} {
		_, w := follow(t, "tcp,in_port=1", strings.Split(flows, "\n")...)
		failed := w.Passes[len(w.Passes)-1].Failed
		if failed != want {
			t.Errorf("%s: %q, want %q", flows, failed, want)
		}
		if got := w.Passes[len(w.Passes)-1]; len(w.Passes) == 1 && len(w.Events()) > 0 && got.Failed != "" {
			t.Errorf("%s: a pass that failed has %s done", flows, texts(w))
		}
	}
}

// TestOtherLength: a switch follows packets of another length too, and forgets to undo some of
// what it did then (xlate_check_pkt_larger of Open vSwitch 3.1 to 3.7).
func TestOtherLength(t *testing.T) {
	for flows, want := range map[string]string{
		// An exit of longer packets ends what called the list for all.
		"actions=resubmit(,1),output:3\ntable=1 actions=check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,2)\n" +
			"table=2,reg0=1 actions=exit\ntable=2,priority=1 actions=output:2": "output:2",
		"actions=resubmit(,1),output:3\ntable=1 actions=check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,2)\n" +
			"table=2,reg0=0 actions=output:2,exit\ntable=2,priority=1 actions=output:4": "output:2; output:3",
		// What they leave on the stack is there in the other branch.
		"actions=check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,2)\ntable=2,reg0=1 actions=load:5->NXM_NX_REG1[],push:" +
			"NXM_NX_REG1[]\ntable=2,priority=1 actions=pop:NXM_NX_REG1[],output:NXM_NX_REG1[]": "output:5",
		// A limit that they meet has all dropped.
		"actions=output:2,check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,2)\n" +
			"table=2,reg0=1 actions=resubmit(,2)\ntable=2,priority=1 actions=output:3": "",
		"actions=output:2,check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,2)\n" +
			"table=2,reg0=1 actions=resubmit(,2),exit,output:5": "",
		// Both are counted: these tables take 4,095 resubmits of 4,096.
		"actions=output:2,resubmit(,1)\n" + doubling(12):                                       "output:2",
		"actions=output:2,check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,1)\n" + doubling(12): "",
	} {
		w, walked := follow(t, "tcp,in_port=1", strings.Split(flows, "\n")...)
		if got := texts(walked); got != want || !walked.Understood() {
			t.Errorf("%s: %q, want %q", flows, got, want)
		}
		if list, _ := w.Outcomes(walked.Passes[0].Start, 10); want == "" && len(list) != 1 {
			t.Errorf("%s: %d outcomes of a packet that is dropped, want 1", flows, len(list))
		}
	}
}

// TestGroupInACopysSet: after a group in any action set of the pass, no table sees an output
// in one, until a flow clears it (action_set_has_group of Open vSwitch).
func TestGroupInACopysSet(t *testing.T) {
	const then = "write_actions(output:3),resubmit(,1)\ntable=1,actset_output=3 actions=output:4\n" +
		"group_id=1,type=all,bucket=output:2"
	for flows, want := range map[string]string{
		"actions=clone(write_actions(group:1))," + then:               "output:2; output:3",
		"actions=clone(write_actions(group:1)),clear_actions," + then: "output:2; output:4; output:3",
		"actions=" + then: "output:4; output:3",
	} {
		if _, w := follow(t, "tcp,in_port=1", strings.Split(flows, "\n")...); texts(w) != want {
			t.Errorf("%s: %q, want %q", flows, texts(w), want)
		}
	}
}

// doubling are tables each of which looks up the next one twice.
func doubling(n int) string {
	var out []string
	for i := 1; i < n; i++ {
		out = append(out, fmt.Sprintf("table=%d actions=resubmit(,%d),resubmit(,%d)", i, i+1, i+1))
	}
	return strings.Join(out, "\n")
}

// TestNotUnderstood: what is not understood is named, and nothing is guessed.
func TestNotUnderstood(t *testing.T) {
	for flows, want := range map[string]string{
		"actions=frobnicate(3),output:2":                        "frobnicate(3)",
		"actions=group:7":                                       "group:7",
		"frob=1,priority=9 actions=drop\npriority=1 actions=2":  "priority=9,frob=1",
		"actions=push_mpls:0x8847,pop_mpls:0x0800,resubmit(,2)": "resubmit(,2)",
		"actions=push_mpls:0x8847,pop_mpls:0x86dd,output:2":     "pop_mpls:0x86dd",
		"actions=encap(nsh(md_type=1)),output:2":                "encap(nsh(md_type=1))",
		"actions=push_vlan:0x8100,push_vlan:0x8100,ct(table=1)": "ct(table=1)",
	} {
		_, w := follow(t, "tcp,in_port=1", strings.Split(flows, "\n")...)
		if len(w.Unknown) != 1 || w.Unknown[0].Text != want || len(w.Events()) > 0 {
			t.Errorf("%s: %v and %s, want %s", flows, w.Unknown, texts(w), want)
		}
	}
}

// TestUndefined: two flows of one priority that both want a packet are told.
func TestUndefined(t *testing.T) {
	_, w := follow(t, "tcp,in_port=1", "ip actions=output:2", "in_port=1 actions=output:3")
	if len(w.Undefined) != 1 {
		t.Errorf("undefined: %v", w.Undefined)
	}
	// Both do the same.
	const same = " actions=dec_ttl,output:2"
	if _, w := follow(t, "tcp,in_port=1", "ip"+same, "in_port=1"+same); len(w.Undefined) > 0 {
		t.Errorf("undefined: %v", w.Undefined)
	}
	// Of two with the same match the later one takes the place of the other.
	if _, w := follow(t, "tcp,in_port=1", "ip actions=output:2", "ip actions=output:3"); texts(w) != "output:3" {
		t.Errorf("%s", texts(w))
	}
}

// TestOutcomes: one for each that flows can tell apart.
func TestOutcomes(t *testing.T) {
	p, _ := follow(t, "tcp,in_port=1", "table=0,ip actions=ct(table=1)", "table=1,ct_state=+new,ip actions=output:2",
		"table=1,ct_state=+est,ct_mark=5,ip actions=output:3", "table=1,priority=1 actions=drop")
	m, err := p.ReadPacket("tcp,in_port=1")
	if err != nil {
		t.Fatal(err)
	}
	list, whole := p.Outcomes(walk.NewPacket(m), 100)
	var got []string
	for _, o := range list {
		var out []string
		for _, e := range o.Walk.Events() {
			if e.Kind != walk.Lookup {
				out = append(out, e.Text)
			}
		}
		got = append(got, strings.Join(out, ";"))
	}
	if s := strings.Join(got, "|"); s != "output:2||output:3" || !whole {
		t.Errorf("%q, whole %v", s, whole)
	}
	if list, whole := p.Outcomes(walk.NewPacket(m), 2); whole || len(list) == 0 {
		t.Errorf("cut short, but whole")
	}
}

// TestAnswers: how the tracker's answers are written.
func TestAnswers(t *testing.T) {
	var g walk.Given
	for _, s := range []string{"zone=5,state=est|rpl,mark=0x7", "state=+new", "zone=6,state=trk|inv"} {
		if err := g.Read(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	if got := g.Of(5).String() + " " + g.Of(1).String(); got != "est|rpl|trk,mark=0x7 new|trk" {
		t.Error(got)
	}
	for s, want := range map[string]string{
		"state=new|est":  "state=new|est: new, est and inv do not go together",
		"zone=x":         "zone=x: expected a number from 0 to 65535",
		"state=old":      "state=old: expected some of new|est|rel|rpl|inv|trk|snat|dnat",
		"state=":         "state=: expected some of new|est|rel|rpl|inv|trk|snat|dnat",
		"frob=1":         `"frob=1": expected zone=, state=, mark=, label= or whole=, such as zone=0,state=est|rpl`,
		"zone=1,mark=-1": "mark=-1: expected a number of 32 bits",
	} {
		if err := g.Read(s); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", s, err, want)
		}
	}
}

// FuzzFollow: no pipeline and no packet has a walk fail or go on forever.
func FuzzFollow(f *testing.F) {
	f.Add("ip actions=ct(table=0)\nactions=group:1\ngroup_id=1,type=all,bucket=group:1,bucket=resubmit(,0)", "tcp,in_port=1")
	f.Add("actions=resubmit(,0),resubmit(,0),clone(ct(table=0,nat(src=10.0.0.1:5)),exit)", "udp6,in_port=2")
	f.Add("conj_id=1 actions=2\nip actions=conjunction(1,1/2)\nactions=write_actions(group:3),pop_vlan", "ip,in_port=2")
	f.Add("group_id=3,type=select,bucket=weight:1,output:1,bucket=output:2\nactions=group:3,push_vlan:1,dec_ttl", "arp,dl_vlan=3")
	drawn.Seeds(f, "tcp,in_port=1,nw_src=10.0.0.1")
	f.Fuzz(func(t *testing.T, flows, packet string) {
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(flows)); err != nil {
			t.Fatal(err)
		}
		m, err := p.ReadPacket(packet)
		if err != nil || len(p.Flows) == 0 {
			return
		}
		w := walk.Through(p)
		w.Outcomes(walk.NewPacket(m), 3)
	})
}

// TestPicking: of flows of one priority that want a packet each may be picked.
func TestPicking(t *testing.T) {
	flows := pipeline.New(nil)
	if err := flows.Read(strings.NewReader("ip actions=output:2\nip,in_port=1 actions=output:3\ntcp actions=output:4")); err != nil {
		t.Fatal(err)
	}
	p := walk.Through(flows)
	packet, err := p.ReadPacket("in_port=1,tcp")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range 3 {
		w := p.FollowPicking(walk.NewPacket(packet), nil, func(of []*pipeline.Flow) int { return i % len(of) })
		if got := w.Events(); len(got) != 1 || len(w.Undefined) != 1 {
			t.Fatalf("%d: %v %v", i, got, w.Undefined)
		}
		seen[w.Events()[0].Text] = true
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
}
