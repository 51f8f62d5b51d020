package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/stamp"
)

// orders is what the environment tells a child process, which is this test
// binary as one end of the traffic: real processes in pods.
type orders struct {
	Server *stream.Server
	Client *stream.Client
	Inject *injection
	// CrowdServer and CrowdClient are those of many connections.
	CrowdServer, CrowdClient *crowd
	// Agent is one to be killed.
	Agent *agentOrder
	// Line makes it a delay line of package impair, which gives the arguments.
	Line bool
}

const ordersEnv = "PW_AGENT_TEST_ORDERS"

func TestMain(m *testing.M) {
	text := os.Getenv(ordersEnv)
	if len(os.Args) == 6 && os.Args[1] == impair.LineArgument {
		text = `{"Line": true}`
	}
	if text == "" {
		// The programs of tests, such as iperf3, carry a lab's mark: a test of another package, which
		// runs alongside, looks for those that its own labs have left.
		bin, err := filepath.Abs("../../../bin")
		if err = errors.Join(err, os.Setenv("PATHWISE_LAB", "tests of the agent"),
			os.Setenv("PATH", os.Getenv("PATH")+":"+bin),
			// Those that are marked as parallel wait far more than they work.
			flag.Set("test.parallel", "4")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if err := obey(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func obey(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	switch {
	case o.Line:
		l := impair.Line{Port: impair.Port{Netns: os.Args[2], Dev: os.Args[3], Host: os.Args[4]}, Dir: os.Args[5], Seed: 1}
		return l.Run(ctx, os.Stdout)
	case o.Agent != nil:
		return o.Agent.run(ctx)
	case o.Inject != nil:
		return o.Inject.run()
	case o.CrowdServer != nil:
		return o.CrowdServer.serve(ctx, os.Stdout)
	case o.CrowdClient != nil:
		return o.CrowdClient.run(ctx, os.Stdout)
	case o.Server != nil:
		return stream.Serve(ctx, os.Stdout, *o.Server)
	}
	return stream.Run(ctx, os.Stdout, *o.Client)
}

// wish is a policy that goes where the test wants, and leaves failed paths as the
// real ones do, without their memory: what it does is known.
type wish struct {
	mu sync.Mutex
	to string
	// try is where a canary of all flows is to be.
	try string
}

func (w *wish) set(to string) { w.attempt(to, "") }

func (w *wish) attempt(to, try string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to, w.try = to, try
}

func (w *wish) Name() string { return "wish" }

func (w *wish) Step(s decide.State, ev decide.PairEvidence) (decide.State, decide.Decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state, up := map[string]decide.Condition{}, ""
	for _, p := range ev.Paths {
		state[p.Network] = p.State
		if p.State == decide.Up && p.Network != ev.Active && (up == "" || p.Network == w.to) {
			up = p.Network
		}
	}
	d := decide.Decision{Kind: decide.Stay, From: ev.Active, To: ev.Active, Buckets: decide.Buckets, Reason: "well here",
		Evidence: ev}
	switch {
	case (state[ev.Active] == decide.Failed || state[ev.Active] == decide.Ineligible) && up != "":
		d.Kind, d.To, d.Reason = decide.Failover, up, "the active path has failed"
	case w.to != ev.Active && state[w.to] == decide.Up:
		d.Kind, d.To, d.Reason = decide.Switch, w.to, "the test wants it"
	case w.try != "" && w.try != ev.Active && state[w.try] == decide.Up:
		d.Kind, d.To, d.Reason = decide.Canary, w.try, "the test tries it"
	}
	return s, d
}

// bed is a lab of two hosts with a pod each, a and b, and their agents.
type bed struct {
	t      *testing.T
	name   string
	pins   string
	state  lab.State
	cgroup string
	// barFirst is that of the agents' configuration.
	barFirst time.Duration
	agents   map[string]*running

	mu       sync.Mutex
	clusters map[string]Cluster // what each host's agent is told
}

// running is an agent of the bed.
type running struct {
	*Agent
	wish   *wish
	cancel context.CancelFunc
	done   chan error
}

func newBed(t *testing.T, name string, networks ...string) *bed {
	t.Helper()
	return newBedOf(t, lab.Spec{Name: name, Agents: true, Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}},
		networks...)
}

// newBedOf is a bed with other pods.
func newBedOf(t *testing.T, spec lab.Spec, networks ...string) *bed {
	t.Helper()
	name := spec.Name
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and eBPF")
	}
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	var nets []network.Network
	for _, n := range networks {
		found, err := catalogue.Find(n)
		if err != nil {
			t.Fatal(err)
		}
		nets = append(nets, found)
	}
	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	l, err := store.UpAll(context.Background(), spec, nets,
		lab.Options{CNIPath: lab.DefaultCNIPath(filepath.Join(bin, "pathwise"))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b := &bed{t: t, name: name, agents: map[string]*running{}, clusters: map[string]Cluster{}}
	if b.pins, err = store.MountBPF(name); err != nil {
		t.Fatal(err)
	}
	if b.state, err = store.Load(name); err != nil {
		t.Fatal(err)
	}
	if b.cgroup, err = telemetry.CgroupRoot(); err != nil {
		t.Fatal(err)
	}
	for _, h := range b.state.Hosts {
		b.clusters[h.Name] = Cluster{Hosts: b.state.Hosts, Pods: b.state.Pods, Equal: b.state.Spec.Networks}
	}
	t.Cleanup(func() {
		for _, h := range b.state.Hosts {
			b.stop(h.Name)
		}
	})
	return b
}

// narrow has pods be known, and spoken to, by their IPv6 addresses alone: a lab of IPv6 has
// given them addresses of both families.
func (b *bed) narrow() {
	for i := range b.state.Pods {
		ats := b.state.Pods[i].Attachments
		for n := range ats {
			ats[n].Addr = ats[n].Addr6
		}
	}
}

// tell changes what an agent is told of the cluster.
func (b *bed) tell(host string, change func(*Cluster)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clusters[host]
	c.Pods, c.Equal = slices.Clone(c.Pods), slices.Clone(c.Equal)
	change(&c)
	b.clusters[host] = c
}

// oneKey is what tells an agent of one key, always.
func oneKey(key string) func() (stamp.Keys, error) {
	return func() (stamp.Keys, error) { return stamp.Keys{Current: []byte(key)}, nil }
}

// start runs the agent of a host until stop.
func (b *bed) start(host string, change func(*Config)) *running {
	b.t.Helper()
	r := &running{wish: &wish{}, done: make(chan error, 1)}
	cfg := Config{Host: host, Keys: oneKey("a key of the test, 32 octets wide"), PinDir: filepath.Join(b.pins, host),
		Cgroup: b.cgroup, Policy: r.wish, RTOMin: DefaultRTOMin, Log: slog.New(slog.DiscardHandler),
		barFirst: b.barFirst,
		Source: func() (Cluster, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.clusters[host], nil
		}}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.Agent, err = New(cfg); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- r.Run(ctx) }()
	b.agents[host] = r
	b.await("agent of "+host+" to start", func() bool { return r.journal.last().ID > 0 })
	return r
}

// stop ends the agent of a host, if one runs.
func (b *bed) stop(host string) {
	r := b.agents[host]
	if r == nil {
		return
	}
	delete(b.agents, host)
	r.cancel()
	select {
	case err := <-r.done:
		if err != nil {
			b.t.Errorf("agent of %s: %v", host, err)
		}
	case <-time.After(20 * time.Second):
		stacks := make([]byte, 1<<20)
		b.t.Errorf("agent of %s does not end:\n%s", host, stacks[:runtime.Stack(stacks, true)])
	}
	if b.t.Failed() {
		events, _ := r.journal.since(0)
		for _, e := range events {
			b.t.Logf("%s %s %s %s %s>%s: %s", e.At.Format("05.000"), e.Host, e.Kind, e.Pair, e.From, e.To, e.Reason)
		}
	}
}

// reset undoes what a step has left that failed half-way: the next one begins with agents
// that know of nothing, and networks without a fault.
func (b *bed) reset() {
	b.t.Helper()
	for _, h := range b.state.Hosts {
		b.stop(h.Name)
		b.tell(h.Name, func(c *Cluster) { c.Pods, c.Equal = b.state.Pods, b.state.Spec.Networks })
		for _, network := range b.state.Spec.Networks {
			b.impair(network, impair.Impairment{}, "a", "agent-h1")
		}
		b.start(h.Name, nil)
	}
}

// longest bounds waiting: this machine may be busy with other tests.
const longest = 30 * time.Second

// await waits until what is awaited holds.
func (b *bed) await(what string, holds func() bool) {
	b.t.Helper()
	for end := time.Now().Add(longest); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			for _, host := range slices.Sorted(maps.Keys(b.agents)) {
				for _, path := range b.agents[host].Paths() {
					b.t.Logf("%s: %+v", host, path)
				}
			}
			b.t.Fatalf("waited %v without success for %s", longest, what)
		}
	}
}

// awaitFor waits until it holds for so long.
func (b *bed) awaitFor(what string, span time.Duration, holds func() bool) {
	b.t.Helper()
	since := time.Time{}
	b.await(what, func() bool {
		if !holds() {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > span
	})
}

// event waits for an event of an agent after number since.
func (r *running) event(b *bed, since int, what string, is func(Event) bool) (found Event) {
	b.t.Helper()
	b.await(what, func() bool {
		events, _ := r.journal.since(since)
		i := slices.IndexFunc(events, is)
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	})
	return found
}

// pair finds the agent's pair.
func (r *running) pair(local, remote string) *pair {
	r.members.Lock()
	defer r.members.Unlock()
	p := r.entries.firstNamed(local, remote)
	return p
}

// firstNamed is the pair of that name, of IPv4 if there are two; nil if there is none.
func (en *entries) firstNamed(local, remote string) *pair {
	if all := en.named(local, remote); len(all) > 0 {
		return all[0].pair
	}
	return nil
}

// opened tells whether the pair's other end has confirmed.
func (r *running) opened(local, remote string) bool {
	r.members.Lock()
	defer r.members.Unlock()
	p := r.entries.firstNamed(local, remote)
	return p != nil && !p.opened.IsZero()
}

// on tells where the maps have the pair's own flows: the network of all of
// them, or "".
func (r *running) on(local, remote string) string {
	r.members.Lock()
	defer r.members.Unlock()
	p := r.entries.firstNamed(local, remote)
	if p == nil {
		return ""
	}
	choices, err := p.local.plane.Choices(p.remote.UID)
	if err != nil {
		return ""
	}
	for _, c := range choices {
		if c.Path != choices[0].Path {
			return ""
		}
	}
	for _, way := range p.routes {
		if way.Index == choices[0].Path {
			return way.Network
		}
	}
	return ""
}

// tallies are the pair's packets on a network.
func (r *running) tallies(local, remote, network string) (sent, received uint64) {
	r.members.Lock()
	defer r.members.Unlock()
	p := r.entries.firstNamed(local, remote)
	if p == nil {
		return 0, 0
	}
	way, ok := p.routes.byNetwork(network)
	if !ok {
		return 0, 0
	}
	out, in, err := p.local.plane.Tallies(p.remote.UID, way.Index)
	if err != nil {
		return 0, 0
	}
	return out.Packets, in.Packets
}

// flows waits until both pods send over the network and nothing over others:
// a packet or two of keep-alives and neighbours aside, traffic is there alone. Paths that have failed for the
// pair are asked by echoes of both ends all the time.
func (b *bed) flows(network string) {
	b.t.Helper()
	const looks = 60 * time.Millisecond
	const echoes = 2 * uint64(1+looks/probeFailed) // and answers, each way
	a, z := b.agents["h1"], b.agents["h2"]
	count := func(network string) (n [4]uint64) {
		n[0], n[1] = a.tallies("a", "b", network)
		n[2], n[3] = z.tallies("b", "a", network)
		return n
	}
	b.await("both pods to send and receive over "+network+" alone", func() bool {
		here, others, may := count(network), map[string][4]uint64{}, map[string]uint64{}
		for _, n := range b.state.Spec.Networks {
			others[n] = count(n)
		}
		for _, p := range append(a.Paths(), z.Paths()...) {
			if p.State == string(decide.Failed) {
				may[p.Network] = echoes
			}
		}
		time.Sleep(looks)
		now := count(network)
		for i := range now {
			if now[i] < here[i]+3 {
				return false
			}
		}
		for n, was := range others {
			now := count(n)
			for i := range now {
				if n != network && now[i] > was[i]+may[n] {
					return false
				}
			}
		}
		return true
	})
}

// carried begins a flow of datagrams, which ends with the step, and waits until some go
// over the network, both ways. A flow that began before the pair may be b's: its data plane
// may have seen an answer first.
func (b *bed) carried(network string) {
	b.t.Helper()
	sent, received := b.agents["h1"].tallies("a", "b", network)
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("traffic over "+network, func() bool {
		s, r := b.agents["h1"].tallies("a", "b", network)
		return s >= sent+3 && r >= received+3
	})
}

// move lets the policy of h1 go to the network, and waits until traffic is there.
func (b *bed) move(network string) {
	b.t.Helper()
	b.agents["h1"].wish.set(network)
	b.flows(network)
}

func (b *bed) pod(name string) topo.Pod {
	i := slices.IndexFunc(b.state.Pods, func(p topo.Pod) bool { return p.Name == name })
	if i < 0 {
		b.t.Fatalf("no pod %s", name)
	}
	return b.state.Pods[i]
}

// impair makes the attachments of the pods to a network worse; no change is well.
func (b *bed) impair(network string, how impair.Impairment, pods ...string) {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, name := range pods {
		p := b.pod(name)
		at, ok := p.On(network)
		if !ok {
			b.t.Fatalf("%s is not on %s", name, network)
		}
		port := impair.Port{Netns: p.Netns, Dev: at.Dev, Host: b.state.Hosts[p.Host-1].Netns}
		if err := (impair.Impairer{Pins: b.pins, Line: []string{self, impair.LineArgument}}).Apply(port, how); err != nil {
			b.t.Fatal(err)
		}
	}
}

// load is traffic between pods, until stopped.
type load struct {
	t              *testing.T
	client, server *exec.Cmd
	// said is what the client says, and served what the server does.
	said, served *bytes.Buffer
	port         uint16 // the server's
}

// traffic sends from one pod to another's stable address.
func (b *bed) traffic(from, to string, c stream.Client) *load {
	b.t.Helper()
	return b.trafficIn(0, from, to, c)
}

// trafficIn is traffic in an IP family.
func (b *bed) trafficIn(family int, from, to string, c stream.Client) *load {
	b.t.Helper()
	l := &load{t: b.t, said: &bytes.Buffer{}, served: &bytes.Buffer{}}
	server, client := b.pod(to), b.pod(from)
	if c.Kind == stream.UDP {
		b.acquaint(client, server, family)
	}
	out := &listening{done: make(chan struct{}), into: l.served}
	listen := netip.AddrPortFrom(server.Address(family), 0)
	l.server = b.child(server, orders{Server: &stream.Server{Kind: c.Kind, Listen: listen,
		Record: stream.Record{Bin: stream.DefaultBin, Gap: stream.DefaultGap}}})
	l.server.Stdout = out
	if err := netns.Start(server.Netns, l.server); err != nil {
		b.t.Fatal(err)
	}
	select {
	case <-out.done:
	case <-time.After(longest):
		b.t.Fatalf("the server says nothing: %s", l.served)
	}
	c.Target, c.Bind, l.port = out.at, client.Address(family), out.at.Port()
	c.Patience, c.Record = 5*time.Second, stream.Record{Bin: stream.DefaultBin, Gap: stream.DefaultGap}
	if c.Kind == stream.UDP {
		c.Patience = time.Second // what is lost does not come, and is waited for
	}
	l.client = b.child(client, orders{Client: &c})
	l.client.Stdout = l.said
	if err := netns.Start(client.Netns, l.client); err != nil {
		b.t.Fatal(err)
	}
	return l
}

// acquaint has the agents of two pods know them as a pair, where they can. Datagrams that begin before belong to the
// end whose packet a data plane sees first: on a busy machine the one that answers, whose flows the other's choices
// do not move.
func (b *bed) acquaint(from, to topo.Pod, family int) {
	one, two := b.agents[fmt.Sprintf("h%d", from.Host)], b.agents[fmt.Sprintf("h%d", to.Host)]
	known := func() bool { return one.opened(from.Name, to.Name) && two.opened(to.Name, from.Name) }
	for end := time.Now().Add(3 * time.Second); one != nil && two != nil && !known() && time.Now().Before(end); {
		cmd := exec.Command("ping", "-q", "-c", "1", "-W", "1", to.Address(family).String())
		if err := netns.Start(from.Netns, cmd); err != nil {
			b.t.Fatal(err)
		}
		_ = cmd.Wait() // it may be lost
		time.Sleep(20 * time.Millisecond)
	}
}

func (b *bed) child(p topo.Pod, o orders) *exec.Cmd {
	raw, err := json.Marshal(o)
	if err != nil {
		b.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), ordersEnv+"="+string(raw))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b.t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // a test that failed has left it
			_ = cmd.Wait()
		}
	})
	return cmd
}

