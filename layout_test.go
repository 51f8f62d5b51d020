// Package pathwise_test holds the rules of the house: it reads the imports and
// declarations of every package and fails where one breaks a rule.
package pathwise_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "pathwise.dev/pathwise/"

// pkg is one package of the module, without its tests.
type pkg struct {
	dir     string
	name    string
	imports map[string]bool
	files   []*ast.File
	docs    int
}

// packages parses every package of the module by its directory. Directories
// with a go.mod of their own are other modules.
func packages(t *testing.T) (map[string]*pkg, *token.FileSet) {
	t.Helper()
	fset := token.NewFileSet()
	out := map[string]*pkg{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && p != "." || p == "tools" || p == "bin" ||
				p == "results" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(p))
		if out[dir] == nil {
			out[dir] = &pkg{dir: dir, name: f.Name.Name, imports: map[string]bool{}}
		}
		q := out[dir]
		q.files = append(q.files, f)
		if f.Doc != nil {
			q.docs++
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			q.imports[name] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, fset
}

// reaches reports whether a package of the module imports target, directly or
// through others of the module.
func reaches(all map[string]*pkg, dir, target string, seen map[string]bool) bool {
	p := all[dir]
	if p == nil || seen[dir] {
		return false
	}
	seen[dir] = true
	for i := range p.imports {
		if i == target || strings.HasPrefix(i, target+"/") {
			return true
		}
		if rest, ok := strings.CutPrefix(i, module); ok && reaches(all, rest, target, seen) {
			return true
		}
	}
	return false
}

func TestPurePackagesDoNoIO(t *testing.T) {
	all, _ := packages(t)
	forbidden := []string{"os", "net", "syscall", "os/exec", "net/http", "golang.org/x/sys/unix",
		"github.com/vishvananda/netlink"}
	for _, dir := range []string{"internal/topo", "internal/sample", "internal/stat", "internal/measure/application",
		"internal/measure/rank", "internal/measure/figure", "internal/measure/claim", "internal/measure/paper",
		"internal/steer/decide", "internal/steer/detect", "internal/steer/flow", "internal/steer/prior", "internal/explain",
		"internal/pipeline", "internal/pipeline/walk", "internal/pipeline/witness",
		"internal/pipeline/depth", "internal/pipeline/proof", "internal/pipeline/survey",
		"internal/pipeline/reduction", "internal/steer/kube/manifest", "internal/steer/kube/netpolicy",
		"internal/steer/kube/pathpolicy"} {
		for _, f := range forbidden {
			for i := range all[dir].imports {
				if i == f {
					t.Errorf("%s imports %s: it is pure", dir, f)
				}
			}
			if f != "net" && reaches(all, dir, f, map[string]bool{}) { // net/netip is a value type
				t.Errorf("%s reaches %s: it is pure", dir, f)
			}
		}
	}
	for _, dir := range []string{"internal/measure/experiment", "internal/config", "internal/measure/report"} {
		for _, f := range forbidden {
			if all[dir].imports[f] {
				t.Errorf("%s imports %s: it works on values, readers and writers", dir, f)
			}
		}
	}
}

// floors lists the rooms from the lowest floor up. A package imports what is on its
// own floor or on one below.
func floors() [][]string {
	return [][]string{
		{"stamp"}, // what others import
		{"internal/topo", "internal/sample", "internal/stat", "internal/config", "internal/pipeline"}, // words of all
		{"internal/lab"},
		{"internal/explain"},
		{"internal/measure"},
		{"internal/steer"},
		{"cmd", "experiments", "scripts"},
	}
}

// TestArchitectureNamesPackages: a newcomer finds each package in the list of architecture.md, but for those of one
// network or workload each, which are alike.
func TestArchitectureNamesPackages(t *testing.T) {
	doc, err := os.ReadFile("docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := packages(t)
	for dir := range all {
		parent, name := path.Split(dir)
		alike := slices.Contains([]string{"internal/lab/network/", "internal/measure/workload/"}, parent)
		if strings.HasPrefix(dir, "internal/") && !alike && !strings.Contains(string(doc), " "+name+"/") {
			t.Errorf("%s is not in docs/explanation/architecture.md", dir)
		}
	}
}

// under reports whether a directory is the room or in it.
func under(dir, room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") }

// floor is the number of the floor that a directory is on, or -1.
func floor(dir string) int {
	return slices.IndexFunc(floors(), func(rooms []string) bool {
		return slices.ContainsFunc(rooms, func(room string) bool { return under(dir, room) })
	})
}

func TestArrowsPointDown(t *testing.T) {
	all, _ := packages(t)
	for dir, p := range all {
		if floor(dir) < 0 && strings.HasPrefix(dir, "internal/") {
			t.Errorf("%s is in no room: see floors", dir)
		}
		for i := range p.imports {
			to, ok := strings.CutPrefix(i, module)
			if ok && dir != "." && floor(to) > floor(dir) {
				t.Errorf("%s imports %s, which is on a floor above", dir, to)
			}
		}
	}
}

// TestOthersImportWithoutUs: a public package brings nothing of this module, and
// nothing of others but the Go project's own.
func TestOthersImportWithoutUs(t *testing.T) {
	all, _ := packages(t)
	for dir, p := range all {
		if !under(dir, "stamp") {
			continue
		}
		for i := range p.imports {
			first, _, _ := strings.Cut(i, "/")
			if strings.Contains(first, ".") && !strings.HasPrefix(i, "golang.org/x/net/") &&
				!strings.HasPrefix(i, "golang.org/x/sys/") {
				t.Errorf("%s imports %s: it has the standard library, x/net and x/sys", dir, i)
			}
		}
	}
}

func TestMeasuringDoesNotKnowTheRanking(t *testing.T) {
	all, _ := packages(t)
	for dir := range all {
		if (dir == "internal/measure/bench" || dir == "internal/measure/campaign" ||
			strings.HasPrefix(dir, "internal/measure/workload") || under(dir, "internal/lab")) &&
			reaches(all, dir, module+"internal/measure/rank", map[string]bool{}) {
			t.Errorf("%s reaches internal/measure/rank", dir)
		}
	}
}

func TestOnlyTheirOwnersImport(t *testing.T) {
	all, _ := packages(t)
	owners := map[string]string{
		"github.com/vishvananda/netns":         "internal/lab/netns",
		"github.com/spf13/cobra":               "cmd/pathwise",
		module + "internal/measure/campaign":   "cmd/pathwise",
		"go.yaml.in/yaml/v3":                   "internal/config internal/lab/network/custom internal/measure/experiment",
		"github.com/google/jsonschema-go":      "internal/config",
		"gonum.org/v1/gonum":                   "internal/stat",
		"github.com/opencontainers":            "internal/lab/oci",
		"github.com/HdrHistogram":              "internal/sample",
		"github.com/containernetworking":       "internal/lab internal/lab/network/custom internal/lab/cni cmd/pathwise-cni",
		"github.com/cilium/ebpf":               "internal/steer/dataplane internal/steer/telemetry internal/lab/impair internal/explain/profile",
		"github.com/prometheus/client_golang":  "internal/steer/agent",
		"go.mongodb.org/mongo-driver":          "internal/measure/workload/mongowire internal/measure/workload/mongo",
		"k8s.io":                               "internal/steer/kube internal/steer/kube/admin internal/steer/kube/v1alpha1",
		module + "internal/lab/network/bridge": "internal/lab/network/plain internal/lab/network/catalogue",
	}
	for target, list := range owners {
		idle := strings.Fields(list)
		for dir, p := range all {
			for i := range p.imports {
				if i != target && !strings.HasPrefix(i, target+"/") {
					continue
				}
				if !slices.Contains(strings.Fields(list), dir) {
					t.Errorf("%s imports %s: only %s does", dir, i, list)
				}
				idle = slices.DeleteFunc(idle, func(owner string) bool { return owner == dir })
			}
		}
		for _, owner := range idle {
			t.Errorf("the rule about %s names %s, which does not import it", target, owner)
		}
	}
}

// TestDeclarations: no init, no mutable globals, exits only in main, and only
// netns changes a thread's namespace.
func TestDeclarations(t *testing.T) {
	all, fset := packages(t)
	for dir, p := range all {
		for _, f := range p.files {
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.Name == "init" && d.Recv == nil {
						t.Errorf("%s: init function", fset.Position(d.Pos()))
					}
				case *ast.GenDecl:
					if d.Tok == token.VAR {
						checkGlobals(t, fset, d)
					}
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, _ := s.X.(*ast.Ident)
				if x == nil {
					return true
				}
				call := x.Name + "." + s.Sel.Name
				if slices.Contains([]string{"unix.Setns", "unix.Unshare", "syscall.Unshare", "syscall.CLONE_NEWNET",
					"unix.CLONE_NEWNET"}, call) && dir != "internal/lab/netns" {
					t.Errorf("%s: %s: only internal/lab/netns enters or makes namespaces", fset.Position(n.Pos()), call)
				}
				if (call == "os.Exit" || strings.HasPrefix(call, "log.Fatal")) &&
					path.Base(fset.Position(n.Pos()).Filename) != "main.go" {
					t.Errorf("%s: %s outside main", fset.Position(n.Pos()), call)
				}
				return true
			})
		}
	}
}

// checkGlobals allows what cannot change in use: errors, embedded files, and
// checks that a type implements an interface.
func checkGlobals(t *testing.T, fset *token.FileSet, d *ast.GenDecl) {
	embedded := d.Doc != nil && strings.Contains(d.Doc.Text()+commentText(d.Doc), "go:embed")
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		for _, name := range v.Names {
			fine := name.Name == "_" || embedded || strings.HasPrefix(name.Name, "Err") || strings.HasPrefix(name.Name, "err")
			if v.Doc != nil && strings.Contains(commentText(v.Doc), "go:embed") {
				fine = true
			}
			if !fine {
				t.Errorf("%s: global variable %s", fset.Position(v.Pos()), name.Name)
			}
		}
	}
}

