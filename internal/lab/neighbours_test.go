package lab_test

import (
	"context"
	"testing"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/topo"
)

// TestManyHostsKnowEachOther: what counts in the kernel's one table of neighbours
// does not grow with the square of the hosts.
func TestManyHostsKnowEachOther(t *testing.T) {
	s, sp := store(t), spec("t-many")
	sp.Hosts = 24
	l, err := s.Up(context.Background(), sp, plain.Host{}, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	first, last := l.Hosts()[0], l.Hosts()[23]
	_, there := uplink(t, last)
	h, here := uplink(t, first)
	all, err := h.NeighList(here.Attrs().Index, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	held, known := 0, ""
	for _, n := range all {
		if n.State == netlink.NUD_PERMANENT {
			held++
		}
		if n.IP.String() == last.Addr.Addr().String() {
			known = n.HardwareAddr.String()
		}
	}
	if want := there.Attrs().HardwareAddr.String(); held != 23 || known != want {
		t.Errorf("%s holds %d others, want 23, and knows %s as %q, want %s", first.Name, held, last.Name, known, want)
	}
}

func uplink(t *testing.T, h topo.Host) (*netlink.Handle, netlink.Link) {
	t.Helper()
	nl, err := netns.Netlink(h.Netns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nl.Close)
	link, err := nl.LinkByName(h.Dev)
	if err != nil {
		t.Fatal(err)
	}
	return nl, link
}
