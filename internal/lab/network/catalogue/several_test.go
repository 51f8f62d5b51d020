package catalogue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/topo"
)

// several builds a lab with the networks, strict about reverse paths, which goes
// with the test; nil where the host's kernel cannot.
func several(t *testing.T, name string, nets []network.Network, pods []lab.PodSpec) *lab.Lab {
	t.Helper()
	for _, n := range nets {
		if miss := network.NewMachine(cniPath(t)).Missing(n.Info().Needs); len(miss) > 0 {
			if elsewhere(t, miss) || hardware(t, miss) {
				return nil
			}
			t.Fatalf("this machine lacks %v: run make setup plugins", miss)
		}
	}
	l := upAll(t, nets, lab.Spec{Name: name, Hosts: 2, Agents: true, Pods: pods})
	for _, p := range l.Pods() {
		err := l.Do(p, func() error {
			return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// found returns the catalogue's networks of these names.
func found(t *testing.T, names ...string) []network.Network {
	t.Helper()
	var nets []network.Network
	for _, name := range names {
		n, err := catalogue.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		nets = append(nets, n)
	}
	return nets
}

// TestSeveral attaches pods to three networks at once.
func TestSeveral(t *testing.T) {
	for i, names := range [][]string{{"routed-bgp", "vxlan", "macvlan"}, {"routed-bgp", "ovn-geneve", "macvlan"}} {
		t.Run(strings.Join(names, ","), func(t *testing.T) {
			nets := found(t, names...)
			l := several(t, fmt.Sprintf("t-several%d", i), nets, []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2},
				{Name: "part", Host: 1, Networks: []string{names[0], names[2]}}})
			if l != nil {
				tryThree(t, l, nets)
			}
		})
	}
}

// tryThree tries every network of three, and that a pod may be on two of them.
func tryThree(t *testing.T, l *lab.Lab, nets []network.Network) {
	t.Helper()
	pods := l.Pods()
	checkAttachments(t, pods, nets)
	for _, p := range pods {
		checkDefaultRoute(t, l, p)
	}
	a, b, part := pods[0], pods[1], pods[2]
	if _, on := part.On(nets[1].Info().Name); on || len(part.Attachments) != 2 || part.Attachments[1].Dev != "net1" {
		t.Errorf("pod part has %+v", part.Attachments)
	}
	if err := carry(l, part, b, part.Attachments[1], b.Attachments[2]); err != nil {
		t.Errorf("a pod on some of the networks: %v", err)
	}
	agents := pods[3:]
	for _, pair := range [][2]topo.Pod{{a, b}, {b, a}, {agents[0], agents[1]}} {
		for i := range nets {
			from, to := pair[0].Attachments[i], pair[1].Attachments[i]
			full(t, l, pair[0], from, to.Addr)
			if err := carry(l, pair[0], pair[1], from, to); err != nil {
				t.Errorf("%s to %s on %s: %v", pair[0].Name, pair[1].Name, from.Network, err)
			}
		}
	}
	// Nothing leaves the second network's range from its address.
	if _, err := l.Exec(context.Background(), a, "ping", "-c1", "-W1", "-I", a.Attachments[1].Addr.String(),
		l.Gateway().Addr().String()); err == nil {
		t.Error("a packet with the address of net1 left by the default network")
	}
}

// checkAttachments wants what the networks promise: names, MTUs, addresses of
// ranges that do not meet, an agent on each host, and UIDs of their own.
func checkAttachments(t *testing.T, pods []topo.Pod, nets []network.Network) {
	t.Helper()
	uid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[any]string{}
	agents := 0
	for _, p := range pods {
		if p.Agent {
			agents++
			if p.Name != fmt.Sprintf("agent-h%d", p.Host) || len(p.Attachments) != len(nets) {
				t.Errorf("agent pod %+v", p)
			}
		}
		if !uid.MatchString(p.UID) || seen[p.UID] != "" {
			t.Errorf("pod %s has UID %q", p.Name, p.UID)
		}
		seen[p.UID] = p.Name
		for i, a := range p.Attachments {
			if seen[a.Addr] != "" {
				t.Errorf("%s and %s have the address %v", p.Name, seen[a.Addr], a.Addr)
			}
			seen[a.Addr] = p.Name
			want := "eth0"
			if i > 0 {
				want = "net" + strconv.Itoa(i)
			}
			if _, err := net.ParseMAC(a.MAC); err != nil || a.Dev != want {
				t.Errorf("pod %s: attachment %d is %+v", p.Name, i, a)
			}
			for _, n := range nets {
				if info := n.Info(); info.Name == a.Network && a.MTU != topo.DefaultMTU-info.Overhead {
					t.Errorf("pod %s: MTU %d on %s", p.Name, a.MTU, info.Name)
				}
			}
		}
	}
	if agents != 2 {
		t.Errorf("%d agent pods on two hosts", agents)
	}
}

func checkDefaultRoute(t *testing.T, l *lab.Lab, p topo.Pod) {
	t.Helper()
	res, err := l.Exec(context.Background(), p, "ip", "-j", "route", "show", "default")
	if err != nil {
		t.Fatal(err)
	}
	var routes []struct{ Dev string }
	if err := json.Unmarshal(res.Stdout, &routes); err != nil || len(routes) != 1 || routes[0].Dev != "eth0" {
		t.Errorf("pod %s: default routes %s %v", p.Name, res.Stdout, err)
	}
}

// full wants packets of the attachment's MTU to pass and larger ones not to.
func full(t *testing.T, l *lab.Lab, pod topo.Pod, from topo.Attachment, to netip.Addr) {
	t.Helper()
	const headers = 20 + 8 // IPv4 and ICMP
	for size, want := range map[int]bool{8: true, from.MTU - headers: true, from.MTU - headers + 1: false} {
		wait := "-W2"
		if !want {
			wait = "-W0.2"
		}
		_, err := l.Exec(context.Background(), pod, "ping", "-c1", wait, "-Mdo", "-I", from.Addr.String(), "-s",
			strconv.Itoa(size), to.String())
		if (err == nil) != want {
			t.Errorf("%s on %s, %d bytes: %v, want passed %v", pod.Name, from.Network, size, err, want)
		}
	}
}

// carried is enough to be told from neighbour discovery on other interfaces.
const carried = 1 << 20

// carry sends by TCP and has datagrams answered, between sockets bound to the
// attachments' addresses, and wants both directions on these interfaces alone.
func carry(l *lab.Lab, from, to topo.Pod, a, z topo.Attachment) error {
	before, err := bytesOf(l, from, to)
	if err != nil {
		return err
	}
	if err := errors.Join(stream(l, from, to, a.Addr, z.Addr), echoed(l, from, to, a.Addr, z.Addr)); err != nil {
		return err
	}
	after, err := bytesOf(l, from, to)
	if err != nil {
		return err
	}
	for key, n := range after {
		moved := n - before[key]
		if ours := key == from.Name+" "+a.Dev || key == to.Name+" "+z.Dev; ours != (moved >= 2*carried) || !ours &&
			moved > carried/10 {
			return fmt.Errorf("%d bytes on %s", moved, key)
		}
	}
	return nil
}

func bytesOf(l *lab.Lab, pods ...topo.Pod) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, p := range pods {
		nl, err := l.Netlink(p.Netns)
		if err != nil {
			return nil, err
		}
		for _, a := range p.Attachments {
			link, err := nl.LinkByName(a.Dev)
			if err != nil {
				return nil, err
			}
			out[p.Name+" "+a.Dev] = link.Attrs().Statistics.RxBytes + link.Attrs().Statistics.TxBytes
		}
	}
	return out, nil
}

// stream sends over TCP and wants all of it back.
func stream(l *lab.Lab, from, to topo.Pod, a, z netip.Addr) error {
	stop, err := echo(l, to.Netns, netip.AddrPortFrom(z, 7003))
	if err != nil {
		return err
	}
	defer stop()
	var c net.Conn
	err = l.Do(from, func() (err error) {
		d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: a.AsSlice()}}
		c, err = d.Dial("tcp4", netip.AddrPortFrom(z, 7003).String())
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, carried))
		sent <- err
	}()
	_, err = io.CopyN(io.Discard, c, carried)
	return errors.Join(err, <-sent)
}

