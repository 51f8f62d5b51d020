package agent

import (
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

// TestCheckCluster: no name of a description leads out of the directory that it is used
// in: agent-HOST.sock, pod-UID, /run/netns/NETNS, link-DEV-in.
func TestCheckCluster(t *testing.T) {
	good := func() Cluster {
		own := testPod("agent-h1", 1, 9, "z", "m")
		own.Agent = true
		return Cluster{Hosts: []topo.Host{{Index: 1, Name: "h1"}, {Index: 2, Name: "node-2.example.com"}},
			Pods: []topo.Pod{own, testPod("p", 1, 1, "z", "m"), testPod("q", 2, 1, "z", "m")}}
	}
	if err := good().check(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*Cluster)
		want   string
	}{
		{"no UID", func(c *Cluster) { c.Pods[1].UID, c.Pods[2].UID = "", "" }, ""},
		{"a host elsewhere", func(c *Cluster) { c.Hosts[1].Name = "../../x" }, `hosts[1]: host name "../../x"`},
		{"a host above", func(c *Cluster) { c.Hosts[1].Name = ".." }, `host name ".."`},
		{"a host without name", func(c *Cluster) { c.Hosts[1].Name = "" }, `host name ""`},
		{"a host twice", func(c *Cluster) { c.Hosts[1].Name = "h1" }, "host h1 or its index 2 is there twice"},
		{"an index twice", func(c *Cluster) { c.Hosts[1].Index = 1 }, "is there twice"},
		{"a UID elsewhere", func(c *Cluster) { c.Pods[1].UID = "x/../../../../../run" }, `pods[1] ("p"): UID "x/../`},
		{"a UID with dots", func(c *Cluster) { c.Pods[1].UID = ".." }, `UID ".."`},
		{"a UID twice", func(c *Cluster) { c.Pods[2].UID = c.Pods[1].UID }, "UID uid-p is there twice"},
		{"a long UID", func(c *Cluster) { c.Pods[1].UID = strings.Repeat("x", 200) }, "UID"},
		{"a namespace elsewhere", func(c *Cluster) { c.Pods[1].Netns = "../../proc/1/ns/net" },
			`netns "../../proc/1/ns/net"`},
		{"a namespace above", func(c *Cluster) { c.Pods[1].Netns = ".." }, `netns ".."`},
		{"an interface elsewhere", func(c *Cluster) { c.Pods[1].Attachments[1].Dev = "../../x" }, `dev "../../x"`},
		{"an interface that is all", func(c *Cluster) { c.Pods[1].Attachments[1].Dev = "." }, `dev "."`},
		{"an interface without name", func(c *Cluster) { c.Pods[1].Attachments[1].Dev = "" }, `dev ""`},
		{"a long interface", func(c *Cluster) { c.Pods[1].Attachments[1].Dev = "interface1234567" },
			`dev "interface1234567"`},
		{"an address of one machine", func(c *Cluster) { c.Pods[1] = with(c.Pods[1], 1, "fd00::1%eth0") },
			`addr "fd00::1%eth0": expected an address without a zone`},
		{"a network of two lines", func(c *Cluster) { c.Pods[1].Attachments[1].Network = "a\nb" }, `network "a\nb"`},
	} {
		c := good()
		c.Pods[1].Attachments = slices.Clone(c.Pods[1].Attachments)
		tc.change(&c)
		if err := c.check(); tc.want == "" && err != nil || tc.want != "" &&
			(err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
		}
	}
	for name, good := range map[string]bool{"h1": true, "N1": true, "node-2.example.com": true, "a_b": true, "": false,
		".": false, "..": false,
		"a/b": false, "../x": false, "a\x00": false, "a b": false, "-a": false, strings.Repeat("x", 300): false} {
		if err := CheckHost(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
