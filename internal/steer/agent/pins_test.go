package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestFormerVersion: a version with another layout was killed while it steered. What it
// had prepared in the pod is undone, as nobody would know of it any more: a neighbour that
// it held, which is wrong when the peer is made again, and its routes. Its data plane is
// taken away after a while, and the pair is steered by ours. Fails if only direct routes
// are removed.
func TestFormerVersion(t *testing.T) {
	t.Parallel()
	b := newBed(t, "t-agent-former", "macvlan", "vxlan")
	local, peer := b.pod("a"), b.pod("b")
	dir := filepath.Join(b.pins, "h1", podPins+local.UID)
	// Ours replaces it, where the first layout was.
	was, err := dataplane.Open(dataplane.Config{Netns: local.Netns, Dev: local.Attachments[0].Dev,
		PathDevs: []string{local.Attachments[1].Dev}, PinDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := was.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := route.HoldNeighbour(local.Netns, local.Attachments[0].Dev, peer.Addr(), peer.Attachments[0].MAC,
		true); err != nil {
		t.Fatal(err)
	}
	if err := route.Shape(local.Netns, peer.Addr(), route.Form{MTU: 1300}); err != nil {
		t.Fatal(err)
	}
	b.start("h2", nil)
	r := b.start("h1", nil)
	if state := b.neighbour(local, peer.Addr()); state&netlink.NUD_PERMANENT != 0 {
		t.Error("the neighbour is held still")
	}
	h, err := netns.Netlink(local.Netns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if way, err := h.RouteGet(peer.Addr().AsSlice()); err != nil || way[0].MTU != 0 {
		t.Errorf("the route is as it was: %v %v", way, err)
	}
	b.traffic("a", "b", stream.Client{Kind: stream.UDP, Interval: 5 * time.Millisecond, Echo: true})
	b.await("the pair to be open", func() bool { return r.opened("a", "b") })
	b.move("vxlan")
	r.event(b, 0, "the former data plane to end",
		func(e Event) bool { return strings.Contains(e.Reason, "another version has ended") })
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its pins are left: %v", err)
	}
}
