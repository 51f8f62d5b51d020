package walk_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// TestNoPort: a packet leaves by the port that it came from once a flow has it come from none, as
// OVN's answers to ARP do; a real switch says the same.
func TestNoPort(t *testing.T) {
	s := newSwitch(t)
	flows := []string{"priority=1 actions=push:NXM_OF_IN_PORT[],set_field:ANY->in_port,resubmit(,1),pop:NXM_OF_IN_PORT[],output:8",
		"table=1,in_port=8 actions=output:9", "table=1,in_port=ANY actions=output:8"}
	s.ofctl("add-flows", flows)
	if text := s.trace("in_port=8"); !strings.Contains(text, "Datapath actions: 8\n") {
		t.Fatal(text)
	}
	p := pipeline.New(pipeline.NewNames())
	if err := p.Read(strings.NewReader(strings.Join(flows, "\n"))); err != nil {
		t.Fatal(err)
	}
	seen := walk.Through(p).Follow(walk.NewPacket(pipeline.Match{{Base: pipeline.InPort, Value: pipeline.Value{Lo: 8},
		Mask: pipeline.Value{Lo: 0xffffffff}}}), nil).Events()
	if len(seen) != 1 || seen[0].Text != "output:8" {
		t.Errorf("%+v", seen)
	}
}

// TestPortZero: of that number there is no port, and a register that holds it sends nothing.
func TestPortZero(t *testing.T) {
	s := newSwitch(t)
	flows := []string{"ip actions=output:NXM_NX_REG0[],output:0"}
	s.ofctl("add-flows", flows)
	if text := s.trace("ip,in_port=8"); !strings.Contains(text, "Datapath actions: drop\n") {
		t.Fatal(text)
	}
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(flows[0])); err != nil {
		t.Fatal(err)
	}
	packet, err := p.ReadPacket("ip,in_port=8")
	if err != nil {
		t.Fatal(err)
	}
	if seen := walk.Through(p).Follow(walk.NewPacket(packet), nil).Events(); len(seen) > 0 {
		t.Errorf("%+v", seen)
	}
}

// equalMaker makes pipelines with a group, and registers that are often not read again.
type equalMaker struct{ *rand.Rand }

func (g equalMaker) one(of ...string) string { return of[g.IntN(len(of))] }

func (g equalMaker) flow(table int) string {
	next := fmt.Sprint(table + 1)
	var list []string
	for range 1 + g.IntN(3) {
		reg := g.one("0", "1", "2")
		list = append(list, g.one("load:"+g.one("1", "2", "3")+"->NXM_NX_REG"+reg+"[]", "load:1->NXM_NX_REG"+reg+"[1]",
			"move:NXM_NX_REG"+reg+"[0..3]->NXM_NX_REG1[2..5]", "push:NXM_NX_REG"+reg+"[]", "pop:NXM_NX_REG"+reg+"[]",
			"output:NXM_NX_REG"+reg+"[]", "group:1", "resubmit(,"+next+")", "output:4",
			"clone(load:3->NXM_NX_REG"+reg+"[],resubmit(,"+next+"))"))
	}
	if table < 3 {
		list = append(list, "goto_table:"+next)
	}
	match := g.one("ip", "ip", "ip,reg0=1", "ip,reg1=0/2", "ip,reg2=3", "ip,nw_dst=10.0.0.2", "ip,in_port=1")
	return fmt.Sprintf("table=%d,priority=%d,%s actions=%s", table, 1+g.IntN(60000), match, strings.Join(list, ","))
}

func (g equalMaker) group() string {
	bucket := func() string {
		return "bucket=actions=" + g.one("output:2", "output:3", "load:2->NXM_NX_REG0[],output:2",
			"load:1->NXM_NX_REG0[],resubmit(,3)",
			"load:1->NXM_NX_REG2[],resubmit(,3)", "resubmit(,2)", "resubmit(,3)")
	}
	return "group_id=1,type=all," + bucket() + "," + bucket()
}

// TestEqualOnASwitch: what is shown to be equal though buckets and registers differ, a real switch
// does alike with packets.
func TestEqualOnASwitch(t *testing.T) {
	s, g := newSwitch(t), equalMaker{drawn.Random(t)}
	equal, made := 0, 0
	for range drawn.Number(t, "PATHWISE_PAIRS", 60) {
		groups := [2]string{g.group(), ""}
		groups[1] = groups[0]
		if g.IntN(2) == 0 {
			groups[1] = g.group()
		}
		var a []string
		for table := range 4 {
			for range 1 + g.IntN(3) {
				a = append(a, g.flow(table))
			}
		}
		b := append([]string{}, a...)
		at := g.IntN(len(b))
		b[at] = strings.Replace(b[at], "actions=",
			"actions=load:"+g.one("1", "5")+"->NXM_NX_REG"+g.one("0", "1", "2")+"[],", 1)
		names := pipeline.NewNames()
		var read [2]*pipeline.Pipeline
		for i, flows := range [][]string{a, b} {
			read[i] = pipeline.New(names)
			if err := read[i].Read(strings.NewReader(strings.Join(append([]string{groups[i]}, flows...), "\n"))); err != nil {
				t.Fatal(err)
			}
		}
		if proof.Of(read[0], read[1], proof.Options{}).Verdict != proof.Equal {
			continue
		}
		equal++
		var packets, first []string
		for range 8 {
			packets = append(packets, fmt.Sprintf("in_port=%d,ip,nw_dst=10.0.0.%d", 1+g.IntN(3), 1+g.IntN(3)))
		}
		for i, flows := range [][]string{a, b} {
			made++
			id := fmt.Sprint(made) // a group of its own, as the last one's flows are still there
			s.ofctl("add-groups", []string{strings.Replace(groups[i], "group_id=1,", "group_id="+id+",", 1)})
			s.ofctl("replace-flows", strings.Split(strings.ReplaceAll(strings.Join(flows, "\n"), "group:1", "group:"+id), "\n"))
			for n, p := range packets {
				_, says, _ := strings.Cut(s.trace(p), "Datapath actions: ")
				if i == 0 {
					first = append(first, says)
				} else if says != first[n] {
					t.Fatalf("said to be equal, but %s: %q and %q\nA %s\n%s\nB %s\n%s", p, first[n], says, groups[0],
						strings.Join(a, "\n"), groups[1], strings.Join(b, "\n"))
				}
			}
		}
	}
	t.Logf("%d were equal", equal)
	if equal == 0 {
		t.Error("none was equal")
	}
}
