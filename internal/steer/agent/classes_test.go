package agent

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestClassesGoApart: of one pair, iperf3 goes to the network with more rate and a dialogue
// stays on the one with less delay, in both directions, with one connection of each. Both
// rows are told, and as the bulk ends the pair is one again.
func TestClassesGoApart(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
	}{{"upload", nil}, {"download", []string{"-R"}}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, "t-agt-class", "vxlan", "macvlan")
			b.limit()
			dialogue := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1,
				Size: 200, Requests: stream.Sizes{Min: 100, Max: 100}, Think: 2 * time.Millisecond})
			b.carried("vxlan")
			stop := b.iperf3("a", "b", 5301, c.args...)
			b.await("both classes to be on their networks", func() bool {
				return b.classOn(decide.Bulk) == "macvlan" && b.classOn(decide.Interactive) == "vxlan"
			})
			b.goApart()
			// Before it is known what they are, all go where the bulk gets more.
			ofClass := func(e Event) bool { return e.Class != "" }
			if e := b.agents["h1"].event(b, 0, "an event of one class", ofClass); e.Pair != "a>b" {
				t.Errorf("event %+v", e)
			}
			stop()
			b.await("the pair to be one again", func() bool { return b.classOn("") != "" && b.agents["h1"].on("a", "b") != "" })
			if r := dialogue.stop(); r.Counts.Connections.Lost+r.Counts.Corrupt > 0 {
				t.Errorf("the dialogue: %+v", r.Counts)
			}
		})
	}
}

// TestBulkOfThePeerIsApart: a's dialogue with b stays on the network with less delay while b's own bulk goes to the one
// with more rate, be it sent or fetched, though it is most of what a's pair carries; and it returns where it is moved
// there. Here packets of the pods are held up too: what bulk brings along fills the far network only as it grows.
func TestBulkOfThePeerIsApart(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
	}{{"sent", nil}, {"fetched", []string{"-R"}}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, "t-agt-peer", "vxlan", "macvlan")
			b.limit()
			b.impair("macvlan", impair.Impairment{Rate: 280e6, Delay: 10 * time.Millisecond}, "a") // as probes find it
			dialogue := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1,
				Size: 200, Requests: stream.Sizes{Min: 100, Max: 100}, Think: 2 * time.Millisecond})
			b.carried("vxlan")
			stop := b.iperf3("b", "a", 5301, append(c.args, "-P", "4")...)
			b.awaitFor("each pair to be on its network, and to stay there", 3*time.Second, func() bool {
				return b.agents["h1"].on("a", "b") == "vxlan" && b.agents["h2"].on("b", "a") == "macvlan"
			})
			if _, err := b.agents["h1"].Order(Order{Local: "a", Remote: "b", Network: "macvlan"}); err != nil {
				t.Fatal(err)
			}
			b.await("the dialogue to leave the bulk", func() bool { return b.agents["h1"].on("a", "b") == "vxlan" })
			stop()
			if r := dialogue.stop(); r.Counts.Connections.Lost+r.Counts.Corrupt > 0 {
				t.Errorf("the dialogue: %+v", r.Counts)
			}
		})
	}
}

// TestFiguresOfThePeer: what is told of connections that the peer has opened is told of the network where its choices
// have them, which this pod's own do not know, be it that this pod sends or the peer; and where an agent that has just
// begun finds flows of its own.
func TestFiguresOfThePeer(t *testing.T) {
	b := newBed(t, "t-agt-fig", "vxlan", "macvlan")
	b.limit()
	dialogue := b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1,
		Size: 200, Requests: stream.Sizes{Min: 100, Max: 100}, Think: 2 * time.Millisecond})
	b.carried("vxlan")
	for _, pin := range []Order{{Local: "a", Remote: "b", Network: "vxlan", Pin: true},
		{Local: "b", Remote: "a", Network: "macvlan", Pin: true}} {
		host := map[string]string{"a": "h1", "b": "h2"}[pin.Local]
		b.await("the pair to be pinned", func() bool {
			_, err := b.agents[host].Order(pin)
			return err == nil
		})
	}
	stop := b.iperf3("b", "a", 5301, "-R", "-P", "2")
	b.showsTripsOn("h1", "a", "b", "macvlan")
	stop()
	b.iperf3("b", "a", 5302, "-P", "2")
	b.showsTripsOn("h2", "b", "a", "macvlan")
	b.stop("h2")
	b.start("h2", func(c *Config) { c.Policy = decide.CostAware{} })
	b.showsTripsOn("h2", "b", "a", "macvlan")
	if r := dialogue.stop(); r.Counts.Connections.Lost+r.Counts.Corrupt > 0 {
		t.Errorf("the dialogue: %+v", r.Counts)
	}
}