// stop ends the traffic and returns what the client saw.
func (l *load) stop() stream.Report {
	l.t.Helper()
	for _, cmd := range []*exec.Cmd{l.client, l.server} {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			l.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			l.t.Error(err)
		}
	}
	r, err := stream.Parse(l.said.Bytes())
	if err != nil {
		l.t.Errorf("the client's report: %v", err)
	}
	return r
}

// listening reads a server's first line.
type listening struct {
	into *bytes.Buffer
	done chan struct{}
	at   netip.AddrPort
	seen bool
}

func (l *listening) Write(p []byte) (int, error) {
	l.into.Write(p)
	if !l.seen {
		line, err := bufio.NewReader(bytes.NewReader(l.into.Bytes())).ReadString('\n')
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "listening "); err == nil && ok {
			if l.at, err = netip.ParseAddrPort(at); err == nil {
				l.seen = true
				close(l.done)
			}
		}
	}
	return len(p), nil
}

// strangers sums what the data planes of a host have dropped as strangers'.
func (r *running) strangers() uint64 {
	_, e := r.totals()
	return e.Strangers
}

// moved counts the buckets that are on other paths than the default.
func moved(choices [dataplane.Buckets]dataplane.Choice) (n int) {
	for _, c := range choices {
		if c.Path != 0 {
			n++
		}
	}
	return n
}

