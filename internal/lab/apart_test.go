package lab

import (
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

// TestPodsApart: two pods with one address are told, unless they share a namespace or are
// reached by ports of their hosts.
func TestPodsApart(t *testing.T) {
	pod := func(name, ns, service string, addrs ...string) topo.Pod {
		p := topo.Pod{Name: name, Netns: ns, Service: netip.MustParseAddrPort(service)}
		for i, a := range addrs {
			p.Attachments = append(p.Attachments,
				topo.Attachment{Network: string(rune('a' + i)), Addr: netip.MustParseAddr(a)})
		}
		return p
	}
	for name, tc := range map[string]struct {
		a, b topo.Pod
		want string
	}{
		"apart": {pod("c1", "n1", "10.0.0.1:5", "10.0.0.1"), pod("s1", "n2", "10.0.0.2:5", "10.0.0.2"), ""},
		"the same": {pod("c1", "n1", "10.0.0.1:5", "10.0.0.1"), pod("s1", "n2", "10.0.0.1:5", "10.0.0.1"),
			"c1 and s1"},
		"the same of IPv6": {pod("c1", "n1", "[fd::1]:5", "fd::1"), pod("s1", "n2", "[fd::1]:5", "fd::1"), "fd::1 on a"},
		"one namespace":    {pod("c1", "n1", "10.0.0.1:5", "10.0.0.1"), pod("s1", "n1", "10.0.0.1:5", "10.0.0.1"), ""},
		"published": {pod("c1", "n1", "192.0.2.1:32768", "172.17.0.2"), pod("s1", "n2", "192.0.2.2:32768", "172.17.0.2"),
			""},
		"the second network": {pod("c1", "n1", "10.0.0.1:5", "10.0.0.1", "10.1.0.1"),
			pod("s1", "n2", "10.0.0.2:5", "10.0.0.2", "10.1.0.1"), "10.1.0.1 on b"},
		"other networks": {pod("c1", "n1", "10.0.0.1:5", "10.0.0.1", "10.1.0.1"),
			pod("s1", "n2", "10.1.0.1:5", "10.1.0.1", "10.0.0.1"), ""},
	} {
		err := podsApart([]topo.Pod{tc.a, tc.b})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
