package openshift_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/openshift"
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/bundle"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/walk"
	"pathwise.dev/pathwise/internal/topo"
)

// hostRules are what the lab's first host has with a pipeline.
func hostRules(t *testing.T, l *lab.Lab, p openshift.Pipeline, flows string) string {
	t.Helper()
	var pods []openshift.Pod
	for _, name := range []string{"red1", "red2", "blue1"} {
		one := pod(t, l, name)
		pods = append(pods, openshift.Pod{Addr: one.Addr(), MAC: one.Attachments[0].MAC, Port: portOf(t, flows, one),
			Tenant: tenants(name)})
	}
	m := regexp.MustCompile(`table=10,[^\n]*tun_src=([0-9.]+) `).FindStringSubmatch(flows)
	if m == nil {
		t.Fatalf("no other host in %s", flows)
	}
	hosts := l.Hosts()
	return openshift.HostRules(p, netip.MustParsePrefix("10.77.0.0/16"), hosts[0].Pods,
		map[netip.Addr]netip.Prefix{netip.MustParseAddr(m[1]): hosts[1].Pods}, pods)
}

func readRules(t *testing.T, rules string) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(rules)); err != nil || len(p.Lost) > 0 {
		t.Fatalf("%v, %v", err, p.Lost)
	}
	return p
}

// asked is what of a question to the tracker is more than that: a commit, or that it may
// translate the packet.
func asked(ct string) (out []string) {
	for _, what := range []string{"commit", "nat"} {
		if strings.Contains(ct, what) {
			out = append(out, what)
		}
	}
	return out
}

// deliveries are the ports that a trace sends the packet to, and what the tracker does.
func deliveries(trace string) (out []string) {
	on := true
	for line := range strings.Lines(trace) {
		line = strings.TrimSpace(line)
		if m := regexp.MustCompile(`^bridge\("([^"]+)"\)`).FindStringSubmatch(line); m != nil {
			on = m[1] == "sdn-br0"
		}
		if m := regexp.MustCompile(`^(?:-> output port is |output:)(\d+|LOCAL)$`).FindStringSubmatch(line); m != nil && on {
			out = append(out, "output:"+m[1])
		}
		if on && line == ">> skipping output to input port" && len(out) > 0 {
			out = out[:len(out)-1]
		}
		if on && strings.HasPrefix(line, "ct(") {
			out = append(out, asked(line)...)
		}
	}
	return out
}

// foretold are those that a walk has.
func foretold(w *walk.Walk) (out []string) {
	for _, e := range w.Events() {
		switch e.Kind {
		case walk.Output:
			out = append(out, e.Text)
		case walk.Commit, walk.Lookup:
			out = append(out, asked(e.Text)...)
		}
	}
	return out
}

