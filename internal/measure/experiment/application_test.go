package experiment_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

const applied = `name: x
networks: [host, macvlan, bridge]
topologies: two-hosts
workloads:
  - {name: http, load: [{connections: 8}, {connections: 8, rate: 1000}]}
  - tcp-rr
  - udp-stream
applications:
`

// offered is a catalogue in which workloads tell what those of the real one do.
func offered() experiment.Catalogue {
	c := catalogue()
	c.Workload = func(name string) (workload.Info, error) {
		metrics := map[string][]string{
			"http":   {sample.Rate, sample.LatencyP50, sample.LatencyP99, sample.Throughput},
			"tcp-rr": {sample.Rate, sample.LatencyP50, sample.LatencyP99}, "udp-stream": {sample.Throughput, sample.Loss},
			"ours": {sample.Throughput},
		}
		return workload.Info{Name: name, Metrics: metrics[name], Pairs: true, Knobs: []string{"connections", "size", "rate"},
			Default: sample.Load{Connections: 1}, Max: sample.Load{Connections: 128, Size: 1 << 20, Rate: 1e9}}, nil
	}
	return c
}

// shop indents an application's keys below an entry of applications.
func shop(keys ...string) string {
	return applied + "  - name: shop\n    " + strings.Join(keys, "\n    ") + "\n"
}

func TestApplicationsSayWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"no name", applied + "  - {workloads: [http]}", "e.yaml:9: applications[0].name: missing key"},
		{"no workloads", shop(), "e.yaml:9: applications[0].workloads: missing key"},
		{"misspelt key", shop("workloads: [http]", "bound: []"),
			`e.yaml:11: applications[0].bound: unknown key: did you mean "bounds"?`},
		{"a shipped name", applied + "  - {name: web, workloads: [http]}",
			`e.yaml:9: applications[0].name: application "web" comes with Pathwise`},
		{"a bad name", applied + "  - {name: my shop, workloads: [http]}",
			`e.yaml:9: applications[0].name: "my shop": expected a name`},
		{"twice", shop("workloads: [http]") + "  - {name: shop, workloads: [http]}",
			`e.yaml:11: applications[1].name: application "shop" is given twice`},
		{"no such workload", shop("workloads: [connect]"), `e.yaml:10: applications[0].workloads[0]: the experiment has no workload "connect": it has http, tcp-rr, udp-stream`},
		{"workload twice", shop("workloads: [http, http]"), "e.yaml:10: applications[0].workloads[1]: workload http is given twice"},
		{"no such metric", shop("workloads: [{workload: http, metrics: {latency_p98: 1}}]"),
			`e.yaml:10: applications[0].workloads[0].metrics.latency_p98: unknown key: did you mean "latency_p99"?`},
		{"no such metric in a list", shop("workloads: [{workload: tcp-rr, metrics: [rate, loss]}]"),
			`e.yaml:10: applications[0].workloads[0].metrics[1]: workload tcp-rr tells no "loss": expected one of rate, latency_p50, latency_p99`},
		{"weight of nothing", shop("workloads: [{workload: http, metrics: {rate: 0}}]"),
			"e.yaml:10: applications[0].workloads[0].metrics.rate: 0: expected a weight above 0"},
		{"weight", shop("workloads: [{workload: http, weight: much}]"),
			`e.yaml:10: applications[0].workloads[0].weight: "much": expected a number`},
		{"no such load", shop("workloads: [{workload: http, load: {rate: 5}}]"),
			"e.yaml:10: applications[0].workloads[0].load: the experiment does not offer http at load r=5"},
		{"two loads", shop("workloads: [{workload: http, load: {connections: [1, 8]}}]"),
			"e.yaml:10: applications[0].workloads[0].load: 2 loads: expected one"},
		{"bound of another workload", shop("workloads: [http]", "bounds: [{workload: tcp-rr, metric: rate, least: 1}]"),
			`e.yaml:11: applications[0].bounds[0]: workload: application shop has no workload "tcp-rr": it has http`},
		{"bound of another metric", shop("workloads: [http]", "bounds:", "  - {workload: http, metric: loss, most: 1%}"),
			`e.yaml:12: applications[0].bounds[0].metric: workload http tells no "loss"`},
		{"bound without an end", shop("workloads: [http]", "bounds: [{workload: http, metric: rate}]"),
			"e.yaml:11: applications[0].bounds[0]: expected least, most or both"},
		{"bound without a unit", shop("workloads: [http]", "bounds: [{workload: http, metric: latency_p99, most: 5}]"),
			`e.yaml:11: applications[0].bounds[0].most: "5": expected a duration`},
		{"bound upside down",
			shop("workloads: [http]", "bounds: [{workload: http, metric: latency_p99, least: 5ms, most: 1ms}]"),
			"e.yaml:11: applications[0].bounds[0]: least 5ms is above most 1ms"},
		{"empty", strings.TrimSuffix(applied, "\n") + " []", "e.yaml:8: applications: empty list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := experiment.Parse("e.yaml", strings.NewReader(tc.text), offered())
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

const shops = applied + `  - name: shop
    workloads:
      - {workload: http, weight: 3, load: {rate: 1k}, metrics: {latency_p99: 2, latency_p50: 1}}
      - tcp-rr
    bounds:
      - {workload: http, metric: latency_p99, most: 5ms}
      - {workload: http, metric: rate, least: 0.99k}
  - name: voice
    workloads: [{workload: udp-stream, metrics: [loss]}]
    bounds: [{workload: udp-stream, metric: loss, most: 0.5%}]
  - {name: pages, workloads: [http]}
`

// What is written is what was read, also by a program that knows none of the workloads.
func TestApplicationsParseAndEncodeAgree(t *testing.T) {
	e, err := experiment.Parse("e.yaml", strings.NewReader(shops), offered())
	if err != nil {
		t.Fatal(err)
	}
	five, rate, half := 0.005, 990.0, 0.005
	want := application.Application{Name: "shop", Parts: []application.Part{
		{Workload: "http", Weight: 3, Load: &sample.Load{Rate: 1000},
			Metrics: []application.Metric{{Name: sample.LatencyP99, Weight: 2}, {Name: sample.LatencyP50, Weight: 1}}},
		application.Alike("tcp-rr", sample.Rate, sample.LatencyP50, sample.LatencyP99),
	}, Bounds: []application.Bound{{Workload: "http", Metric: sample.LatencyP99, Most: &five},
		{Workload: "http", Metric: sample.Rate, Least: &rate}}}
	if len(e.Applications) != 3 || !reflect.DeepEqual(e.Applications[0], want) {
		t.Fatalf("got  %+v\nwant %+v", e.Applications, want)
	}
	if b := e.Applications[1].Bounds[0]; *b.Most != half || len(e.Applications[2].Parts[0].Offered) != 3 {
		t.Errorf("got %+v", e.Applications[1:])
	}
	var b bytes.Buffer
	if err := e.Encode(&b, func(experiment.Network) string { return "" }); err != nil {
		t.Fatal(err)
	}
	again, err := experiment.Parse("e.yaml", &b, experiment.Recorded())
	if err != nil || !reflect.DeepEqual(e.Applications, again.Applications) {
		t.Errorf("got  %+v\nwant %+v, %v", again.Applications, e.Applications, err)
	}
}

// A run of some of the workloads keeps what it can of the applications.
func TestApplicationsOfAPart(t *testing.T) {
	e, err := experiment.Parse("e.yaml", strings.NewReader(shops), offered())
	if err == nil {
		e, err = e.Only(nil, []string{"tcp-rr"})
	}
	if err != nil {
		t.Fatal(err)
	}
	got := e.Applicable()
	if len(got) != 1 || got[0].Name != "shop" || len(got[0].Parts) != 1 || len(got[0].Bounds) != 0 {
		t.Errorf("got %+v", got)
	}
	var b bytes.Buffer
	if err := e.Encode(&b, func(experiment.Network) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if _, err := experiment.Parse("e.yaml", &b, experiment.Recorded()); err != nil {
		t.Errorf("the part cannot be read back: %v", err)
	}
}
