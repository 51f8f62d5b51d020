package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// agentOrder has a child be the agent of a host.
type agentOrder struct {
	Host, Pins, Policy string
	Cluster            Cluster
}

func (o agentOrder) run(ctx context.Context) error {
	policy, err := decide.ParsePolicy(o.Policy, decide.Table{}, 1)
	if err != nil {
		return err
	}
	cgroup, err := telemetry.CgroupRoot()
	if err != nil {
		return err
	}
	a, err := New(Config{Host: o.Host, PinDir: o.Pins, Cgroup: cgroup, Policy: policy, RTOMin: DefaultRTOMin,
		Keys: oneKey("a key of the test, 32 octets wide"), Source: func() (Cluster, error) { return o.Cluster, nil }})
	if err != nil {
		return err
	}
	fmt.Println("open")
	return a.Run(ctx)
}

// TestUpgradesByKill: agents of both hosts, which are processes, are ended by SIGTERM and by
// SIGKILL, and replaced by those of the other layout: layout 1's by ours and ours by layout
// 1's, before leases have ended. No connection is reset, no datagram lost, and nothing
// leaves on a path with a stable address. Package steer's test of upgrades has what their
// data planes do in detail, 20 times; of agents "make soak" has 20, as each takes seconds.
func TestUpgradesByKill(t *testing.T) {
	rounds := 1
	if s := os.Getenv(upgradesEnv); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}

	b := newBed(t, "t-agt-upgrade", "routed-bgp", "vxlan")
	u := &upgrades{bed: b, former: filepath.Join(t.TempDir(), "steer.test")}
	if out, err := exec.Command("go", "test", "-c", "-o", u.former, "../dataplane").CombinedOutput(); err != nil {
		t.Fatalf("build the former agent: %v: %s", err, out)
	}
	u.watch()
	for i := range rounds {
		u.round(i)
	}
	bare, resets := u.seen("untranslated"), u.seen("resets")
	t.Logf("%d upgrades and downgrades: %d packets untranslated, %d resets; longest stall TCP %v, request-response %v; UDP %d of %d lost",
		2*rounds, bare, resets, u.tcp, u.rr, u.lost, u.sent)
	if bare != 0 || resets != 0 {
		t.Errorf("%d packets untranslated, %d resets", bare, resets)
	}
}

// upgradesEnv is how many times agents are replaced by others and back.
const upgradesEnv = "PATHWISE_UPGRADES"

// upgrades is what happened in them.
type upgrades struct {
	*bed
	former     string
	agents     []*exec.Cmd
	tcp, rr    time.Duration
	lost, sent int64
}

// round begins with layout 1's agents, among which traffic begins, and ends with them.
func (u *upgrades) round(i int) {
	signal := []os.Signal{syscall.SIGTERM, syscall.SIGKILL}[i%2]
	u.kill(signal)
	u.layout1()
	if i > 0 {
		// Ours are dead, and may steer until their lease ends. Layout 1 never learns a flow
		// again whose beginning it did not see alone: what begins now would stay native.
		time.Sleep(dataplane.DefaultLease)
	}
	tcp := u.traffic("a", "b", stream.Client{Kind: stream.TCP, Connections: 1, Rate: 8e6})
	rr := u.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1, Requests: stream.Sizes{Min: 64, Max: 64},
		Think: 2 * time.Millisecond})
	udp := u.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 2 * time.Millisecond, Echo: true})
	u.steered("layout 1's agents")
	u.kill(signal)
	for _, h := range []string{"h1", "h2"} {
		u.process(u.child(u.pod("a"),
			orders{Agent: &agentOrder{Host: h, Pins: filepath.Join(u.pins, h), Policy: "static:vxlan", Cluster: u.clusters[h]}}))
		time.Sleep(time.Duration(i%3) * 200 * time.Millisecond)
	}
	time.Sleep(time.Duration(1+i%3) * 500 * time.Millisecond) // some are taken out as they begin
	u.steered("ours")
	u.kill(signal)
	u.layout1()
	time.Sleep(700 * time.Millisecond)
	u.judge(i, tcp.stop(), rr.stop(), udp.stop())
}

// judge adds up what applications felt.
func (u *upgrades) judge(i int, tcp, rr, udp stream.Report) {
	for name, r := range map[string]stream.Report{"TCP": tcp, "request-response": rr} {
		if c := r.Counts.Connections; c.Lost > 0 || c.Opened == 0 || r.Counts.Corrupt > 0 {
			u.t.Errorf("round %d: %s: %+v, %v", i, name, c, r.Errors.Reasons)
		}
	}
	d := udp.Counts.Datagrams
	if d.Received == 0 || d.Lost > 0 || d.Duplicated > 0 || d.Foreign > 0 {
		u.t.Errorf("round %d: UDP: %+v, %v", i, d, udp.Errors.Reasons)
	}
	worst, _ := stream.Stall(tcp, 0, tcp.Ended)
	u.tcp = max(u.tcp, worst.Length())
	worst, _ = stream.Stall(rr, 0, rr.Ended)
	u.rr = max(u.rr, worst.Length())
	u.lost, u.sent = u.lost+int64(d.Lost), u.sent+int64(d.Sent)
}

