// Package helm holds the chart that "pathwise kube chart" writes to what "pathwise kube install" gives a
// cluster, by Helm's own library.
package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/strvals"
)

// program builds pathwise, and is where it is.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pathwise")
	cmd := exec.Command("go", "-C", "../..", "build", "-buildvcs=false", "-o", path, "./cmd/pathwise")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, &said)
	}
	return out
}

// objects are the documents by kind and name.
func objects(t *testing.T, text []byte) map[string]any {
	t.Helper()
	out := map[string]any{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if doc != nil {
			out[fmt.Sprint(doc["kind"], "/", doc["metadata"].(map[string]any)["name"])] = doc
		}
	}
}

// rendered is what "helm template" prints, its notes left out.
func rendered(t *testing.T, dir string, sets ...string) ([]byte, error) {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	vals := map[string]any{}
	for _, s := range sets {
		if err := strvals.ParseInto(s, vals); err != nil {
			t.Fatal(err)
		}
	}
	version := chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}
	i := action.NewInstall(&action.Configuration{Log: t.Logf})
	i.DryRun, i.ClientOnly, i.Replace, i.KubeVersion = true, true, true, &version
	i.ReleaseName, i.Namespace = "pathwise", "default"
	rel, err := i.Run(c, vals)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(rel.Info.Notes, "create secret generic pathwise-key") {
		t.Errorf("notes: %s", rel.Info.Notes)
	}
	return []byte(rel.Manifest), nil
}

// TestChart: "helm template" prints the objects of "kube install --dry-run", whatever is set, and the
// linter finds nothing.
func TestChart(t *testing.T) {
	bin, dir := program(t), filepath.Join(t.TempDir(), "pathwise")
	run(t, bin, "kube", "chart", dir, "--version", "1.2.3")
	for _, tc := range []struct{ flags, sets []string }{
		{},
		{[]string{"--network", "shop/fast"}, []string{"networks={shop/fast}"}},
		{[]string{"--network", "shop/fast,shop/bulk", "--image", "example.org:5000/pathwise:1", "--namespace", "net",
			"--cgroup", "/sys/fs/cgroup/unified", "--monitoring", "--policy", "static:default", "--need", "latency"},
			[]string{"networks={shop/fast,shop/bulk}", "image=example.org:5000/pathwise:1", "namespace=net",
				"cgroup=/sys/fs/cgroup/unified", "monitoring=true", "policy=static:default", "need=latency"}},
	} {
		got, err := rendered(t, dir, tc.sets...)
		if err != nil {
			t.Fatal(err)
		}
		ours := objects(t, run(t, bin, append([]string{"kube", "install", "--dry-run"}, tc.flags...)...))
		theirs := objects(t, got)
		for name, want := range ours {
			if !reflect.DeepEqual(theirs[name], want) {
				t.Errorf("%v: %s is\n%v\nwant\n%v", tc.sets, name, theirs[name], want)
			}
		}
		if len(theirs) != len(ours) || len(ours) < 9 {
			t.Errorf("%v: the chart has %d objects, install %d", tc.sets, len(theirs), len(ours))
		}
	}
	l := action.NewLint()
	l.Strict = true
	set := values.Options{Values: []string{"monitoring=true,networks={shop/fast}"}}
	vals, err := set.MergeValues(getter.Providers{})
	if err != nil {
		t.Fatal(err)
	}
	res := l.Run([]string{dir}, vals)
	for _, m := range res.Messages {
		t.Log(m)
	}
	if len(res.Errors) > 0 || res.TotalChartsLinted != 1 {
		t.Errorf("%v", res.Errors)
	}
}

// TestBadValues: what would make another document than is meant is refused, as install refuses it.
func TestBadValues(t *testing.T) {
	bin, dir := program(t), filepath.Join(t.TempDir(), "pathwise")
	run(t, bin, "kube", "chart", dir)
	for _, set := range []string{"image=a b", "networks={fast}", "namespace=A", "cgroup=sys", "policy=a b", "policy=best",
		"need=a\"", "need=speed", "monitoring=2", "imgae=x"} {
		if text, err := rendered(t, dir, set); err == nil {
			t.Errorf("%s is taken:\n%s", set, text)
		}
	}
}
