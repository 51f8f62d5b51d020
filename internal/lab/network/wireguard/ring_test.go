package wireguard

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// TestRing: both configurations of a host hold its own secret, nobody else's, and
// every peer's public key, range and endpoint.
func TestRing(t *testing.T) {
	site := network.Site{Index: 1}
	for i := 1; i <= 3; i++ {
		site.Hosts = append(site.Hosts, topo.Host{Index: i, Addr: netip.MustParsePrefix(fmt.Sprintf("198.18.0.%d/16", i)),
			Pods: netip.MustParsePrefix(fmt.Sprintf("10.78.%d.0/24", i))})
	}
	r, err := newRing(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range site.Hosts {
		for text, code := range map[string]func([]byte) string{
			r.forKernel(site, h): base64.StdEncoding.EncodeToString,
			r.forDaemon(site, h): hex.EncodeToString,
		} {
			for _, p := range site.Hosts {
				own := p.Index == h.Index
				if strings.Contains(text, code(r[p.Index].Bytes())) != own {
					t.Errorf("the secret of host %d in the configuration of %d:\n%s", p.Index, h.Index, text)
				}
				for _, part := range []string{code(r[p.Index].PublicKey().Bytes()), p.Pods.String(),
					p.Addr.Addr().String() + ":51821"} {
					if strings.Contains(text, part) == own {
						t.Errorf("%s of host %d in the configuration of %d: %v\n%s", part, p.Index, h.Index, !own, text)
					}
				}
			}
			if !strings.Contains(strings.ToLower(strings.ReplaceAll(text, "_", "")), "listenport") {
				t.Errorf("no port in\n%s", text)
			}
		}
	}
}
