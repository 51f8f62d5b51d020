package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"pathwise.dev/pathwise/internal/lab/network/catalogue"
)

// fences returns the text of a Markdown file's fenced blocks of one language.
func fences(t *testing.T, path, language string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^( *)```"+language+"\n(.*?)^ *```").FindAllStringSubmatch(string(raw), -1) {
		out = append(out, strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")[1:])
	}
	return out
}

// pages returns the Markdown files that readers are given.
func pages(t *testing.T) []string {
	t.Helper()
	out, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// asksAgents tells whether a command needs an agent that a block has started in
// the background: a reader waits for it, and this test tries again.
func asksAgents(cmd string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(cmd, "pathwise ")), " ")
	return slices.Contains([]string{"paths", "events", "switch", "pin", "unpin"}, word)
}

const again = `i=0
until "$@"; do
	i=$((i + 1))
	[ $i -lt 300 ] || exit 1
	sleep 0.1
done
`

// TestDocs runs what the documentation shows: "console" blocks as they stand,
// the pathwise lines of "sh" blocks up to their flags, and "yaml" blocks as
// experiments.
func TestDocs(t *testing.T) {
	dir := t.TempDir()
	for _, page := range pages(t) {
		if strings.Contains(page, "/tutorial/") {
			continue // TestTutorials runs them, and looks at what they print
		}
		var script strings.Builder
		for _, block := range fences(t, page, "console") {
			for line := range strings.Lines(block) {
				if cmd, ok := strings.CutPrefix(line, "$ "); ok {
					again := ""
					if strings.Contains(block, "&\n") && asksAgents(cmd) {
						again = "sh again.sh "
					}
					fmt.Fprintf(&script, "exec %s%s", again, cmd)
				}
			}
		}
		for _, block := range fences(t, page, "sh") {
			for line := range strings.Lines(block) {
				if strings.HasPrefix(line, "pathwise ") {
					cmd, _, _ := strings.Cut(strings.TrimSpace(line), " #")
					fmt.Fprintf(&script, "exec %s --help\n", strings.TrimSpace(cmd))
				}
			}
		}
		files := ""
		for i, block := range fences(t, page, "yaml") {
			fmt.Fprintf(&script, "exec pathwise bench -f %d.yaml --dry-run\n", i)
			files += fmt.Sprintf("-- %d.yaml --\n%s", i, block)
		}
		for _, block := range fences(t, page, "xml") {
			files += "-- web.xml --\n" + block
		}
		if script.Len() == 0 {
			continue
		}
		files += "-- again.sh --\n" + again + "-- ours.conflist --\n" +
			`{"cniVersion":"1.0.0","name":"ours","plugins":[{"type":"bridge",` +
			`"ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/16"}]]}}]}` + "\n"
		name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(page, "../../"), ".md"), "/", "-") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script.String()+files), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{Dir: dir, Setup: setup(binDir(t))})
}

// TestPagesNameAll: the pages and the experiment that promise every network, and the pages of
// workloads, name all that there are.
func TestPagesNameAll(t *testing.T) {
	read := func(path string) string {
		raw, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	page, exp := read("docs/reference/networks.md"), read("experiments/networks.yaml")
	names := catalogue.Names()
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/reference/networks.md does not name `%s`", name)
		}
		if !strings.Contains(exp, "\n  - "+name+"\n") {
			t.Errorf("experiments/networks.yaml has no network %s", name)
		}
	}
	if want := fmt.Sprintf("It has %d [networks]", len(names)); !strings.Contains(read("README.md"), want) {
		t.Errorf("README.md does not say %q", want)
	}
	var workloads string
	for _, path := range []string{"workloads", "mongodb", "experiments"} {
		workloads += read("docs/reference/" + path + ".md")
	}
	for _, w := range (env{self: "pathwise"}).workloads() {
		if name := w.Info().Name; !strings.Contains(workloads, "`"+name+"`") {
			t.Errorf("no page names the workload `%s`", name)
		}
	}
}