// commentText keeps directives, which ast.CommentGroup.Text drops.
func commentText(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(c.Text)
	}
	return b.String()
}

func TestPackagesAreDocumentedNouns(t *testing.T) {
	all, fset := packages(t)
	for dir, p := range all {
		if p.docs != 1 {
			t.Errorf("%s: %d package comments, expected one", dir, p.docs)
		}
		for _, bad := range []string{"util", "utils", "common", "helpers", "misc", "types", "base", "core"} {
			if path.Base(dir) == bad {
				t.Errorf("%s: a room without a name", dir)
			}
		}
		for _, f := range p.files {
			const most = 400
			if n := fset.File(f.Pos()).LineCount(); n > most && !ast.IsGenerated(f) {
				t.Errorf("%s: %d lines: split it by meaning", fset.Position(f.Pos()).Filename, n)
			}
		}
	}
}

// TestClocksAreInjected: these rooms read no clock but where they are given one.
func TestClocksAreInjected(t *testing.T) {
	all, fset := packages(t)
	for dir, file := range map[string]string{"internal/steer/agent": "clock.go", "internal/steer/detect": "",
		"internal/steer/decide": ""} {
		for _, f := range all[dir].files {
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, _ := s.X.(*ast.Ident)
				at := fset.Position(n.Pos())
				if x != nil && slices.Contains([]string{"time.Now", "time.Since", "time.Until"}, x.Name+"."+s.Sel.Name) &&
					path.Base(at.Filename) != file {
					t.Errorf("%s: %s.%s: the clock is given", at, x.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
}
