package experiment_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
)

const claimed = `name: x
networks: [host, macvlan, bridge, ipvlan-l3]
topologies: [one-host, two-hosts]
mtu: [1500, 9000]
workloads:
  - name: tcp
    load: {connections: [1, 8]}
  - {name: udp, pairs: [1, 2], topologies: one-host, mtu: 1500}
claims:
`

// claims indents a claim's keys below an entry of claims.
func claims(keys ...string) string {
	return claimed + "  - id: c\n    source: Claassen 2015\n    claim: it is faster\n    " + strings.Join(keys, "\n    ") + "\n"
}

func TestClaimsSayWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"misspelt key", claims("workload: tcp", "raito: {of: macvlan, to: bridge, least: 2}"),
			`e.yaml:14: claims[0].raito: unknown key: did you mean "ratio"?`},
		{"no source", claimed + "  - {id: c, claim: x, workload: tcp}", "e.yaml:10: claims[0].source: missing key"},
		{"no workload", claims("ratio: {of: macvlan, to: bridge, least: 2}"), "e.yaml:10: claims[0].workload: missing key"},
		{"workload", claims("workload: http", "value: {most: 1}"),
			`e.yaml:13: claims[0].workload: the experiment has no workload "http": it has tcp, udp`},
		{"network", claims("workload: tcp", "ratio: {of: macvlam, to: bridge, least: 2}"),
			`e.yaml:14: claims[0].ratio.of: the experiment has no network "macvlam": it has host, macvlan, bridge, ipvlan-l3`},
		{"network in order", claims("workload: tcp", "order: [macvlan, [bridge, sriov]]"),
			`e.yaml:14: claims[0].order[1][1]: the experiment has no network "sriov"`},
		{"networks", claims("workload: tcp", "networks: [macvlan, macvlan]", "value: {most: 1}"),
			"e.yaml:14: claims[0].networks[1]: macvlan is given twice"},
		{"metric", claims("workload: tcp", "metric: speed", "order: [macvlan, bridge]"),
			`e.yaml:14: claims[0].metric: unknown metric "speed": expected one of throughput, rate`},
		{"no test", claims("workload: tcp"), "e.yaml:10: claims[0]: 0 tests: expected one of ratio, order"},
		{"two tests", claims("workload: tcp", "order: [macvlan, bridge]", "value: {most: 1}"),
			"e.yaml:10: claims[0]: 2 tests"},
		{"range", claims("workload: tcp", "ratio: {of: macvlan, to: bridge, least: 3, most: 2}"),
			"e.yaml:10: claims[0]: ratio: least 3 is above most 2"},
		{"no range", claims("workload: tcp", "ratio: {of: macvlan, to: bridge}"),
			"e.yaml:10: claims[0]: ratio: expected least, most or both"},
		{"no number", claims("workload: tcp", "ratio: {of: macvlan, to: bridge, least: much}"),
			`e.yaml:14: claims[0].ratio.least: "much": expected a number`},
		{"not finite", claims("workload: tcp", "ratio: {of: macvlan, to: bridge, least: .nan}"),
			`e.yaml:14: claims[0].ratio.least: ".nan": expected a number`},
		{"infinite", claims("workload: tcp", "ratio: {of: macvlan, to: bridge, least: 1, most: inf}"),
			`e.yaml:14: claims[0].ratio.most: "inf": expected a number`},
		{"no such MTU", claims("workload: udp", "mtu: 9000", "order: [macvlan, bridge]"),
			"e.yaml:10: claims[0]: no question of the experiment is the claim's"},
		{"no such load", claims("workload: tcp", "load: {connections: 50}", "order: [macvlan, bridge]"),
			"e.yaml:10: claims[0]: no question of the experiment is the claim's"},
		{"no such side",
			claims("workload: tcp", "networks: macvlan",
				"ratio: {of: {load: {connections: 50}}, to: {load: {connections: 1}}, least: 2}"), "e.yaml:10: claims[0]: no question"},
		{"kernel of a side", claims("workload: tcp", "ratio: {of: {network: macvlan, kernels: uml}, to: macvlan, least: 2}"),
			"e.yaml:14: claims[0].ratio.of.kernels: unknown key"},
		{"one load", claims("workload: udp", "networks: bridge", "trend: {over: connections, goes: up}"),
			"e.yaml:10: claims[0]: the experiment has one value of what the claim varies"},
		{"knob", claims("workload: tcp", "networks: bridge", "trend: {over: threads, goes: up}"),
			`e.yaml:15: claims[0].trend.over: unknown knob "threads"`},
		{"way", claims("workload: tcp", "networks: bridge", "trend: {over: connections, goes: north}"),
			`e.yaml:15: claims[0].trend.goes: "north": expected up or down`},
		{"at and least", claims("workload: tcp", "networks: bridge", "optimum: {over: connections, at: 8, least: 1}"),
			"e.yaml:15: claims[0].optimum: at is given with least or most"},
		{"overall", claims("workload: tcp", "overall: yes", "order: [macvlan, bridge]"),
			`e.yaml:14: claims[0].overall: "yes": expected true or false`},
		{"name", claimed + "  - {id: a b, source: s, claim: x, workload: tcp, order: [macvlan, bridge]}",
			`e.yaml:10: claims[0].id: "a b": expected a name`},
		{"twice", claims("workload: tcp", "order: [macvlan, bridge]") +
			"  - {id: c, source: s, claim: x, workload: tcp, order: [macvlan, bridge]}", `e.yaml:15: claims[1].id: claim "c" is given twice`},
		{"a text", claimed + "  - macvlan wins", "e.yaml:10: claims[0]: expected keys and values"},
		{"empty", strings.Replace(claimed, "claims:", "claims: []", 1), "e.yaml:9: claims: empty list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := experiment.Parse("e.yaml", strings.NewReader(tc.text), catalogue())
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

const allClaims = "missing: skip\n" + claimed + `  - id: ratio
    source: Claassen 2015
    claim: >
      macvlan (bridge mode) performs about 2.5 times
      as good as bridged veth
    published: about 2.5 times
    workload: tcp
    topologies: one-host
    mtu: 1500
    load: {connections: [1, 8]}
    ratio: {of: macvlan, to: bridge, least: 2, most: 3}
    because: the kernel has grown
  - {id: each, source: s, claim: "50 %: not #1", workload: tcp, metric: rate, networks: [macvlan, bridge], ratio: {to: host, most: 0.9}}
  - id: growth
    source: s
    claim: x
    workload: tcp
    networks: [macvlan, bridge]
    ratio: {of: {load: {connections: 8}}, to: {load: [{connections: 1}]}, least: 5.3}
  - {id: other, source: s, claim: x, workload: tcp, ratio: {of: macvlan, to: {network: bridge, workload: udp, topologies: one-host, pairs: 2, mtu: 1500}, most: 4}}
  - {id: best, source: s, claim: x, workload: udp, pairs: [1, 2], kernels: [host, uml], order: [ipvlan-l3, [macvlan, bridge]]}
  - {id: overall, source: s, claim: x, workload: tcp, overall: true, except: user-space, order: [ipvlan-l3, macvlan]}
  - {id: value, source: s, claim: x, workload: udp, metric: loss, networks: bridge, value: {most: 0}}
  - {id: at, source: s, claim: x, workload: tcp, networks: bridge, optimum: {over: connections, at: 8}}
  - {id: trend, source: s, claim: x, workload: udp, networks: bridge, trend: {over: pairs, goes: down}}
`

func TestClaimsParseAndEncodeAgree(t *testing.T) {
	e := parse(t, allClaims)
	if len(e.Claims) != 9 {
		t.Fatalf("got %d claims", len(e.Claims))
	}
	if c := e.Claims[0]; c.Text != "macvlan (bridge mode) performs about 2.5 times as good as bridged veth" ||
		c.Metric != "throughput" || c.Where.Workload != "tcp" || *c.Test.Ratio.Most != 3 {
		t.Errorf("got %+v", c)
	}
	var b bytes.Buffer
	if err := e.Encode(&b, func(experiment.Network) string { return "" }); err != nil {
		t.Fatal(err)
	}
	again := parse(t, b.String())
	if !reflect.DeepEqual(e, again) {
		t.Errorf("got  %+v\nwant %+v\nfrom\n%s", again.Claims, e.Claims, b.String())
	}
	recorded, err := experiment.Parse("e.yaml", &b, experiment.Recorded())
	if err != nil || !reflect.DeepEqual(recorded.Claims, e.Claims) {
		t.Errorf("as recorded: %v\ngot  %+v\nwant %+v", err, recorded.Claims, e.Claims)
	}
}

// TestClaimsOfProfiles: a workload that runs a profile is called by the file's name.
func TestClaimsOfProfiles(t *testing.T) {
	e := parse(t, `name: x
networks: [macvlan, bridge]
workloads:
  - {name: uperf, profile: web.xml}
claims:
  - {id: c, source: s, claim: x, workload: "uperf:web", order: [macvlan, bridge]}
`)
	if len(e.Claims) != 1 || e.Claims[0].Metric != "throughput" {
		t.Fatalf("%+v", e.Claims)
	}
	var b bytes.Buffer
	if err := e.Encode(&b, func(experiment.Network) string { return "" }); err != nil {
		t.Fatal(err)
	}
	recorded, err := experiment.Parse("e.yaml", &b, experiment.Recorded())
	if err != nil || !reflect.DeepEqual(recorded.Claims, e.Claims) || recorded.Entries[0].Workload != "uperf:web" {
		t.Errorf("as recorded: %v, %+v", err, recorded)
	}
}

// TestRecordedLoads: every load of an experiment that has been run is read.
func TestRecordedLoads(t *testing.T) {
	const text = "name: x\nnetworks: [bridge]\nworkloads:\n  - {name: any, load: {connections: [8], size: [64], rate: [10], congestion: [cubic, bbr]}}\n"
	if e, err := experiment.Parse("e.yaml", strings.NewReader(text), experiment.Recorded()); err != nil ||
		len(e.Entries) != 1 || len(e.Entries[0].Loads) != 2 {
		t.Errorf("%+v, %v", e.Entries, err)
	}
}

// TestClaimedCells: what a claim compares is repeated more often, on the kernels that
// have all that it speaks of.
func TestClaimedCells(t *testing.T) {
	e := parse(t, `name: x
networks: [host, a, b, {name: a, kernel: uml}]
topologies: [one-host, two-hosts]
repetitions: {min: 2, max: 9, claims: 5}
workloads: [tcp, udp]
claims:
  - {id: c, source: s, claim: it is faster, workload: tcp, topologies: one-host, ratio: {of: a, to: b, least: 1}}
`)
	for kind, want := range map[string]string{"": "a/one-host/tcp/c=1 b/one-host/tcp/c=1", "uml": ""} {
		var often []string
		for _, c := range e.On(kind, kind).Cells(nil) {
			switch c.Least {
			case 5:
				often = append(often, c.String())
			case 2:
			default:
				t.Errorf("%v: %d repetitions", c.Cell, c.Least)
			}
		}
		if got := strings.Join(often, " "); got != want {
			t.Errorf("on %q: got %s, want %s", kind, got, want)
		}
	}
}

func TestAnswerableClaims(t *testing.T) {
	for want, only := range map[string][2][]string{
		"ratio each growth other best overall value at trend": {{"host", "macvlan", "bridge", "ipvlan-l3"}, nil},
		"ratio each growth at":                                {{"host", "macvlan", "bridge"}, {"tcp"}},
		"growth":                                              {{"macvlan"}, {"tcp"}},
		"value trend":                                         {{"bridge"}, {"udp"}},
		"":                                                    {{"host"}, nil},
	} {
		e, err := parse(t, allClaims).Only(only[0], only[1])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range e.Answerable() {
			got = append(got, c.ID)
			if c.ID == "growth" && len(only[0]) == 1 && !reflect.DeepEqual(c.Networks, []string{"macvlan"}) {
				t.Errorf("growth of %v", c.Networks)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("with %v: got %s, want %s", only, s, want)
		}
	}
}

// checkClaims is what FuzzParse asks of accepted claims: they pass their own
// check, and judging no trials tells of each that it is not tested.
func checkClaims(t *testing.T, e experiment.Experiment) {
	t.Helper()
	for _, j := range claim.Judge(e.Claims, nil, claim.Rule{Level: 0.95}, nil) {
		if err := j.Check(); err != nil {
			t.Errorf("accepted %+v: %v", j.Claim, err)
		}
		if len(j.Findings) == 0 || j.Findings[0].Verdict != claim.NotTested {
			t.Errorf("without trials: %+v", j.Findings)
		}
	}
}
