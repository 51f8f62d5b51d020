package wireguard

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

// ring is every host's key pair, by host index.
type ring map[int]*ecdh.PrivateKey

func newRing(site network.Site) (ring, error) {
	out := ring{}
	for _, h := range site.All() {
		key, err := newKey(site, h)
		if err != nil {
			return nil, fmt.Errorf("make key of host %s: %w", h.Name, err)
		}
		out[h.Index] = key
	}
	return out, nil
}

// newKey is a random key, or, where the site has parts that must agree, one that
// follows from the site's random seed.
func newKey(site network.Site, h topo.Host) (*ecdh.PrivateKey, error) {
	if len(site.Seed) == 0 {
		return ecdh.X25519().GenerateKey(rand.Reader)
	}
	sum := sha256.Sum256(fmt.Appendf(site.Seed[:len(site.Seed):len(site.Seed)], "wireguard %d %d", site.Index, h.Index))
	return ecdh.X25519().NewPrivateKey(sum[:])
}

// forKernel is the host's configuration as "wg setconf" reads it (wg(8)).
func (r ring) forKernel(site network.Site, h topo.Host) string {
	text := base64.StdEncoding.EncodeToString
	var b strings.Builder
	fmt.Fprintf(&b, "[Interface]\nPrivateKey = %s\nListenPort = %d\n", text(r[h.Index].Bytes()), port(site))
	for _, p := range site.All() {
		if p.Index != h.Index {
			fmt.Fprintf(&b, "[Peer]\nPublicKey = %s\nEndpoint = %v\n", text(r[p.Index].PublicKey().Bytes()), endpoint(site, p))
			for _, pods := range routed.Ranges(site, p) {
				fmt.Fprintf(&b, "AllowedIPs = %v\n", pods)
			}
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
	for _, p := range site.All() {
		if p.Index != h.Index {
			fmt.Fprintf(&b, "public_key=%s\nendpoint=%v\n", text(r[p.Index].PublicKey().Bytes()), endpoint(site, p))
			for _, pods := range routed.Ranges(site, p) {
				fmt.Fprintf(&b, "allowed_ip=%v\n", pods)
			}
		}
	}
	return b.String()
}

func endpoint(site network.Site, h topo.Host) netip.AddrPort {
	return netip.AddrPortFrom(h.Addr.Addr(), port(site))
}