// echoed sends datagrams and wants one answered.
func echoed(l *lab.Lab, from, to topo.Pod, a, z netip.Addr) error {
	stop, err := echo(l, to.Netns, netip.AddrPortFrom(z, 7004))
	if err != nil {
		return err
	}
	defer stop()
	var c net.Conn
	err = l.Do(from, func() (err error) {
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: a.AsSlice()}}
		c, err = d.Dial("udp4", netip.AddrPortFrom(z, 7004).String())
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	for range 5 {
		if _, err = c.Write([]byte("pathwise")); err != nil {
			return fmt.Errorf("udp: %w", err)
		}
		if err = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
			return err
		}
		if _, err = c.Read(make([]byte, 8)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("udp: %w", err)
}

// TestPairs puts every network that can be combined on the same hosts as a few
// others, and tries what both claim. PATHWISE_PAIRS=all combines it with all, each
// being the default one in turn.
func TestPairs(t *testing.T) {
	number := 0
	for _, n := range catalogue.All() {
		pairs := pairsOf(t, n)
		if len(pairs) == 0 {
			continue
		}
		t.Run(n.Info().Name, func(t *testing.T) {
			for _, pair := range pairs {
				number++
				t.Run(pair[0].Info().Name+","+pair[1].Info().Name, func(t *testing.T) { tryPair(t, number, pair) })
			}
		})
	}
}

// pairsOf lists the pairs that n is tried in: as the pods' default network,
// with one whose pods are on the underlay or, where it takes the uplink itself, in
// an overlay; and behind routes by BGP, which steering has as its usual default.
func pairsOf(t *testing.T, n network.Network) [][]network.Network {
	t.Helper()
	var out [][]network.Network
	add := func(first, second network.Network) bool {
		if lab.Combinable([]network.Network{first, second}, true) != nil || first.Info().Name == second.Info().Name {
			return false
		}
		out = append(out, []network.Network{first, second})
		return true
	}
	if os.Getenv("PATHWISE_PAIRS") == "all" {
		for _, other := range catalogue.All() {
			add(n, other)
		}
		return out
	}
	usual := found(t, "macvlan", "vxlan", "routed-bgp")
	if !add(n, usual[0]) {
		add(n, usual[1])
	}
	add(usual[2], n)
	return out
}

func tryPair(t *testing.T, number int, nets []network.Network) {
	l := several(t, fmt.Sprintf("t-pair%d", number), nets,
		[]lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 1}, {Name: "c", Host: 2}})
	if l == nil {
		return
	}
	pods := l.Pods()
	for k, n := range nets {
		row := n.Info().Row
		for _, way := range []struct {
			from, to int
			claim    bool
		}{{0, 1, row.ReachIntra}, {0, 2, row.ReachInter}, {2, 0, row.ReachInter}, {3, 4, row.ReachInter}} {
			from, to := pods[way.from], pods[way.to]
			what := fmt.Sprintf("%s to %s on %s", from.Name, to.Name, n.Info().Name)
			if !way.claim {
				_, err := l.Exec(context.Background(), from, "ping", "-c1", "-W0.3", "-I", from.Attachments[k].Addr.String(),
					to.Attachments[k].Addr.String())
				expect(t, what, false, err)
				continue
			}
			expect(t, what, true, carry(l, from, to, from.Attachments[k], to.Attachments[k]))
		}
	}
}

