package bgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

func site(index int) network.Site {
	s := network.Site{Index: index}
	for i := 1; i <= 3; i++ {
		s.Hosts = append(s.Hosts, topo.Host{Index: i, Name: fmt.Sprintf("h%d", i), Dev: "eth0",
			Addr: netip.MustParsePrefix(fmt.Sprintf("198.18.0.%d/16", i)),
			Pods: netip.MustParsePrefix(fmt.Sprintf("10.77.%d.0/24", i))})
	}
	return s
}

// TestOneOfEachPairCalls: of any two speakers exactly one is passive to the other.
func TestOneOfEachPairCalls(t *testing.T) {
	m := hosts(site(0), "")
	passive := map[string]bool{}
	for i, s := range m.speakers {
		for line := range strings.Lines(m.config(i)) {
			if peer, found := strings.CutPrefix(line, "protocol bgp to_"); found {
				passive[s.name+" "+peer[:2]] = strings.Contains(line, "passive on")
			}
		}
	}
	if len(passive) != 6 {
		t.Fatalf("sessions %v", passive)
	}
	for key, p := range passive {
		a, b, _ := strings.Cut(key, " ")
		if passive[b+" "+a] == p {
			t.Errorf("%s and %s: both passive %v", a, b, p)
		}
	}
}

// TestBothFamilies: one session carries the routes of both, where pods have both.
func TestBothFamilies(t *testing.T) {
	s := site(2)
	if text := hosts(s, "").config(0); strings.Contains(text, "ipv6") {
		t.Errorf("pods of IPv4 alone:\n%s", text)
	}
	s.IPv6 = true
	text := hosts(s, "").config(0)
	for _, want := range []string{"protocol static { ipv6; route fd70:7077:a4d:100::/56 blackhole; }", "protocol direct { ipv6; ",
		"kernel table 7602; ipv6 { import none; ", "ipv4 { import all; export where source = RTS_STATIC; next hop self; }; ipv6 { import all; "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := hosts(s, "ipip2").config(0); strings.Contains(text, "ipv6") {
		t.Errorf("a tunnel of IPv4 alone:\n%s", text)
	}
}

// TestSecondBIRDOfAHost has a port and a routing table of its own, as two on one
// table take away each other's routes.
func TestSecondBIRDOfAHost(t *testing.T) {
	first, second := hosts(site(0), ""), hosts(site(2), "ipip2")
	if text := first.config(0); !strings.Contains(text, "kernel table 254;") || !strings.Contains(text, "port 179 ") ||
		strings.Contains(text, "igp table") {
		t.Errorf("first:\n%s", text)
	}
	text := second.config(0)
	for _, want := range []string{"kernel table 7602;", "neighbor 198.18.0.2 port 1792 ",
		"gateway recursive; igp table hosts;",
		" route 198.18.0.3/32 via 198.18.0.3%ipip2 onlink;"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
