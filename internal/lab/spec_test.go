package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/bgp"
	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
)

func TestParseFileSaysWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "network: vxlan\nhots: 2\npods: []", `lab.yaml:2: hots: unknown key: did you mean "hosts"?`},
		{"unknown network", "network: vxlam\npods: [{name: a, host: 1}]", `lab.yaml:1: network: no network "vxlam"`},
		{"no pods", "network: vxlan", "lab.yaml:1: pods: missing key"},
		{"twice", "network: vxlan\nnetwork: host\npods: [{name: a, host: 1}]", "lab.yaml:2: network: key is given twice"},
		{"negative hosts", "network: vxlan\nhosts: -1\npods: [{name: a, host: 1}]",
			`lab.yaml:2: hosts: "-1": expected a whole number from 1 to 64`},
		{"absurd MTU", "network: vxlan\nmtu: 100000\npods: [{name: a, host: 1}]",
			`lab.yaml:2: mtu: "100000": expected a whole number from 1280 to 9000`},
		{"overlap", "network: vxlan\nunderlay: 10.77.0.0/16\npods: [{name: a, host: 1}]",
			"lab.yaml:1: pod_range: 10.77.0.0/16 overlaps the underlay 10.77.0.0/16"},
		{"overlap named", "network: vxlan\npod_range: 198.18.4.0/20\npods: [{name: a, host: 1}]",
			"lab.yaml:2: pod_range: 198.18.0.0/20 overlaps"},
		{"exhausted", "network: vxlan\nhosts: 8\npod_range: 10.1.0.0/22\npods: [{name: a, host: 1}]",
			"lab.yaml:3: pod_range: pod range 10.1.0.0/22 is exhausted: no /24 left for host 8"},
		{"no range", "network: vxlan\npod_range: ten\npods: [{name: a, host: 1}]",
			`lab.yaml:2: pod_range: "ten": expected an address range`},
		{"host of pod", "network: vxlan\npods:\n  - {name: a, host: 1}\n  - {name: b, host: 3}",
			"lab.yaml:4: pods[1]: 3 is out of range"},
		{"same pods", "network: vxlan\npods:\n  - {name: a, host: 1}\n  - {name: a, host: 1}", `"a" is given twice`},
		{"bad name", "name: ../x\nnetwork: vxlan\npods: [{name: a, host: 1}]", `lab.yaml:1: name: "../x": expected`},
		{"not YAML", "network: [", "lab.yaml:1: not YAML"},
		{"empty", "", "lab.yaml:1: empty file"},
		{"two", "network: vxlan\npods: [{name: a, host: 1}]\n---\nnetwork: bridge\n",
			"lab.yaml:3: a second document (after ---): expected one in a file"},
		{"a second that is not YAML", "network: vxlan\npods: [{name: a, host: 1}]\n---\nb: [\n", "not YAML"},
		{"a list", "- a", "lab.yaml:1: expected keys and values"},
		{"no network", "pods: [{name: a, host: 1}]", "lab.yaml:1: network: missing key"},
		{"one key for one", "network: [vxlan, bgp]\npods: [{name: a, host: 1}]",
			"lab.yaml:1: network: expected a text, found a list"},
		{"both keys", "network: vxlan\nnetworks: [bgp]\npods: [{name: a, host: 1}]",
			"lab.yaml:2: networks: expected network or networks, not both"},
		{"unknown of several", "networks:\n  - vxlan\n  - vxlam\npods: [{name: a, host: 1}]",
			`lab.yaml:3: networks[1]: no network "vxlam"`},
		{"twice the same", "networks:\n  - vxlan\n  - vxlan\npods: [{name: a, host: 1}]",
			"lab.yaml:3: networks[1]: network vxlan is given twice"},
		{"not with others", "networks:\n  - vxlan\n  - host\npods: [{name: a, host: 1}]",
			"lab.yaml:3: networks[1]: host cannot be combined with other networks: its pods have no namespace"},
		{"no agents there", "network: host\nagents: true\npods: [{name: a, host: 1}]",
			"lab.yaml:2: agents: network host takes no agents"},
		{"agents", "network: vxlan\nagents: 2\npods: [{name: a, host: 1}]",
			`lab.yaml:2: agents: "2": expected true or false`},
		{"agent's name", "networks: [vxlan, bgp]\npods: [{name: agent-h2, host: 1}]", `"agent-h2" is given twice`},
		{"foreign network", "networks: [vxlan, bgp]\npods:\n  - {name: a, host: 1, networks: [vxlan, host]}",
			"lab.yaml:3: pods[0].networks[1]: host is none of the lab's networks: expected some of vxlan, bgp"},
		{"other default", "networks: [vxlan, bgp]\npods:\n  - {name: a, host: 1, networks: [bgp, vxlan]}",
			"lab.yaml:3: pods[0].networks[0]: bgp: expected the lab's default network vxlan first"},
		{"no networks", "networks: [vxlan, bgp]\npods:\n  - {name: a, host: 1, networks: []}",
			"lab.yaml:3: pods[0].networks: empty list"},
		{"range behind", "networks: [vxlan, bgp]\npod_range: 198.17.0.0/16\npods: [{name: a, host: 1}]",
			"lab.yaml:2: pod_range: 198.18.0.0/16, the range behind it for network bgp, overlaps the underlay"},
		{"no range behind", "networks: [vxlan, bgp]\npod_range: 10.255.0.0/16\npods: [{name: a, host: 1}]",
			"lab.yaml:2: pod_range: pod range 10.255.0.0/16 is exhausted: no range of its size is left behind it for network 2"},
		{"no such host", "network: vxlan\nvms:\n  - {host: 3}\npods: [{name: a, host: 1}]",
			"lab.yaml:3: vms[0]: 3 is out of range: expected 1 to 2"},
		{"two of one", "network: vxlan\nvms:\n  - {host: 2}\n  - {host: 2, on: 1}\npods: [{name: a, host: 1}]",
			"lab.yaml:4: vms[1]: host 2 is given twice"},
		{"no such machine", "network: vxlan\nvms: [{host: 2, on: 5}]\npods: [{name: a, host: 1}]",
			"5 is out of range: expected the number of a machine, 1 to 2"},
		{"outside", "network: vxlan\noutside: ovn\npods: [{name: a, host: 1}]",
			`lab.yaml:2: outside: unknown outside "ovn": expected bridge, vxlan, ovs or ovs-vxlan`},
		{"no room outside", "network: vxlan\nmtu: 1280\noutside: vxlan\npods: [{name: a, host: 1}]",
			"1280 leaves 1230 bytes inside the outside vxlan"},
		{"agents within", "networks: [vxlan, bgp]\nagents: true\nvms: [{host: 2}]\npods: [{name: a, host: 1}]",
			"lab.yaml:2: agents: agents do not run in virtual machines"},
		{"family", "network: vxlan\nfamily: 5\npods: [{name: a, host: 1}]", "lab.yaml:2: family: 5: expected 4 or 6"},
		{"no family", "network: vxlan\nfamily: ipv6\npods: [{name: a, host: 1}]",
			`lab.yaml:2: family: "ipv6": expected a whole number from 4 to 6`},
		{"family within", "network: vxlan\nfamily: 6\nvms: [{host: 2}]\npods: [{name: a, host: 1}]",
			"lab.yaml:2: family: hosts in virtual machines have IPv4 addresses alone"},
		{"no room for IPv6", "network: vxlan\nfamily: 6\nmtu: 1300\npods: [{name: a, host: 1}]",
			"lab.yaml:3: mtu: 1300 leaves 1250 bytes inside network vxlan: expected 1280 for IPv6"},
		{"alias", "network: &n vxlan\nname: *n\npods: [{name: a, host: 1}]",
			"lab.yaml:2: name: expected a text, found an alias"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseFile("lab.yaml", strings.NewReader(tc.text), find)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func find(name string) (network.Network, error) {
	switch name {
	case "vxlan":
		return vxlan.New(), nil
	case "bgp":
		return network.Named(bgp.New(), "bgp"), nil
	case "host":
		return plain.Host{}, nil
	}
	return nil, errors.New(`no network "` + name + `"`)
}

func TestParseFileReadsSeveralNetworks(t *testing.T) {
	for _, tc := range []struct {
		text     string
		networks string
		pods     string
	}{
		{"network: vxlan", "[vxlan]", "[a b]"},
		{"networks: vxlan", "[vxlan]", "[a b]"},
		{"networks: [bgp, vxlan]", "[bgp vxlan]", "[a b agent-h1 agent-h2]"},
		{"networks: [bgp, vxlan]\nagents: false", "[bgp vxlan]", "[a b]"},
		{"network: vxlan\nagents: true", "[vxlan]", "[a b agent-h1 agent-h2]"},
	} {
		f, err := ParseFile("f", strings.NewReader(tc.text+"\npods: [{name: a, host: 1}, {name: b, host: 2}]"), find)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		var pods []string
		for _, p := range f.Spec.pods() {
			pods = append(pods, p.Name)
		}
		if fmt.Sprint(f.Spec.Networks) != tc.networks || fmt.Sprint(pods) != tc.pods ||
			len(f.Networks) != len(f.Spec.Networks) {
			t.Errorf("%s: got networks %v and pods %v", tc.text, f.Spec.Networks, pods)
		}
	}
}

func TestCheckCountsAddresses(t *testing.T) {
	s := Spec{Name: "x"}.Fill()
	for i := range MaxPodsPerHost + 1 {
		s.Pods = append(s.Pods,
			PodSpec{Name: "p" + strings.Repeat("x", i%5) + string(rune('a'+i/26%26)) + string(rune('a'+i%26)), Host: 1})
	}
	seen := map[string]bool{}
	for i := range s.Pods {
		for seen[s.Pods[i].Name] {
			s.Pods[i].Name += "q"
		}
		seen[s.Pods[i].Name] = true
	}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "exhausted") {
		t.Errorf("got %v, want an exhausted range", err)
	}
	s.Pods = s.Pods[:MaxPodsPerHost]
	if err := s.Check(); err != nil {
		t.Errorf("%d pods: %v", MaxPodsPerHost, err)
	}
}

