package openshift_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/openshift"
	"pathwise.dev/pathwise/internal/topo"
)

// tenants puts pods into the tenant that their names begin with.
func tenants(pod string) uint32 {
	switch pod[0] {
	case 'r':
		return 10
	case 'b':
		return 20
	default:
		return 0
	}
}

// up builds a lab of two tenants, red and blue, and an administrator.
func up(t *testing.T, name string, p openshift.Pipeline) *lab.Lab {
	t.Helper()
	bin, err := filepath.Abs("../../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	n := openshift.New(p, tenants)
	cniPath := []string{filepath.Join(bin, "cni")}
	if missing := network.NewMachine(cniPath).Missing(n.Info().Needs); len(missing) > 0 {
		t.Skipf("this machine lacks %v", missing)
	}
	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	l, err := store.Up(t.Context(),
		lab.Spec{Name: name, Hosts: 2, Pods: []lab.PodSpec{{Name: "red1", Host: 1}, {Name: "red2", Host: 1},
			{Name: "red3", Host: 2}, {Name: "blue1", Host: 1}, {Name: "blue3", Host: 2}, {Name: "admin", Host: 2}}},
		n, lab.Options{CNIPath: cniPath, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("lab down: %v", err)
		}
	})
	return l
}

func pod(t *testing.T, l *lab.Lab, name string) topo.Pod {
	t.Helper()
	i := slices.IndexFunc(l.Pods(), func(p topo.Pod) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no pod %s", name)
	}
	return l.Pods()[i]
}

// TestTenants: pods reach those of their own tenant on any node, none of another,
// and tenant 0 reaches and is reached by all.
func TestTenants(t *testing.T) {
	for i, p := range []openshift.Pipeline{openshift.Whole, openshift.Shortened} {
		t.Run(openshift.New(p, tenants).Info().Name, func(t *testing.T) {
			keptApart(t, up(t, fmt.Sprintf("t-sdn-tenants%d", i), p))
		})
	}
}

func keptApart(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, c := range []struct {
		from, to string
		reaches  bool
	}{
		{"red1", "red2", true}, {"red1", "red3", true}, {"red3", "red2", true}, {"blue1", "blue3", true},
		{"red1", "blue1", false}, {"blue1", "red1", false}, {"red1", "blue3", false}, {"blue3", "red2", false},
		{"admin", "red1", true}, {"admin", "blue3", true}, {"red3", "admin", true}, {"blue1", "admin", true},
	} {
		from, to := pod(t, l, c.from), pod(t, l, c.to)
		wait := "-W2"
		if !c.reaches {
			wait = "-W0.4"
		}
		_, err := l.Exec(t.Context(), from, "ping", "-c1", wait, to.Addr().String())
		if (err == nil) != c.reaches {
			t.Errorf("%s to %s: reached %v, want %v (%v)", c.from, c.to, err == nil, c.reaches, err)
		}
	}
}

// TestAnswersOfAnotherTenant: that a packet was refused does not open the way back.
func TestAnswersOfAnotherTenant(t *testing.T) {
	l := up(t, "t-sdn-answers", openshift.Whole)
	red, blue := pod(t, l, "red1"), pod(t, l, "blue3")
	for _, c := range [][2]topo.Pod{{red, blue}, {blue, red}, {red, blue}} {
		if _, err := l.Exec(t.Context(), c[0], "ping", "-c2", "-i0.2", "-W0.4", c[1].Addr().String()); err == nil {
			t.Errorf("%s reaches %s", c[0].Name, c[1].Name)
		}
	}
}

// TestSpoofing: a pod that takes another's address gets no packet out (table 20).
func TestSpoofing(t *testing.T) {
	l := up(t, "t-sdn-spoof", openshift.Whole)
	red, blue, victim := pod(t, l, "red1"), pod(t, l, "blue1"), pod(t, l, "red2")
	for _, argv := range [][]string{{"ip", "addr", "add", red.Addr().String() + "/32", "dev", "eth0"},
		{"ip", "neigh", "replace", victim.Addr().String(), "lladdr", victim.Attachments[0].MAC, "dev", "eth0"}} {
		if _, err := l.Exec(t.Context(), blue, argv...); err != nil {
			t.Fatal(err)
		}
	}
	before := received(t, l, victim)
	_, _ = l.Exec(t.Context(), blue, "ping", "-c3", "-i0.1", "-W0.3", "-I", red.Addr().String(), victim.Addr().String())
	if after := received(t, l, victim); after != before {
		t.Errorf("the victim received %d packets from a pod with another's address", after-before)
	}
}