// process starts an agent and waits until it says that it is there.
func (u *upgrades) process(cmd *exec.Cmd) {
	u.t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		u.t.Fatalf("start an agent: %v", err)
	}
	u.agents = append(u.agents, cmd)
}

// kill ends the agents that there are.
func (u *upgrades) kill(signal os.Signal) {
	u.t.Helper()
	for _, cmd := range u.agents {
		if err := cmd.Process.Signal(signal); err != nil {
			u.t.Error(err)
		}
		_ = cmd.Wait() // says how it was ended
	}
	u.agents = nil
}

// layout1 starts the agents of a version with layout 1.
func (u *upgrades) layout1() {
	u.t.Helper()
	object, err := filepath.Abs("../dataplane/testdata/layout-1.o")
	if err != nil {
		u.t.Fatal(err)
	}
	for _, ends := range [][2]string{{"a", "b"}, {"b", "a"}} {
		local, remote := u.pod(ends[0]), u.pod(ends[1])
		r := route.Between(local, remote)[1]
		order, err := json.Marshal(map[string]any{"Object": object, "Netns": local.Netns, "UID": remote.UID,
			"Local": local.Addr(), "Remote": remote.Addr(), "To": r.Index,
			"Dir": filepath.Join(u.pins, fmt.Sprintf("h%d", local.Host), podPins+local.UID),
			"Paths": []map[string]any{{"Index": r.Index, "Dev": r.Local.Dev, "MTU": r.MTU(), "Local": r.Local.Addr,
				"Remote": r.Remote.Addr}}})
		if err != nil {
			u.t.Fatal(err)
		}
		cmd := exec.Command(u.former, "-test.run=^TestLayout1Process$")
		cmd.Env = append(os.Environ(), "PATHWISE_STEER_LAYOUT1="+string(order))
		cmd.Stderr, cmd.SysProcAttr = os.Stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		u.t.Cleanup(func() {
			if cmd.Process != nil && cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
		u.process(cmd)
	}
}

// watch counts what comes out of the pods on their path, and what of it has a stable
// address or is a reset.
func (u *upgrades) watch() {
	u.t.Helper()
	rules := "table netdev t {\n"
	for _, c := range []string{"all", "untranslated", "resets"} {
		rules += " counter c-" + c + " { }\n"
	}
	stable := fmt.Sprintf("{ %s, %s }", u.pod("a").Addr(), u.pod("b").Addr())
	for _, name := range []string{"a", "b"} {
		p := u.pod(name)
		rules := rules + fmt.Sprintf(" chain c {\n  type filter hook ingress device %q priority 0;\n  counter name c-all\n  ip saddr %s counter name c-untranslated\n"+
			"  ip daddr %s counter name c-untranslated\n  tcp flags & rst == rst counter name c-resets\n }\n}\n", u.hostEnd(p), stable, stable)
		file := filepath.Join(u.t.TempDir(), "rules")
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			u.t.Fatal(err)
		}
		u.runIn(u.state.Hosts[p.Host-1].Netns, "nft", "-f", file)
	}
}

// hostEnd is the interface on the host that the pod's on vxlan is joined to.
func (u *upgrades) hostEnd(p topo.Pod) string {
	u.t.Helper()
	at, _ := p.On("vxlan")
	link := func(ns string, find func(*netlink.Handle) (netlink.Link, error)) netlink.Link {
		h, err := netns.Netlink(ns)
		if err != nil {
			u.t.Fatal(err)
		}
		defer h.Close()
		l, err := find(h)
		if err != nil {
			u.t.Fatal(err)
		}
		return l
	}
	own := link(p.Netns, func(h *netlink.Handle) (netlink.Link, error) { return h.LinkByName(at.Dev) })
	return link(u.state.Hosts[p.Host-1].Netns,
		func(h *netlink.Handle) (netlink.Link, error) { return h.LinkByIndex(own.Attrs().ParentIndex) }).Attrs().Name
}

// seen reads one of watch's counters.
func (u *upgrades) seen(name string) (n int) {
	u.t.Helper()
	for _, pod := range []string{"a", "b"} {
		_, rest, _ := strings.Cut(u.runIn(u.state.Hosts[u.pod(pod).Host-1].Netns, "nft", "list counter netdev t c-"+name),
			"packets ")
		var some int
		if _, err := fmt.Sscan(rest, &some); err != nil {
			u.t.Fatalf("counter %s: %v", name, err)
		}
		n += some
	}
	return n
}

// steered waits until a good deal of traffic goes over the path.
func (u *upgrades) steered(by string) {
	u.t.Helper()
	before := u.seen("all")
	u.await("traffic to be steered by "+by, func() bool { return u.seen("all") >= before+500 })
}
