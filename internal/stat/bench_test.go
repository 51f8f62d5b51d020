package stat

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkTQuantile(b *testing.B) {
	for b.Loop() {
		TQuantile(0.975, 4)
	}
}

func BenchmarkPosteriorDraw(b *testing.B) {
	p, _ := NewPosterior([]float64{1, 2, 3, 4, 5})
	r := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		p.Draw(r)
	}
}
