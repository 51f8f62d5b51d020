package admin

import (
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

func TestTriedNetworks(t *testing.T) {
	all := []Network{{Attachment: "x/bulk", Allowed: true}, {Attachment: "x/fast", Allowed: true},
		{Attachment: "x/slow", Why: "PathNetwork slow says steer: Denied"}}
	for _, tc := range []struct {
		asked, want []string
		fault       string
	}{
		{nil, []string{"x/bulk", "x/fast"}, ""},
		{[]string{"x/fast"}, []string{"x/fast"}, ""},
		{[]string{"x/slow"}, nil, "steer: Denied"},
		{[]string{"x/none"}, nil, "no PathNetwork names it"},
	} {
		got, err := tried(all, tc.asked)
		if tc.fault == "" && (err != nil || !slices.Equal(got, tc.want)) {
			t.Errorf("%v: %v, %v", tc.asked, got, err)
		}
		if tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("%v: %v, want %q", tc.asked, err, tc.fault)
		}
	}
}

func TestTwoNodes(t *testing.T) {
	all := []Agent{{Node: "a"}, {Node: "b", Ready: true}, {Node: "c", Ready: true}, {Node: "d", Ready: true}}
	for _, tc := range []struct {
		agents      int
		asked, want string
		fault       string
	}{
		{4, "", "b c", ""},
		{4, "d b", "d b", ""},
		{2, "", "", "nodes b: expected two"},
		{4, "b b", "", "nodes b, b: expected two"},
		{4, "b c d", "", "nodes b, c, d: expected two"},
		{4, "b a", "", "node a: no agent is at work there"},
		{4, "z b", "", "node z: no agent is at work there"},
	} {
		got, err := twoNodes(all[:tc.agents], strings.Fields(tc.asked))
		if tc.fault == "" && (err != nil || strings.Join(got[:], " ") != tc.want) ||
			tc.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.fault)) {
			t.Errorf("%q: %v, %v, want %q", tc.asked, got, err, tc.want+tc.fault)
		}
	}
}

// TestPodsOfATest: they are as the API server takes them, in a namespace that uninstall knows.
func TestPodsOfATest(t *testing.T) {
	o := manifest.Defaults("1")
	o.Networks = []string{"x/fast", "x/bulk"}
	rr, udp := anywhere("10.96.0.1")+":1", "["+anywhere("fd00::1")+"]:2"
	all, err := objectsOf(manifest.Test(o, [2]string{"n1", "n2"}, rr, udp))
	if err != nil || len(all) != 3 {
		t.Fatalf("%d objects, %v", len(all), err)
	}
	for i, want := range []string{"/api/v1/namespaces/pathwise-test", "/api/v1/namespaces/pathwise-test/pods/client",
		"/api/v1/namespaces/pathwise-test/pods/server"} {
		if all[i].path() != want {
			t.Errorf("%s, want %s", all[i].path(), want)
		}
	}
	if all[0].path() != testNamespace().path() || all[1].Annotations["k8s.v1.cni.cncf.io/networks"] != "x/fast,x/bulk" {
		t.Errorf("%s, %v", testNamespace().path(), all[1].Annotations)
	}
	if _, err := manifest.Test(o, [2]string{"n1", "n2: {}"}, "", ""); err == nil {
		t.Error("a node of any name")
	}
}
