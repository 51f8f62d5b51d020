package bench_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/bridge"
	"pathwise.dev/pathwise/internal/lab/network/custom"
	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// seen are large packets on the client's interface, by family, and where they were to go.
type seen struct {
	to     netip.Addr
	v4, v6 int
}

// counting sends datagrams to the server, and counts by a packet socket (packet(7)) on the
// client's interface what passes there.
type counting struct {
	// ignoresTarget sends to the server's IPv4 address, whatever it is asked for.
	ignoresTarget bool
	// seen of each trial.
	seen []seen
}

func (*counting) Info() workload.Info { return datagrams{}.Info() }

func (c *counting) Run(_ context.Context, bed workload.Bed, _ sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	const size, times = 1000, 50
	pair := bed.Pairs[0]
	to := pair.Server.Service
	if c.ignoresTarget {
		to = netip.AddrPortFrom(pair.Server.Addr(), to.Port())
	}
	var got seen
	err := bed.Do(pair.Client, func() error {
		fd, err := listen(pair.Client.Attachments[0].Dev)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		conn, err := net.Dial("udp", to.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		m.Begin()
		for range times {
			_, _ = conn.Write(make([]byte, size)) // nobody listens: the port answers unreachable
			time.Sleep(w.Duration / times)
		}
		m.End()
		got, err = count(fd, size)
		return err
	})
	got.to = to.Addr()
	c.seen = append(c.seen, got)
	return workload.Outcome{Metrics: map[string]float64{sample.Throughput: 1}, Bytes: size * times}, err
}

// listen opens a packet socket for all protocols on the device.
func listen(dev string) (int, error) {
	link, err := net.InterfaceByName(dev)
	if err != nil {
		return 0, err
	}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all)
	if err != nil {
		return 0, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
}

// count reads what has queued up: packets of the size and more, by their EtherType.
func count(fd, size int) (s seen, err error) {
	buf := make([]byte, 2048)
	for {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if n < size {
			continue
		}
		switch p := from.(*unix.SockaddrLinklayer).Protocol; p>>8 | p<<8 {
		case unix.ETH_P_IP:
			s.v4++
		case unix.ETH_P_IPV6:
			s.v6++
		}
	}
}

// shipped is one of the lists that the catalogue's tests have, routed between hosts.
func shipped(t *testing.T, name string) network.Network {
	t.Helper()
	n, err := custom.Load(name, network.List{Path: "../../lab/network/catalogue/testdata/lists/" + name + ".conflist",
		Route: network.RouteStatic})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func families(t *testing.T, r *run, w *counting, nets ...network.Network) []sample.Trial {
	t.Helper()
	c := config(t, r, datagrams{}, nets...)
	c.Workloads = map[string]workload.Workload{"datagrams": w}
	c.Experiment.Repeat = experiment.Repeat{Min: 1, Max: 1, Width: 0.5}
	c.Experiment.Entries[0].Scenarios = nil
	for _, p := range []topo.Placement{topo.OneHost, topo.TwoHosts} {
		for _, f := range []int{0, topo.IPv6} {
			c.Experiment.Entries[0].Scenarios = append(c.Experiment.Entries[0].Scenarios,
				topo.Scenario{Placement: p, Pairs: 1, MTU: 1500, Family: f})
		}
	}
	return r.do(t, c).Trials
}

// TestFamiliesAreWhatTheWireCarries benches both families, and counts on the wire what a
// trial of each of them has sent.
func TestFamiliesAreWhatTheWireCarries(t *testing.T) {
	var r run
	w := &counting{}
	trials := families(t, &r, w, plain.None{}, bridge.New(bridge.Private), vxlan.New(), shipped(t, "dual-stack"),
		shipped(t, "ipv6"))
	var got []string
	for _, tr := range trials {
		got = append(got, fmt.Sprintf("%s %s: %s", tr.Network, tr.Scenario, tr.Status))
	}
	slices.Sort(got)
	want := []string{
		"bridge one-host,family=6: ok", "bridge one-host: ok", "bridge two-hosts,family=6: unsupported",
		"bridge two-hosts: unsupported", "dual-stack one-host,family=6: ok", "dual-stack one-host: ok",
		"dual-stack two-hosts,family=6: ok", "dual-stack two-hosts: ok", "ipv6 one-host,family=6: ok",
		"ipv6 one-host: unsupported", "ipv6 two-hosts,family=6: ok", "ipv6 two-hosts: unsupported",
		"none one-host,family=6: refused", "none one-host: refused", "none two-hosts,family=6: refused",
		"none two-hosts: refused", "vxlan one-host,family=6: ok", "vxlan one-host: ok", "vxlan two-hosts,family=6: ok",
		"vxlan two-hosts: ok",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
		for _, tr := range trials {
			t.Logf("%s %s: %s", tr.Network, tr.Scenario, tr.Reason)
		}
	}
	four, six := 0, 0
	const most = 40 // of 50: an error of the last datagram is told in place of sending the next (udp(7))
	for _, s := range w.seen {
		switch {
		case s.to.Is4() && s.v4 >= most && s.v6 == 0:
			four++
		case s.to.Is6() && s.v6 >= most && s.v4 == 0:
			six++
		default:
			t.Errorf("to %v: %d packets of IPv4, %d of IPv6", s.to, s.v4, s.v6)
		}
	}
	if four != 5 || six != 7 {
		t.Errorf("%d trials of IPv4 and %d of IPv6, expected 5 and 7", four, six)
	}
}

// TestTrafficOfTheOtherFamilyIsRefused: a workload that is asked for IPv6 and speaks IPv4
// gives no figure.
func TestTrafficOfTheOtherFamilyIsRefused(t *testing.T) {
	var r run
	w := &counting{ignoresTarget: true}
	for _, tr := range families(t, &r, w, bridge.New(bridge.Private)) {
		if tr.Scenario.Placement != topo.OneHost {
			continue
		}
		want := map[int]sample.Status{0: sample.OK, topo.IPv6: sample.Invalid}[tr.Scenario.Family]
		if tr.Status != want || want == sample.Invalid && !strings.Contains(tr.Reason, "but IPv6 in pw-") {
			t.Errorf("%s: %s: %s", tr.Scenario, tr.Status, tr.Reason)
		}
	}
}