// TestDifferentOnALiveSwitch: the packet by which equal tells a cut of Busch and Kammerer
// (2021) from the whole pipeline fares in a real switch, given one and the other, as it says.
// A pod with another's address and a pod of another tenant get through, for real, where
// the cuts let them, and not through the whole.
func TestDifferentOnALiveSwitch(t *testing.T) {
	l := up(t, "t-sdn-differ", openshift.Whole)
	flows, dir := rules(t, l), t.TempDir()
	bridge := bundle.Bridge("unix:" + filepath.Join(l.Dir(), "ovs-h1", "sdn-br0.mgmt"))
	install := func(rules string) {
		t.Helper()
		file := filepath.Join(dir, "flows")
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
		ask(t, l, "ovs-ofctl", "-OOpenFlow14", "--bundle", "replace-flows", string(bridge), file)
	}
	first := hostRules(t, l, openshift.Whole, flows)
	install(first)
	if again := rules(t, l); !slices.Equal(slices.Sorted(strings.Lines(again)), slices.Sorted(strings.Lines(flows))) {
		t.Fatalf("the whole pipeline is\n%s\nin the lab, and here\n%s", flows, again)
	}
	whole := readRules(t, first)
	for _, c := range []struct {
		cut             openshift.Pipeline
		spoofed, tenant bool
	}{
		{openshift.Whole, false, false}, {openshift.Shortcut2, true, true}, {openshift.Shortcut3, true, true},
		{openshift.Untracked, false, false},
	} {
		rules := hostRules(t, l, c.cut, flows)
		install(rules)
		name := openshift.New(c.cut, tenants).Info().Name
		if spoofed, tenant := passes(t, l); spoofed != c.spoofed || tenant != c.tenant {
			t.Errorf("%s: from a false address %v, from another tenant %v, want %v and %v", name, spoofed, tenant, c.spoofed,
				c.tenant)
		}
		d := proof.Of(whole, readRules(t, rules), proof.Options{Packets: 20000, Random: rand.New(rand.NewPCG(1, 1))})
		if c.cut == openshift.Whole {
			continue
		}
		if d.Verdict != proof.Different {
			t.Errorf("%s: %s", name, d.Verdict)
			continue
		}
		packet := whole.PrintTerms(d.Witness.Packet.Terms(whole.Words))
		var seen [2][]string
		for i, side := range []struct {
			rules string
			walk  *walk.Walk
		}{{first, d.Witness.A}, {rules, d.Witness.B}} {
			install(side.rules)
			trace := traceOf(t, l, packet, side.walk)
			seen[i] = deliveries(trace)
			if want := foretold(side.walk); !slices.Equal(seen[i], want) {
				t.Errorf("%s: %s: the switch has %q, want %q:\n%s", name, packet, seen[i], want, trace)
			}
		}
		if slices.Equal(seen[0], seen[1]) {
			t.Errorf("%s: %s fares alike: %q", name, packet, seen[0])
		}
		t.Logf("%s: %s: %q, and %q in the whole", name, packet, seen[1], seen[0])
	}
}

// traceOf has the switch follow a packet, with the tracker's answers of a walk.
func traceOf(t *testing.T, l *lab.Lab, packet string, w *walk.Walk) string {
	t.Helper()
	argv := []string{"ovs-appctl", "-t", filepath.Join(l.Dir(), "ovs-h1", "vswitchd.ctl"), "ofproto/trace", "sdn-br0",
		packet}
	for _, p := range w.Passes[1:] {
		state, _, _ := strings.Cut(walk.Tracking(p.Start).String(), ",")
		argv = append(argv, "--ct-next", strings.ReplaceAll(strings.TrimPrefix(state, "state="), "|", ","))
	}
	return ask(t, l, argv...)
}

// passes sends to red2 from blue1, with red1's address and with its own, and reports which of
// them arrive. What is sent last is from red1, which may.
func passes(t *testing.T, l *lab.Lab) (spoofed, tenant bool) {
	t.Helper()
	red, near, blue := pod(t, l, "red1"), pod(t, l, "red2"), pod(t, l, "blue1")
	masquerade(t, l, blue, red, near)
	stop, cancel := context.WithCancel(t.Context())
	defer cancel()
	v := &live{t: t, l: l, stop: stop, arrived: map[string]int{}}
	inbox := v.collect(near)
	for _, c := range []struct {
		who  string
		from topo.Pod
		as   netip.Addr
	}{{"false", blue, red.Addr()}, {"tenant", blue, blue.Addr()}, {"red", red, red.Addr()}} {
		err := l.Do(c.from, func() error {
			as := net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.as, 0))
			conn, err := net.DialUDP("udp4", as, net.UDPAddrFromAddrPort(inbox))
			if err != nil {
				return err
			}
			defer conn.Close()
			for range 20 {
				_, _ = conn.Write([]byte(c.who))
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wait, enough := context.WithTimeout(t.Context(), 10*time.Second)
	defer enough()
	err := network.Poll(wait, 5*time.Millisecond, func() error {
		if v.count("red") == 0 {
			return errors.New("what may pass does not")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return v.count("false") > 0, v.count("tenant") > 0
}
