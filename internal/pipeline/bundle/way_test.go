package bundle

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
)

const file = `# Takes back what "pathwise ovs shorten br0 --apply" did:
# done: delete_strict table=0,priority=300,ct_state=-trk,ip
# done: add table=21, priority=1,ip actions=ct(table=30)
delete_strict table=21,priority=1,ip
add priority=300,ct_state=-trk,ip actions=ct(table=0)
`

func read(t testing.TB, flows ...string) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(strings.Join(flows, "\n"))); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWay: what a bridge has tells whether a change was made, was taken back, or met others.
func TestWay(t *testing.T) {
	w, err := parse(file)
	if err != nil || len(w.done) != 2 || len(w.back) != 2 {
		t.Fatalf("%+v, %v", w, err)
	}
	const (
		before = "priority=300,ct_state=-trk,ip actions=ct(table=0)"
		after  = "table=21,priority=1,ip actions=ct(table=30)"
	)
	for _, c := range []struct {
		name       string
		flows      []string
		done, back string
	}{
		{"changed", []string{after}, "", "there is table=21, priority=1,ip actions=ct(table=30)"},
		{"changed back", []string{before}, "there is priority=300,ct_state=-trk,ip actions=ct(table=0)", ""},
		{"both", []string{before, after}, "there is priority=300,ct_state=-trk,ip actions=ct(table=0)",
			"there is table=21, priority=1,ip actions=ct(table=30)"},
		{"neither", nil, "there is no flow table=21, priority=1,ip actions=ct(table=30)",
			"there is no flow priority=300,ct_state=-trk,ip actions=ct(table=0)"},
		{"another's", []string{"table=21,priority=1,ip actions=drop"},
			"there is table=21, priority=1,ip actions=drop, not table=21, priority=1,ip actions=ct(table=30)",
			"there is table=21, priority=1,ip actions=drop"},
	} {
		p := read(t, c.flows...)
		if done, back := unmet(p, w.done), unmet(p, w.back); done != c.done || back != c.back {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, done, back, c.done, c.back)
		}
	}
}

func TestDiffer(t *testing.T) {
	a := read(t, "cookie=5,ip actions=group:1", "group_id=1,type=select,bucket=actions=output:1")
	for _, c := range []struct {
		flows []string
		want  string
	}{
		{[]string{"n_packets=7, cookie=5,ip actions=group:1", "group_id=1,type=select,bucket=actions=output:1"}, ""},
		{[]string{"ip actions=group:1", "group_id=1,type=select,bucket=actions=output:1"}, "there is ip actions=group:1"},
		{[]string{"cookie=5,ip actions=group:1", "group_id=1,type=select,bucket=actions=output:2"},
			"there is group_id=1,type=select,bucket=actions=output:2"},
		{[]string{"cookie=5,ip actions=group:1"}, "there are other groups"},
		{[]string{"group_id=1,type=select,bucket=actions=output:1"}, "there is no table=0,ip"},
		{[]string{"cookie=5,ip actions=group:1", "group_id=1,type=select,bucket=actions=output:1", "what is this"},
			"there are other groups, or other lines"},
	} {
		got := differ(a, read(t, c.flows...))
		if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%q: %q, want %q", c.flows, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file)
	f.Add("# done: add actions=drop\ndelete_strict table=0,")
	f.Add("add group_id=1\n")
	f.Fuzz(func(t *testing.T, raw string) {
		w, err := parse(raw)
		if err != nil {
			if !strings.Contains(err.Error(), ": expected ") {
				t.Errorf("%v: without what was expected", err)
			}
			return
		}
		p := read(t, "ip actions=drop")
		unmet(p, w.done)
		unmet(p, w.back)
	})
}
