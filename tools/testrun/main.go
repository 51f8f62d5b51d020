// Command testrun reads what "go test -json" writes and prints it short: a line
// for each package, the output of tests that failed, every skipped test with
// its reason, the tests that took longest, and the totals. It fails when a test failed and, as a skipped
// test proves nothing, when one was skipped, unless PATHWISE_ALLOW_SKIP is 1.
//
// Its arguments, where there are any, are a command that runs tests ("go test -json"). A few tests that failed
// run once more by it, each alone: a test of live networks may fail on a machine that is busy with other work.
// One that passes then is printed as flaky, with the output of its failure, and the run passes. PATHWISE_STRICT=1
// counts it as failed. A package that crashed, ran out of time or was not built fails at once.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	again := again(os.Args[1:])
	if os.Getenv("PATHWISE_STRICT") == "1" {
		again = nil
	}
	if err := run(os.Stdin, os.Stdout, os.Getenv("PATHWISE_ALLOW_SKIP") == "1", again); err != nil {
		fmt.Fprintf(os.Stderr, "testrun: %v\n", err)
		os.Exit(1)
	}
}

// event is one line of "go test -json" (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

// id names a test in a package; the empty test is the package itself.
type id struct{ pkg, test string }

type summary struct {
	out io.Writer
	// output holds what tests wrote that have not ended yet.
	output                  map[id]*strings.Builder
	passed, failed, skipped int
	// packages counts those that ended, badPackages those that failed, brokenPackages those of them in which
	// something other than a test's own verdict failed.
	packages, badPackages, brokenPackages int
	// told are those of badPackages that ended before the latest Go command failed.
	told  int
	skips []string
	// bad are the tests that failed, subtests not among them.
	bad []id
	// flaky are the tests that failed and passed as they ran once more.
	flaky []id
	// longs are tests that took long, subtests not among them.
	longs []long
}

// long is a test that took so many seconds.
type long struct {
	id
	seconds float64
}

// The tests that are listed with the time they took: the longest, of those that took
// this many seconds.
const (
	mostLong    = 20
	longSeconds = 15
)

// mostAgain is how many tests may fail for them to run once more: where more fail, something is broken. On a
// machine that is busy with other work, four of 3,300 were seen to fail that pass alone.
const mostAgain = 6

var (
	errFailed  = errors.New("tests failed")
	errSkipped = errors.New("tests were skipped: see the reasons above, or allow it with PATHWISE_ALLOW_SKIP=1")
	errNone    = errors.New("no package was tested")
)

// run prints what it reads. Tests that failed run once more by again, which writes what "go test -json" writes;
// nil runs none.
func run(in io.Reader, out io.Writer, allowSkip bool, again func(id) io.Reader) error {
	s, err := read(in, out)
	if err != nil {
		return err
	}
	if err := s.retry(again); err != nil {
		return err
	}
	return s.finish(allowSkip)
}

func read(in io.Reader, out io.Writer) (*summary, error) {
	s := &summary{out: out, output: map[id]*strings.Builder{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			s.line(line)
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read test results: %w", err)
		}
	}
	return s, nil
}

