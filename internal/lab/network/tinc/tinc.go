// Package tinc holds weave-sleeve-like: a bridge on each host, and between them
// Ethernet frames in UDP, carried by a program in user space. That is the shape
// of Weave's slow path, its sleeve (Suo et al. 2018 measure Weave so), which is
// no longer to be had; the program here is tinc in its switch mode, without
// cipher.
//
// It is not Weave: frames are read from a tap device and not captured on the
// bridge, peers are listed, and header and MTU are tinc's.
package tinc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/conflist"
	"pathwise.dev/pathwise/internal/topo"
)

const (
	// overhead is the IPv4 and UDP header, tinc's sequence number and the inner
	// Ethernet header; without a digest nothing follows the frame.
	overhead = 20 + 8 + 4 + 14
	// mostMTU is what the daemon carries, built without jumbo frames as it is by default.
	mostMTU = 1500
	device  = "tinc0"
)

// New returns the network.
func New() network.Network { return sleeve{} }

type sleeve struct{}

// Info implements network.Network.
func (sleeve) Info() network.Info {
	return network.Info{
		Name: "weave-sleeve-like", Family: "tinc",
		OneKernel: "its hosts learn one another's keys from files that virtual machines do not share",
		Summary:   "Ethernet over UDP in user space and a bridge on each host, as Weave's slow path; the program is tinc 1.0",
		Overhead:  overhead,
		Families:  network.Both(),
		Needs: []network.Need{network.NeedRoot(), network.NeedPlugin("bridge"), network.NeedPlugin("host-local"),
			network.NeedProgram("tincd", "tinc"), network.NeedLink("tun", "CONFIG_TUN"),
			network.NeedLink("bridge", "CONFIG_BRIDGE")},
		Row: network.Quality{Namespace: "independent, isolated", IntraHost: "Linux bridge",
			InterHost: "UDP overlay in user space", Outside: "-", KeyValue: "no (static peers)", Encryption: "no (possible)",
			Isolation: "moderate", ReachIntra: true, ReachInter: true, OwnNamespace: true},
	}
}

// Build implements network.Network.
func (s sleeve) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug := network.Plug{Mode: network.ByCNI, Conflists: map[int]json.RawMessage{}}
	mtu := min(site.MTU-overhead, mostMTU)
	key, err := newKey()
	if err != nil {
		return plug, err
	}
	for i, h := range site.Hosts {
		if err := addBridge(site, h, mtu); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		if err := start(ctx, site, i, key); err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		r := conflist.Within(site.Pods, h.Pods)
		r.IPv6 = site.IPv6
		ipam := conflist.HostLocal(filepath.Join(site.Dir, h.Name), r, netip.Prefix{})
		list, err := conflist.List(s.Info().Name, conflist.Plugin{"type": "bridge", "bridge": site.Bridge(), "mtu": mtu,
			"ipam": ipam})
		if err != nil {
			return plug, fmt.Errorf("configure host %s: %w", h.Name, err)
		}
		plug.Conflists[h.Index] = list
		plug.Crossing = append(plug.Crossing, network.Device{Netns: h.Netns, Name: device})
	}
	plug.Ready = func(ctx context.Context) error { return ready(ctx, site, mtu) }
	return plug, nil
}

func addBridge(site network.Site, h topo.Host, mtu int) error {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = site.Bridge(), mtu
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := nl.LinkAdd(br); err != nil {
		return fmt.Errorf("create bridge: %w", err)
	}
	if err := nl.LinkSetUp(br); err != nil {
		return fmt.Errorf("set bridge up: %w", err)
	}
	return nil
}

// key is what the daemons know each other by: one for all, as all are the lab's.
type key struct{ private, public []byte }

func newKey() (key, error) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return key{}, fmt.Errorf("make key: %w", err)
	}
	return key{
		private: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}),
		public:  pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&k.PublicKey)}),
	}, nil
}

// start writes the configuration of host number i (from 0) and starts its
// daemon, which connects to those of the hosts before it.
func start(ctx context.Context, site network.Site, i int, key key) error {
	h := site.Hosts[i]
	dir := filepath.Join(site.Dir, h.Name)
	if err := os.MkdirAll(filepath.Join(dir, "hosts"), 0o755); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	files := map[string][]byte{"tinc.conf": []byte(config(site, i)), "rsa_key.priv": key.private}
	for _, peer := range site.Hosts {
		files["hosts/"+peer.Name] = append([]byte(peerConfig(peer)), key.public...)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return site.Start(ctx, network.Daemon{Name: "tincd-" + h.Name, Netns: h.Netns,
		Argv: []string{"tincd", "--no-detach", "--config=" + dir, "--pidfile=" + filepath.Join(dir, "pid")}})
}

// config is tinc.conf of host number i. Broadcasts go to every host directly,
// and not along a tree, so that all pairs of hosts make their first exchange
// before a pod sends anything.
func config(site network.Site, i int) string {
	h := site.Hosts[i]
	var b strings.Builder
	fmt.Fprintf(&b, "Name = %s\nAddressFamily = ipv4\nBindToAddress = %v\nDeviceType = tap\nInterface = %s\nMode = switch\nBroadcast = direct\n",
		h.Name, h.Addr.Addr(), device)
	b.WriteString("MaxTimeout = 1\n") // seconds until it calls again a peer that was not there yet; by default 5 and more
	for _, peer := range site.Hosts[:i] {
		fmt.Fprintf(&b, "ConnectTo = %s\n", peer.Name)
	}
	return b.String()
}

// peerConfig is what all know of a host. The MTU is set, and not found out: while
// tinc does that, it sends what is larger over its TCP connection.
func peerConfig(h topo.Host) string {
	return fmt.Sprintf("Address = %v\nCipher = none\nDigest = none\nMACLength = 0\nCompression = 0\nPMTUDiscovery = no\nClampMSS = no\n", h.Addr.Addr())
}
