package survey_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/survey"
)

func of(t *testing.T, flows string) survey.Survey {
	t.Helper()
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(flows)); err != nil {
		t.Fatal(err)
	}
	if len(p.Lost) > 0 {
		t.Fatalf("lost %+v", p.Lost)
	}
	return survey.Of(p)
}

// TestDead: which flows are dead, by line and reason, and which only seem so.
func TestDead(t *testing.T) {
	for name, c := range map[string]struct{ flows, dead string }{
		"hidden":                      {"priority=9,ip actions=drop\npriority=5,tcp,tp_dst=80 actions=NORMAL\npriority=1 actions=drop", "2 hidden"},
		"of the same priority is not": {"priority=5,ip actions=drop\npriority=5,tcp actions=NORMAL", ""},
		"of another table is not": {"priority=9,ip actions=resubmit(,1)\ntable=1,priority=5,tcp actions=drop",
			""},
		"hidden by two": {"priority=9,ip,nw_src=10.0.0.0/9 actions=drop\npriority=9,ip,nw_src=10.128.0.0/9 actions=drop\n" +
			"priority=1,ip,nw_src=10.0.0.0/8 actions=NORMAL", "3 hidden-together"},
		"all but one address is not": {"priority=9,ip,nw_src=10.0.0.0/9 actions=drop\n" +
			"priority=9,ip,nw_src=10.128.0.0/10 actions=drop\npriority=1,ip,nw_src=10.0.0.0/8 actions=NORMAL", ""},
		"by a flow that times out is not":              {"priority=9,idle_timeout=9,ip actions=drop\npriority=5,tcp actions=NORMAL", ""},
		"by a flow whose priority is not known is not": {"priority=high,ip actions=drop\npriority=5,tcp actions=NORMAL", ""},
		"by a part of a conjunction is not": {"priority=9,ip actions=conjunction(1,1/2)\npriority=9,tcp actions=conjunction(1,2/2)\n" +
			"priority=9,conj_id=1,ip actions=drop\npriority=5,tcp actions=NORMAL", ""},
		"a table that nothing leads to": {"actions=resubmit(,1)\ntable=1 actions=drop\ntable=2 actions=drop",
			"3 not-reached"},
		"nor what only such lead to": {"actions=drop\ntable=1 actions=goto_table:2\ntable=2 actions=drop",
			"2 not-reached,3 not-reached"},
		"a hidden flow's way is none": {"priority=9 actions=drop\npriority=1 actions=goto_table:2\ntable=2 actions=drop",
			"2 hidden,3 not-reached"},
		"by ct":                        {"actions=ct(table=3)\ntable=3 actions=drop", ""},
		"by a group":                   {"group_id=1,type=all,bucket=actions=resubmit(,4)\nactions=group:1\ntable=4 actions=drop", ""},
		"by an unknown group, perhaps": {"actions=group:1\ntable=4 actions=drop", ""},
		"never loaded": {"actions=load:1->NXM_NX_REG0[],resubmit(,1)\ntable=1,reg0=1 actions=drop\ntable=1,reg0=2 actions=drop",
			"3 never-loaded"},
		"set_field loads": {"actions=set_field:2->reg0,resubmit(,1)\ntable=1,reg0=2 actions=drop", ""},
		"a masked set_field loads some bits": {"actions=set_field:0x10/0xf0->reg0,resubmit(,1)\ntable=1,reg0=0x10 actions=drop\n" +
			"table=1,reg0=0x11 actions=drop", "3 never-loaded"},
		"part of a register": {"actions=load:3->NXM_NX_REG0[4..7],resubmit(,1)\ntable=1,reg0=0x30 actions=drop",
			""},
		"a move may be of all": {"actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],resubmit(,1)\ntable=1,reg0=7 actions=drop", ""},
		"zero is there": {"actions=resubmit(,1)\ntable=1,reg0=0 actions=drop\ntable=1,reg0=1 actions=drop",
			"3 never-loaded"},
		"through an alias": {"actions=load:0x100000002->OXM_OF_PKT_REG0[],resubmit(,1)\ntable=1,reg0=1,reg1=2 actions=drop", ""},
		"what is learnt may load": {"actions=learn(table=5,load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15]),resubmit(,1)\n" +
			"table=1,reg0=7 actions=drop", ""},
		"by one that a flow which is learnt may replace is not": {
			"actions=learn(table=1,priority=9,eth_type=0x800),resubmit(,1)\n" +
				"table=1,priority=9,ip actions=drop\ntable=1,priority=5,tcp actions=NORMAL", ""},
		"by one before flows that are learnt": {"actions=learn(table=1,priority=7,eth_type=0x800),resubmit(,1)\n" +
			"table=1,priority=9,ip actions=drop\ntable=1,priority=5,tcp actions=NORMAL", "3 hidden"},
		"an exec does not load": {"actions=ct(commit,exec(load:1->NXM_NX_CT_MARK[])),resubmit(,1)\ntable=1,reg0=1 actions=drop", "2 never-loaded"},
		"in a clone it does":    {"actions=clone(load:1->NXM_NX_REG0[],resubmit(,1))\ntable=1,reg0=1 actions=drop", ""},
		"popped":                {"actions=push:NXM_OF_IN_PORT[],pop:NXM_NX_REG0[0..15],resubmit(,1)\ntable=1,reg0=1 actions=drop", ""},
		"tracked without ct": {"actions=resubmit(,1)\ntable=1,ct_state=+trk+est actions=drop",
			"2 never-loaded"},
		"not tracked":            {"ct_state=-trk,ip actions=drop", ""},
		"no conjunction has it":  {"conj_id=7,ip actions=drop", "1 never-loaded"},
		"metadata is written":    {"actions=write_metadata:5,goto_table:1\ntable=1,metadata=5 actions=drop\ntable=1,metadata=6 actions=drop", "3 never-loaded"},
		"check_pkt_larger loads": {"actions=check_pkt_larger(1400)->NXM_NX_REG0[0],resubmit(,1)\ntable=1,reg0=1 actions=drop", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range of(t, c.flows).Dead {
				got = append(got, fmt.Sprintf("%d %s", d.Line, d.Reason))
			}
			if s := strings.Join(got, ","); s != c.dead {
				t.Errorf("%s\ngot %q, want %q", c.flows, s, c.dead)
			}
		})
	}
}