// again runs one test alone by a command, in the directory of its package, which may be of a module of its own; nil
// where there is no command.
func again(command []string) func(id) io.Reader {
	if len(command) == 0 {
		return nil
	}
	return func(t id) io.Reader {
		r, w := io.Pipe()
		args := append(slices.Clone(command[1:]), "-run", "^"+regexp.QuoteMeta(t.test)+"$", ".")
		cmd := exec.Command(command[0], args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = directory(t.pkg), w, os.Stderr
		go func() {
			_ = cmd.Run() // what it has written tells how the test ended
			w.Close()
		}()
		return r
	}
}

// directory is where a package is, from the project's root: each module of tools is named by where it is.
func directory(pkg string) string {
	return filepath.Join(".", strings.TrimPrefix(pkg, "pathwise.dev/pathwise"))
}

// retry runs the tests that failed once more, where they are few and nothing else failed.
func (s *summary) retry(again func(id) io.Reader) error {
	if again == nil || s.brokenPackages > 0 || len(s.bad) > mostAgain {
		return nil
	}
	for _, t := range s.bad {
		fmt.Fprintf(s.out, "failed, runs once more alone: %s %s\n", t.pkg, t.test)
		second, err := read(again(t), s.out)
		if err != nil {
			return err
		}
		if second.passed > 0 && second.failed == 0 && second.badPackages == 0 && second.skipped == 0 {
			s.flaky = append(s.flaky, t)
		}
	}
	if len(s.bad) > 0 && len(s.flaky) == len(s.bad) {
		s.failed, s.badPackages = 0, 0
	}
	return nil
}

// line takes one line; one that is no event was written by the Go tool itself.
func (s *summary) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(s.out, line)
		return
	}
	at := id{e.Package, e.Test}
	switch e.Action {
	case "go-failed": // the Makefile's: where no package failed, the command itself did
		if s.told == s.badPackages {
			s.badPackages++
			s.brokenPackages++
		}
		s.told = s.badPackages
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		s.buffer(at).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
		} else {
			s.endTest(at, e.Action)
			if e.Elapsed >= longSeconds && !strings.Contains(e.Test, "/") {
				s.longs = append(s.longs, long{at, e.Elapsed})
			}
		}
	}
}

func (s *summary) buffer(at id) *strings.Builder {
	if s.output[at] == nil {
		s.output[at] = &strings.Builder{}
	}
	return s.output[at]
}

func (s *summary) endTest(at id, action string) {
	text := s.buffer(at).String()
	delete(s.output, at)
	switch action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		if !strings.Contains(at.test, "/") {
			s.bad = append(s.bad, at)
		}
		fmt.Fprint(s.out, text)
	case "skip":
		s.skipped++
		s.skips = append(s.skips, fmt.Sprintf("%s %s: %s", at.pkg, at.test, reason(text)))
	}
}

// reason is what a skipped test said, without the Go tool's own lines.
func reason(text string) string {
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

// endPackage prints the package's own line, and what tests wrote that never
// ended: the one that crashed or ran out of time is among them.
func (s *summary) endPackage(e event) {
	s.packages++
	own := s.buffer(id{e.Package, ""}).String()
	delete(s.output, id{e.Package, ""})
	broken := !slices.ContainsFunc(s.bad, func(t id) bool { return t.pkg == e.Package })
	for at, text := range s.output {
		if at.pkg == e.Package {
			if e.Action == "fail" {
				s.failed++
				broken = true
				fmt.Fprint(s.out, text.String())
			}
			delete(s.output, at)
		}
	}
	if e.Action == "fail" {
		s.badPackages++
		if broken {
			s.brokenPackages++
		}
		fmt.Fprint(s.out, own)
		return
	}
	for line := range strings.Lines(own) {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") {
			fmt.Fprint(s.out, line)
		}
	}
}

func (s *summary) finish(allowSkip bool) error {
	slices.SortStableFunc(s.longs, func(a, b long) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, l := range s.longs[:min(mostLong, len(s.longs))] {
		fmt.Fprintf(s.out, "took %.0f s: %s %s\n", l.seconds, l.pkg, l.test)
	}
	for _, skip := range s.skips {
		fmt.Fprintf(s.out, "skipped: %s\n", skip)
	}
	for _, t := range s.flaky {
		fmt.Fprintf(s.out, "flaky: failed, and passed alone: %s %s\n", t.pkg, t.test)
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped", s.passed, s.failed, s.skipped)
	if len(s.flaky) > 0 {
		fmt.Fprintf(s.out, ", %d flaky", len(s.flaky))
	}
	fmt.Fprintln(s.out)
	switch {
	case s.failed > 0 || s.badPackages > 0:
		return errFailed
	case s.packages == 0:
		return errNone
	case s.skipped > 0 && !allowSkip:
		return errSkipped
	default:
		return nil
	}
}
