package wireguard

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/topo"
)

// ring is every host's key pair, by host index.
type ring map[int]*ecdh.PrivateKey

func newRing(site network.Site) (ring, error) {
	out := ring{}
	for _, h := range site.Hosts {
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make key of host %s: %w", h.Name, err)
		}
		out[h.Index] = key
	}
	return out, nil
}

// forKernel is the host's configuration as "wg setconf" reads it (wg(8)).
func (r ring) forKernel(site network.Site, h topo.Host) string {
	text := base64.StdEncoding.EncodeToString
	var b strings.Builder
	fmt.Fprintf(&b, "[Interface]\nPrivateKey = %s\nListenPort = %d\n", text(r[h.Index].Bytes()), port(site))
	for _, p := range site.Hosts {
		if p.Index != h.Index {
			fmt.Fprintf(&b, "[Peer]\nPublicKey = %s\nAllowedIPs = %v\nEndpoint = %v\n",
				text(r[p.Index].PublicKey().Bytes()), p.Pods, endpoint(site, p))
		}
	}
	return b.String()
}

// forDaemon is the host's configuration as a "set" operation of WireGuard's
// cross-platform interface, without the operation's own line
// (https://www.wireguard.com/xplatform/).
func (r ring) forDaemon(site network.Site, h topo.Host) string {
	text := hex.EncodeToString
	var b strings.Builder
	fmt.Fprintf(&b, "private_key=%s\nlisten_port=%d\n", text(r[h.Index].Bytes()), port(site))
	for _, p := range site.Hosts {
		if p.Index != h.Index {
			fmt.Fprintf(&b, "public_key=%s\nendpoint=%v\nallowed_ip=%v\n",
				text(r[p.Index].PublicKey().Bytes()), endpoint(site, p), p.Pods)
		}
	}
	return b.String()
}

func endpoint(site network.Site, h topo.Host) netip.AddrPort {
	return netip.AddrPortFrom(h.Addr.Addr(), port(site))
}
