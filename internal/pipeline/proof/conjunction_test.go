package proof_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// conjunctive makes a table of conjunctions whose parts overlap, and of flows above, below and
// between them.
func (g maker) conjunctive(lines int) (out []string) {
	some := func() string {
		return "ip" + g.one("", ",in_port=1", ",in_port=2") + g.one("", ",nw_src=10.0.0.1", ",nw_src=10.0.0.0/31") +
			g.one("", ",nw_dst=10.0.0.1", ",nw_dst=10.0.0.0/31", ",reg0=1")
	}
	for range lines {
		id := 1 + g.IntN(3)
		dims := 2 + id%2
		line := fmt.Sprintf("priority=%d,", 1+g.IntN(6))
		switch g.IntN(5) {
		case 0:
			line += some() + " actions=output:" + g.one("3", "4")
		case 1:
			line += fmt.Sprintf("conj_id=%d,%s actions=output:%s", id, g.one("ip", some()), g.one("5", "6", "7"))
		default:
			line += fmt.Sprintf("%s actions=conjunction(%d,%d/%d)", some(), id, 1+g.IntN(dims), dims)
			if g.IntN(4) == 0 {
				line += ",conjunction(4,1/2)"
			}
		}
		out = append(out, "table=1,"+line)
	}
	return append(out, "in_port=1 actions=load:1->NXM_NX_REG0[],"+g.one("resubmit(,1)", "resubmit(2,1)"),
		"actions=resubmit(,1)", "table=1,priority=3,conj_id=4,ip actions=output:8",
		"table=1,priority=3,nw_dst=10.0.0.2,ip actions=conjunction(4,2/2)")
}

// everyPacket are packets that such tables tell apart.
func everyPacket() (out []*walk.Packet) {
	for i := range 3 * 4 * 4 {
		p := walk.NewPacket(pipeline.Match{})
		p.Set(pipeline.InPort, pipeline.Value{Lo: uint64(1 + i%3)})
		p.Set(pipeline.EthType, pipeline.Value{Lo: 0x800})
		p.Set(pipeline.NWSrc, pipeline.Value{Lo: 10<<24 + uint64(i/3%4)})
		p.Set(pipeline.NWDst, pipeline.Value{Lo: 10<<24 + uint64(i/12)})
		out = append(out, p)
	}
	return out
}

// TestConjunctions: of changes to flows of conjunctions, none is said to be equal that a packet
// tells apart, of all that matter, and few are undecided.
func TestConjunctions(t *testing.T) {
	g := maker{drawn.Random(t)}
	verdicts := map[proof.Verdict]int{}
	packets := everyPacket()
	for range drawn.Number(t, "PATHWISE_PAIRS", 150) {
		la := g.conjunctive(3 + g.IntN(8))
		lb := slices.Clone(la)
		for range 1 + g.IntN(2) {
			i := g.IntN(len(lb))
			lb[i] = g.conjunctive(1)[0]
			if g.IntN(3) == 0 {
				lb = slices.Delete(lb, i, i+1)
			}
		}
		names := pipeline.NewNames()
		a, b := read(t, names, la...), read(t, names, lb...)
		d := proof.Of(a, b, proof.Options{Packets: 300, Random: rand.New(rand.NewPCG(g.Uint64(), 1))})
		verdicts[d.Verdict]++
		if d.Verdict != proof.Equal && !d.Contradicted {
			continue
		}
		inA, inB := walk.Through(a), walk.Through(b)
		for _, p := range packets {
			wa, wb := inA.Follow(p, walk.Given{}), inB.Follow(p, walk.Given{})
			if len(wa.Undefined)+len(wb.Undefined) == 0 && inA.Result(wa) != inB.Result(wb) {
				t.Fatalf("said to be equal, but %s is not\nA\n%s\nB\n%s", a.PrintTerms(p.Terms(a.Words)),
					strings.Join(la, "\n"), strings.Join(lb, "\n"))
			}
		}
	}
	t.Log(verdicts)
}