// TestTunnelsTogether: networks whose tunnels are of one kind, the kernel's and
// Open vSwitch's, do not take each other's packets.
func TestTunnelsTogether(t *testing.T) {
	for i, pair := range [][]string{{"vxlan", "ovs-vxlan"}, {"ovs-vxlan", "evpn-vxlan"}, {"vxlan", "evpn-vxlan"},
		{"flannel-vxlan", "vxlan"}} {
		t.Run(strings.Join(pair, ","), func(t *testing.T) { tryPair(t, 900+i, found(t, pair...)) })
	}
}

// TestTogetherWithACNIFile combines a user's own list with a network of the
// catalogue, and refuses one that wants all of the pod's traffic.
func TestTogetherWithACNIFile(t *testing.T) {
	nets := func(list string) []network.Network {
		path := filepath.Join(t.TempDir(), "mine.conflist")
		if err := os.WriteFile(path, []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
		mine, err := catalogue.Find("cni:" + path)
		if err != nil {
			t.Fatal(err)
		}
		bgp, err := catalogue.Find("routed-bgp")
		if err != nil {
			t.Fatal(err)
		}
		return []network.Network{bgp, mine}
	}
	pods := []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}
	l := several(t, "t-cnimulti", nets(`{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"macvlan","master":"${DEV}",
		"mtu":${MTU},"ipam":{"type":"host-local","ranges":[[{"subnet":"${PODS}"}]]}}]}`), pods)
	a, b := l.Pods()[0], l.Pods()[1]
	expect(t, "pod of another host on net1", true, carry(l, a, b, a.Attachments[1], b.Attachments[1]))

	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	_, err := store.UpAll(context.Background(), lab.Spec{Name: "t-cnidef", Pods: pods},
		nets(`{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"bridge","bridge":"mine0","isDefaultGateway":true,
		"ipam":{"type":"host-local","ranges":[[{"subnet":"${SUBNET}"}]]}}]}`), lab.Options{CNIPath: cniPath(t)})
	if err == nil || !strings.Contains(err.Error(), "the first network's alone") {
		t.Errorf("a second default route: got %v", err)
	}
}
