package proof_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/explain/pipeline"
	"pathwise.dev/pathwise/internal/explain/pipeline/drawn"
	"pathwise.dev/pathwise/internal/explain/pipeline/proof"
)

// mutant is a pipeline with one line changed.
type mutant struct {
	dump, was, is string
	lines         []string
}

// dumps are pipelines of networks that people run, by their names.
func dumps(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../testdata/dumps/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no dumps", err)
	}
	out := map[string][]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if !strings.HasPrefix(l, "#") {
				lines = append(lines, l)
			}
		}
		out[strings.TrimSuffix(filepath.Base(f), ".txt")] = grouped(lines)
	}
	return out
}

// grouped leaves out flows that send packets to a group which the dump lacks, as
// documentation does: a switch takes none.
func grouped(lines []string) []string {
	to := regexp.MustCompile(`[=,]group:(\d+)`)
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		m := to.FindStringSubmatch(l)
		return m != nil && !slices.ContainsFunc(lines, func(g string) bool {
			return strings.HasPrefix(g, "group_id="+m[1]+",")
		})
	})
}

// edits are what changes a line, one after the other, to what it does not do.
func edits() []func(string) string {
	replace := func(pattern, by string) func(string) string {
		re := regexp.MustCompile(pattern)
		return func(l string) string {
			at := re.FindStringSubmatchIndex(l)
			if at == nil {
				return l
			}
			return l[:at[0]] + string(re.ExpandString(nil, by, l, at)) + l[at[1]:]
		}
	}
	more := func(pattern string, n uint64) func(string) string {
		re := regexp.MustCompile(pattern)
		return func(l string) string {
			at := re.FindStringSubmatchIndex(l)
			if at == nil {
				return l
			}
			v, err := strconv.ParseUint(l[at[2]:at[3]], 0, 64)
			if err != nil {
				return l
			}
			return l[:at[2]] + fmt.Sprintf("%#x", v+n) + l[at[3]:]
		}
	}
	return []func(string) string{
		func(string) string { return "" },
		replace(`ct\((?:commit,)?table=(\w+)[^()]*(?:\([^()]*\)[^()]*)*\)`, "resubmit(,$1)"),
		replace(`ct\(commit,`, "ct("), replace(`,nat(\([^()]*\))?`, ""), replace(`,exec\([^()]*(\([^()]*\)[^()]*)*\)`, ""),
		more(`load:(0x[0-9a-f]+|\d+)->`, 1), more(`set_field:(0x[0-9a-f]+)[/-]`, 1), more(`zone=(\d+)`, 1),
		more(`[, ]reg\d+=(0x[0-9a-f]+)`, 1), more(`output:(\d+)`, 1),
		replace(`output:NXM_NX_REG1\[\]`, "output:NXM_NX_REG2[]"), replace(`output:"[^"]*"`, `output:"another"`),
		replace(`resubmit\(,(\d)(\d*)\)`, "resubmit(,${1}1)"), replace(`/24`, "/25"), replace(`/16`, "/17"),
		replace(`/0x1,`, "/0x3,"), replace(`(0x[0-9a-f]+)/0x[0-9a-f]+0([, ])`, "$1$2"), replace(`\+new`, "+est"),
		replace(`\+est`, "+rpl"), replace(`\+trk`, "-trk"), replace(`priority=(\d+)(\d),`, "priority=$1,"),
		replace(`,tp_dst=[^, ]+`, ""), replace(`dl_dst=(\w\w):(\w\w)`, "dl_dst=$2:02"),
		replace(`(,| )ip,`, "${1}tcp,"), replace(`in_port=[^, ]*[, ]`, ""),
		replace(`actions=resubmit`, "actions=load:0x7->NXM_NX_REG8[],resubmit"),
		replace(`strip_vlan,`, ""), replace(`,dec_ttl`, ""), replace(`nw_src=[^, ]*,?`, ""),
	}
}

