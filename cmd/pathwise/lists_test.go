package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
)

// TestListsAsShipped benches CNI configuration lists as their projects ship them: each of them
// gives a figure on one host in each IP family that it gives addresses of, on a guest's kernel
// where this one lacks what it needs.
func TestListsAsShipped(t *testing.T) {
	bin := binDir(t)
	files, err := filepath.Glob("../../internal/lab/network/catalogue/testdata/lists/*.conf*")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d lists, expected 15 or more: %v", len(files), err)
	}
	dir := t.TempDir()
	var exp strings.Builder
	exp.WriteString("name: lists\ntopologies: one-host\nfamily: [4, 6]\nwarmup: 50ms\nduration: 200ms\nrepetitions: 1\nworkloads: [tcp-rr]\nnetworks:\n")
	for _, f := range files {
		path, err := filepath.Abs(f)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(f), filepath.Ext(f))
		fmt.Fprintf(&exp, "  - {name: %s, cni: %s}\n", name, path)
	}
	file := filepath.Join(dir, "lists.yaml")
	if err := os.WriteFile(file, []byte(exp.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "pathwise"), "bench", "-f", file, "--out", filepath.Join(dir, "out"))
	cmd.Env = append(os.Environ(), "CNI_PATH="+filepath.Join(bin, "cni"), "PATHWISE_STATE="+filepath.Join(dir, "state"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("bench: %v\n%s", err, out)
	}
	r, err := result.Open(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	figures, spoken := map[string]bool{}, map[string][]int{}
	for _, tr := range r.Samples.Trials {
		if tr.Status == sample.OK {
			figures[tr.Network] = true
			spoken[tr.Network] = append(spoken[tr.Network], tr.Scenario.IP())
		} else {
			t.Logf("%s on %s: %s: %s", tr.Network, tr.Kernel, tr.Status, tr.Reason)
		}
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), filepath.Ext(f)); !figures[name] {
			t.Errorf("%s gave no figure", name)
		}
	}
	for name, want := range map[string][]int{"dual-stack": {4, 6}, "ipv6": {6}, "kind": {4}} {
		if slices.Sort(spoken[name]); !slices.Equal(spoken[name], want) {
			t.Errorf("%s speaks %v, expected %v", name, spoken[name], want)
		}
	}
}
