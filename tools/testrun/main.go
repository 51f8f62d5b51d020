// Command testrun reads what "go test -json" writes and prints it short: a line
// for each package, the output of tests that failed, every skipped test with
// its reason, the tests that took longest, and the totals. It fails when a test failed and, as a skipped
// test proves nothing, when one was skipped, unless PATHWISE_ALLOW_SKIP is 1.
//
// It runs no tests itself.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Stdin, os.Stdout, os.Getenv("PATHWISE_ALLOW_SKIP") == "1"); err != nil {
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
	// packages counts those that ended, badPackages those that failed.
	packages, badPackages int
	skips                 []string
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

var (
	errFailed  = errors.New("tests failed")
	errSkipped = errors.New("tests were skipped: see the reasons above, or allow it with PATHWISE_ALLOW_SKIP=1")
	errNone    = errors.New("no package was tested")
)

func run(in io.Reader, out io.Writer, allowSkip bool) error {
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
			return fmt.Errorf("read test results: %w", err)
		}
	}
	return s.finish(allowSkip)
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
	for at, text := range s.output {
		if at.pkg == e.Package {
			if e.Action == "fail" {
				s.failed++
				fmt.Fprint(s.out, text.String())
			}
			delete(s.output, at)
		}
	}
	if e.Action == "fail" {
		s.badPackages++
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
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
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
