package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// lesson is a command of a tutorial, and what the page shows that it prints.
type lesson struct {
	command, shown string
}

// console finds what a page's console blocks hold.
var console = regexp.MustCompile("(?ms)^```console\n(.*?)^```")

// steps returns the commands of a console block.
func steps(block string) []lesson {
	var out []lesson
	for line := range strings.Lines(block) {
		if cmd, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, lesson{command: strings.TrimSpace(cmd)})
		} else if len(out) > 0 {
			out[len(out)-1].shown += line
		}
	}
	return out
}

// patience is a shell function for commands that need an agent: it tries until there is
// one that has seen traffic.
const patience = `again() {
	for i in $(seq 300); do
		if out=$("$@" 2>last.log); then
			case $out in "no pair of pods"*) ;; *) echo "$out"; return ;; esac
		fi
		sleep 0.1
	done
	cat last.log >&2
	return 1
}
`

// session is a shell script that runs the commands in turn and prints a line of its own
// before the output of each.
func session(all []lesson) string {
	var b strings.Builder
	b.WriteString("set -e\n" + patience)
	for i, s := range all {
		again := ""
		if asksAgents(s.command) {
			again = "again "
		}
		fmt.Fprintf(&b, "echo '@@%d'\n%s%s\n", i, again, s.command)
	}
	return b.String()
}

// play runs the commands of a page in an empty directory that holds the page's YAML
// blocks by their names, and returns what each has printed on standard output.
func play(t *testing.T, page string, all []lesson) []string {
	t.Helper()
	dir := t.TempDir()
	for _, block := range fences(t, page, "yaml") {
		name := regexp.MustCompile(`(?m)^name: (\S+)`).FindStringSubmatch(block)
		if err := os.WriteFile(filepath.Join(dir, name[1]+".yaml"), []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, block := range fences(t, page, "yml") { // of Kubernetes
		name := regexp.MustCompile(`^# (\S+)\n`).FindStringSubmatch(block)
		if err := os.WriteFile(filepath.Join(dir, name[1]), []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", session(all))
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	bin := binDir(t)
	cmd.Env = append(os.Environ(), "CNI_PATH="+filepath.Join(bin, "cni"), "PATH="+os.Getenv("PATH")+":"+bin,
		"PATHWISE_STATE="+filepath.Join(dir, "state"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		said, _ := removeLabs(cmd.Env) // the failure before it is what counts
		t.Fatalf("%v\n%s%s%s", err, out, stderr.Bytes(), said)
	}
	printed := regexp.MustCompile(`(?m)^@@\d+\n`).Split(string(out), -1)[1:]
	if len(printed) != len(all) {
		t.Fatalf("%d commands, and output of %d:\n%s", len(all), len(printed), out)
	}
	return printed
}

// shape is what two runs' outputs have in common: the first three words of the first line,
// without figures.
func shape(text string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(text, "\n"), "\n")
	words := strings.Fields(regexp.MustCompile(`[0-9][0-9.,:]*`).ReplaceAllString(line, "N"))
	return strings.Join(words[:min(len(words), 3)], " ")
}

// TestTutorials runs what the tutorials show, in their order, and holds the shape of each
// output to the page. With PATHWISE_PASTE=1 it writes the whole outputs into the page.
func TestTutorials(t *testing.T) {
	pages, err := filepath.Glob("../../docs/tutorial/*.md")
	if err != nil || len(pages) < 2 {
		t.Fatalf("%d tutorials: %v", len(pages), err)
	}
	onCluster := os.Getenv("PATHWISE_KUBE_TUTORIAL") != "" // scripts/kube-test.sh tutorial sets it
	for _, page := range pages {
		if onCluster != (filepath.Base(page) == "kubernetes.md") {
			continue // the one on Kubernetes needs the cluster that the script makes
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			raw, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			var all []lesson
			for _, m := range console.FindAllStringSubmatch(string(raw), -1) {
				all = append(all, steps(m[1])...)
			}
			printed := play(t, page, all)
			if os.Getenv("PATHWISE_PASTE") != "" {
				paste(t, page, string(raw), printed)
				return
			}
			for i, s := range all {
				if shape(s.shown) != shape(printed[i]) {
					t.Errorf("$ %s\nprints: %s\nthe page shows: %s", s.command, shape(printed[i]), shape(s.shown))
				}
			}
		})
	}
}

// paste writes into a page what its commands have printed.
func paste(t *testing.T, page, text string, printed []string) {
	t.Helper()
	next := 0
	text = console.ReplaceAllStringFunc(text, func(block string) string {
		var b strings.Builder
		b.WriteString("```console\n")
		for _, s := range steps(console.FindStringSubmatch(block)[1]) {
			shown := regexp.MustCompile(`(?m) +$`).ReplaceAllString(strings.TrimLeft(printed[next], "\n"), "")
			b.WriteString("$ " + s.command + "\n" + shown)
			next++
		}
		return b.String() + "```"
	})
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
