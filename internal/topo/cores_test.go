package topo_test

import (
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

func TestCores(t *testing.T) {
	for _, tc := range []struct {
		word           string
		pair           int
		cores          []int
		client, server int
	}{
		{"free", 0, []int{0, 1}, -1, -1},
		{"same", 0, []int{0, 1}, 0, 0},
		{"same", 3, []int{0, 1}, 1, 1},
		{"apart", 0, []int{0, 1}, 0, 1},
		{"apart", 5, []int{0, 1}, 0, 1},
		{"apart", 1, []int{2, 3, 6, 7}, 6, 7},
		{"apart", 1, []int{4, 5, 9}, 9, 4},
	} {
		c, err := topo.ParseCores(tc.word)
		if err != nil || c.Word() != tc.word {
			t.Fatalf("%s: %q, %v", tc.word, c, err)
		}
		if client, server := c.Ends(tc.pair, tc.cores); client != tc.client || server != tc.server {
			t.Errorf("pair %d %s of %v: %d and %d", tc.pair, tc.word, tc.cores, client, server)
		}
	}
	if _, err := topo.ParseCores(""); err == nil {
		t.Error("an empty word is a placement")
	}
	if topo.CoresApart.Check(1) == nil || topo.CoresApart.Check(2) != nil || topo.CoresSame.Check(1) != nil {
		t.Error("apart needs two, same one")
	}
}
