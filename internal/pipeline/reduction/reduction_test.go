package reduction_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
	"pathwise.dev/pathwise/internal/pipeline/walk"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

func read(t testing.TB, text string) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

func options() reduction.Options {
	return reduction.Options{Packets: 300, Seed: 1}
}

// TestOf holds what is done, and what is not, to docs/explanation/pipelines.md.
func TestOf(t *testing.T) {
	const learning = "arp actions=learn(table=1,priority=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:3\n"
	for _, c := range []struct {
		why, flows string
		change     func(*reduction.Options)
		apply      string
	}{
		{"an answer that nobody reads, of packets that are dropped", "ip actions=ct(table=1)\ntable=1,ip actions=drop", nil,
			"add ip actions=resubmit(,1)"},
		{"of packets that are delivered, it keeps connections alive", "ip actions=ct(table=1)\ntable=1,ip actions=output:2",
			nil, ""},
		{"unless that does not matter", "ip actions=ct(table=1)\ntable=1,ip actions=output:2",
			func(o *reduction.Options) { o.DropLookups = true }, "add ip actions=resubmit(,1)"},
		{"asked again before it is read", "ip actions=ct(table=1)\ntable=1,ip actions=ct(commit,table=2)\n" +
			"table=2,ct_state=+est,ip actions=output:2\narp actions=goto_table:1\ntable=3,tcp actions=drop", nil,
			"delete_strict table=3,tcp\nadd ip actions=goto_table:1"},
		{"another zone is asked", "ip actions=ct(table=1)\ntable=1,ip actions=ct(commit,table=2,zone=5)\n" +
			"table=2,ct_state=+est,ip actions=output:2", nil, ""},
		{"ports of fragments are read before", "ip actions=ct(table=1)\ntable=1,tcp,tp_dst=80 actions=ct(commit,table=2)\n" +
			"table=2,ct_state=+est,ip actions=output:2", nil, ""},
		{"the answer is read before", "ip actions=ct(table=1)\ntable=1,ct_state=+new,ip actions=ct(commit,table=2)\n" +
			"table=2,ct_state=+est,ip actions=output:2", nil, ""},
		{"the header is another", "ip actions=ct(table=1)\ntable=1,ip actions=mod_nw_dst:10.0.0.9,ct(commit,table=2)\n" +
			"table=2,ct_state=+est,ip actions=output:2", nil, ""},
		{"a copy has been delivered", "ip actions=output:2,ct(table=1)\ntable=1,ip actions=drop", nil, ""},
		{"known already", "ip actions=ct(table=1)\ntable=1,ct_state=+est,ip actions=ct(table=2)\n" +
			"table=2,ct_state=+rpl,ip actions=output:2", nil, "add table=1, ct_state=+est,ip actions=resubmit(,2)"},
		{"a translation may be found", "ip actions=ct(table=1)\ntable=1,ct_state=+est,ip actions=ct(table=2,nat)\n" +
			"table=2,ct_state=+rpl,ip actions=output:2", nil, ""},
		{"none is committed in a private zone",
			"ip actions=ct(table=1)\ntable=1,ct_state=+est,ip actions=ct(table=2,nat)\ntable=2,ct_state=+rpl,ip actions=output:2",
			func(o *reduction.Options) { o.Private = []uint16{0} }, "add table=1, ct_state=+est,ip actions=resubmit(,2)"},
		{"one is committed there", "ip actions=ct(table=1)\ntable=1,ct_state=+est,ip actions=ct(table=2,nat)\n" +
			"table=1,ct_state=+new,ip actions=ct(commit,nat(src=10.0.0.1)),output:3\n" +
			"table=2,ct_state=+rpl,ip actions=output:2", func(o *reduction.Options) { o.Private = []uint16{0} }, ""},
		{"to where it is read, for those that were asked about",
			"ip actions=ct(table=1)\narp actions=resubmit(,1)\ntable=1,priority=5,ip,nw_dst=10.0.0.1 actions=ct(commit,table=2)\n" +
				"table=1,priority=1 actions=resubmit(,2)\ntable=2,ct_state=+est,ip actions=output:2\ntable=2,arp actions=output:3", nil,
			"add ip actions=resubmit(,1)\nadd table=1, priority=2,ip actions=ct(table=2)"},
		{"to one flow, not to each of many",
			"ip,ct_state=-trk actions=ct(table=0)\nip,in_port=1,priority=9 actions=goto_table:1\n" +
				"table=1,ip,nw_src=10.0.0.1 actions=load:1->NXM_NX_REG0[],goto_table:2\n" +
				"table=1,ip,nw_src=10.0.0.2 actions=load:2->NXM_NX_REG0[],goto_table:2\n" +
				"table=2,ip,ct_state=+rpl actions=output:NXM_NX_REG0[]\n" +
				"table=2,priority=1,ip,nw_dst=10.0.0.3 actions=ct(commit),output:3", nil,
			"delete_strict table=0,ct_state=-trk,ip\nadd priority=9,ip,in_port=1 actions=ct(table=1)"},
		{"what is not understood", "ip actions=ct(table=1)\ntable=1,ip actions=frobnicate(1)", nil, ""},
		{"flows that are learnt", "ip actions=ct(table=1)\ntable=1,ip actions=learn(table=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])," +
			"resubmit(,2)\ntable=2,ip actions=drop", nil, ""},
		{"flows that are learnt may deliver, which keeps connections alive", learning +
			"ip actions=ct(table=1)\ntable=1,priority=1,ip actions=drop", nil, ""},
		{"the way into a table goes past flows that are learnt", learning + "ip actions=ct(table=1)\n" +
			"table=1,priority=1,ip actions=goto_table:2\ntable=2,ct_state=+est,ip actions=output:2", nil, ""},
		{"a table that flows are learnt into is no other's",
			learning + "ip,in_port=1 actions=resubmit(,1)\ntable=1,ip actions=output:2",
			func(o *reduction.Options) { o.Fold = true }, ""},
		{"it is looked up again", learning + "ip actions=resubmit(,1)\ntable=1,ip,ct_state=-trk actions=ct(table=1)\n" +
			"table=1,priority=1,ip actions=goto_table:2\ntable=2,ct_state=+est,ip actions=controller,output:2",
			func(o *reduction.Options) { o.Fold = true }, ""},
		{"a flow that may be learnt, though none takes its packets", learning + "table=1,priority=9 actions=drop\n" +
			"table=1,priority=7,dl_dst=00:00:00:00:00:05 actions=output:5\nip actions=resubmit(,1)", nil, ""},
		{"a flow with which go those that it had a switch learn", "priority=40000,arp actions=drop\n" +
			strings.Replace(learning, "table=1", "delete_learned,table=1", 1) + "ip actions=resubmit(,1)", nil, ""},
		{"such a flow, which learns by a copy", "priority=40000,arp actions=drop\n" +
			"arp actions=clone(learn(delete_learned,table=1,priority=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])),output:3\n" +
			"ip actions=resubmit(,1)", nil, ""},
		{"a flow that learns in a group's bucket", "group_id=1,type=all,bucket=actions=learn(table=1,priority=7," +
			"NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])\npriority=40000,arp actions=drop\n" +
			"arp actions=group:1\nip actions=resubmit(,1)", nil, ""},
		{"a flow that ends by itself once a connection ends", "priority=40000,tcp actions=fin_timeout(idle_timeout=5),output:2\n" +
			"priority=5,tcp,tp_dst=80 actions=output:3", nil, ""},
		{"the same, by a copy", "priority=40000,tcp actions=clone(fin_timeout(hard_timeout=5)),output:2\n" +
			"priority=5,tcp,tp_dst=80 actions=output:3", nil, ""},
		{"a copy tells a controller in which table", "ip,in_port=1 actions=goto_table:1\n" +
			"table=1,ip actions=clone(controller),output:2", func(o *reduction.Options) { o.Fold = true }, ""},
		{"flows that end by themselves", "idle_timeout=5,ip actions=ct(table=1)\ntable=1,ip actions=drop", nil, ""},
	} {
		o := options()
		if c.change != nil {
			c.change(&o)
		}
		r := reduction.Of(read(t, c.flows), o)
		if got := strings.Join(r.Apply, "\n"); got != c.apply {
			t.Errorf("%s: got\n%s\nwant\n%s\n%+v", c.why, got, c.apply, r.Refused)
		}
		if len(r.Apply) > 0 && len(r.Assumptions) < 3 {
			t.Errorf("%s: rests on %v", c.why, r.Assumptions)
		}
	}
}

