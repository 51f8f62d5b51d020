package dataplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

// TestFlowsSurvive moves connections of every kind over all paths, back and
// forth, and checks that packets take the path and the connection lives; also where
// direct routes lead to one of the paths.
func TestFlowsSurvive(t *testing.T) {
	for _, dev := range []string{"", "net1", "net2"} {
		t.Run("direct "+dev, func(t *testing.T) { flowsSurvive(t, dev) })
	}
}

func flowsSurvive(t *testing.T, direct string) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	if direct != "" {
		b.straight(direct)
	}
	for _, c := range []struct{ network, listen, to string }{
		{"tcp", "10.90.2.2:7001", "10.90.2.2:7001"},
		{"udp", "10.90.2.2:7002", "10.90.2.2:7002"},
		{"tcp6", "[fd90:2::2]:7003", "[fd90:2::2]:7003"},
		{"udp6", "[fd90:2::2]:7004", "[fd90:2::2]:7004"},
	} {
		t.Run(c.network, func(t *testing.T) {
			conn := b.echo(c.network, c.listen, c.to)
			if err := exchange(conn, "over the default network"); err != nil {
				t.Fatal(err)
			}
			for i, path := range []int{1, 2, 0, 2, 1, 0, 1} {
				b.move(1, path)
				s0, r0 := b.crossed(1, path)
				for j := range 3 {
					if err := exchange(conn, strings.Repeat(fmt.Sprint(i, j), 300)); err != nil {
						t.Fatalf("move %d to path %d: %v; events %+v", i, path, err, b.planes[1].Events())
					}
				}
				s1, r1 := b.crossed(1, path)
				if s1 < s0+3 || r1 < r0+3 {
					t.Errorf("move %d to path %d: %d packets sent and %d received over it, expected 3 or more each", i, path, s1-s0, r1-r0)
				}
			}
			b.move(1, 0)
		})
	}
	for pod := 1; pod <= 2; pod++ {
		if e := b.planes[pod].Events(); e.Errors != 0 || e.Strangers != 0 {
			t.Errorf("pod %d: %+v", pod, e)
		}
	}
}

func TestPing(t *testing.T) {
	for _, dev := range []string{"", "net1"} {
		t.Run("direct "+dev, func(t *testing.T) { ping(t, dev) })
	}
}

func ping(t *testing.T, direct string) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	if direct != "" {
		b.straight(direct)
	}
	for _, to := range []string{"10.90.2.2", "fd90:2::2"} {
		for path := range 3 {
			b.move(1, path)
			// The first echo of a flow is on the default network, so two of three.
			out := b.run(1, "ping", "-c3", "-i0.05", "-W1", to)
			if !strings.Contains(out, " 0% packet loss") {
				t.Errorf("path %d: %s", path, out)
			}
			if s, r := b.crossed(1, path); s < 2 || r < 2 {
				t.Errorf("%s over path %d: sent %d, received %d", to, path, s, r)
			}
		}
	}
}

// TestVerifiedOnce: what the kernel verifies stays far below its limit of a million instructions, and is soon done:
// each pod of a host has programs of its own, and an agent that starts has those of a hundred verified.
func TestVerifiedOnce(t *testing.T) {
	b := newBed(t)
	b.open(1)
	objs := &b.planes[1].objs
	for name, p := range map[string]*ebpf.Program{"pw_egress": objs.PwEgress, "pw_ingress": objs.PwIngress,
		"pw_path_ingress": objs.PwPathIngress} {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		const most = 100_000
		if n, ok := info.VerifiedInstructions(); !ok || n > most {
			t.Errorf("%s: %d instructions were verified (known: %t), expected %d at most", name, n, ok, most)
		}
	}
}
