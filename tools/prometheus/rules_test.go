// Package prometheus holds the alerts and the dashboard that "pathwise kube install --monitoring" gives a
// cluster to what agents tell, by Prometheus' own packages.
package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"gopkg.in/yaml.v3"
)

// program builds pathwise, and is where it is.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pathwise")
	cmd := exec.Command("go", "-C", "../..", "build", "-buildvcs=false", "-o", path, "./cmd/pathwise")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// monitoring is what a cluster is given: the rules, as a file of Prometheus has them, and the dashboard.
func monitoring(t *testing.T, bin string) (rules []byte, dashboard string) {
	t.Helper()
	out, err := exec.Command(bin, "kube", "install", "--dry-run", "--monitoring", "--namespace", "net").Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var doc struct {
			Kind string
			Spec yaml.Node
			Data map[string]string
		}
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch doc.Kind {
		case "PrometheusRule":
			if rules, err = yaml.Marshal(&doc.Spec); err != nil {
				t.Fatal(err)
			}
		case "ConfigMap":
			dashboard = doc.Data["pathwise.json"]
		}
	}
	if rules == nil || dashboard == "" {
		t.Fatalf("no PrometheusRule or dashboard in\n%.2000s", out)
	}
	return rules, dashboard
}

// expressions are those of a dashboard.
func expressions(t *testing.T, dashboard string) (out []string) {
	t.Helper()
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(dashboard), &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, at := range p.Targets {
			out = append(out, at.Expr)
		}
	}
	return out
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// firing are the alerts that fire for series, as promtool loads them at a minute's distance, after so long.
func firing(t *testing.T, ruleFile, series string, after time.Duration) []string {
	t.Helper()
	suite, err := promqltest.NewLazyLoader("load 1m\n"+series, promqltest.LazyLoaderOpts{EnableAtModifier: true,
		EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	defer suite.Close()
	suite.SubqueryInterval = time.Minute
	m := rules.NewManager(&rules.ManagerOptions{QueryFunc: rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage()),
		Appendable: suite.Storage(), Queryable: suite.Storage(), Context: t.Context(), Logger: quiet(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Parser: parser.NewParser(parser.Options{})})
	groups, errs := m.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, ruleFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	found := map[string]bool{}
	for at := time.Unix(0, 0).UTC(); !at.After(time.Unix(0, 0).Add(after)); at = at.Add(time.Minute) {
		suite.WithSamplesTill(at, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		for _, g := range groups {
			g.Eval(suite.Context(), at)
			for _, r := range g.Rules() {
				if err := r.LastError(); err != nil {
					t.Fatalf("%s: %v", r.Name(), err)
				}
				for _, a := range r.(*rules.AlertingRule).ActiveAlerts() {
					found[r.Name()] = found[r.Name()] || a.State == rules.StateFiring
				}
			}
		}
	}
	var out []string
	for name, yes := range found {
		if yes {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestRules: Prometheus takes the rules as they are, and each alert fires for what it is about, after as long as
// it says, and not for what is usual.
func TestRules(t *testing.T) {
	text, dashboard := monitoring(t, program(t))
	p := parser.NewParser(parser.Options{})
	all, errs := rulefmt.Parse(text, false, model.UTF8Validation, p, quiet())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	const up = `up{job="net/pathwise-agent",node="n1"} `
	for _, tc := range []struct {
		series string
		after  time.Duration
		want   string
	}{
		{up + "1x60", time.Hour, ""},
		{up + "1x5 0x3 1x50", time.Hour, "PathwiseAgentDown"},
		{up + "1x5 0 1x50", time.Hour, ""},
		{`up{job="other",node="n1"} 0x60`, time.Hour, ""},
		{`pathwise_agent_failovers_total{node="n1"} 0+0.5x60`, time.Hour, ""},
		{`pathwise_agent_failovers_total{node="n1"} 0+2x60`, time.Hour, "PathwisePathsFail"},
		{`pathwise_agent_dataplane_events_total{node="n1",event="forged"} 0+20x60`, time.Hour, "PathwiseForgedPackets"},
		{`pathwise_agent_dataplane_events_total{node="n1",event="too_big"} 0+20x60`, time.Hour, ""},
		{`pathwise_agent_probes_refused_total{node="n1",network="shop/fast",reason="key"} 0+5x60`, 9 * time.Minute, ""},
		{`pathwise_agent_probes_refused_total{node="n1",network="shop/fast",reason="key"} 0+5x60`, time.Hour,
			"PathwiseProbesRefused"},
		{`pathwise_agent_flows_refused_total{node="n1"} 0+1x60`, time.Hour, "PathwiseFlowsRefused"},
		{`pathwise_agent_flows_refused_total{node="n1"} 7x60`, time.Hour, ""},
		{`pathwise_agent_stalls_total{node="n1"} 0+120x60`, time.Hour, "PathwiseAgentLate"},
		{`pathwise_agent_stalls_total{node="n1"} 0+30x60`, time.Hour, ""},
	} {
		if got := strings.Join(firing(t, file, "  "+tc.series, tc.after), " "); got != tc.want {
			t.Errorf("%s, after %v: %q fires, want %q", tc.series, tc.after, got, tc.want)
		}
		tried[tc.want] = true
	}
	for _, g := range all.Groups {
		for _, r := range g.Rules {
			if !tried[r.Alert] {
				t.Errorf("alert %s is not tried", r.Alert)
			}
			if r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("alert %s: %v, %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
	for _, x := range expressions(t, dashboard) {
		if _, err := p.ParseExpr(x); err != nil {
			t.Errorf("dashboard: %s: %v", x, err)
		}
	}
	odd := fmt.Appendf(nil, "%s\nx: 1\n", text)
	if _, errs := rulefmt.Parse(odd, false, model.UTF8Validation, p, quiet()); len(errs) == 0 {
		t.Error("a key that there is not is taken")
	}
}
