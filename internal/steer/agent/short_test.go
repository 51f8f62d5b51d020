package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestShortConnections: a client fetches a page on a connection of its own each time, and the default network drops
// large packets on their way to it. Each connection is over a moment after it was moved, by the server's close or by
// the client's, and tells all the same that it got through there: after some the pair leaves, at both ends, and the
// next ones wait for nothing.
func TestShortConnections(t *testing.T) {
	b := newBed(t, "t-short", "routed-bgp", "vxlan")
	for _, h := range []string{"h1", "h2"} {
		b.start(h, nil)
	}
	addr := b.pod("b").Addr().String()
	dir := b.nginx(addr)
	if err := errors.Join(os.Remove(filepath.Join(dir, "f")),
		os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1400), 0o644)); err != nil {
		t.Fatal(err)
	}
	b.inPod("b", "nginx", "-p", dir, "-c", dir+"/nginx.conf")
	barred := func(host, local, remote string) bool {
		r := b.agents[host]
		r.members.Lock()
		defer r.members.Unlock()
		p := r.entries.firstNamed(local, remote)
		return p != nil && p.lines[0].bar.Left(r.cfg.Now()) > 0
	}
	for closes, option := range map[string]string{"server": "--no-http-keep-alive", "client": "--tries=1"} {
		b.within("the "+closes+" closes", func() {
			b.reset()
			stop := b.inPod("a", "sh", "-c", fmt.Sprintf("while :; do wget -qO /dev/null %s http://%s:8080/f; done",
				option, addr))
			defer stop()
			b.await("the pair to open", func() bool {
				return b.agents["h1"].opened("a", "b") && b.agents["h2"].opened("b", "a")
			})
			b.move("routed-bgp")
			b.drops("a", "routed-bgp", "iifname DEV meta length > 1000 drop", 0)
			b.await("the pair to leave, at the server's end", func() bool { return barred("h2", "b", "a") })
			b.await("the pair to leave, at the client's end", func() bool { return barred("h1", "a", "b") })
			before := time.Now()
			const fetches = 50
			for range fetches {
				b.run(b.pod("a"), "wget", "-qO", "/dev/null", "--timeout=1", "http://"+addr+":8080/f")
			}
			t.Logf("%d fetches took %v", fetches, time.Since(before).Round(time.Millisecond))
			b.runIn(b.pod("a").Netns, "nft", "delete table inet pw-t")
		})
	}
}

// TestTrialAfterThePeerLeft: this end tries a path for a connection that the peer has opened. Meanwhile the peer leaves
// the connection's path by itself, for that very path: what is tried ends, and its bucket stays where the peer is. It
// fails where the bucket goes back to the path that both have left, as answers to the peer's next connection would.
func TestTrialAfterThePeerLeft(t *testing.T) {
	b := newBed(t, "t-trial", "routed-bgp", "vxlan")
	for _, h := range []string{"h1", "h2"} {
		b.start(h, nil)
	}
	b.traffic("a", "b", stream.Client{Kind: stream.RR, Connections: 1, Requests: stream.Sizes{Min: 64, Max: 600},
		Think: 2 * ms})
	z := b.agents["h2"]
	b.await("the pair to open", func() bool { return b.agents["h1"].opened("a", "b") && z.opened("b", "a") })
	const bucket = 9
	p := z.pair("b", "a")
	followed := func() dataplane.Choice {
		all, err := p.local.plane.Followed(p.remote.UID)
		if err != nil {
			t.Fatal(err)
		}
		return all[bucket]
	}
	for _, tt := range []struct {
		name string
		peer string // where the peer goes meanwhile
		ends detect.DetourState
		path int
	}{
		{"the peer stays", "routed-bgp", detect.Nowhere, 0},
		{"the peer leaves too", "vxlan", detect.Unfounded, 1},
	} {
		b.within(tt.name, func() {
			b.move("routed-bgp")
			b.await("the bucket to be home", func() bool { return followed().Path == 0 })
			z.members.Lock()
			now := z.cfg.Now()
			is := detect.Progress{Open: true, Waiting: true, Sent: z.pairs.params.FirstWindow, Tries: 1}
			q := &inquiry{pair: p, ports: ports{1, 2}, bucket: bucket, side: dataplane.Theirs, begun: true, since: now,
				Detour: detect.NewDetour(z.pairs.params, 0, is, now.Add(-z.pairs.params.AckWithin))}
			z.inquirer.answer(q, is, now)
			z.members.Unlock()
			if c := followed(); q.State() != detect.Trying || c.Path != 1 {
				b.t.Fatalf("%v on %+v", q.State(), c)
			}
			b.move(tt.peer)
			z.members.Lock()
			z.inquirer.answer(q, is, q.Since().Add(z.pairs.params.TryMost))
			z.members.Unlock()
			if q.State() != tt.ends {
				b.t.Errorf("%v", q.State())
			}
			b.await("the bucket to be where the peer is", func() bool { return followed().Path == tt.path })
			time.Sleep(100 * ms)
			if c := followed(); c.Path != tt.path {
				b.t.Errorf("%+v", c)
			}
		})
	}
}
