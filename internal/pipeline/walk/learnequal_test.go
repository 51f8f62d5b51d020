package walk_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// pupils makes pairs of pipelines that have a switch learn flows into table 2, in which they have flows of their
// own, of which one hides those that are learnt, is hidden by them, or has its place taken by one.
type pupils struct{ *rand.Rand }

func (g pupils) one(of ...string) string { return of[g.IntN(len(of))] }

// learn is an action. No two have one priority, as it is not known which of two flows takes a packet then.
func (g pupils) learn(priority int) string {
	out := []string{"table=2", fmt.Sprintf("priority=%d", priority)}
	for _, word := range []string{"hard_timeout=600", "fin_idle_timeout=60", "delete_learned", "cookie=0x77,limit=2"} {
		if g.IntN(6) == 0 {
			out = append(out, word)
		}
	}
	out = append(out, g.one("NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]", "NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]", "NXM_OF_ETH_SRC[]",
		"eth_type=0x800,NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]", "NXM_NX_REG2[]=NXM_OF_ETH_SRC[0..31]", "NXM_OF_IN_PORT[]"))
	for range g.IntN(3) {
		out = append(out, g.one("load:1->NXM_NX_REG0[]", "load:NXM_OF_IN_PORT[]->NXM_NX_REG1[0..15]", "load:2->NXM_NX_REG3[]",
			"load:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]"))
	}
	if g.IntN(3) > 0 {
		out = append(out, g.one("output:NXM_OF_IN_PORT[]", "output:NXM_NX_REG1[0..15]"))
	}
	text := "learn(" + strings.Join(out, ",") + ")"
	if g.IntN(4) == 0 {
		return "clone(" + text + ")"
	}
	return text
}

// arp is one of packets that are not of IP.
func (g pupils) arp(priority int) string {
	return strings.Replace(g.learn(priority), "eth_type=0x800,NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]", "NXM_OF_ETH_SRC[]", 1)
}

// taught is a flow of table 2.
func (g pupils) taught(priority int) string {
	match := g.one("ip", "tcp", "ip,nw_proto=6", "dl_dst=00:00:00:00:00:01", "dl_dst=00:00:00:00:00:02",
		"ip,nw_dst=10.0.0.1", "ip,nw_dst=10.0.0.2", "ip,in_port=1",
		"reg2=1,ip", "reg0=1,ip", "ip,reg1=2", "arp", "conj_id=1,ip")
	if g.IntN(8) == 0 {
		return fmt.Sprintf("table=2,priority=%d,%s actions=conjunction(1,%s)", priority,
			g.one("ip,in_port=1", "ip,in_port=2", "ip,nw_src=10.0.0.1", "ip,reg1=2"), g.one("1/2", "2/2"))
	}
	return fmt.Sprintf("table=2,priority=%d,%s actions=%s", priority, match,
		g.one("output:3", "output:4", "drop", "goto_table:3", "load:1->NXM_NX_REG1[],goto_table:3", "resubmit(,3),output:5"))
}

// pair is two pipelines, of which the second has one line other than the first, or one more.
func (g pupils) pair() (a, b []string) {
	way := func() string {
		return g.one("resubmit(,2)", "resubmit(,1)", "resubmit(,2),output:6", "clone(resubmit(,2)),output:7")
	}
	track := func() string { return g.one("ct(table=2)", way(), way()) }
	load := func() string {
		return "load:" + g.one("1", "2") + "->NXM_NX_REG" + g.one("0", "1", "2", "3") + "[]"
	}
	a = append(a, "priority=9,ip actions="+load()+","+g.learn(7)+","+track(),
		"priority=8,arp actions="+g.arp(17)+","+way(), "priority=7 actions="+way(),
		"table=1,priority=5,ip actions="+load()+",resubmit(,2)", "table=1,priority=4 actions=resubmit(,2)",
		"table=3,priority=5,ip,reg1=2 actions=output:8", "table=3,priority=4,tcp actions=output:9",
		"table=3,priority=3 actions=output:2")
	if g.IntN(3) == 0 {
		a[0] += "," + g.learn(27)
	}
	for _, n := range g.Perm(28)[:1+g.IntN(4)] { // each its own, and none of those of learnt flows
		a = append(a, g.taught(10*(1+n/7)+n%7))
	}
	b = slices.Clone(a)
	switch at := g.IntN(len(b)); g.IntN(7) {
	case 0:
		b = append(b, g.taught(g.IntN(50)))
	case 1: // the place of one that is learnt
		b = append(b, fmt.Sprintf("table=2,priority=%s,dl_dst=00:00:00:00:00:0%s actions=%s", g.one("7", "17"),
			g.one("1", "2"), g.one("output:3", "drop")))
	case 2:
		if alone := "=conjunction|=drop"; !regexp.MustCompile(alone).MatchString(b[at]) {
			b[at] = strings.Replace(b[at], "actions=", "actions="+load()+",", 1)
		}
	case 3:
		b[at] = strings.NewReplacer("tcp", "ip,nw_proto=6", "output:3", "output:4", "reg2=1", "reg2=2").Replace(b[at])
	case 4:
		b[0] = "priority=9,ip actions=" + load() + "," + g.learn(7) + "," + track()
	case 5:
		b = slices.Delete(b, len(b)-1, len(b))
	default:
		to := map[bool]string{true: "resubmit(,3)", false: "resubmit(,1)"}[strings.HasPrefix(b[at], "table=")]
		b[at] = strings.Replace(b[at], "resubmit(,2)", to, 1)
	}
	return a, b
}

