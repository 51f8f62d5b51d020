package experiment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// catalogue knows a network "vxlan" and the knobs of three workloads.
func catalogue() experiment.Catalogue {
	return experiment.Catalogue{
		Network: func(name string) error {
			if name == "nope" {
				return errors.New(`unknown network "nope"`)
			}
			return nil
		},
		Workload: func(name string) (workload.Info, error) {
			info := workload.Info{Name: name, Metrics: []string{"throughput"}, Pairs: true, MinDuration: 100 * time.Millisecond,
				Knobs: []string{"connections", "size"}, Default: sample.Load{Connections: 1},
				Max: sample.Load{Connections: 128, Size: 1 << 20}}
			switch name {
			case "uperf:dir/web.xml", "uperf:dir/dir/web.xml": // and where the test's encoding puts it
				info.Name = "uperf:web"
			case "uperf:web":
				return info, errors.New("open profile: web: no such file or directory")
			case "lonely":
				info.Pairs = false
			case "served":
				info.Server = "a program"
			case "slow":
				info.MinDuration = 10 * time.Second
			case "nope":
				return info, errors.New(`unknown workload "nope"`)
			}
			return info, nil
		},
	}
}

const head = "name: x\nnetworks: [vxlan]\n"

func TestParseSaysWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"misspelt key", head + "worklods: [tcp]", `e.yaml:3: worklods: unknown key: did you mean "workloads"?`},
		{"unknown key", head + "zzz: 1\nworkloads: [tcp]", "e.yaml:3: zzz: unknown key: expected one of applications, budget, claims, cores, description, duration, family, kernel, missing"},
		{"misspelt load", head + "workloads:\n  - name: tcp\n    load: {conections: 1}",
			`e.yaml:5: workloads[0].load.conections: unknown key: did you mean "connections"?`},
		{"unknown network", "name: x\nnetworks:\n  - vxlan\n  - nope\nworkloads: [tcp]",
			`e.yaml:4: networks[1]: unknown network "nope"`},
		{"unknown workload", head + "workloads:\n  - tcp\n  - nope", `e.yaml:5: workloads[1]: unknown workload "nope"`},
		{"negative load", head + "workloads:\n  - name: tcp\n    load: {connections: -1}",
			`e.yaml:5: workloads[0].load.connections: "-1": expected a whole number`},
		{"absurd load", head + "workloads:\n  - name: tcp\n    load: {connections: 1000}",
			"e.yaml:5: workloads[0].load: connections: 1000 is out of range: expected more than 0 and at most 128"},
		{"no such knob", head + "workloads:\n  - name: tcp\n    load: {rate: 5M}",
			"e.yaml:5: workloads[0].load: rate: workload tcp has no such load"},
		{"bad rate", head + "workloads:\n  - name: tcp\n    load: {rate: NaN}",
			`e.yaml:5: workloads[0].load.rate: "NaN": expected a rate above 0`},
		{"uperf without a profile", head + "workloads: [uperf]",
			"e.yaml:3: workloads[0]: workload uperf: expected a profile"},
		{"a profile for another", head + "workloads:\n  - {name: tcp, profile: web.xml}",
			"e.yaml:4: workloads[0]: profile: workload tcp takes none; uperf does"},
		{"a list whose name is a path", "name: x\nnetworks:\n  - {name: ../../x, cni: my.conflist}\nworkloads: [tcp]\n",
			`e.yaml:3: networks[0]: "../../x": expected a name of letters`},
		{"no choice of a server", head + "workloads:\n  - {name: tcp, server: mongod}",
			"e.yaml:4: workloads[0]: server: workload tcp has no choice of one"},
		{"negative duration", head + "duration: -2s\nworkloads: [tcp]", `e.yaml:3: duration: "-2s": expected a duration`},
		{"duration without unit", head + "duration: 5\nworkloads: [tcp]", `e.yaml:3: duration: "5": expected a duration`},
		{"too short", head + "workloads: [slow]", "e.yaml:3: workloads[0]: duration 5s: workload slow needs 10s"},
		{"too many pairs", head + "pairs: 129\nworkloads: [tcp]",
			`e.yaml:3: pairs: "129": expected a whole number from 1 to 128`},
		{"pairs", head + "pairs: 2\nworkloads: [lonely]", "e.yaml:4: workloads[0]: pairs: workload lonely runs on one pair"},
		{"topology", head + "topologies: three\nworkloads: [tcp]", `e.yaml:3: topologies: unknown topology "three"`},
		{"MTU", head + "mtu: 9\nworkloads: [tcp]", `e.yaml:3: mtu: "9": expected a whole number from 1280 to 9000`},
		{"outside", head + "outside: ovn\nworkloads: [tcp]", `e.yaml:3: outside: unknown outside "ovn": expected bridge, vxlan, ovs or ovs-vxlan`},
		{"no room outside", head + "outside: vxlan\nmtu: 1300\nworkloads: [tcp]",
			"e.yaml:5: workloads[0]: mtu: 1300 leaves 1250 bytes inside the outside vxlan"},
		{"cores", head + "cores: near\nworkloads: [tcp]", `e.yaml:3: cores: unknown placement "near": expected free, same or apart`},
		{"rmem", head + "rmem: [auto, 99m]\nworkloads: [tcp]", `e.yaml:3: rmem[1]: "99m": expected a size in bytes from 16384 to 33554432, such as 64 or 16k`},
		{"family", head + "family: 5\nworkloads: [tcp]", `e.yaml:3: family: unknown IP family "5": expected 4 or 6`},
		{"family of a list", head + "workloads:\n  - tcp\n  - {name: lonely, family: [6, 46]}",
			`e.yaml:5: workloads[1].family[1]: unknown IP family "46"`},
		{"until", head + "repetitions: {until: dawn}\nworkloads: [tcp]",
			`e.yaml:3: repetitions.until: "dawn": expected width or verdicts`},
		{"windows", head + "repetitions: {windows: 0}\nworkloads: [tcp]",
			`e.yaml:3: repetitions.windows: "0": expected a whole number from 1 to 100`},
		{"virtual machine", head + "vm: host\nworkloads: [tcp]", `e.yaml:3: vm: "host" is no kernel of a virtual machine`},
		{"named twice", head + "topologies: [two-hosts, bmp2bmp-remote]\nworkloads: [tcp]",
			"e.yaml:3: topologies[1]: two-hosts is given twice"},
		{"missing", head + "missing: hide\nworkloads: [tcp]", `e.yaml:3: missing: "hide": expected skip or fail`},
		{"min above max", head + "repetitions: {min: 5, max: 2}\nworkloads: [tcp]",
			"e.yaml:3: repetitions: min 5 is above max 2"},
		{"claims above max", head + "repetitions: {max: 3, claims: 5}\nworkloads: [tcp]",
			"e.yaml:3: repetitions: claims 5 is above max 3"},
		{"width", head + "repetitions: {width: 5}\nworkloads: [tcp]", `e.yaml:3: repetitions.width: "5": expected a share`},
		{"twice", head + "workloads: [tcp, tcp]", "e.yaml:3: workloads[1]: two-hosts/tcp/c=1 is given twice"},
		{"no networks", "name: x\nnetworks: []\nworkloads: [tcp]", "e.yaml:2: networks: empty list"},
		{"missing", "name: x\nworkloads: [tcp]", "e.yaml:1: networks: missing key"},
		{"bad name", "name: a/b\nnetworks: [v]\nworkloads: [tcp]", `e.yaml:1: name: "a/b": expected a name`},
		{"null", "name: x\nnetworks: [~]\nworkloads: [tcp]", "e.yaml:2: networks[0]: expected a text, found nothing"},
		{"tabs", "name: x\n\tnetworks: [v]", "e.yaml:2: not YAML"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := experiment.Parse("e.yaml", strings.NewReader(tc.text), catalogue())
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func parse(t *testing.T, text string) experiment.Experiment {
	t.Helper()
	e, err := experiment.Parse("dir/e.yaml", strings.NewReader(text), catalogue())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// everyKey has the keys of workloads, and of how often they are repeated.
const everyKey = `name: x
networks: [vxlan, {name: mine, cni: my.conflist}, "cni:other.conf"]
topologies: [one-host, two-hosts]
pairs: [1, 4]
mtu: [1500, 9000]
warmup: 200ms
budget: 2m
repetitions: {min: 2, max: 4, width: 7.5%, claims: 3, until: verdicts, windows: auto, builds: shared}
workloads:
  - name: tcp
    load: {connections: [1, 8], size: [64, 16k]}
    cores: [apart, free]
    rmem: [auto, 4m, 100000]
  - name: lonely
    topologies: one-host
    pairs: 1
    duration: 3s
    load: [{connections: 2}, {size: 1m}]
  - {name: served, server: "mongod --port ${PORT}"}
  - {name: nested, topologies: [one-host, bmp2vmp-local, vmp2vmp-remote], pairs: 1, mtu: 1500, outside: [bridge, vxlan], vm: [uml, qemu]}
  - {name: virtual, topologies: [bmp2bmp-local, bmp2vmp-local], pairs: 1, mtu: 1500}
  - {name: uperf, profile: web.xml, pairs: 1, mtu: 1500}
`

func TestParseAndEncodeAgree(t *testing.T) {
	e := parse(t, everyKey)
	if n := len(e.Entries[3].Scenarios); n != 2+4+4 {
		t.Errorf("%d scenarios of topologies with virtual machines: %v", n, e.Entries[3].Scenarios)
	}
	if kinds := e.VMs(); !slices.Equal(kinds, []string{"uml", "qemu", ""}) {
		t.Errorf("virtual machines %q", kinds)
	}
	if last := e.Entries[5]; last.Workload != "uperf:web" || last.Find() != "uperf:dir/web.xml" {
		t.Errorf("profile: %+v", last)
	}
	if len(e.Entries[0].Scenarios) != 48 || len(e.Entries[0].Loads) != 4 {
		t.Errorf("got %d scenarios and %d loads", len(e.Entries[0].Scenarios), len(e.Entries[0].Loads))
	}
	want := []experiment.Network{{Name: "vxlan", Find: "vxlan"}, {Name: "mine", Find: "cni:dir/my.conflist"},
		{Name: "cni-other", Find: "cni:other.conf"}}
	if !slices.Equal(e.Networks, want) {
		t.Errorf("got %v", e.Networks)
	}
	var b bytes.Buffer
	if err := e.Encode(&b,
		func(n experiment.Network) string { return strings.TrimPrefix(n.Find, "cni:dir/") }); err != nil {
		t.Fatal(err)
	}
	e.Entries[5].Profile = "dir/dir/web.xml"
	e.Networks[2].Find = "cni:dir/cni:other.conf" // what the test's own naming makes of it
	again := parse(t, b.String())
	if !reflect.DeepEqual(e, again) {
		t.Errorf("got  %+v\nwant %+v\nfrom\n%s", again, e, b.String())
	}
}

func TestShippedExperimentsParse(t *testing.T) {
	known := catalogue()
	known.Workload = func(name string) (workload.Info, error) {
		big := sample.Load{Connections: 1000, Size: 1 << 30, Rate: 1e12}
		return workload.Info{Name: name, Metrics: []string{"m"}, Max: big, Pairs: true}, nil
	}
	for _, name := range experiments.Names() {
		f, err := experiments.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("\ndrills:")) {
			continue // package drill reads those
		}
		e, err := experiment.Parse(name+".yaml", bytes.NewReader(text), known)
		if err != nil {
			t.Error(err)
		}
		if e.Name != name || e.Description == "" {
			t.Errorf("%s is called %q, %q", name, e.Name, e.Description)
		}
	}
}

func TestOrderIsRandomAndReproducible(t *testing.T) {
	a, b := experiment.Order(1, 1, 50), experiment.Order(1, 1, 50)
	if !slices.Equal(a, b) {
		t.Error("the same seed gives another order")
	}
	if slices.Equal(a, experiment.Order(1, 2, 50)) || slices.Equal(a, experiment.Order(2, 1, 50)) {
		t.Error("another repetition or seed gives the same order")
	}
	slices.Sort(a)
	for i, v := range a {
		if i != v {
			t.Fatalf("not a permutation: %v", a)
		}
	}
}

func TestOnlySelectsAndAdds(t *testing.T) {
	e := parse(t, head+"workloads: [tcp, lonely]")
	got, err := e.Only([]string{"bridge", "cni:a/my.conflist"}, []string{"lonely"})
	if err != nil || len(got.Entries) != 1 || got.Networks[0].Name != "bridge" ||
		got.Networks[1] != (experiment.Network{Name: "cni-my", Find: "cni:a/my.conflist"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := e.Only(nil, []string{"slow"}); err == nil || !strings.Contains(err.Error(), `no workload "slow"`) {
		t.Errorf("got %v", err)
	}
}

func TestCellsSayWhatIsUnsupported(t *testing.T) {
	e := parse(t, "name: x\nnetworks: [a, b]\ntopologies: [one-host, two-hosts]\nworkloads: [tcp]")
	cells := e.Cells(map[string]network.Info{"a": {Cannot: map[topo.Placement]string{topo.TwoHosts: "why"}}})
	var no []string
	for _, c := range cells {
		if c.Unsupported != "" {
			no = append(no, fmt.Sprint(c.Cell, c.Unsupported))
		}
	}
	if len(cells) != 4 || len(no) != 1 || !strings.HasPrefix(no[0], "a/two-hosts/") {
		t.Errorf("got %d cells, unsupported %v", len(cells), no)
	}
	if err := experiment.Check(cells[:1]); err != nil {
		t.Error(err)
	}
	if err := experiment.Check(nil); !errors.Is(err, experiment.ErrNone) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range experiments.Names() {
		file, err := experiments.Open(name)
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(file); err != nil {
			f.Fatal(err)
		}
		f.Add(b.String())
	}
	f.Add(allClaims)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := experiment.Parse("e", strings.NewReader(text), catalogue())
		if err != nil {
			if !strings.HasPrefix(err.Error(), "e:") {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		for _, c := range e.Cells(nil) {
			if c.Scenario.Pairs < 1 || c.Window.Duration <= 0 || c.Load.Connections < 0 {
				t.Errorf("accepted %+v", c)
			}
		}
		checkClaims(t, e)
	})
}

// TestLists: a user's list is routed where the file says so, and kept so.
func TestLists(t *testing.T) {
	const text = `name: x
networks:
  - host
  - {name: mine, cni: mine.conflist, route: bgp}
  - "cni:other.conflist?route=static"
workloads: [tcp]
`
	e := parse(t, text)
	var b bytes.Buffer
	if err := e.Encode(&b, func(n experiment.Network) string { return "networks/" + n.Name + ".conflist" }); err != nil {
		t.Fatal(err)
	}
	again := parse(t, b.String())
	for i, want := range [][2]string{{"host", "host"}, {"mine", "cni:dir/networks/mine.conflist?route=bgp"},
		{"cni-other-static", "cni:dir/networks/cni-other-static.conflist?route=static"}} {
		if n := again.Networks[i]; n.Name != want[0] || n.Find != want[1] {
			t.Errorf("got %+v, want %v", n, want)
		}
	}
	for _, tc := range []struct{ old, new, want string }{
		{"route: bgp", "route: ospf", `e.yaml:4: networks[1].route: unknown route "ospf": expected static or bgp`},
		{"cni: mine.conflist, ", "", "e.yaml:4: networks[1]: route: expected cni: FILE with it"},
	} {
		_, err := experiment.Parse("e.yaml", strings.NewReader(strings.Replace(text, tc.old, tc.new, 1)), catalogue())
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
	if _, err := e.Only([]string{"cni:a/x.conf", "cni:b/x.conf"}, nil); err == nil ||
		!strings.Contains(err.Error(), "would both be called cni-x") {
		t.Errorf("two of one name: %v", err)
	}
}
