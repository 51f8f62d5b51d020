package pathpolicy

import (
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
)

func in(value string) netpolicy.Selector {
	return netpolicy.Selector{{Key: "app", Operator: netpolicy.In, Values: []string{value}}}
}

// TestOf: which of several policies holds does not depend on their order.
func TestOf(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	old := Policy{Namespace: "shop", Name: "z-old", Created: at(1), Selects: in("web")}
	next := Policy{Namespace: "shop", Name: "b-new", Created: at(2)}
	twin := Policy{Namespace: "shop", Name: "a-new", Created: at(2)}
	other := Policy{Namespace: "shop", Name: "db", Created: at(0), Selects: in("db")}
	elsewhere := Policy{Namespace: "data", Name: "all", Created: at(0)}
	web := map[string]string{"app": "web"}
	for name, tc := range map[string]struct {
		all    []Policy
		labels map[string]string
		want   []string
	}{
		"none":                   {nil, web, nil},
		"another namespace's":    {[]Policy{elsewhere}, web, nil},
		"another pod's":          {[]Policy{other}, web, nil},
		"all pods'":              {[]Policy{next}, nil, []string{"b-new"}},
		"the oldest holds":       {[]Policy{next, old}, web, []string{"z-old", "b-new"}},
		"equally old: by name":   {[]Policy{next, twin}, web, []string{"a-new", "b-new"}},
		"all":                    {[]Policy{other, elsewhere, next, old, twin}, web, []string{"z-old", "a-new", "b-new"}},
		"without the label":      {[]Policy{other, next, old}, nil, []string{"b-new"}},
		"another label's oldest": {[]Policy{other, next, old}, map[string]string{"app": "db"}, []string{"db", "b-new"}},
	} {
		for range 2 {
			var got []string
			for _, p := range Of(tc.all, netpolicy.Pod{Namespace: "shop", Labels: tc.labels}) {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: %v, want %v", name, got, tc.want)
			}
			slices.Reverse(tc.all)
		}
	}
}

func TestBars(t *testing.T) {
	for name, tc := range map[string]struct {
		networks []string
		network  string
		want     string
	}{
		"says nothing":    {nil, "shop/fast", ""},
		"named":           {[]string{"shop/fast"}, "shop/fast", ""},
		"not named":       {[]string{"shop/fast"}, "shop/bulk", "PathPolicy shop/p does not name it in networks"},
		"default alone":   {[]string{Default}, "shop/fast", "PathPolicy shop/p does not name it in networks"},
		"default, always": {[]string{"shop/fast"}, Default, ""},
	} {
		p := Policy{Namespace: "shop", Name: "p", Networks: tc.networks}
		if got := p.Bars(tc.network); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestAsked(t *testing.T) {
	p := Policy{Namespace: "shop", Name: "p", Need: "latency", Pin: "shop/fast"}
	q := Policy{Namespace: "shop", Name: "q", Need: "robust", DryRun: true}
	for name, tc := range map[string]struct {
		of   []Policy
		need string
		want Ask
	}{
		"nothing":           {nil, "", Ask{}},
		"the pod's own":     {nil, "robust", Ask{Need: "robust"}},
		"a policy":          {[]Policy{p}, "", Ask{By: "PathPolicy shop/p", Need: "latency", Pin: "shop/fast"}},
		"the pod before it": {[]Policy{p}, "auto", Ask{By: "PathPolicy shop/p", Need: "auto", Pin: "shop/fast"}},
		"of two the first":  {[]Policy{q, p}, "", Ask{By: "PathPolicy shop/q", Need: "robust", DryRun: true}},
		"nothing is merged": {[]Policy{{Namespace: "shop", Name: "r", DryRun: true}, p}, "",
			Ask{By: "PathPolicy shop/r", DryRun: true}},
		"the other way round": {[]Policy{p, q}, "", Ask{By: "PathPolicy shop/p", Need: "latency", Pin: "shop/fast"}},
	} {
		if got := Asked(tc.of, tc.need); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