// received counts the ICMP messages that the pod's kernel has taken in.
func received(t *testing.T, l *lab.Lab, p topo.Pod) (n int) {
	t.Helper()
	err := l.Do(p, func() error {
		raw, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		m := regexp.MustCompile(`(?m)^Icmp: (\d+)`).FindSubmatch(raw)
		if m == nil {
			return fmt.Errorf("no ICMP counters in %q", raw)
		}
		_, err = fmt.Sscan(string(m[1]), &n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ask runs a program of Open vSwitch against the first host's.
func ask(t *testing.T, l *lab.Lab, argv ...string) string {
	t.Helper()
	res, err := l.Run(t.Context(), l.Hosts()[0].Netns, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return string(res)
}

// rules lists those of the first host.
func rules(t *testing.T, l *lab.Lab) string {
	t.Helper()
	return ask(t, l, "ovs-ofctl", "-OOpenFlow14", "--no-stats", "--no-names", "dump-flows",
		"unix:"+filepath.Join(l.Dir(), "ovs-h1", "sdn-br0.mgmt"))
}

// traced follows a connection's first packet from a pod of the first host.
func traced(t *testing.T, l *lab.Lab, port string, from, to topo.Pod) string {
	t.Helper()
	return ask(t, l, "ovs-appctl", "-t", filepath.Join(l.Dir(), "ovs-h1", "vswitchd.ctl"), "ofproto/trace", "sdn-br0",
		fmt.Sprintf("in_port=%s,tcp,dl_src=%s,dl_dst=%s,nw_src=%v,nw_dst=%v,nw_ttl=64,tcp_dst=80", port,
			from.Attachments[0].MAC, to.Attachments[0].MAC, from.Addr(), to.Addr()),
		"--ct-next", "trk,new", "--ct-next", "trk,new")
}

// TestPipeline wants the tables and rules that Busch and Kammerer (2021) list,
// and packets to go through them in their order.
func TestPipeline(t *testing.T) {
	l := up(t, "t-sdn-pipe", openshift.Whole)
	flows := rules(t, l)
	for _, table := range []int{10, 20, 21, 25, 30, 40, 50, 60, 70, 80, 90, 100} { // table 0 goes without saying
		if !strings.Contains(flows, fmt.Sprintf(" table=%d,", table)) &&
			!strings.Contains(flows, fmt.Sprintf("table=%d, ", table)) {
			t.Errorf("no rule in table %d", table)
		}
	}
	red, near, far, blue := pod(t, l, "red1"), pod(t, l, "red2"), pod(t, l, "red3"), pod(t, l, "blue1")
	checkRules(t, flows, red)
	for _, c := range []struct {
		name   string
		to     topo.Pod
		tables []string
		ends   string
	}{
		{"same node", near, []string{"0", "0", "20", "21", "30", "70", "80"}, "output:NXM_NX_REG2"},
		{"other node", far, []string{"0", "0", "20", "21", "30", "90"}, "set_field:"},
		{"other tenant", blue, []string{"0", "0", "20", "21", "30", "70", "80"}, "drop"},
	} {
		trace := traced(t, l, portOf(t, flows, red), red, c.to)
		if got := tables(trace, "sdn-br0"); !slices.Equal(got, c.tables) {
			t.Errorf("%s: a packet passes tables %v, want %v:\n%s", c.name, got, c.tables, trace)
		}
		if !strings.Contains(trace, c.ends) {
			t.Errorf("%s: no %q in\n%s", c.name, c.ends, trace)
		}
	}
}

// tables lists the tables that a trace passes on the bridge, in order.
func tables(trace, bridge string) (out []string) {
	on := true
	for line := range strings.Lines(trace) {
		if m := regexp.MustCompile(`^ *bridge\("([^"]+)"\)`).FindStringSubmatch(line); m != nil {
			on = m[1] == bridge
		}
		if m := regexp.MustCompile(`^ *(\d+)\. `).FindStringSubmatch(line); m != nil && on {
			out = append(out, m[1])
		}
	}
	return out
}

// portOf finds the OpenFlow number of a pod's port in its rule of table 20.
func portOf(t *testing.T, flows string, p topo.Pod) string {
	t.Helper()
	m := regexp.MustCompile(`table=20,[^\n]*ip,in_port=(\d+),nw_src=` + regexp.QuoteMeta(p.Addr().String()) +
		" ").FindStringSubmatch(flows)
	if m == nil {
		t.Fatalf("no rule for %v in table 20 of\n%s", p.Addr(), flows)
	}
	return m[1]
}

// checkRules wants rules 1 to 10, with this lab's addresses.
func checkRules(t *testing.T, flows string, p topo.Pod) {
	t.Helper()
	port, pod, node := portOf(t, flows, p), p.Addr(), "10.77.1.1"
	for i, want := range []string{
		`priority=300,ct_state=-trk,ip actions=ct\(table=0\)`,
		`priority=100,ip actions=goto_table:20`,
		`table=20, priority=100,ip,in_port=` + port + `,nw_src=` + pod.String() +
			` actions=(load:0xa->NXM_NX_REG0\[\]|set_field:0xa->reg0),goto_table:21`,
		`table=20, priority=100,arp,in_port=` + port + `,arp_spa=` + pod.String() + `,arp_sha=`,
		`table=21, priority=200,ip,nw_dst=10.77.0.0/16 actions=ct\(commit,table=30\)`,
		`table=30, priority=300,ct_state=\+rpl,ip,nw_dst=10.77.1.0/24 actions=ct\(table=70,nat\)`,
		`table=30, priority=200,ip,nw_dst=10.77.1.0/24 actions=goto_table:70`,
		`table=70, priority=100,ip,nw_dst=` + pod.String() + ` actions=(load:0xa->NXM_NX_REG1\[\]|set_field:0xa->reg1),(load:[0-9a-fx]+->NXM_NX_REG2\[\]|set_field:[0-9a-fx]+->reg2),goto_table:80`,
		`table=80, priority=200,ct_state=\+rpl,ip actions=output:NXM_NX_REG2\[\]`,
		`table=80, priority=300,ip,nw_src=` + node + ` actions=output:NXM_NX_REG2\[\]`,
	} {
		if !regexp.MustCompile(want).MatchString(flows) {
			t.Errorf("rule %d: no %s", i+1, want)
		}
	}
	if t.Failed() {
		t.Log(flows)
	}
}