// TestRangesGrow: hosts have a /24 each, as most clusters do, and a larger range where one
// of them has more pods, as 128 pairs on one host are.
func TestRangesGrow(t *testing.T) {
	s := Spec{Name: "x", Networks: []string{"vxlan"}}.Fill()
	for pods, want := range map[int]string{253: "10.77.2.0/24", 254: "10.77.4.0/23", 256: "10.77.4.0/23"} {
		s.Pods = nil
		for i := range pods {
			s.Pods = append(s.Pods, PodSpec{Name: fmt.Sprintf("p%d", i), Host: 1})
		}
		hosts, err := s.hosts()
		if err := errors.Join(err, s.Check()); err != nil {
			t.Fatal(err)
		}
		if got := hosts[1].Pods.String(); got != want {
			t.Errorf("%d pods on a host: host 2 has %s, want %s", pods, got, want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add("name: a\nnetwork: vxlan\nunderlay: 198.18.0.0/16\npods:\n  - {name: a, host: 1}\n")
	f.Add("network: &a [*a]")
	f.Add("networks: [vxlan, bgp]\nagents: false\npods:\n  - {name: a, host: 1, networks: [vxlan]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseFile("f", strings.NewReader(text), find)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		// What is accepted can be laid out.
		if _, err := file.Spec.hosts(); err != nil {
			t.Errorf("accepted, but %v", err)
		}
		for i := range file.Networks {
			if _, r, err := file.Spec.on(i, nil); err != nil || r.Overlaps(file.Spec.Underlay) {
				t.Errorf("accepted, but network %d has %v, %v", i, r, err)
			}
		}
		if file.Spec.Underlay.Overlaps(file.Spec.PodRange) || file.Spec.Underlay == (netip.Prefix{}) {
			t.Errorf("accepted ranges %v and %v", file.Spec.Underlay, file.Spec.PodRange)
		}
	})
}
