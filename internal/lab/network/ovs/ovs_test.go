package ovs_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/openshift"
	"pathwise.dev/pathwise/internal/lab/network/ovn"
	"pathwise.dev/pathwise/internal/lab/network/ovs"
	"pathwise.dev/pathwise/internal/topo"
)

// up builds a lab with a pod on each host and a second one on the first.
func up(t *testing.T, spec lab.Spec, nets ...network.Network) *lab.Lab {
	t.Helper()
	bin, err := filepath.Abs("../../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	cniPath := []string{filepath.Join(bin, "cni")}
	for _, n := range nets {
		if missing := network.NewMachine(cniPath).Missing(n.Info().Needs); len(missing) > 0 {
			t.Skipf("this machine lacks %v", missing)
		}
	}
	for h := 1; h <= spec.Hosts; h++ {
		spec.Pods = append(spec.Pods, lab.PodSpec{Name: "p" + strconv.Itoa(h), Host: h})
	}
	spec.Pods = append(spec.Pods, lab.PodSpec{Name: "near", Host: 1})
	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	l, err := store.UpAll(t.Context(), spec, nets, lab.Options{CNIPath: cniPath, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("lab down: %v", err)
		}
	})
	t.Logf("built in %v, daemons ready %v later", l.Built.Round(time.Millisecond), l.Waited.Round(time.Millisecond))
	return l
}