// TestHiddenByTrial draws tables over a few bits of two registers and tries all packets: a
// flow is hidden if, and only if, some flow of higher priority takes each that it wants.
func TestHiddenByTrial(t *testing.T) {
	const bits, rounds = 5, 400
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	type flow struct{ priority, value, mask int }
	dead := 0
	for range rounds {
		var flows []flow
		// The first table writes anything, so that only hiding is left.
		text := "actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],resubmit(,1)\n"
		for range 3 + rnd.IntN(12) {
			mask := rnd.IntN(1<<bits) & (rnd.IntN(1<<bits) | rnd.IntN(1<<bits))
			f := flow{rnd.IntN(5), rnd.IntN(1<<bits) & mask, mask}
			flows = append(flows, f)
			match := ""
			if mask != 0 {
				match = fmt.Sprintf(",reg0=%#x/%#x", f.value, f.mask)
			}
			text += fmt.Sprintf("table=1,priority=%d%s actions=output:%d\n", f.priority, match, len(flows))
		}
		want := map[int]bool{}
		for i, f := range flows {
			alive := false
			for packet := range 1 << bits {
				taken := packet&f.mask != f.value
				for _, g := range flows {
					taken = taken || g.priority > f.priority && packet&g.mask == g.value
				}
				alive = alive || !taken
			}
			if !alive {
				want[i+2], dead = true, dead+1
			}
		}
		got := of(t, text).Dead
		for _, d := range got {
			if !want[d.Line] {
				t.Errorf("line %d is not dead:\n%s", d.Line, text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("found %d of %d dead flows:\n%s", len(got), len(want), text)
		}
	}
	if dead < rounds/4 {
		t.Errorf("only %d flows were dead", dead)
	}
}

// TestTables: what is said of each table.
func TestTables(t *testing.T) {
	s := of(t, strings.Join([]string{
		"cookie=0x0, n_packets=4, n_bytes=400, table=0,priority=10,tcp,in_port=1 actions=ct(table=10,zone=7)",
		"cookie=0x0, n_packets=0, n_bytes=0, table=0,priority=1 actions=drop",
		"n_packets=3, n_bytes=300, table=10,ct_state=+new+trk,tcp actions=ct(commit,zone=7),load:5->NXM_NX_REG1[],goto_table:20",
		"cookie=0x0, n_packets=0, n_bytes=0, table=20,reg1=5 actions=output:2"}, "\n"))
	if s.Flows != 4 || s.Idle != 2 || len(s.Tables) != 3 || len(s.Dead) != 0 {
		t.Fatalf("%+v", s)
	}
	if got := fmt.Sprint(s.Recirculations); got != "[{1 0 10 7 false 4}]" {
		t.Errorf("recirculations %s", got)
	}
	first, second := s.Tables[0], s.Tables[1]
	if got := fmt.Sprint(first.Packets, first.Idle, first.Jumps, first.Ends, first.Zones, first.Reads); got !=
		"4 1 [{10 ct 1 4}] 1 [7] [eth_type in_port nw_proto]" {
		t.Errorf("table 0: %s", got)
	}
	if got := fmt.Sprint(second.Jumps, second.Writes); got != "[{20 goto_table 1 3}] [reg1]" {
		t.Errorf("table 10: %s", got)
	}
}

// TestGroupsInEachOther: groups that hold each other several times are looked into once each:
// of 64 levels with two ways each nobody would see the end.
func TestGroupsInEachOther(t *testing.T) {
	s := of(t, "group_id=1,type=all,bucket=actions=group:2,bucket=actions=group:1,group:2\n"+
		"group_id=2,type=all,bucket=actions=group:1,bucket=actions=group:1,resubmit(,4)\n"+
		"actions=group:1\ntable=4 actions=drop\ntable=5 actions=drop")
	if len(s.Dead) != 1 || s.Dead[0].Line != 5 || len(s.Unsure) > 0 {
		t.Errorf("dead %+v, unsure %q", s.Dead, s.Unsure)
	}
}

// FuzzSurvey: nothing that can be read ends the survey.
func FuzzSurvey(f *testing.F) {
	f.Add("table=0,priority=9,ip actions=resubmit(,1),ct(table=2,zone=NXM_NX_REG0[0..15])\ntable=1,reg0=1/3 actions=group:1")
	f.Add("group_id=1,type=select,bucket=actions=group:1\nactions=group:1\nconj_id=1 actions=conjunction(1,1/2)")
	drawn.Seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		survey.Of(p)
	})
}