// showsTripsOn waits until the pair's connections are told, for a second, to have round trips of milliseconds on the
// network, whose queue they fill, and nowhere else.
func (b *bed) showsTripsOn(host, local, remote, network string) {
	b.t.Helper()
	b.awaitFor("round trips to be told of "+network, time.Second, func() bool {
		long, short := false, true
		for _, s := range b.agents[host].Paths() {
			if s.Pair == local+">"+remote && s.Class == "" {
				long = long || s.Network == network && s.SRTT > 0.004
				short = short && (s.Network == network || s.SRTT < 0.004)
			}
		}
		return long && short
	})
}

// limit has the default network be short and slow, and the other one long and fast, and
// starts the agents.
func (b *bed) limit() {
	b.t.Helper()
	b.impair("vxlan", impair.Impairment{Rate: 70e6}, "a", "b")
	b.impair("macvlan", impair.Impairment{Rate: 280e6}, "a", "b")
	b.impair("macvlan", impair.Impairment{Delay: 10 * time.Millisecond}, "agent-h2")
	for _, host := range []string{"h1", "h2"} {
		b.start(host, func(c *Config) { c.Policy = decide.CostAware{} })
	}
}

// classOn is the network that the pair's flows of a class are on, by what paths tell.
func (b *bed) classOn(class decide.Class) string {
	paths := b.agents["h1"].Paths()
	i := slices.IndexFunc(paths, func(p PathStatus) bool {
		return p.Pair == "a>b" && p.Class == string(class) && p.Active
	})
	if i < 0 {
		return ""
	}
	if want := map[bool]int{true: flow.Buckets, false: flow.Width}[class == ""]; paths[i].Buckets > want {
		b.t.Errorf("%+v", paths[i])
	}
	return paths[i].Network
}

// goApart waits until most bytes of both pods go over macvlan, and packets over vxlan too.
func (b *bed) goApart() {
	b.t.Helper()
	count := func(network string) uint64 {
		sent, received := b.agents["h1"].tallies("a", "b", network)
		return sent + received
	}
	b.await("the bulk to be on macvlan and the dialogue on vxlan", func() bool {
		near, far := count("vxlan"), count("macvlan")
		time.Sleep(500 * time.Millisecond)
		near, far = count("vxlan")-near, count("macvlan")-far
		return near >= 50 && far >= 3*near
	})
}

// iperf3 has one connection carry what it can for a minute, until it is stopped.
func (b *bed) iperf3(from, to string, port int, more ...string) (stop func()) {
	b.t.Helper()
	if _, err := exec.LookPath("iperf3"); err != nil {
		b.t.Skip("iperf3 is missing")
	}
	addr := b.pod(to).Addr().String()
	start := func(ns string, args ...string) *exec.Cmd {
		cmd := exec.Command("iperf3", args...)
		if err := netns.Start(ns, cmd); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
		return cmd
	}
	server := start(b.pod(to).Netns, "-s", "-B", addr, "-p", fmt.Sprint(port))
	b.await("iperf3 to listen", func() bool {
		return strings.Contains(b.runIn(b.pod(to).Netns, "ss", "-Hltn"), fmt.Sprintf(":%d ", port))
	})
	client := start(b.pod(from).Netns, append([]string{"-c", addr, "-p", fmt.Sprint(port), "-t", "90"}, more...)...)
	return func() {
		for _, cmd := range []*exec.Cmd{client, server} {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
}
