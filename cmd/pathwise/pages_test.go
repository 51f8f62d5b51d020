package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const pagesDir = "../../docs/reference/cli"

// TestPages: docs/reference/cli is what cobra makes of the commands, and each command has
// a man page. With PATHWISE_MAN=DIR, as make man sets it, the reference is written, and
// the man pages into DIR.
func TestPages(t *testing.T) {
	root := rootCommand(env{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" },
		self: "pathwise"})
	root.DisableAutoGenTag = true // a date, of which each run would make another page
	made := t.TempDir()
	if err := doc.GenMarkdownTree(root, made); err != nil {
		t.Fatal(err)
	}
	if man := os.Getenv("PATHWISE_MAN"); man != "" {
		writeManPages(t, root, man)
		if err := os.RemoveAll(pagesDir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(pagesDir, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
	}
	committed, want := names(t, pagesDir), names(t, made)
	if !slices.Equal(committed, want) || len(want) < 20 {
		t.Errorf("docs/reference/cli has %v\nthe commands make %v: run make man", committed, want)
	}
	for _, name := range want {
		a, err := os.ReadFile(filepath.Join(pagesDir, name))
		if err != nil {
			continue // said above
		}
		b, err := os.ReadFile(filepath.Join(made, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("docs/reference/cli/%s is not what the command says: run make man", name)
		}
	}
	dir := t.TempDir()
	writeManPages(t, root, dir)
	pages := names(t, dir)
	for _, name := range want {
		page := strings.ReplaceAll(strings.TrimSuffix(name, ".md"), "_", "-") + ".1"
		if !slices.Contains(pages, page) {
			t.Errorf("there is no man page %s", page)
		}
	}
}

// writeManPages writes a page for each command. Its date is the day on which the pages
// last were laid out: the day of a build would make every build another.
func writeManPages(t *testing.T, root *cobra.Command, dir string) {
	t.Helper()
	day := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	head := &doc.GenManHeader{Section: "1", Source: "Pathwise", Manual: "Pathwise", Date: &day}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := doc.GenManTree(root, head, dir); err != nil {
		t.Fatal(err)
	}
}

// names are those of a directory's files, sorted; none where there is no directory.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
