package bgp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/topo"
)

func site(index int) network.Site {
	s := network.Site{Index: index}
	for i := 1; i <= 3; i++ {
		s.Hosts = append(s.Hosts, topo.Host{Index: i, Name: fmt.Sprintf("h%d", i), Dev: "eth0",
			Addr: netip.MustParsePrefix(fmt.Sprintf("198.18.0.%d/16", i)), Pods: netip.MustParsePrefix(fmt.Sprintf("10.77.%d.0/24", i))})
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

// TestSecondBIRDOfAHost has a port and a routing table of its own, as two on one
// table take away each other's routes.
func TestSecondBIRDOfAHost(t *testing.T) {
	first, second := hosts(site(0), ""), hosts(site(2), "ipip2")
	if text := first.config(0); !strings.Contains(text, "kernel table 254;") || !strings.Contains(text, "port 179 ") || strings.Contains(text, "igp table") {
		t.Errorf("first:\n%s", text)
	}
	text := second.config(0)
	for _, want := range []string{"kernel table 7602;", "neighbor 198.18.0.2 port 1792 ", "gateway recursive; igp table hosts;",
		" route 198.18.0.3/32 via 198.18.0.3%ipip2 onlink;"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
