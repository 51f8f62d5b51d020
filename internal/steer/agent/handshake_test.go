package agent

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/detect"
)

// TestConnectionsBeginWhereNoneCan: the default network passes probes and other packets, and begins no connection. The
// first one is tried on the other paths long before its stack sends its SYN again, and the next begin there at once.
func TestConnectionsBeginWhereNoneCan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, other, rule string // another flow of the pair, and what the host does to those that it routes
	}{
		{"TCP alone", "udp", "meta l4proto tcp drop"},
		{"answers alone", "udp", "tcp sport 8080 drop"},
		{"one port", "tcp", "tcp dport 8080 drop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, url := openingBed(t, "t-handshake", "routed-bgp", "vxlan", "macvlan")
			a := b.agents["h1"]
			f := b.flow(tt.other, "a0", "b", "a0", 1e5)
			b.await("the pair to open", func() bool { return a.opened("a0", "b") && b.agents["h2"].opened("b", "a0") })
			since := a.journal.last().ID
			b.filter(b.state.Hosts[1].Netns, "forward", tt.rule)
			before := b.sentAgain("a0")
			for range 40 {
				if err := b.fetch("a0", url, "5"); err != nil {
					t.Fatal(err)
				}
			}
			// An agent that has no processor for a second finds nothing in time.
			if n := b.sentAgain("a0") - before; n > 3 {
				t.Errorf("%d SYNs of 40 connections were sent again by their stack", n)
			}
			f.more(b, "meanwhile", 1e5)
			a.event(b, since, "the reason", func(e Event) bool {
				return e.Kind == EventSuspect && e.To == "routed-bgp" && strings.Contains(e.Reason, "does not begin on routed-bgp")
			})
		})
	}
}

// TestConnectionsBeginNowhere: a server that no SYN reaches is not the network's fault: the pair stays where it is, and
// is not tried for long.
func TestConnectionsBeginNowhere(t *testing.T) {
	t.Parallel()
	b, url := openingBed(t, "t-unserved", "routed-bgp", "vxlan", "macvlan")
	a := b.agents["h1"]
	f := b.busy("a0")
	b.drops("b", "routed-bgp", "tcp dport 8081 drop", 0)
	since := a.journal.last().ID
	dead := strings.Replace(url, ":8080", ":8081", 1)
	for range 3 {
		if b.fetch("a0", dead, "1") == nil {
			t.Fatal("a port that drops all answers")
		}
		if err := b.fetch("a0", url, "5"); err != nil {
			t.Fatal(err)
		}
	}
	f.more(b, "meanwhile", 1e5)
	p := a.pair("a0", "b")
	a.members.Lock()
	defer a.members.Unlock()
	if at := p.handshakes.unserved[detect.Service{Protocol: unix.IPPROTO_TCP, Port: 8081}]; at == nil {
		t.Error("nothing is known of the port")
	}
	if ln := &p.lines[0]; ln.bar.Left(a.cfg.Now()) > 0 {
		t.Error("the default network is barred")
	}
	events, _ := a.journal.since(since)
	for _, e := range events {
		if e.Kind == EventSuspect || e.Kind == EventElsewhere {
			t.Errorf("told: %v", e)
		}
	}
}

// TestAgenda: each time is told once it has come, what is close together once.
func TestAgenda(t *testing.T) {
	a, _, _ := onePair(t)
	now, one, other := time.Unix(1e9, 0), &pair{}, &pair{}
	d := a.inquirer.agenda
	for _, after := range []time.Duration{10 * ms, 10*ms + asOne/2, 20 * ms} {
		d.add(one, now.Add(after), now)
	}
	d.add(other, now.Add(10*ms), now)
	for _, tt := range []struct {
		after time.Duration
		want  int
		next  time.Duration
	}{{9 * ms, 0, ms}, {10 * ms, 2, 10 * ms}, {11 * ms, 0, 9 * ms}, {30 * ms, 1, idleTick}} {
		if pairs, next := d.take(now.Add(tt.after)); len(pairs) != tt.want || next != tt.next {
			t.Errorf("after %v: %d pairs and %v, want %d and %v", tt.after, len(pairs), next, tt.want, tt.next)
		}
	}
}

// TestDoubtAgain: while connections of a pair do not begin it is looked at every 10 ms, by one appointment, however
// often it was due for other reasons; and no longer once it has left the default network, or for 5 s.
func TestDoubtAgain(t *testing.T) {
	a, p, _ := onePair(t)
	now := time.Unix(1e9, 0)
	iq, params := a.inquirer, a.inquirer.params
	p.active = now.Add(-quiet) // else it would be looked at, and has no data plane here
	p.handshakes.last = now
	for range 3 {
		iq.doubtAgain(p, now)
		iq.agenda.add(p, now.Add(15*ms), now) // as its path falls silent
	}
	looks := 0
	for after := time.Duration(0); after < params.BarFirst+time.Second; after += ms {
		at := now.Add(after)
		for _, x := range iq.agenda.due {
			if !at.Before(x.at) {
				looks++
			}
		}
		iq.doubtDue(at)
	}
	if most := int(params.BarFirst/(params.AckWithin/2)) + 3; looks < most-8 || looks > most || len(iq.agenda.due) != 0 {
		t.Errorf("%d looks, %d to come", looks, len(iq.agenda.due))
	}
	p.lines[0].bar.Raise(params, now)
	if p.refusesSome(params, now) {
		t.Error("goes on to be looked at as it has left")
	}
}
