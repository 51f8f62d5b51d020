package catalogue_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/topo"
)

// TestContractIPv6 tries the same cells as TestContract over IPv6, on the networks that say
// that they can; what the pods' kernels counted tells that it was IPv6.
func TestContractIPv6(t *testing.T) {
	tried := 0
	for i, n := range catalogue.All() {
		info := n.Info()
		if !slices.Contains(info.Families, topo.IPv6) {
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			if miss := network.NewMachine(cniPath(t)).Missing(info.Needs); len(miss) > 0 {
				if elsewhere(t, miss) || hardware(t, miss) {
					return
				}
				t.Fatalf("this machine lacks %v: run make setup plugins", miss)
			}
			tried++
			tryIPv6(t, n, fmt.Sprintf("t-six%d", i))
		})
	}
	if tried < 8 && os.Getenv(insideVariable) == "" && !narrowed() {
		t.Errorf("%d networks were tried over IPv6", tried)
	}
}

// narrowed tells whether the tests of some networks alone were asked for, by -run TEST/NAME.
func narrowed() bool {
	run := flag.Lookup("test.run")
	return run != nil && strings.Contains(run.Value.String(), "/")
}

// tryIPv6 has two pods on the first host and one on the second.
func tryIPv6(t *testing.T, n network.Network, name string) {
	info := n.Info()
	l := up(t, n, lab.Spec{Name: name, Hosts: 2, Family: topo.IPv6,
		Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 1}, {Name: "c", Host: 2}}})
	pods, host := l.Pods(), l.Hosts()[0]
	if info.Closed {
		if len(pods[0].Attachments) > 0 {
			t.Errorf("a pod without a network has %v", pods[0].Attachments)
		}
		return
	}
	for _, p := range pods {
		if !p.Service.Addr().Is6() || p.Address(topo.IPv4) == p.Service.Addr() || !p.Address(topo.IPv4).IsValid() {
			t.Errorf("pod %s is reached at %v, with the addresses %+v", p.Name, p.Service, p.Attachments)
		}
	}
	before := octets(t, l, pods[0])
	reach(t, l, "pod of the same host", info.Row.ReachIntra, pods[0], pods[1].Netns, pods[1].Service, pods[1].Listen)
	if l.Plug().Mode != network.SharePod {
		reach(t, l, "pod of another host", info.Row.ReachInter, pods[0], pods[2].Netns, pods[2].Service,
			pods[2].Listen)
		reach(t, l, "and back", info.Row.ReachInter, pods[2], pods[0].Netns, pods[0].Service, pods[0].Listen)
	}
	if l.Plug().Mode != network.SharePod && !l.Plug().Publish {
		old := netip.AddrPortFrom(pods[2].Address(topo.IPv4), pods[2].Listen)
		reach(t, l, "over IPv4", info.Row.ReachInter, pods[0], pods[2].Netns, old, pods[2].Listen)
	}
	if sent := octets(t, l, pods[0]) - before; sent < 500 {
		t.Errorf("the pod's kernel counted %d bytes of IPv6", sent)
	}
	reach(t, l, "own host", info.Row.ReachOwnHost, pods[0], host.Netns, netip.AddrPortFrom(host.Addr6.Addr(), 7001),
		7001)
	reach(t, l, "outside", info.Row.ReachOutside, pods[0], l.Underlay(), netip.AddrPortFrom(l.Gateway6().Addr(),
		7002), 7002)
	if info.Row.ReachInter && !l.Plug().Publish { // a published port answers no ping
		size := topo.DefaultMTU - info.Overhead - 40 - 8 // IPv6 and ICMP
		for _, dir := range [][2]topo.Pod{{pods[0], pods[2]}, {pods[2], pods[0]}} {
			if _, err := ping(l, dir[0], dir[1], size); err != nil {
				t.Errorf("%s to %s, a packet that fills the MTU: %v", dir[0].Name, dir[1].Name, err)
			}
		}
	}
}

// octets is what the pod's kernel has sent and received in IPv6.
func octets(t *testing.T, l *lab.Lab, p topo.Pod) (sum int) {
	t.Helper()
	raw, err := l.Exec(t.Context(), p, "cat", "/proc/net/snmp6")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw.Stdout)) {
		if f := strings.Fields(line); len(f) == 2 && (f[0] == "Ip6InOctets" || f[0] == "Ip6OutOctets") {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// TestFamilyIsRefused where pods would have no such addresses, before anything is made.
func TestFamilyIsRefused(t *testing.T) {
	for name, want := range map[string]string{
		"flannel-vxlan":       "family: 6: network flannel-vxlan: its pods get IPv4 addresses alone",
		"vxlan flannel-vxlan": "family: 6: network flannel-vxlan: its pods get IPv4 addresses alone",
	} {
		var nets []network.Network
		for _, word := range strings.Fields(name) {
			n, err := catalogue.Find(word)
			if err != nil {
				t.Fatal(err)
			}
			nets = append(nets, n)
		}
		store := lab.Store{Root: t.TempDir()}
		_, err := store.UpAll(t.Context(), lab.Spec{Name: "t-refused", Family: topo.IPv6}, nets, lab.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
