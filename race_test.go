package pathwise_test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRaceLeavesOutWhatItMay: what make race leaves out exists, and what is left out as
// it starts no goroutine starts none.
func TestRaceLeavesOutWhatItMay(t *testing.T) {
	raw, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(strings.ReplaceAll(string(raw), "\\\n", " "), "\nRACE_NOT := ")
	line, _, _ := strings.Cut(rest, "\n")
	out := strings.Fields(line)
	if !found || len(out) == 0 {
		t.Fatal("the Makefile has no RACE_NOT")
	}
	all, fset := packages(t)
	for _, dir := range out {
		if all[dir] == nil {
			t.Errorf("make race leaves out %s, which is no package", dir)
		}
	}
	for _, dir := range []string{"internal/steer/dataplane", "internal/steer/decide", "internal/measure/rank",
		"internal/measure/report", "internal/stat"} {
		if !slices.Contains(out, dir) {
			continue
		}
		for _, f := range all[dir].files {
			ast.Inspect(f, func(n ast.Node) bool {
				if starts(n) {
					t.Errorf("%v: %s starts a goroutine: make race must not leave it out", fset.Position(n.Pos()), dir)
				}
				return true
			})
		}
	}
}

// starts reports whether a node starts a goroutine: by go, or by methods and functions
// that do.
func starts(n ast.Node) bool {
	if _, ok := n.(*ast.GoStmt); ok {
		return true
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "AfterFunc")
}
