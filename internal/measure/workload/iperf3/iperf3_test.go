package iperf3

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// counter is a meter that notes how many packets the pod had received.
type counter struct {
	t   *testing.T
	g   *testbed.Ground
	pod topo.Pod
	at  []float64
}

func (c *counter) Begin() { c.at = append(c.at, c.received()) }
func (c *counter) End()   { c.at = append(c.at, c.received()) }

func (c *counter) received() float64 {
	var raw []byte
	err := c.g.Do(c.pod, func() (err error) {
		raw, err = os.ReadFile("/proc/thread-self/net/dev")
		return err
	})
	if err != nil {
		c.t.Error(err)
	}
	scan := bufio.NewScanner(bytes.NewReader(raw))
	for scan.Scan() {
		name, figures, _ := strings.Cut(strings.TrimSpace(scan.Text()), ":")
		var octets, packets float64
		if _, err := fmt.Sscan(figures, &octets, &packets); err == nil && name == c.pod.Attachments[0].Dev {
			return packets
		}
	}
	c.t.Errorf("pod %s has no figures for its interface", c.pod.Name)
	return 0
}

// TestWindowIsWhereTheMeterWas compares the place of the window in iperf3's
// records with the packets that the kernel had counted when the meter was told.
func TestWindowIsWhereTheMeterWas(t *testing.T) {
	g := testbed.New(t, 1)
	for _, streams := range []int{1, 8} {
		// A window that is cut at the wrong place is so every time; one that the
		// machine's other work has shifted is not.
		const tries = 6
		var off []float64
		for range tries {
			if off = windowOff(t, g, streams); len(off) == 0 {
				break
			}
		}
		if len(off) > 0 {
			t.Errorf("%d streams: in each of %d tries the window is off, the last by %.1f ms", streams, tries, off)
		}
	}
}

// windowOff measures once and returns by how many milliseconds the window's edges
// lie elsewhere than the meter was told, if that is more than 20 beyond what
// the run itself says.
func windowOff(t *testing.T, g *testbed.Ground, streams int) (bad []float64) {
	t.Helper()
	// 10 packets a millisecond
	o := offer{proto: workload.UDP, streams: streams, size: 1000, rate: 80e6, buffer: buffer(streams)}
	m := &counter{t: t, g: g, pod: g.Pairs[0].Server}
	before := m.received()
	w := workload.Window{Warmup: 300 * time.Millisecond, Duration: 600 * time.Millisecond}
	pairs, err := o.run(t.Context(), g.Bed(), w, m)
	if err != nil {
		t.Fatal(err)
	}
	p := pairs[0]
	if len(m.at) != 2 {
		t.Fatalf("meter was told %d times, want 2", len(m.at))
	}
	for i, at := range []float64{p.from, p.from + w.Duration.Seconds()} {
		counted := clip(p.server.Spans, 0, at)
		off := (counted.Packets - counted.Lost - (m.at[i] - before)) / 10 // milliseconds
		t.Logf("%d streams, edge %d: %.1f ms off, known within %v", streams, i+1, off, p.within)
		if math.Abs(off) > 20+float64(p.within.Milliseconds()) {
			bad = append(bad, off)
		}
	}
	return bad
}

func TestArguments(t *testing.T) {
	server := topo.Pod{Listen: 5203}
	server.Service = testbed.AddrPort("10.0.0.2:20001")
	for name, tc := range map[string]struct {
		o    offer
		want string
	}{
		"tcp": {offer{proto: workload.TCP, streams: 8, size: 65536, congestion: workload.Congestion},
			"iperf3 -c 10.0.0.2 -p 20001 -J -i 0.1 -t 3 -P 8 -l 65536 --connect-timeout 5000 -C cubic"},
		"udp, rate split over streams": {offer{proto: workload.UDP, streams: 3, size: 1400, rate: 100e6, buffer: 212992},
			"iperf3 -c 10.0.0.2 -p 20001 -J -i 0.1 -t 3 -P 3 -l 1400 --connect-timeout 5000 -w 212992 -u -b 33333334"},
		"many streams": {offer{proto: workload.UDP, streams: 128, size: 100, rate: 1e12},
			"iperf3 -c 10.0.0.2 -p 20001 -J -i 0.5 -t 3 -P 128 -l 100 --connect-timeout 5000 -u -b 7812500000"},
	} {
		if got := strings.Join(tc.o.clientArgs(server, 3), " "); got != tc.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, tc.want)
		}
	}
	// The server listens on the pod's own port, the client goes to where it is reached.
	if got := strings.Join(offer{streams: 1}.serverArgs(server), " "); got != "iperf3 -s -1 -J -i 0.1 -p 5203" {
		t.Error(got)
	}
}

