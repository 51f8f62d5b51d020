package agent

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// parts are the types that newAgent puts together, each with those that its fields lead to.
func parts(t *testing.T) map[string][]string {
	t.Helper()
	files, _ := filepath.Glob("*.go") // the pattern is right
	fields := map[string][]string{}
	read := func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, f := range s.Fields.List {
			if star, ok := f.Type.(*ast.StarExpr); ok {
				if to, ok := star.X.(*ast.Ident); ok {
					fields[spec.Name.Name] = append(fields[spec.Name.Name], to.Name)
				}
			}
		}
		return false
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, read)
	}
	out := map[string][]string{"Agent": fields["Agent"]}
	for _, part := range fields["Agent"] {
		out[part] = fields[part]
	}
	return out
}

// TestPartsPointOneWay: no part of the agent leads back to itself or to the agent.
func TestPartsPointOneWay(t *testing.T) {
	all := parts(t)
	if len(all) < 20 {
		t.Fatalf("%d parts", len(all))
	}
	var walk func(at string, way []string)
	walk = func(at string, way []string) {
		if slices.Contains(way, at) {
			t.Fatalf("%s leads back to %s", strings.Join(way, " to "), at)
		}
		for _, to := range all[at] {
			walk(to, append(slices.Clone(way), at))
		}
	}
	for _, part := range slices.Sorted(maps.Keys(all)) {
		walk(part, nil)
	}
}