// TestRefused: a change that would save a pass is named where it is not shown to change
// nothing.
func TestRefused(t *testing.T) {
	r := reduction.Of(read(t, "ip actions=ct(table=1)\ntable=1,tcp,tp_dst=80 actions=ct(commit,table=2)\n"+
		"table=2,ct_state=+est,ip actions=output:2"), options())
	if len(r.Refused) == 0 || r.Refused[0].Line != 1 || r.Refused[0].Verdict != string(proof.Different) {
		t.Errorf("%+v", r.Refused)
	}
}

// TestCost: what packets cost before and after is told by class.
func TestCost(t *testing.T) {
	r := reduction.Of(read(t, "ip actions=ct(table=1)\ntable=1,ip actions=ct(commit,table=2)\ntable=2,ip actions=output:2"),
		options())
	if len(r.Classes) == 0 || r.Classes[0].Passes != [2]int{3, 2} || r.Classes[0].Name != "a port to a port" {
		t.Errorf("%+v", r.Classes)
	}
	if r.After.Passes >= r.Before.Passes || len(r.Steps) != 1 || r.Steps[0].After != r.After {
		t.Errorf("%+v %+v %+v", r.Before, r.After, r.Steps)
	}
}

// TestKept: of each recirculation that stays it is said who reads what it gives.
func TestKept(t *testing.T) {
	r := reduction.Of(read(t, "priority=40000,ip,in_port=1 actions=ct(table=1,nat)\nip,in_port=2 actions=ct(commit,table=2,zone=7)\n"+
		"table=1,ip actions=resubmit(,3)\ntable=3,ip,ct_state=+est actions=output:2\n"+
		"table=3,ip,nw_dst=10.0.0.1 actions=output:4\ntable=2,ip actions=output:3\n"+
		"arp actions=ct(table=4)\ntable=4,arp,reg0=0 actions=output:5"), options())
	var got []string
	for _, k := range r.Kept {
		if k.Packets == 0 {
			t.Errorf("no packets: %+v", k)
		}
		got = append(got, fmt.Sprintf("%v %s to %s zone %s %v %q %v %s", k.Lines, k.Table, k.To, k.Zone, k.Commit, k.NAT,
			k.Readers, k.Why))
	}
	slices.Sort(got)
	want := []string{"[1] 0 to 1 zone 0 false \"nat\" [4 5] its answer is read: ct_state in table 3 (line 4); it may translate addresses, " +
		"which are read: ip_dst in table 3 (line 5)",
		"[2] 0 to 2 zone 7 true \"\" [] nobody reads its answer, but it commits the connection",
		"[7] 0 to 4 zone 0 false \"\" [] nobody reads its answer, but connections of packets that are delivered are kept alive by it " +
			"(see --assume drop-lookups)"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOVN: of OVN's pipeline no pass can be left out. What packets between pods, and to a service,
// pay before and after is told, and of each recirculation who reads what it gives.
func TestOVN(t *testing.T) {
	text, err := os.ReadFile("../testdata/dumps/ovn.txt")
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Packets = 1000
	r := reduction.Of(read(t, string(text)), o)
	passes := map[string]int{}
	for _, c := range r.Classes {
		if c.Passes[0] != c.Passes[1] {
			t.Errorf("%+v", c)
		}
		passes[c.Name] = max(passes[c.Name], c.Passes[0])
	}
	service := max(passes["a port to a service, dropped"], passes["a port to a service, on to a port"])
	if passes["a port to a port"] != 3 || service < 4 {
		t.Errorf("passes %v", passes)
	}
	packets := 0
	for _, k := range r.Kept {
		packets += k.Packets
		if len(k.Readers) == 0 || !strings.Contains(k.Why, "its answer is read: ") {
			t.Errorf("%+v", k)
		}
	}
	if len(r.Kept) != 6 || packets == 0 {
		t.Errorf("%d recirculations stay, met by %d packets", len(r.Kept), packets)
	}
}

// applied is what a switch holds once it was given the lines.
func applied(t *testing.T, p *pipeline.Pipeline, lines []string) map[string]string {
	t.Helper()
	name := func(p *pipeline.Pipeline, f *pipeline.Flow) string { return fmt.Sprint(f.Table, " ", p.PrintMatch(f)) }
	out := map[string]string{}
	for _, f := range p.Flows {
		out[name(p, f)] = p.Print(f, pipeline.AsGiven)
	}
	for _, l := range lines {
		match, deleted := strings.CutPrefix(l, "delete_strict ")
		if deleted {
			l = match + " actions=drop"
		}
		q := read(t, l)
		if len(q.Flows) != 1 || !q.Flows[0].Understood() {
			t.Fatalf("not a flow: %s", l)
		}
		k := name(q, q.Flows[0])
		if deleted && out[k] == "" {
			t.Errorf("there is no such flow: %s", l)
		}
		if deleted {
			delete(out, k)
		} else {
			out[k] = q.Print(q.Flows[0], pipeline.AsGiven)
		}
	}
	return out
}

// maker makes small pipelines that track.
type maker struct{ *rand.Rand }

func (g maker) one(of ...string) string { return of[g.IntN(len(of))] }

func (g maker) flow(t int) string {
	match := g.one("ip", "ip", "ip,reg0=1", "tcp", "tcp,tp_dst=80", "ip,nw_dst=10.0.0.2", "ip,in_port=1", "arp",
		"ip,ct_state=+new+trk", "ip,ct_state=+est+trk", "ip,ct_state=-trk", "ip,ct_mark=1")
	next := fmt.Sprint(t + 1 + g.IntN(2))
	zone := g.one("", "", ",zone=1")
	list := g.one("", "", "load:1->NXM_NX_REG0[],", "output:2,", "mod_nw_dst:10.0.0.3,", "ct_clear,", "ct(commit),",
		"set_tunnel:5,", "move:NXM_NX_CT_MARK[]->NXM_NX_REG0[],")
	list += g.one("ct(table="+next+zone+")", "ct(table="+next+zone+")", "ct(commit,table="+next+zone+")",
		"goto_table:"+next, "resubmit(,"+next+")", "output:3", "drop", "ct(table="+next+",nat)", "group:1")
	if match == "ip,ct_state=-trk" && g.IntN(2) == 0 {
		list = fmt.Sprintf("ct(table=%d%s)", t, zone)
	}
	return fmt.Sprintf("table=%d,priority=%d,%s,actions=%s", t, 1+g.IntN(200), match, strings.TrimSuffix(list, ",drop"))
}

var zoneText = regexp.MustCompile(`zone=(\d+)`)

// asked are the questions of a packet that is delivered, and none of others.
func asked(p *walk.Pipeline, w *walk.Walk) map[string]bool {
	out, delivered := map[string]bool{}, false
	for _, e := range w.Events() {
		switch e.Kind {
		case walk.Lookup, walk.Commit:
			var m pipeline.Match
			for _, t := range e.Packet.Terms(p.Words) {
				if walk.Header(t.Base) {
					m = append(m, t)
				}
			}
			zone := "0"
			if z := zoneText.FindStringSubmatch(e.Text); z != nil {
				zone = z[1]
			}
			out[zone+" "+p.PrintTerms(m)] = true
		case walk.Choice:
		default:
			delivered = true
		}
	}
	if !delivered {
		return nil
	}
	return out
}

// TestNothingChanges: of generated pipelines, each that was shortened does the same, by
// proof and by packets; packets that are delivered are asked about as before; none takes
// more passes; run again, nothing more is found; and the lines that apply and revert give the
// one and the other.
func TestNothingChanges(t *testing.T) {
	g, n := maker{drawn.Random(t)}, drawn.Number(t, "PATHWISE_PIPELINES", 40)
	shortened := 0
	for range n {
		lines := []string{"group_id=1,type=all,bucket=actions=output:2,bucket=actions=resubmit(,3)"}
		for table := range 4 {
			for range 1 + g.IntN(4) {
				lines = append(lines, g.flow(table))
			}
		}
		a := read(t, strings.Join(lines, "\n"))
		o := reduction.Options{Packets: 100, Seed: g.Uint64(), Fold: g.IntN(2) == 0, Growth: g.IntN(3)}
		r := reduction.Of(a, o)
		if len(r.Steps) == 0 {
			continue
		}
		shortened++
		b, what := r.Pipeline, strings.Join(lines, "\n")+"\n"+strings.Join(r.Apply, "\n")
		d := proof.Of(a, b, proof.Options{Packets: 8000, Random: g.Rand})
		if d.Verdict != proof.Equal {
			t.Errorf("%s: %+v\n%s", d.Verdict, d.Reasons, what)
		}
		same(t, a, b, g.Rand, what)
		if again := reduction.Of(b, o); len(again.Steps) > 0 {
			t.Errorf("run again, it finds more: %+v\n%s", again.Steps, what)
		}
		if got, want := applied(t, a, r.Apply), applied(t, b, nil); !maps.Equal(got, want) {
			t.Errorf("applied: %v, want %v", got, want)
		}
		if got, want := applied(t, b, r.Revert), applied(t, a, nil); !maps.Equal(got, want) {
			t.Errorf("reverted: %v, want %v", got, want)
		}
	}
	t.Logf("%d of %d were shortened", shortened, n)
}

// same follows packets through both.
func same(t *testing.T, a, b *pipeline.Pipeline, random *rand.Rand, what string) {
	t.Helper()
	inA, inB := walk.Through(a), walk.Through(b)
	m := witness.New(inA, random)
	for range 300 {
		c := m.Make()
		packet, oracle := walk.NewPacket(c.Packet), c.Oracle()
		wa := inA.Follow(packet, oracle)
		wb := inB.Follow(packet, oracle.Again())
		if len(wa.Undefined) > 0 || !wa.Understood() {
			continue
		}
		after := asked(inB, wb)
		for q := range asked(inA, wa) {
			if !after[q] {
				t.Errorf("%s: no longer asked: %s\n%s", a.PrintTerms(c.Packet), q, what)
				return
			}
		}
	}
}

// FuzzOf: nothing makes it fail, and what comes of it is never different.
func FuzzOf(f *testing.F) {
	f.Add("ip actions=ct(table=0)\nactions=group:1\ngroup_id=1,type=all,bucket=group:1,bucket=resubmit(,0)")
	f.Add("ct_state=-trk actions=ct(table=0)\nip actions=goto_table:1\ntable=1,ip actions=ct(commit,table=2)\ntable=2,ct_state=+new actions=2")
	f.Add("ip actions=ct(table=1)\ntable=1,priority=65535 actions=resubmit(,2)\ntable=2,ct_state=+est actions=3\ntable=9 actions=4")
	f.Add("actions=resubmit(,0),ct(table=1,nat)\ntable=1,ct_state=+est actions=clone(ct(table=0,nat(src=10.0.0.1:5)),exit)")
	drawn.Seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		a := read(t, text)
		o := options()
		o.Packets, o.Private = 20, []uint16{0}
		r := reduction.Of(a, o)
		for _, s := range r.Steps {
			if s.Why == "" || len(s.Lines) == 0 {
				t.Errorf("a step without a reason or a flow: %+v", s)
			}
		}
		if strings.Contains(text, "nat") {
			return // may rest on a private zone
		}
		again := proof.Options{Packets: 40, Random: rand.New(rand.NewPCG(1, 1))}
		if d := proof.Of(a, r.Pipeline, again); d.Verdict == proof.Different {
			t.Errorf("different: %s", a.PrintTerms(d.Witness.Packet.Terms(a.Words)))
		}
	})
}