func TestSeconds(t *testing.T) {
	w := workload.Window{Warmup: time.Second, Duration: 5 * time.Second}
	for _, tc := range []struct{ streams, pairs, want int }{{1, 1, 6}, {1, 2, 7}, {128, 1, 7}, {1, 128, 9}} {
		if got := (offer{streams: tc.streams}).seconds(w, tc.pairs); got != tc.want {
			t.Errorf("%+v: got %d s", tc, got)
		}
	}
}

func TestDatagram(t *testing.T) {
	pod := func(mtu int, addr string) topo.Pod {
		p := topo.Pod{Service: testbed.AddrPort(addr)}
		if mtu > 0 {
			p.Attachments = []topo.Attachment{{MTU: mtu}}
		}
		return p
	}
	for name, tc := range map[string]struct {
		client, server topo.Pod
		size, want     int
		warn           bool
	}{
		"default fits":               {pod(1500, "10.0.0.1:1"), pod(1500, "10.0.0.2:1"), 1400, 1400, false},
		"default is cut":             {pod(1500, "10.0.0.1:1"), pod(1400, "10.0.0.2:1"), 1400, 1372, false},
		"default is cut for IPv6":    {pod(1300, "[fd::1]:1"), pod(1500, "[fd::2]:1"), 1400, 1252, false},
		"a wish is left":             {pod(1500, "10.0.0.1:1"), pod(1500, "10.0.0.2:1"), 8000, 8000, true},
		"just fits":                  {pod(1500, "10.0.0.1:1"), pod(1500, "10.0.0.2:1"), 1472, 1472, false},
		"no interface, no objection": {pod(0, "10.0.0.1:1"), pod(0, "10.0.0.2:1"), 1400, 1400, false},
	} {
		bed := workload.Bed{Pairs: []workload.Pair{{Client: tc.client, Server: tc.server}}}
		got, warning := datagram(bed, tc.size)
		if got != tc.want || (warning != nil) != tc.warn {
			t.Errorf("%s: got %d, %+v; want %d, warning %v", name, got, warning, tc.want, tc.warn)
		}
	}
}

// TestCongestionIsExplained: a kernel without cubic is told apart from other failures.
func TestCongestionIsExplained(t *testing.T) {
	g := testbed.New(t, 1)
	rep, err := parse(read(t, "congestion"))
	if err != nil {
		t.Fatal(err)
	}
	got := explain(rep.Failure, g.Bed(), g.Pairs[0].Client, []string{"iperf3", "-C", workload.Congestion})
	for _, want := range []string{"not supported", workload.Congestion, "reno"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not mention %q", got, want)
		}
	}
	if got := explain("no route", g.Bed(), g.Pairs[0].Client, nil); got != "no route" {
		t.Errorf("got %q", got)
	}
}

// TestLossIsTheReceivers: more than a receiver can take is reported as lost,
// and less than was asked for as the generator's limit.
func TestLossIsTheReceivers(t *testing.T) {
	g := testbed.New(t, 1)
	load := sample.Load{Connections: 1, Size: 1400, Rate: 100e9}
	w := workload.Window{Warmup: 200 * time.Millisecond, Duration: 700 * time.Millisecond}
	out, err := UDPStream{}.Run(t.Context(), g.Bed(), load, w, &testbed.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	bound := slices.ContainsFunc(out.Warnings, func(w sample.Warning) bool { return w.Gate == "generator-bound" })
	if !bound || out.Metrics[sample.Throughput] > 50e9 {
		t.Errorf("100 Gbit/s of small datagrams: got %v, warnings %v", out.Metrics, out.Warnings)
	}
}
