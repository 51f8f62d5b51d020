package pathwise_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pages returns the text of each Markdown file that readers are given, without its
// fenced blocks.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(path string) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[path] = regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(raw), "")
	}
	top, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range top {
		read(p)
	}
	err = filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// anchors returns the fragments by which a page's headings are linked to, as
// GitHub makes them.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out[strings.ReplaceAll(text, " ", "-")] = true
	}
	return out
}

// TestLinks: each relative link and picture of the docs leads to a file, and to a
// heading of it where it names one.
func TestLinks(t *testing.T) {
	all := pages(t)
	for path, text := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			file, fragment, named := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: link %s leads to no file", path, m[1])
			} else if named && !anchors(all[to])[fragment] {
				t.Errorf("%s: link %s leads to no heading", path, m[1])
			}
		}
	}
}

// TestNamedPages: each page that code, scripts and experiments name is there.
func TestNamedPages(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == ".git" || path == "bin" || path == "results" {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".c", ".h", ".sh", ".yaml", ".txtar", "":
		default:
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range regexp.MustCompile(`\bdocs/[\w/-]+\.(?:md|svg)\b`).FindAll(raw, -1) {
			if _, err := os.Stat(string(m)); err != nil {
				t.Errorf("%s names %s, and there is none", path, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlainWords keeps words out of docs, code and experiments that a reader of the field's
// papers and manuals does not meet.
func TestPlainWords(t *testing.T) {
	odd := regexp.MustCompile(`(?i)[^\n]*\b(stands|anew|beside|whoever|in\s+vain)\b`)
	for path, text := range pages(t) {
		for _, line := range odd.FindAllString(text, -1) {
			t.Errorf("%s: %s", path, line)
		}
	}
	for _, path := range slices.Concat(sources(t, "cmd"), sources(t, "experiments"), sources(t, "internal"),
		sources(t, "scripts"), sources(t, "stamp"), sources(t, "tools")) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range odd.FindAllString(string(raw), -1) {
			t.Errorf("%s: %s", path, line)
		}
	}
}

// TestPlainNames keeps words out of the names of internal/steer for which the field has others, as
// received for heard, notified for told, failover for flee.
func TestPlainNames(t *testing.T) {
	odd := strings.Fields("anew assail astray bearing beside blow borne bystander fled flee flees forgive forgiven gust " +
		"hear heard hears malice ride rides sift stands straighten strike struck throw thrown told untold whoever")
	words := regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)
	for _, path := range sources(t, "internal/steer") {
		if filepath.Ext(path) != ".go" {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s scanner.Scanner
		files := token.NewFileSet()
		s.Init(files.AddFile(path, -1, len(src)), src, nil, 0)
		for pos, tok, name := s.Scan(); tok != token.EOF; pos, tok, name = s.Scan() {
			for _, word := range words.FindAllString(name, -1) {
				if tok == token.IDENT && slices.Contains(odd, strings.ToLower(word)) {
					t.Errorf("%s: the name %s", files.Position(pos), name)
				}
			}
		}
	}
}

// sources returns the files under a directory that somebody wrote.
func sources(t *testing.T, dir string) (out []string) {
	t.Helper()
	written := []string{".go", ".c", ".h", ".sh", ".yaml", ".txtar", ".html", ".css"}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains(written, filepath.Ext(path)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// groups returns what the first group of a pattern matches in some files, sorted, each once.
func groups(t *testing.T, pattern string, files ...string) []string {
	t.Helper()
	var out []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(raw, -1) {
			out = append(out, string(m[1]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestMetricsAndEvents: the reference has each metric and each kind of event of an agent,
// and no other metric.
func TestMetricsAndEvents(t *testing.T) {
	metrics := groups(t, `\bd\("([a-z_]+)", "`, "internal/steer/agent/metrics.go")
	if page := groups(t, "`pathwise_(?:path|agent)_([a-z_]+)`", "docs/reference/metrics.md"); !slices.Equal(page,
		metrics) {
		t.Errorf("metrics.md has %v\nthe agent has %v", page, metrics)
	}
	kinds := groups(t, `(?m)^\s+(?:Event\w+|\w+ Kind)\s+= "([a-z]+)"`, "internal/steer/agent/event.go",
		"internal/steer/decide/decide.go")
	text := strings.Join(groups(t, `(?m)^\| (.*?) \|`, "docs/reference/events.md"), " ")
	for _, kind := range kinds {
		if !strings.Contains(text, "`"+kind+"`") {
			t.Errorf("events.md lacks %s", kind)
		}
	}
	if len(kinds) < 10 {
		t.Errorf("%d kinds", len(kinds))
	}
}

// TestReadmeIsShort: two screens, pictures and all.
func TestReadmeIsShort(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	const line, screen = 22, 950
	height := line * strings.Count(string(raw), "\n")
	for _, m := range regexp.MustCompile(`!\[[^]]*\]\(([^)]+)\)`).FindAllSubmatch(raw, -1) {
		picture, err := os.ReadFile(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		size := regexp.MustCompile(` height="(\d+)"`).FindSubmatch(picture)
		if size == nil {
			t.Fatalf("%s has no height", m[1])
		}
		n, err := strconv.Atoi(string(size[1]))
		if err != nil {
			t.Fatal(err)
		}
		height += n
	}
	if height > 2*screen {
		t.Errorf("README.md is %d pixels high, expected at most %d", height, 2*screen)
	}
}
