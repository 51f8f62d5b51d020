// Package nfpm holds what is given away to what it is to be: scripts/dist.sh with the pinned maker of
// Debian packages.
package nfpm

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run returns what a command says.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "SOURCE_DATE_EPOCH=1700000000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestDist: packages hold the programs, pages and completion, can be installed, are the same when made
// again, and SHA256SUMS is of all files.
func TestDist(t *testing.T) {
	dir := t.TempDir()
	nfpm, programs, man := filepath.Join(dir, "nfpm"), filepath.Join(dir, "programs"), filepath.Join(dir, "man")
	run(t, "go", "build", "-o", nfpm, "github.com/goreleaser/nfpm/v2/cmd/nfpm")
	for _, p := range []string{"pathwise", "pathwise-cni"} {
		run(t, "go", "-C", "../..", "build", "-o", filepath.Join(programs, p), "./cmd/"+p)
	}
	if err := os.Mkdir(man, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(man, "pathwise.1"), []byte(".TH PATHWISE 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const name = "pathwise_1.2.3_amd64"
	var before []byte
	for range 2 {
		out := filepath.Join(dir, "out")
		run(t, "../../scripts/dist.sh", out, "v1.2.3", nfpm, man, "amd64="+programs, "arm64="+programs)
		if text := run(t, "sh", "-c", "cd "+out+" && sha256sum -c SHA256SUMS"); strings.Count(text, ": OK") != 5 {
			t.Errorf("%s", text)
		}
		var made []byte
		for _, file := range []string{name + ".deb", "pathwise-1.2.3.tgz"} {
			raw, err := os.ReadFile(filepath.Join(out, file))
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, raw...)
		}
		if before != nil && !bytes.Equal(made, before) {
			t.Error("made again, it is another")
		}
		before = made
	}
	chart := run(t, "tar", "-xOzf", filepath.Join(dir, "out", "pathwise-1.2.3.tgz"), "pathwise/Chart.yaml",
		"pathwise/templates/agent.yaml")
	if !strings.Contains(chart, "version: 1.2.3\n") || !strings.Contains(chart, "kind: DaemonSet") {
		t.Errorf("%s", chart)
	}
	deb := filepath.Join(dir, "out", name+".deb")
	files := run(t, "dpkg-deb", "-c", deb)
	for _, want := range []string{"./usr/bin/pathwise\n", "./usr/lib/cni/pathwise-cni\n", "kubectl-pathwise -> pathwise\n",
		"man1/pathwise.1.gz\n", "completions/pathwise\n", "doc/pathwise/copyright\n"} {
		if !strings.Contains(files, want) {
			t.Errorf("no %q in\n%s", want, files)
		}
	}
	if info := run(t, "dpkg-deb", "-f", deb, "Package", "Version", "Architecture"); info !=
		"Package: pathwise\nVersion: 1.2.3\nArchitecture: amd64\n" {
		t.Errorf("%s", info)
	}
	run(t, "dpkg-deb", "-x", deb, filepath.Join(dir, "root"))
	raw, err := os.ReadFile(filepath.Join(dir, "out", name+".cdx.json"))
	var list struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	if err != nil || json.Unmarshal(raw, &list) != nil || list.BOMFormat != "CycloneDX" || len(list.Components) == 0 ||
		!strings.HasPrefix(list.Components[0].Purl, "pkg:golang/"+list.Components[0].Name+"@v") {
		t.Errorf("%.300s, %v", raw, err)
	}
}

// TestImage: an image has what its index says, for each architecture, and is the same when made again.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var before []byte
	for _, file := range []string{"a.tar", "b.tar"} {
		at := filepath.Join(dir, file)
		run(t, "../../scripts/image.sh", at, "example.org/pathwise:1", "pathwise", "amd64="+program, "arm64="+program)
		raw, err := os.ReadFile(at)
		if err != nil || before != nil && !bytes.Equal(raw, before) {
			t.Errorf("made again, it is another (%v)", err)
		}
		before = raw
	}
	run(t, "tar", "-C", dir, "-xf", filepath.Join(dir, "a.tar"))
	if out := run(t, "sh", "-c", "cd "+dir+"/blobs/sha256 && for f in *; do echo \"$f  $f\"; done | sha256sum -c"); strings.
		Contains(out, "FAILED") {
		t.Errorf("%s", out)
	}
	type entry struct {
		Digest      string
		Platform    struct{ Architecture string }
		Annotations map[string]string
	}
	read := func(file string) (all []entry) {
		var index struct{ Manifests []entry }
		raw, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || json.Unmarshal(raw, &index) != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		return index.Manifests
	}
	top := read("index.json")
	if len(top) != 1 || top[0].Annotations["io.containerd.image.name"] != "example.org/pathwise:1" ||
		top[0].Annotations["org.opencontainers.image.ref.name"] != "1" {
		t.Fatalf("%+v", top)
	}
	all := read(filepath.Join("blobs/sha256", strings.TrimPrefix(top[0].Digest, "sha256:")))
	if len(all) != 2 || all[0].Platform.Architecture != "amd64" || all[1].Platform.Architecture != "arm64" {
		t.Errorf("%+v", all)
	}
}