// packet is one of a few.
func (g pupils) packet() string {
	return fmt.Sprintf("in_port=%d,dl_src=00:00:00:00:00:0%d,dl_dst=00:00:00:00:00:0%d,%s", 1+g.IntN(3), 1+g.IntN(2),
		1+g.IntN(2), g.one("tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=9",
			"udp,nw_src=10.0.0.2,nw_dst=10.0.0.1,nw_ttl=9", "arp,arp_op=1"))
}

var recirculated = regexp.MustCompile(`recirc\(0x[0-9a-f]+\)`)

// says is what a switch with the flows does with packets that come to it one after the other: what the datapath is
// told, and what is learnt.
func (s *aSwitch) says(flows, packets []string, states ...string) (out []string) {
	s.t.Helper()
	s.ofctl("replace-flows", flows)
	for _, p := range packets {
		args := []string{p}
		for _, state := range states {
			args = append(args, "--ct-next", state)
		}
		for _, pass := range passes(s.t, s.trace(append(args, "-generate")...)) {
			out = append(out, p+": "+recirculated.ReplaceAllString(pass.actions, "")+" "+strings.Join(pass.lessons, ", "))
		}
	}
	return out
}

// TestEqualOfLearners: what is shown to be equal though flows are learnt, a switch that learns does alike with
// packets, one after the other; of what is said to be different it tells the packet apart.
func TestEqualOfLearners(t *testing.T) {
	s, g := newSwitch(t), pupils{drawn.Random(t)}
	verdicts := map[proof.Verdict]int{}
	for range drawn.Number(t, "PATHWISE_LEARNERS", 100) {
		a, b := g.pair()
		names := pipeline.NewNames()
		var read [2]*pipeline.Pipeline
		for i, flows := range [][]string{a, b} {
			read[i] = pipeline.New(names)
			if err := read[i].Read(strings.NewReader(strings.Join(flows, "\n"))); err != nil {
				t.Fatal(err)
			}
		}
		d := proof.Of(read[0], read[1], proof.Options{Packets: 300, Random: g.Rand, Strict: true})
		verdicts[d.Verdict]++
		var packets, states []string
		switch d.Verdict {
		case proof.Undecided:
			continue
		case proof.Different:
			if len(d.Witness.A.Undefined)+len(d.Witness.B.Undefined) > 0 {
				continue
			}
			packets = []string{read[0].PrintTerms(d.Witness.Packet.Terms(read[0].Words))}
			for _, p := range d.Witness.A.Passes[1:] {
				states = append(states, strings.ReplaceAll(walk.Tracking(p.Start).String(), "|", ","))
			}
		default:
			for range 24 {
				packets = append(packets, g.packet())
			}
		}
		inA, inB := s.says(a, packets, states...), s.says(b, packets, states...)
		if same := slices.Equal(inA, inB); same != (d.Verdict == proof.Equal) {
			t.Fatalf("%s:\n%s\n\n%s\nA\n%s\nB\n%s", d.Verdict, strings.Join(inA, "\n"), strings.Join(inB, "\n"),
				strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
	}
	t.Logf("%v", verdicts)
}

// question is what the datapath is told of a question to the tracker that commits nothing.
var question = regexp.MustCompile(`ct(\(zone=\d+\))?,|ct$|drop$`)

// TestShortenedLearners: a switch that learns does the same with packets, one after the other, before and after its
// pipeline was shortened, but for questions to the tracker about packets that are dropped.
func TestShortenedLearners(t *testing.T) {
	s, g := newSwitch(t), pupils{drawn.Random(t)}
	shortened := 0
	for range drawn.Number(t, "PATHWISE_LEARNERS", 50) {
		a, _ := g.pair()
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(strings.Join(a, "\n"))); err != nil {
			t.Fatal(err)
		}
		r := reduction.Of(p, reduction.Options{Packets: 60, Seed: g.Uint64(), Fold: true, Growth: g.IntN(3)})
		if len(r.Steps) == 0 {
			continue
		}
		shortened++
		var b, packets []string
		for _, f := range r.Pipeline.Flows {
			b = append(b, r.Pipeline.Print(f, pipeline.AsGiven))
		}
		for range 24 {
			packets = append(packets, g.packet())
		}
		inA, inB := s.told(a, packets), s.told(b, packets)
		if !slices.Equal(inA, inB) {
			t.Fatalf("%s\n\n%s\nA\n%s\nB\n%s\n%+v", strings.Join(inA, "\n"), strings.Join(inB, "\n"), strings.Join(a, "\n"),
				strings.Join(b, "\n"), r.Steps)
		}
	}
	t.Logf("%d were shortened", shortened)
}

// told is what a switch does with packets that come to it one after the other, in however many passes.
func (s *aSwitch) told(flows, packets []string) (out []string) {
	for i, p := range packets {
		if i == 0 {
			s.ofctl("replace-flows", flows)
		}
		var does, learns []string
		for _, pass := range passes(s.t, s.trace(p, "-generate")) {
			text := question.ReplaceAllString(recirculated.ReplaceAllString(pass.actions, ""), "")
			does, learns = append(does, strings.Trim(text, ",")), append(learns, pass.lessons...)
		}
		does = slices.DeleteFunc(does, func(text string) bool { return text == "" })
		out = append(out, p+": "+strings.Join(does, ",")+" "+strings.Join(learns, ", "))
	}
	return out
}
