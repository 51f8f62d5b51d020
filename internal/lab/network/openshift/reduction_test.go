package openshift

import (
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// meanPasses is of both directions of an established connection between two pods of a node.
func meanPasses(t *testing.T, p *pipeline.Pipeline) float64 {
	t.Helper()
	passes := 0
	for packet, state := range map[string]uint64{
		"tcp,in_port=3,nw_src=10.128.0.2,nw_dst=10.128.0.4,tp_src=1000,tp_dst=80": walk.Established,
		"tcp,in_port=5,nw_src=10.128.0.4,nw_dst=10.128.0.2,tp_src=80,tp_dst=1000": walk.Established | walk.Reply,
	} {
		m, err := p.ReadPacket(packet)
		if err != nil {
			t.Fatal(err)
		}
		w := walk.Through(p).Follow(walk.NewPacket(m), walk.Given{All: walk.Answer{State: state | walk.Tracked}})
		if e := w.Events(); len(e) == 0 || e[len(e)-1].Kind != walk.Output {
			t.Fatalf("%s does not arrive", packet)
		}
		passes += w.Depth()
	}
	return float64(passes) / 2
}

// TestReduction: OpenShift's pipeline comes down from 3.5 passes a packet to 2.5, and to 2
// where nobody else uses zone 0. It keeps what the second and the third cut of Busch and
// Kammerer (2021, section 5.2) leave out.
func TestReduction(t *testing.T) {
	for _, c := range []struct {
		private       []uint16
		before, after float64
		from          Pipeline
	}{{nil, 3.5, 2.5, Whole}, {[]uint16{0}, 3.5, 2, Whole}, {nil, 3.5, 2.5, Shortcut1}, {nil, 1, 1, Untracked}} {
		whole := read(t, hostRules(c.from, 3))
		r := reduction.Of(whole, reduction.Options{Private: c.private, Packets: 1000, Seed: 1})
		if b, a := meanPasses(t, whole), meanPasses(t, r.Pipeline); b != c.before || a != c.after {
			t.Errorf("pipeline %d, private %v: %v passes, then %v, want %v and %v: %+v, refused %+v", c.from, c.private, b, a,
				c.before, c.after, r.Steps, r.Refused)
		}
		if c.private == nil {
			if d := proof.Of(whole, r.Pipeline, options(false)); d.Verdict != proof.Equal {
				t.Errorf("%s: %+v %+v", d.Verdict, d.Reasons, d.Witness)
			}
		}
		for _, table := range []pipeline.Table{10, 20, 21, 30} {
			if !slices.ContainsFunc(r.Pipeline.Flows, func(f *pipeline.Flow) bool { return f.Table == table }) {
				t.Errorf("table %d is gone", table)
			}
		}
	}
}

// fares says what becomes of a packet in a pipeline.
func fares(t *testing.T, p *pipeline.Pipeline, packet string) string {
	t.Helper()
	m, err := p.ReadPacket(packet)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range walk.Through(p).Follow(walk.NewPacket(m), walk.Given{All: walk.Answer{State: walk.New}}).Events() {
		if e.Kind == walk.Output {
			return e.Text
		}
	}
	return "dropped"
}

// TestCutsAreNotProposed: what the second and the third cut of Busch and Kammerer (2021,
// section 5.2) leave out, and the pipeline without tracking, shorten never does, whatever it
// may take for granted: there is a packet that fares otherwise. With the two cuts that is one
// of a pod with another's address, and one of another tenant's pod.
func TestCutsAreNotProposed(t *testing.T) {
	const (
		own     = "udp,in_port=3,nw_src=10.128.0.2,nw_dst=10.128.0.4"
		spoofed = "udp,in_port=4,nw_src=10.128.0.2,nw_dst=10.128.0.4"
		tenant  = "udp,in_port=4,nw_src=10.128.0.3,nw_dst=10.128.0.4"
	)
	whole := read(t, hostRules(Whole, 3))
	for _, o := range []reduction.Options{{}, {Private: []uint16{0}}, {Private: []uint16{0}, DropLookups: true}} {
		o.Packets, o.Seed = 500, 2
		short := reduction.Of(whole, o).Pipeline
		for packet, want := range map[string]string{own: "output:5", spoofed: "dropped", tenant: "dropped"} {
			if a, b := fares(t, whole, packet), fares(t, short, packet); a != want || b != want {
				t.Errorf("%+v: %s: %s, and %s when shortened, want %s", o, packet, a, b, want)
			}
		}
		for _, c := range []Pipeline{Shortcut2, Shortcut3, Untracked} {
			if d := proof.Of(short, read(t, hostRules(c, 3)), options(false)); d.Verdict != proof.Different {
				t.Errorf("%+v: the shortened pipeline and cut %d: %s", o, c, d.Verdict)
			}
		}
	}
	for _, c := range []Pipeline{Shortcut2, Shortcut3} {
		cut := read(t, hostRules(c, 3))
		for _, packet := range []string{spoofed, tenant} {
			if got := fares(t, cut, packet); got != "output:5" {
				t.Errorf("cut %d: %s: %s", c, packet, got)
			}
		}
	}
}
