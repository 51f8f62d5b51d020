package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/steer/drill"
)

// keysHead begins docs/reference/keys.md.
const keysHead = `# Keys of files

What "pathwise experiments keys" says: every key of a file with an experiment, and of one with drills. A value may be
one, or a list of them where it says so. A key that has keys of its own leads to their table.
[Experiments](experiments.md), [drills](drills.md) and [claims](claims.md) explain them by example;
[experiment.schema.json](experiment.schema.json) and [drills.schema.json](drills.schema.json) say the same to an
editor ([how](experiments.md#in-your-editor)).

`

// quiet is what a command needs that reads nothing of the machine.
func quiet(out io.Writer) env {
	return env{stdout: out, stderr: io.Discard, getenv: func(string) string { return "" }, self: "pathwise"}
}

// printed is what the program says of a kind of file.
func printed(t *testing.T, kind, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := quiet(&b).writeKeys(kind, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestKeysPage: the reference of keys and the schemas for editors are what the program
// says. With PATHWISE_WRITE=1, as make docs sets it, they are written.
func TestKeysPage(t *testing.T) {
	markdown := printed(t, kindExperiment, "markdown")
	markdown = append(append([]byte(keysHead), markdown...), '\n')
	for name, want := range map[string][]byte{
		"keys.md":                append(markdown, printed(t, kindDrills, "markdown")...),
		"experiment.schema.json": printed(t, kindExperiment, formatSchema),
		"drills.schema.json":     printed(t, kindDrills, formatSchema),
	} {
		path := filepath.Join("../../docs/reference", name)
		if os.Getenv("PATHWISE_WRITE") != "" {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is not what the program says: run make docs (%v)", name, err)
		}
	}
}

// TestKeysAreTold: each key has a meaning, a value, and what holds without it, and links
// from table to table lead somewhere.
func TestKeysAreTold(t *testing.T) {
	for kind, keys := range map[string]func() ([]config.Section, error){kindExperiment: experiment.Keys,
		kindDrills: drill.Keys} {
		sections, err := keys()
		if err != nil {
			t.Fatal(err)
		}
		paths, n := map[string]bool{}, 0
		for _, s := range sections {
			if paths[s.Path] {
				t.Errorf("%s: %q is there twice", kind, s.Path)
			}
			paths[s.Path] = true
		}
		for _, s := range sections {
			for _, k := range s.Keys {
				n++
				value := k.Type + k.Of
				if k.Meaning == "" || k.Default == "" && !k.Needed || value == "" && s.Path != drill.OptionsPath ||
					k.Of != "" && !paths[k.Of] {
					t.Errorf("%s: %s.%s: %+v", kind, s.Path, k.Name, k)
				}
			}
		}
		if n < 30 {
			t.Errorf("%s: %d keys", kind, n)
		}
	}
}

// schemas are those of each kind of file as an editor has them.
func schemas(t *testing.T) map[string]*jsonschema.Resolved {
	t.Helper()
	return map[string]*jsonschema.Resolved{kindExperiment: resolved(t, kindExperiment),
		kindDrills: resolved(t, kindDrills)}
}

func resolved(t *testing.T, kind string) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(printed(t, kind, formatSchema), &s); err != nil {
		t.Fatal(err)
	}
	out, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// byEditor is what an editor that has the schema says of a file.
func byEditor(t *testing.T, schema *jsonschema.Resolved, text []byte) error {
	t.Helper()
	var node any
	if err := yaml.Unmarshal(text, &node); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(encoded, &node); err != nil {
		t.Fatal(err)
	}
	return schema.Validate(node)
}

// kindOf is the kind of file that a text is.
func kindOf(text []byte) string {
	if drill.IsFile(text) {
		return kindDrills
	}
	return kindExperiment
}

// TestSchemasTakeWhatIsRight: an editor finds nothing wrong with any file that is shipped,
// or that the docs show.
func TestSchemasTakeWhatIsRight(t *testing.T) {
	texts := map[string][]byte{}
	for _, name := range experiments.Names() {
		text, err := shippedText(experiments.Open(name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = text
	}
	for _, name := range experiments.Papers() {
		text, err := shippedText(experiments.OpenPaper(name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = text
	}
	for _, page := range pages(t) {
		for _, block := range fences(t, page, "yaml") {
			texts[page+": "+block] = []byte(block)
		}
	}
	schemas := schemas(t)
	for name, text := range texts {
		if err := byEditor(t, schemas[kindOf(text)], text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(texts) < 25 {
		t.Errorf("%d files", len(texts))
	}
}

// TestSchemasRefuseWhatIsWrong: what Pathwise refuses and a schema can know is marked in an
// editor too.
func TestSchemasRefuseWhatIsWrong(t *testing.T) {
	e := quiet(io.Discard)
	parse := map[string]func(text string) error{
		kindExperiment: func(text string) error {
			_, err := experiment.Parse("e.yaml", strings.NewReader(text), e.catalogue())
			return err
		},
		kindDrills: func(text string) error { _, err := parseDrills("d.yaml", []byte(text)); return err },
	}
	schemas := schemas(t)
	for _, text := range wrongFiles() {
		kind := kindOf([]byte(text))
		if err := parse[kind](text); err == nil {
			t.Errorf("Pathwise takes\n%s", text)
		}
		if err := byEditor(t, schemas[kind], []byte(text)); err == nil {
			t.Errorf("an editor takes\n%s", text)
		}
	}
}

// wrongFiles are files with one mistake each.
func wrongFiles() (out []string) {
	const base = "name: x\nnetworks: [vxlan, bridge]\nworkloads: [tcp-rr]\n"
	for _, line := range []string{
		"worklods: [tcp-rr]", "drill: switch", "paper: {titel: x}", // keys that there are not
		"quick: {budget: 1m, workloads: [tcp-rr], pairs: 2}",
		"pairs: many", "pairs: [1, [2]]", "mtu: {underlay: 1500}", "budget: 5", "budget: [5m, 6m]", // other types
		"repetitions: {width: 5}", "repetitions: {width: narrow}", "repetitions: []", "description: [a, b]",
		"kernel: ~",
		"topologies: three-hosts", "outside: ovn", "cores: near", "family: 5", "vm: host", "kernel: bsd", // words
		"missing: hide", "repetitions: {until: dawn}", "repetitions: {builds: none}",
		"pairs: 0", "pairs: 129", "mtu: [1500, 9]", "rmem: 1k1", "rmem: 15", "repetitions: 0", "repetitions: {windows: 0}",
		"repetitions: {claims: 1001}", "pairs: 1.5", "pairs: [2, 2]", "topologies: []", // out of range, or twice
		"applications: [{name: shop, workloads: [{workload: tcp-rr, weight: 0}]}]",
		"applications: [{name: shop, workloads: [{workload: tcp-rr, metrics: speed}]}]",
		"applications: [{name: shop, workloads: tcp-rr, bounds: {workload: tcp-rr, metric: latency_p99}}]",
		"applications: [{name: a/b, workloads: [tcp-rr]}]",
		"claims: [{id: a, source: b, claim: c, workload: tcp-rr, ratio: {of: vxlan, too: bridge}}]",
		"claims: [{id: a, source: b, claim: c, workload: tcp-rr, metric: speed, order: [vxlan, bridge]}]",
		"claims: [{id: a, source: b, claim: c, workload: tcp-rr, trend: {over: pairs, goes: sideways}}]",
		"claims: [{id: a, source: b, claim: c, choice: {app: web, load: low, network: vxlan}}]",
		"claims: [{id: a, source: b, claim: c, order: [vxlan, bridge]}]", "claims: [{id: a, source: b}]",
	} {
		out = append(out, base+line+"\n")
	}
	for _, text := range []string{
		"- tcp-rr", "networks: [vxlan]\nworkloads: [tcp-rr]", "name: x\nworkloads: [tcp-rr]",
		"name: x\nnetworks: [vxlan]",
		"name: a/b\nnetworks: [vxlan]\nworkloads: [tcp-rr]", "name: x\nnetworks: [nope]\nworkloads: [tcp-rr]",
		"name: x\nnetworks: [vxlan]\nworkloads: [nope]", "name: x\nnetworks: {name: nope}\nworkloads: [tcp-rr]",
		"name: x\nnetworks: {name: vxlan, route: bgp}\nworkloads: [tcp-rr]",
		"name: x\nnetworks: {name: a b, cni: my.conflist}\nworkloads: [tcp-rr]",
		"name: x\nnetworks: {name: my, cni: my.conflist, route: ospf}\nworkloads: [tcp-rr]",
		"name: x\nnetworks: [~]\nworkloads: [tcp-rr]", "name: x\nnetworks: vxlan\nworkloads: {load: {connections: 2}}",
		"name: x\nnetworks: vxlan\nworkloads: {name: tcp-rr, load: {conections: 1}}",
		"name: x\nnetworks: vxlan\nworkloads: {name: tcp-rr, load: {connections: 0}}",
		"name: x\nnetworks: vxlan\nworkloads: {name: tcp-rr, load: {size: 64q}}",
		"name: x\nnetworks: vxlan\nworkloads: {name: tcp-rr, warmup: -1}",
		"name: x\nnetworks: vxlan\nworkloads: {name: tcp-rr, duration: soon}",
		"name: x\nnetworks: vxlan\nworkloads: {name: tcp-bulk, load: {rate: -1}}",
		"name: x\nnetworks: vxlan\nworkloads: {name: tcp-rr, profile: web.xml}",
		"name: x\nnetworks: vxlan\nworkloads: uperf",
	} {
		out = append(out, text+"\n")
	}
	for _, text := range []string{
		"switchs", "{drill: switch, hold: 2s}", "{drill: blackhole, faults: [sideways]}",
		"{drill: blackhole, traffic: [smtp]}", "{drill: peers, peers: 0}", "{drill: peers, hosts: 65}",
		"{drill: kills, kills: many}", "{drill: overhead, encapsulate: 1}",
		"{drill: switch, interval: 3}", "{drill: demo, capacity: lots}", "{drill: demo, repetitions: 0}", "{name: switch}",
		"{drill: inserts, workload: sql}", "~",
	} {
		out = append(out, "name: x\ndrills: ["+text+"]\n")
	}
	return append(out, "name: x\nnetworks: vxlan\ndrills: [switch]\n",
		"name: x\nnetworks: [vxlan, nope]\ndrills: [switch]\n",
		"name: x\nnetwork: [vxlan, bridge]\ndrills: [switch]\n")
}
