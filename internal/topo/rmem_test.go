package topo_test

import (
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

func TestRmemWords(t *testing.T) {
	for r, want := range map[topo.Rmem]string{topo.RmemAuto: "auto", 4 << 20: "4m", 512 << 10: "512k",
		1<<20 + 512<<10: "1536k", 99999: "99999"} {
		if got := r.Word(); got != want {
			t.Errorf("%d bytes are called %s, want %s", r, got, want)
		}
	}
}
