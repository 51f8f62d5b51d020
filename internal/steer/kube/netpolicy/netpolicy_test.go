package netpolicy

import (
	"slices"
	"strings"
	"testing"
)

func TestBarred(t *testing.T) {
	web := Pod{Namespace: "shop", Labels: map[string]string{"app": "web", "tier": "front"}}
	is := func(key string, op Operator, values ...string) Selector { return Selector{{key, op, values}} }
	deny := Policy{Kind: "NetworkPolicy", Namespace: "shop", Name: "deny"}
	with := func(p Policy, s Selector) Policy { p.Selects = s; return p }
	multi := Policy{Kind: "MultiNetworkPolicy", Namespace: "shop", Name: "m", Further: true, For: []string{"shop/fast"}}
	everywhere := Policy{Kind: "AdminNetworkPolicy", Name: "all"}
	for name, tc := range map[string]struct {
		known         Known
		derived, same string // what forbids by either rule
	}{
		"nothing":         {Known{}, "", ""},
		"a policy":        {Known{Policies: []Policy{deny}}, "NetworkPolicy shop/deny selects it", ""},
		"of others":       {Known{Policies: []Policy{with(deny, is("app", In, "db", "cache"))}}, "", ""},
		"by a label":      {Known{Policies: []Policy{with(deny, is("app", In, "db", "web"))}}, "shop/deny", ""},
		"not by a label":  {Known{Policies: []Policy{with(deny, is("app", NotIn, "db"))}}, "shop/deny", ""},
		"but by a label":  {Known{Policies: []Policy{with(deny, is("app", NotIn, "web"))}}, "", ""},
		"without a label": {Known{Policies: []Policy{with(deny, is("zone", NotIn, "db"))}}, "shop/deny", ""},
		"with one":        {Known{Policies: []Policy{with(deny, is("tier", Exists))}}, "shop/deny", ""},
		"with none":       {Known{Policies: []Policy{with(deny, is("tier", DoesNotExist))}}, "", ""},
		"lacking one":     {Known{Policies: []Policy{with(deny, is("zone", DoesNotExist))}}, "shop/deny", ""},
		"two conditions": {Known{Policies: []Policy{with(deny, append(is("app", In, "web"), is("zone", Exists)...))}}, "",
			""},
		"unknown operator": {Known{Policies: []Policy{with(deny, is("app", "Gt", "7"))}}, "shop/deny", ""},
		"of the cluster":   {Known{Policies: []Policy{everywhere}}, "AdminNetworkPolicy all selects it", ""},
		"elsewhere": {Known{Policies: []Policy{{Kind: "NetworkPolicy", Namespace: "other", Name: "deny"}}}, "",
			""},
		"of this network": {Known{Policies: []Policy{multi}}, "MultiNetworkPolicy shop/m selects it on that network",
			"MultiNetworkPolicy shop/m selects it on that network"},
		"of another network": {Known{Policies: []Policy{{Kind: multi.Kind, Namespace: "shop", Name: "m", Further: true,
			For: []string{"shop/bulk"}}}}, "", ""},
		"of no network by name": {Known{Policies: []Policy{{Kind: multi.Kind, Namespace: "shop", Name: "m",
			Further: true}}}, "shop/m", "shop/m"},
		"of this network, other pods": {Known{Policies: []Policy{with(multi, is("app", In, "db"))}}, "", ""},
		"unread": {Known{Unread: []Unread{{Kind: "CiliumNetworkPolicy", Why: "forbidden"}}},
			"kind CiliumNetworkPolicy cannot be read: forbidden", ""},
		"unread, further": {Known{Unread: []Unread{{Kind: "MultiNetworkPolicy", Why: "forbidden", Further: true}}},
			"cannot be read", "cannot be read"},
	} {
		for rule, want := range map[Rule]string{Derived: tc.derived, SameEnforcer: tc.same, "": tc.derived} {
			got := tc.known.Barred(web, "shop/fast", rule)
			if (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("%s, %s: %q, want %q", name, rule, got, want)
			}
		}
	}
}

// TestOnlyMoreIsForbidden: a further policy, or one more kind that cannot be read, never allows
// what was forbidden.
func TestOnlyMoreIsForbidden(t *testing.T) {
	policies := []Policy{{Kind: "A", Namespace: "shop"}, {Kind: "B", Further: true}, {Kind: "C", Namespace: "other"},
		{Kind: "D", Namespace: "shop", Selects: Selector{{"app", In, []string{"web"}}}}}
	unread := []Unread{{Kind: "E"}, {Kind: "F", Further: true}}
	pod := Pod{Namespace: "shop", Labels: map[string]string{"app": "web"}}
	for set := range 1 << (len(policies) + len(unread)) {
		known := func(set int) (k Known) {
			for i, p := range policies {
				if set>>i&1 == 1 {
					k.Policies = append(k.Policies, p)
				}
			}
			for i, u := range unread {
				if set>>(len(policies)+i)&1 == 1 {
					k.Unread = append(k.Unread, u)
				}
			}
			return k
		}
		for more := range len(policies) + len(unread) {
			for _, rule := range []Rule{Derived, SameEnforcer} {
				if known(set).Barred(pod, "shop/fast", rule) != "" && known(set|1<<more).Barred(pod, "shop/fast", rule) == "" {
					t.Errorf("%b allows by %s what %b forbids", set|1<<more, rule, set)
				}
			}
		}
	}
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string][]string{
		"fast": {"shop/fast"}, "fast, data/bulk": {"shop/fast", "data/bulk"}, "": nil, "fast,": nil, "a/b/c": nil,
	} {
		if got := Networks("shop", text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