// vsctl asks the first host's database.
func vsctl(t *testing.T, l *lab.Lab, args ...string) string {
	t.Helper()
	db := "--db=unix:" + filepath.Join(l.Dir(), "ovs-h1", "db.sock")
	out, err := l.Run(t.Context(), l.Hosts()[0].Netns, append([]string{"ovs-vsctl", db, "--timeout=5"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func ping(t *testing.T, l *lab.Lab, from topo.Pod, a, z topo.Attachment, args ...string) error {
	t.Helper()
	argv := append([]string{"ping", "-c1", "-W2", "-I", a.Addr.String()}, args...)
	_, err := l.Exec(t.Context(), from, append(argv, z.Addr.String())...)
	return err
}

// TestJumbo has three hosts, each joined to both others, and an underlay MTU that
// the networks must make use of. A broadcast must end, and not circle.
func TestJumbo(t *testing.T) {
	for _, kind := range []ovs.Kind{ovs.Flat, ovs.VLAN, ovs.VXLAN, ovs.Geneve} {
		n := ovs.New(kind)
		t.Run(n.Info().Name, func(t *testing.T) {
			l := up(t, lab.Spec{Name: "t-ovs-jumbo", Hosts: 3, MTU: 9000}, n)
			pods := l.Pods()
			for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 0}, {0, 3}, {3, 2}} {
				from, to := pods[pair[0]], pods[pair[1]]
				a, z := from.Attachments[0], to.Attachments[0]
				if a.MTU != 9000-n.Info().Overhead {
					t.Errorf("%s has MTU %d", from.Name, a.MTU)
				}
				if err := ping(t, l, from, a, z, "-Mdo", "-s", strconv.Itoa(a.MTU-28)); err != nil {
					t.Errorf("%s to %s with packets of the MTU: %v", from.Name, to.Name, err)
				}
			}
			before := packets(t, l)
			_, _ = l.Exec(t.Context(), pods[0], "ping", "-c1", "-b", "-W0.3", "255.255.255.255")
			if sent := packets(t, l) - before; sent > 200 {
				t.Errorf("a broadcast became %d packets: it circles", sent)
			}
		})
	}
}

// packets counts what passed the devices between the hosts.
func packets(t *testing.T, l *lab.Lab) (n uint64) {
	t.Helper()
	for _, d := range l.Plug().Crossing {
		nl, err := l.Netlink(d.Netns)
		if err != nil {
			t.Fatal(err)
		}
		link, err := nl.LinkByName(d.Name)
		if err != nil {
			t.Fatal(err)
		}
		n += link.Attrs().Statistics.RxPackets + link.Attrs().Statistics.TxPackets
	}
	return n
}

// TestDatapath wants the result to say which datapath the bridge has.
func TestDatapath(t *testing.T) {
	l := up(t, lab.Spec{Name: "t-ovs-dp", Hosts: 2}, ovs.New(ovs.VXLAN))
	has := strings.TrimSpace(vsctl(t, l, "get", "Bridge", "ovs-vxlan", "datapath_type"))
	said := strings.Join(l.Plug().Notes, "; ")
	want := map[string]string{"system": ", kernel datapath", "netdev": ", user-space datapath"}[has]
	if want == "" || !strings.HasPrefix(said, "Open vSwitch ") || !strings.HasSuffix(said, want) ||
		strings.Contains(said, "unknown") {
		t.Errorf("bridge has datapath %s, the result says %q", has, said)
	}
}

// TestXDP wants all ports to be AF_XDP's, the underlay's too: with one of another
// kind the whole is an order of magnitude slower than either.
func TestXDP(t *testing.T) {
	l := up(t, lab.Spec{Name: "t-ovs-xdp", Hosts: 2}, ovs.New(ovs.AFXDP))
	for line := range strings.Lines(vsctl(t, l, "--format=csv", "--no-headings", "--columns=name,type,error", "list",
		"Interface")) {
		f := strings.Split(strings.TrimSpace(line), ",")
		if len(f) != 3 || f[2] != "[]" || f[1] != "afxdp-nonpmd" && f[1] != "internal" {
			t.Errorf("port %q", line)
		}
	}
	if s := strings.Join(l.Plug().Notes, "; "); !strings.Contains(s, "user-space datapath; ports of type afxdp-nonpmd") {
		t.Errorf("notes say %q", s)
	}
}

// TestXDPNeedsRoom: frames that no XDP program of a veth takes are refused with
// the number that is.
func TestXDPNeedsRoom(t *testing.T) {
	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	_, err := store.Up(t.Context(), lab.Spec{Name: "t-ovs-room", Hosts: 1, MTU: 9000}, ovs.New(ovs.AFXDP), lab.Options{})
	if err == nil || !strings.Contains(err.Error(), "expected 3498 or less") {
		t.Errorf("got %v", err)
	}
}

// TestTogether puts pods on four networks of one host's Open vSwitch at once.
func TestTogether(t *testing.T) {
	nets := []network.Network{ovs.New(ovs.VXLAN), openshift.New(openshift.Whole, openshift.OneTenant), ovn.New(),
		ovs.New(ovs.Flat)}
	l := up(t, lab.Spec{Name: "t-ovs-all", Hosts: 2, Agents: true}, nets...)
	pods := l.Pods()
	for i, n := range nets {
		for _, pair := range [][2]int{{0, 1}, {1, 0}, {0, 2}} {
			from, to := pods[pair[0]], pods[pair[1]]
			if err := ping(t, l, from, from.Attachments[i], to.Attachments[i]); err != nil {
				t.Errorf("%s to %s on %s: %v", from.Name, to.Name, n.Info().Name, err)
			}
		}
	}
	daemons, err := filepath.Glob(filepath.Join(l.Dir(), "ovs-vswitchd-*.log"))
	if err != nil || len(daemons) != 2 {
		t.Errorf("two hosts have the switches %v (%v)", daemons, err)
	}
}

// TestDelete: CNI DEL gives a pod's device back to the host by the name that it
// had there, and the address back to host-local.
func TestDelete(t *testing.T) {
	l := up(t, lab.Spec{Name: "t-ovs-del", Hosts: 1}, ovs.New(ovs.VXLAN))
	pod, host := l.Pods()[0], l.Hosts()[0]
	caches, err := filepath.Glob(filepath.Join(l.Dir(), "cni-cache", "results", "*-"+pod.Name+"-eth0"))
	if err != nil || len(caches) != 1 {
		t.Fatalf("pod %s has the CNI results %v (%v)", pod.Name, caches, err)
	}
	var cached struct{ Config []byte }
	var list struct {
		CNIVersion, Name string
		Plugins          []map[string]any
	}
	raw, err := os.ReadFile(caches[0])
	if err := errors.Join(err, json.Unmarshal(raw, &cached), json.Unmarshal(cached.Config, &list)); err != nil ||
		len(list.Plugins) != 1 {
		t.Fatalf("CNI result %s: %v", raw, err)
	}
	conf := list.Plugins[0]
	conf["cniVersion"], conf["name"] = list.CNIVersion, list.Name
	if raw, err = json.Marshal(conf); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs("../../../../bin/cni")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Run(t.Context(), host.Netns, "sh", "-c", "CNI_COMMAND=DEL CNI_IFNAME=eth0 CNI_CONTAINERID=pw-t-ovs-del-"+
		pod.Name+
		" CNI_NETNS=/run/netns/"+pod.Netns+" CNI_PATH="+bin+" "+filepath.Join(bin, "host-device")+" < "+file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), host.Netns, "ip", "link", "show", "dev", conf["device"].(string)); err != nil {
		t.Errorf("the host has not got the device back: %v", err)
	}
	if _, err := l.Exec(t.Context(), pod, "ip", "link", "show", "dev", "eth0"); err == nil {
		t.Error("the pod still has its interface")
	}
	leases, err := filepath.Glob(filepath.Join(conf["ipam"].(map[string]any)["dataDir"].(string), list.Name, "10.*"))
	if err != nil || len(leases) != 1 { // the other pod's
		t.Errorf("leases %v (%v)", leases, err)
	}
}

func TestVersion(t *testing.T) {
	for raw, want := range map[string]string{
		"ovs-vswitchd (Open vSwitch) 3.1.0\n":                                             "3.1.0",
		"ovn-controller 23.03.1\nOpen vSwitch Library 3.1.1\nOpenFlow versions 0x6:0x6\n": "23.03.1",
		"": "of unknown version",
	} {
		if got := ovs.Version([]byte(raw)); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
}
