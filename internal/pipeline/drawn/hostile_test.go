package drawn_test

import (
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/depth"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/graph"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
	"pathwise.dev/pathwise/internal/pipeline/survey"
)

// TestHostile: whatever a pipeline is, each command comes to an end with it, in less than
// 1 GiB; what was not understood is named.
func TestHostile(t *testing.T) {
	hostile := drawn.Hostile()
	for _, why := range slices.Sorted(maps.Keys(hostile)) {
		t.Run(why, func(t *testing.T) {
			p := pipeline.New(nil)
			if err := p.Read(strings.NewReader(hostile[why])); err != nil {
				t.Fatal(err)
			}
			s := survey.Of(p)
			if err := graph.Write(io.Discard, s); err != nil {
				t.Error(err)
			}
			named := len(s.Lost) + len(s.NotUnderstood)
			if is := why == "a line of 10 MB" || why == "unknown actions" || why == "clones in each other"; is != (named > 0) {
				t.Errorf("%d places were not understood", named)
			}
			const large = 2 << 20
			if len(hostile[why]) > large && len(p.Flows) > 1 {
				return // each flow costs what it costs elsewhere
			}
			random := rand.New(rand.NewPCG(1, 1))
			depth.Of(p, 5, random)
			half := p.With(p.Flows[:len(p.Flows)/2])
			for _, q := range []*pipeline.Pipeline{p, half} {
				d := proof.Of(p, q, proof.Options{Packets: 5, Random: random})
				if q == p && d.Verdict == proof.Different || d.Contradicted {
					t.Errorf("%s", d.Verdict)
				}
			}
			reduction.Of(p, reduction.Options{Packets: 5, Seed: 1})
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.Sys > 1<<30 {
				t.Errorf("%d MiB", m.Sys>>20)
			}
			runtime.GC()
		})
	}
}
