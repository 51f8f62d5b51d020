package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// TestOwnPodComes: an agent that is there before its own pod waits for it, says so once
// for each reason, and begins when it comes.
func TestOwnPodComes(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-own", "routed-bgp", "vxlan")
	own := func(change func(*topo.Pod) bool) func(*Cluster) {
		return func(c *Cluster) {
			c.Pods = slices.DeleteFunc(slices.Clone(b.state.Pods), func(p topo.Pod) bool { return p.Name == "agent-h1" })
			if p := b.pod("agent-h1"); change(&p) {
				c.Pods = append(c.Pods, p)
			}
		}
	}
	away := own(func(*topo.Pod) bool { return false })
	b.tell("h1", away)
	a := b.start("h1", nil)
	b.start("h2", nil)
	for _, step := range []struct {
		what   string
		change func(*Cluster)
	}{
		{"its own pod: host h1 has no agent pod yet", away},
		{"whose namespace pw-nowhere is not there", own(func(p *topo.Pod) bool { p.Netns = "pw-nowhere"; return true })},
		{"of its own pod, on vxlan", own(func(p *topo.Pod) bool {
			p.Attachments = slices.Clone(p.Attachments)
			p.Attachments[1].Addr = p.Attachments[1].Addr.Next().Next()
			return true
		})},
	} {
		b.tell("h1", step.change)
		b.await(step.what, func() bool { return strings.Contains(a.Health().Waiting, step.what) })
		time.Sleep(3 * refresh)
		all, _ := a.journal.since(0)
		waits := slices.DeleteFunc(all, func(e Event) bool { return !strings.Contains(e.Reason, step.what) })
		if len(waits) != 1 || waits[0].Kind != EventWaiting {
			t.Errorf("%s: %+v", step.what, waits)
		}
		if ps := a.Paths(); len(ps) > 0 {
			t.Errorf("%s: %+v", step.what, ps)
		}
	}
	b.tell("h1", own(func(*topo.Pod) bool { return true }))
	a.event(b, 0, "the agent to begin", func(e Event) bool { return e.Kind == EventStarted })
	if h := a.Health(); h.Waiting != "" || h.Pods != 1 {
		t.Errorf("%+v", h)
	}
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.move("vxlan")
}

// TestOwnPodWaitsInVain: an agent that waits ends when it is told to.
func TestOwnPodWaitsInVain(t *testing.T) {
	b := newBed(t, "t-vain", "routed-bgp", "vxlan")
	b.tell("h1", func(c *Cluster) {
		c.Pods = slices.DeleteFunc(c.Pods, func(p topo.Pod) bool { return p.Agent })
	})
	b.start("h1", nil)
	b.stop("h1")
}

// TestOwnPodMadeAgain: the agent's own pod gets another namespace and other addresses:
// the agent probes from there.
func TestOwnPodMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-ownbox", "macvlan", "macvlan-private")
	a, z := b.start("h1", nil), b.start("h2", nil)
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.move("macvlan-private")
	ns := b.pod("agent-h1").Netns
	for _, name := range []string{ns, ns + "-2"} {
		since := a.journal.last().ID
		b.sandbox("agent-h1", name)
		a.event(b, since, "the agent's own pod to be taken up", func(e Event) bool {
			return e.Kind == EventPod && strings.HasPrefix(e.Reason, "the agent's own pod was made again")
		})
		up := func(ps []PathStatus) bool {
			return len(ps) == 2 && !slices.ContainsFunc(ps, func(p PathStatus) bool { return p.State != "up" })
		}
		b.await("probes on all paths", func() bool { return up(a.Paths()) && up(z.Paths()) })
		b.move("macvlan")
		b.move("macvlan-private")
	}
}

// TestOwnInterfaces: the interfaces of the agent's own pod go down and up: probes pass
// again.
func TestOwnInterfaces(t *testing.T) {
	b := newBed(t, "t-ownif", "routed-bgp", "vxlan")
	a := b.start("h1", nil)
	b.start("h2", nil)
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.move("vxlan")
	p := b.pod("agent-h1")
	for _, at := range p.Attachments {
		since := a.journal.last().ID
		b.run(p, "sh", "-c", "ip link set "+at.Dev+" down; ip link set "+at.Dev+" up")
		a.event(b, since, at.Dev+" to be whole", func(e Event) bool {
			return e.Kind == EventPod && strings.Contains(e.Reason, "own pod: "+at.Dev+" is whole again")
		})
		b.await("probes on all paths", func() bool {
			ps := a.Paths()
			return len(ps) == 2 && !slices.ContainsFunc(ps, func(p PathStatus) bool { return p.State != "up" })
		})
	}
	b.flows("vxlan")
}
