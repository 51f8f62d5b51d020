package openshift

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/proof"
)

// hostRules are a host's flows, with three pods of two tenants, and more of each where
// asked for.
func hostRules(p Pipeline, pods int) []string {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	self := node{addr("198.18.0.1"), prefix("10.128.0.0/16"), addr("10.128.0.1")}
	peers := []node{{addr("198.18.0.2"), prefix("10.129.0.0/16"), addr("10.129.0.1")}}
	out := p.nodeRules(prefix("10.128.0.0/12"), services(), self, peers)
	seen := map[string]bool{}
	for i := range pods {
		e := endpoint{netip.AddrFrom4([4]byte{10, 128, byte((i + 2) >> 8), byte(i + 2)}),
			fmt.Sprintf("0a:58:0a:80:%02x:%02x", (i+2)>>8, (i+2)&0xff), strconv.Itoa(i + 3), uint32(10 + 10*(i%2))}
		for _, r := range podRules(e) {
			if !seen[r] {
				seen[r] = true
				out = append(out, r)
			}
		}
	}
	return out
}

func read(t testing.TB, rules []string) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(strings.Join(rules, "\n"))); err != nil {
		t.Fatal(err)
	}
	if len(p.Lost) > 0 {
		t.Fatal(p.Lost)
	}
	return p
}

func options(strict bool) proof.Options {
	return proof.Options{Strict: strict, Packets: 20000, Random: rand.New(rand.NewPCG(1, 1))}
}

// TestProof: of the cuts of Busch and Kammerer (2021, section 5.2) the first does what the
// whole pipeline does, but for questions to the tracker about packets that are dropped;
// the second and the third do not, nor does a pipeline without tracking.
func TestProof(t *testing.T) {
	whole := read(t, hostRules(Whole, 3))
	for _, c := range []struct {
		p      Pipeline
		strict bool
		want   proof.Verdict
	}{
		{Whole, false, proof.Equal}, {Whole, true, proof.Equal}, {Shortcut1, false, proof.Equal},
		{Shortcut1, true, proof.Different}, {Shortcut2, false, proof.Different}, {Shortcut3, false, proof.Different},
		{Untracked, false, proof.Different}, {Shortcut3Untracked, false, proof.Different},
	} {
		d := proof.Of(whole, read(t, hostRules(c.p, 3)), options(c.strict))
		if d.Verdict != c.want {
			t.Errorf("pipeline %d, strict %v: %s, want %s: %+v", c.p, c.strict, d.Verdict, c.want, d.Reasons)
		}
		if d.Witness != nil {
			t.Logf("pipeline %d: %s %v, of %d packets", c.p, whole.PrintTerms(d.Witness.Packet.Terms(whole.Words)),
				d.Witness.Answers, d.Tried)
		}
	}
}

// TestJoined: a pipeline that has packets tracked where they are committed, and where the
// answer is first read, does the same.
func TestJoined(t *testing.T) {
	var joined []string
	for _, r := range hostRules(Whole, 3) {
		switch {
		case strings.HasPrefix(r, "table=0,priority=300,"):
		case strings.HasPrefix(r, "table=0,") && strings.HasSuffix(r, "goto_table:30") && strings.Contains(r, ",ip"):
			joined = append(joined, strings.Replace(r, "goto_table:30", "ct(table=30)", 1))
		case strings.HasPrefix(r, "table=10,priority=100,"):
			joined = append(joined, r, strings.Replace(strings.Replace(r, "goto_table:30", "ct(table=30)", 1),
				"priority=100,", "priority=101,ip,", 1))
		case strings.HasPrefix(r, "table=25,priority=100,"):
			joined = append(joined, strings.Replace(r, "goto_table:30", "ct(table=30)", 1))
		case strings.HasPrefix(r, "table=21,priority=0,"):
			joined = append(joined, r, "table=21,priority=100,ip,actions=ct(table=30)")
		default:
			joined = append(joined, r)
		}
	}
	if d := proof.Of(read(t, hostRules(Whole, 3)), read(t, joined), options(false)); d.Verdict != proof.Equal {
		t.Errorf("%s: %+v %+v", d.Verdict, d.Reasons, d.Witness)
	}
}

// mutant is a pipeline with one flow changed.
type mutant struct {
	what  string
	rules []string
}

var tracks = regexp.MustCompile(`ct\((?:commit,)?table=(\d+)[^)]*\)`)

// mutants changes each flow of a pipeline, one at a time.
func mutants(rules []string) (out []mutant) {
	with := func(i int, r ...string) []string {
		return append(append(append([]string{}, rules[:i]...), r...), rules[i+1:]...)
	}
	change := func(i int, what, from, to string) {
		if r := strings.Replace(rules[i], from, to, 1); r != rules[i] {
			out = append(out, mutant{what + " " + rules[i], with(i, r)})
		}
	}
	for i, r := range rules {
		out = append(out, mutant{"without " + r, with(i)})
		if m := tracks.FindStringSubmatch(r); m != nil {
			change(i, "goto for ct in", m[0], "goto_table:"+m[1])
		}
		change(i, "no commit in", "ct(commit,", "ct(")
		change(i, "no nat in", ",nat)", ")")
		change(i, "another port in", "output:2", "output:7")
		change(i, "another mask in", "/16,", "/17,")
		change(i, "another priority of", "priority=200", "priority=20")
		change(i, "another tenant in", "load:10->", "load:11->")
		change(i, "established in", "+rpl", "+est")
		change(i, "tcp only in", ",ip,", ",tcp,")
	}
	return out
}

// TestMutants: no pipeline with one flow changed is said to be equal that a packet tells
// apart; most that differ are found to.
func TestMutants(t *testing.T) {
	random := drawn.Random(t)
	whole := hostRules(Whole, 3)
	verdicts := map[proof.Verdict]int{}
	for _, m := range mutants(whole) {
		a, b := read(t, whole), read(t, m.rules)
		d := proof.Of(a, b, proof.Options{Packets: 40000, Random: random})
		verdicts[d.Verdict]++
		switch {
		case d.Contradicted:
			t.Errorf("said to be equal: %s: %s %v", m.what, a.PrintTerms(d.Witness.Packet.Terms(a.Words)), d.Witness.Answers)
		case d.Verdict == proof.Undecided:
			t.Logf("undecided: %s: %+v", m.what, d.Reasons)
		}
	}
	t.Log(verdicts)
	if n := verdicts[proof.Undecided]; n*20 > verdicts[proof.Equal]+verdicts[proof.Different]+n {
		t.Errorf("%d of %v undecided: more than 5 %%", n, verdicts)
	}
}
