package startup

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

func TestPing(t *testing.T) {
	g := testbed.New(t, 1)
	pair := g.Pairs[0]
	e, err := newEcho(g, pair.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	begun := time.Now()
	at, err := e.ping(t.Context(), pair.Server)
	if err != nil || at.Before(begun) || time.Since(begun) > time.Second {
		t.Errorf("answered after %v, %v", at.Sub(begun), err)
	}
	// An address that nobody has: no answer, and an end with the context.
	nobody := pair.Server
	nobody.Attachments = []topo.Attachment{{Addr: netip.MustParseAddr("203.0.113.9")}}
	e2, err := newEcho(g, pair.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer e2.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e2.ping(ctx, nobody); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("got %v, want the context's error and the kernel's", err)
	}
}

func TestAnswers(t *testing.T) {
	e := &echo{id: 77}
	target := netip.MustParseAddr("10.0.0.1")
	packet := func(kind icmp.Type, id int) []byte {
		raw, err := (&icmp.Message{Type: kind, Body: &icmp.Echo{ID: id, Seq: 1}}).Marshal(nil)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, tc := range map[string]struct {
		raw  []byte
		want bool
	}{
		"reply":                 {packet(ipv4.ICMPTypeEchoReply, 77), true},
		"another process's":     {packet(ipv4.ICMPTypeEchoReply, 78), false},
		"our own request":       {packet(ipv4.ICMPTypeEcho, 77), false},
		"cut off":               {[]byte{0}, false},
		"nothing":               {nil, false},
		"reply without content": {[]byte{0, 0, 0, 0}, false},
	} {
		if got := e.answers(tc.raw, target); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 77, 0, 1}, true)
	f.Add([]byte{129, 0, 0, 0, 0, 77, 0, 1}, false)
	f.Fuzz(func(t *testing.T, raw []byte, v4 bool) {
		target := netip.MustParseAddr("fd00::1")
		if v4 {
			target = netip.MustParseAddr("10.0.0.1")
		}
		if (&echo{id: 77}).answers(raw, target) && len(raw) < 8 {
			t.Errorf("took %x for an answer", raw)
		}
	})
}

// TestKnock: on a published port both an open port and a refusal are answers.
func TestKnock(t *testing.T) {
	g := testbed.New(t, 1)
	pair := g.Pairs[0]
	for name, addr := range map[string]string{"refused": pair.Server.Service.String()} {
		server := pair.Server
		server.Service = netip.MustParseAddrPort(addr)
		begun := time.Now()
		if at, err := knock(t.Context(), g, pair.Client, server); err != nil || at.Before(begun) {
			t.Errorf("%s: %v, %v", name, at, err)
		}
	}
	silent := pair.Server
	silent.Service = netip.MustParseAddrPort("203.0.113.9:5201")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := knock(ctx, g, pair.Client, silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestOutcome(t *testing.T) {
	at := time.Unix(1000, 0)
	made := func(addr string, whole, net, run time.Duration) start {
		p := topo.Pod{}
		if addr != "" {
			p.Attachments = []topo.Attachment{{Addr: netip.MustParseAddr(addr)}}
			p.Service = netip.AddrPortFrom(p.Addr(), 5201)
		}
		return start{Launch: oci.Launch{Pod: p, Requested: at, Network: net, Runtime: run}, Answered: at.Add(whole)}
	}
	ms := time.Millisecond
	out := outcome([]start{made("10.0.0.2", 90*ms, 30*ms, 50*ms), made("10.0.0.3", 70*ms, 20*ms, 40*ms),
		made("10.0.0.4", 500*ms, 25*ms, 45*ms)})
	if out.Metrics[sample.Startup] != 0.09 || out.Metrics[sample.StartupNetwork] != 0.025 || len(out.Warnings) != 0 ||
		out.Operations != 3 {
		t.Errorf("got %+v", out)
	}
	none := outcome([]start{made("", 60*ms, 10*ms, 50*ms), made("", 80*ms, 20*ms, 60*ms)})
	if none.Metrics[sample.Startup] != 0.07 || len(none.Warnings) != 1 ||
		!strings.Contains(none.Warnings[0].Text, "no address") {
		t.Errorf("without a network: got %+v", none)
	}
	behind := made("10.0.0.2", 90*ms, 30*ms, 50*ms)
	behind.Pod.Service = netip.MustParseAddrPort("198.18.0.1:20001")
	if out := outcome([]start{behind}); !strings.Contains(out.Details["answer"], "published") {
		t.Errorf("published: got %v", out.Details)
	}
	engine := made("10.0.0.2", 90*ms, 0, 80*ms)
	engine.Engine = true
	if out := outcome([]start{engine}); !strings.Contains(out.Details["network part of starts"], "not told apart") {
		t.Errorf("an engine's: got %v", out.Details)
	} else if v, ok := out.Metrics[sample.StartupNetwork]; ok {
		t.Errorf("an engine's network part: got %g, want none", v)
	}
}