// transmitted counts what a pod's interface has sent.
func (b *bed) transmitted(p topo.Pod, dev string) uint64 {
	b.t.Helper()
	h, err := netns.Netlink(p.Netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer h.Close()
	l, err := h.LinkByName(dev)
	if err != nil {
		b.t.Fatal(err)
	}
	return l.Attrs().Statistics.TxPackets
}

// neighbour is the state of a pod's neighbour entry; 0 where there is none.
func (b *bed) neighbour(p topo.Pod, addr netip.Addr) int {
	b.t.Helper()
	h, err := netns.Netlink(p.Netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer h.Close()
	all, err := h.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, n := range all {
		if got, ok := netip.AddrFromSlice(n.IP); ok && got.Unmap() == addr {
			return n.State
		}
	}
	return 0
}

// run runs a program in a pod and returns what it prints.
func (b *bed) run(p topo.Pod, argv ...string) string {
	b.t.Helper()
	return b.runIn(p.Netns, argv...)
}

// inPod starts a program in a pod, until it is stopped or the test ends.
func (b *bed) inPod(pod string, argv ...string) (stop func()) {
	b.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := netns.Start(b.pod(pod).Netns, cmd); err != nil {
		b.t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may be gone
			_ = cmd.Wait()
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// runIn is run in a namespace, such as a host's.
func (b *bed) runIn(ns string, argv ...string) string {
	b.t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := netns.Start(ns, cmd); err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		b.t.Fatalf("%v: %v: %s", argv, err, out.String())
	}
	return out.String()
}

// last returns the newest event.
func (j *journal) last() Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.events) == 0 {
		return Event{}
	}
	return j.events[len(j.events)-1]
}
