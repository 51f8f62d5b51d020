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
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/proof"
)

// mutant is a pipeline with one line changed.
type mutant struct {
	dump, was, is string
	of            []string
	at            int
}

// lines are those of the mutant.
func (m mutant) lines() []string {
	return grouped(append(append(append([]string{}, m.of[:m.at]...), m.is), m.of[m.at+1:]...))
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
		out[strings.TrimSuffix(filepath.Base(f), ".txt")] = dump(t, f)
	}
	return out
}

// dump is the lines of one.
func dump(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if !strings.HasPrefix(l, "#") {
			lines = append(lines, l)
		}
	}
	return grouped(lines)
}

// grouped leaves out flows that send packets to a group which the dump lacks, as
// documentation does: a switch takes none.
func grouped(lines []string) []string {
	to, has := regexp.MustCompile(`[=,]group:(\d+)`), map[string]bool{}
	group := regexp.MustCompile(`^group_id=(\d+),`)
	for _, l := range lines {
		if m := group.FindStringSubmatch(l); m != nil {
			has[m[1]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		if !strings.Contains(l, "group:") {
			return false
		}
		m := to.FindStringSubmatch(l)
		return m != nil && !has[m[1]]
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
				out = append(out, mutant{name, l, is, lines, i})
			}
		}
	}
	return out
}

// TestDecided: changes are decided that were not once: parts of conjunctions that complete none;
// a flow that only the deepest of packets meet; one in whose place others do the same, which
// depends on registers; what is undone within few tables of a pipeline that floods.
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
		{"ovn", "table=24, priority=0,metadata=0x3 actions=", "table=24, priority=0,metadata=0x3 actions=load:0x7->NXM_NX_REG8[],",
			proof.Equal},
		{"ovn", "table=33, priority=50,metadata=0x3,dl_dst=0a:58:0a:12:00:02",
			"table=33, priority=5,metadata=0x3,dl_dst=0a:58:0a:12:00:02", proof.Equal},
		{"antrea", "table=IngressMetric, priority=200,ct_state=-new,ct_label=0x6/",
			"table=IngressMetric, priority=20,ct_state=-new,ct_label=0x6/", proof.Equal},
		// Others of higher priority together take all that it wants.
		{"ovn", "table=45, priority=0,metadata=0x3 actions=resubmit(,46)",
			"table=45, priority=0,metadata=0x3 actions=output:3", proof.Equal},
		// No packet is tracked there.
		{"ovn", "table=24, priority=1,reg0=0x40/0x40,metadata=0x3 actions=push",
			"table=24, priority=1,reg0=0x40/0x40,metadata=0x3 actions=output:3,push", proof.Equal},
		// Controllers are told another port.
		{"ovn", "table=64, priority=100,reg10=0x1/0x1,reg15=0x1,metadata=0x3 actions=push",
			"table=64, priority=100,reg10=0x2/0x1,reg15=0x1,metadata=0x3 actions=push", proof.Different},
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

// busy is how much of the CPU this process has had.
func busy(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// unread is how many flows were not understood.
func unread(p *pipeline.Pipeline) (n int) {
	for _, f := range p.Flows {
		if !f.Understood() {
			n++
		}
	}
	return n
}

// TestMutants: of changes to each flow of pipelines that people run, none is said to be equal
// that a packet tells apart. It draws some, PATHWISE_MUTANTS many, and tells how many were
// undecided. PATHWISE_DUMP names one dump, or a file, to draw all from; PATHWISE_HARDER has so
// many times as many packets try to tell apart what is said to be equal. PATHWISE_DOUBT has one of so many
// be tried to be shown equal though a packet was found soon.
func TestMutants(t *testing.T) {
	random, of := drawn.Random(t), dumps(t)
	if os.Getenv("PATHWISE_MUTANTS") == "" {
		delete(of, "ovn") // its take seconds each
	}
	if one := os.Getenv("PATHWISE_DUMP"); of[one] != nil {
		of = map[string][]string{one: of[one]}
	} else if one != "" {
		of = map[string][]string{one: dump(t, one)}
	}
	all := mutants(of)
	most, harder := min(len(all), drawn.Number(t, "PATHWISE_MUTANTS", 12)), drawn.Number(t, "PATHWISE_HARDER", 1)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	undecided, n, doubt := 0, 0, drawn.Number(t, "PATHWISE_DOUBT", 2)
	verdicts, spent := map[string]map[proof.Verdict]int{}, map[string]time.Duration{}
	names, whole, bases := map[string]*pipeline.Names{}, map[string]*pipeline.Pipeline{}, map[string]*proof.Base{}
	for _, m := range all[:most] {
		if verdicts[m.dump] == nil {
			verdicts[m.dump] = map[proof.Verdict]int{}
		}
		if bases[m.dump] == nil {
			names[m.dump] = pipeline.NewNames()
			whole[m.dump] = read(t, names[m.dump], of[m.dump]...)
			bases[m.dump] = proof.NewBase(whole[m.dump])
		}
		a, b := whole[m.dump], read(t, names[m.dump], m.lines()...)
		if len(b.Lost) > 0 || unread(b) > unread(a) {
			continue // no switch takes it
		}
		n++
		from := busy(t)
		d := bases[m.dump].Of(b, proof.Options{Packets: 4000, Random: random, Doubt: n%doubt == 0})
		if d.Verdict == proof.Equal && harder > 1 {
			d = bases[m.dump].Of(b, proof.Options{Packets: 4000 * harder, Random: random})
		}
		verdicts[m.dump][d.Verdict]++
		took := busy(t) - from
		if spent[m.dump] += took; took > 2*time.Second {
			t.Logf("%s, %v of CPU: %s\n%s\n%s", d.Verdict, took, m.dump, m.was, m.is)
		}
		if n%100 == 0 {
			t.Logf("%d of %d: %v %v", n, most, verdicts, spent)
		}
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
		t.Logf("%s: %v, %v of CPU", filepath.Base(name), v, spent[name])
	}
	t.Logf("%d of %d mutants: %d undecided", n, len(all), undecided)
}