// mutants changes each line of each dump, one at a time.
func mutants(of map[string][]string) (out []mutant) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		lines := of[name]
		for i, l := range lines {
			for _, edit := range edits() {
				is := edit(l)
				if is == l {
					continue
				}
				other := append(append(append([]string{}, lines[:i]...), is), lines[i+1:]...)
				out = append(out, mutant{name, l, is, grouped(other)})
			}
		}
	}
	return out
}

// TestDecided: changes are decided that were not once: parts of conjunctions that complete none;
// a flow that only the deepest of packets meet; one in whose place others do the same, which
// depends on registers.
func TestDecided(t *testing.T) {
	of := dumps(t)
	for _, c := range []struct {
		dump, was, is string
		want          proof.Verdict
	}{
		{"neutron", "table=82, priority=73,ct_state=+est-rel-rpl,tcp,reg5=0x2,tp_dst=0x54/0xfffc",
			"table=82, priority=7,ct_state=+est-rel-rpl,tcp,reg5=0x2,tp_dst=0x54/0xfffc", proof.Equal},
		{"neutron", "table=71, priority=70,udp,reg5=0x2,in_port=2,tp_src=67",
			"table=71, priority=7,udp,reg5=0x2,in_port=2,tp_src=67", proof.Different},
		{"antrea", "table=L3Forwarding, priority=200,ip,reg0=0x200/0x200,nw_dst=10.10.0.26",
			"table=L3Forwarding, priority=200,tcp,reg0=0x200/0x200,nw_dst=10.10.0.26", proof.Different},
		{"antrea", "table=IngressMetric, priority=200,ct_state=-new,ct_label=0x6/",
			"table=IngressMetric, priority=20,ct_state=-new,ct_label=0x6/", proof.Equal},
	} {
		text := strings.Join(of[c.dump], "\n")
		changed := strings.Replace(text, c.was, c.is, 1)
		if changed == text {
			t.Fatalf("%s: no such flow", c.was)
		}
		names := pipeline.NewNames()
		d := proof.Of(read(t, names, of[c.dump]...), read(t, names, strings.Split(changed, "\n")...),
			proof.Options{Packets: 4000, Random: rand.New(rand.NewPCG(2, 2))})
		if d.Verdict != c.want || d.Contradicted {
			t.Errorf("%s: %s, want %s: %+v", c.is, d.Verdict, c.want, d.Reasons)
		}
	}
}

// TestMutants: of changes to each flow of pipelines that people run, none is said to be equal
// that a packet tells apart. It draws some, PATHWISE_MUTANTS many, and tells how many were
// undecided.
func TestMutants(t *testing.T) {
	random, of := drawn.Random(t), dumps(t)
	if os.Getenv("PATHWISE_MUTANTS") == "" {
		delete(of, "ovn") // its take seconds each
	}
	all := mutants(of)
	n := min(len(all), drawn.Number(t, "PATHWISE_MUTANTS", 12))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	undecided := 0
	verdicts := map[string]map[proof.Verdict]int{}
	for _, m := range all[:n] {
		if verdicts[m.dump] == nil {
			verdicts[m.dump] = map[proof.Verdict]int{}
		}
		names := pipeline.NewNames()
		a, b := read(t, names, of[m.dump]...), read(t, names, m.lines...)
		d := proof.Of(a, b, proof.Options{Packets: 4000, Random: random})
		verdicts[m.dump][d.Verdict]++
		switch {
		case d.Contradicted:
			t.Errorf("said to be equal: %s\n%s\n%s\n%s %v", m.dump, m.was, m.is,
				a.PrintTerms(d.Witness.Packet.Terms(a.Words)), d.Witness.Answers)
		case d.Verdict == proof.Undecided:
			undecided++
			t.Logf("undecided: %s\n%s\n%s\n%+v", m.dump, m.was, m.is, d.Reasons[0])
		}
	}
	for name, v := range verdicts {
		t.Logf("%s: %v", name, v)
	}
	t.Logf("%d of %d mutants: %d undecided", n, len(all), undecided)
}
