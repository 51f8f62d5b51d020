package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const good = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
`
	const end = `{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`
	const skip = `{"Action":"output","Package":"p","Test":"TestS","Output":"=== RUN   TestS\n"}
{"Action":"output","Package":"p","Test":"TestS","Output":"    s_test.go:2: no root\n"}
{"Action":"output","Package":"p","Test":"TestS","Output":"--- SKIP: TestS (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestS"}
`
	const fail = `{"Action":"output","Package":"p","Test":"TestF","Output":"    f_test.go:3: got 1, want 2\n"}
{"Action":"output","Package":"p","Test":"TestF","Output":"--- FAIL: TestF (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestF"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`
	const crash = `{"Action":"output","Package":"p","Test":"TestP","Output":"panic: boom\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`
	const broken = `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: undefined: x\n"}
{"Action":"build-fail","ImportPath":"q"}
{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","FailedBuild":"q"}
`
	const empty = `{"Action":"output","Package":"e","Output":"?   \te\t[no test files]\n"}
{"Action":"skip","Package":"e"}
`
	const slow = `{"Action":"pass","Package":"p","Test":"TestB/one","Elapsed":15}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":15}
{"Action":"pass","Package":"p","Test":"TestC","Elapsed":14.9}
{"Action":"pass","Package":"p","Test":"TestD","Elapsed":80.4}
`
	for _, c := range []struct {
		name, in, out string
		allowSkip     bool
		err           error
	}{
		{name: "passed", in: good + end + empty, out: "ok  \tp\t0.1s\n?   \te\t[no test files]\n1 passed, 0 failed, 0 skipped\n"},
		{name: "skipped", in: good + skip + end, err: errSkipped,
			out: "ok  \tp\t0.1s\nskipped: p TestS: s_test.go:2: no root\n1 passed, 0 failed, 1 skipped\n"},
		{name: "skip allowed", in: good + skip + end, allowSkip: true,
			out: "ok  \tp\t0.1s\nskipped: p TestS: s_test.go:2: no root\n1 passed, 0 failed, 1 skipped\n"},
		{name: "failed", in: good + fail, err: errFailed,
			out: "    f_test.go:3: got 1, want 2\n--- FAIL: TestF (0.00s)\nFAIL\nFAIL\tp\t0.1s\n1 passed, 1 failed, 0 skipped\n"},
		{name: "crashed", in: good + crash, err: errFailed,
			out: "panic: boom\nFAIL\tp\t0.1s\n1 passed, 1 failed, 0 skipped\n"},
		{name: "does not build", in: good + end + broken, err: errFailed,
			out: "ok  \tp\t0.1s\nq.go:1: undefined: x\nFAIL\tq [build failed]\n1 passed, 0 failed, 0 skipped\n"},
		{name: "long", in: slow + end,
			out: "ok  \tp\t0.1s\ntook 80 s: p TestD\ntook 15 s: p TestB\n4 passed, 0 failed, 0 skipped\n"},
		{name: "nothing", in: "go: no such tool\n", err: errNone, out: "go: no such tool\n0 passed, 0 failed, 0 skipped\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := run(strings.NewReader(c.in), &out, c.allowSkip, nil); !errors.Is(err, c.err) {
				t.Errorf("got error %v, want %v", err, c.err)
			}
			if out.String() != c.out {
				t.Errorf("got\n%swant\n%s", out.String(), c.out)
			}
		})
	}
}

// TestFlaky: a few tests that failed run once more alone, and the run passes when all of them do.
func TestFlaky(t *testing.T) {
	const end = `{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`
	fails := func(test string) string {
		return `{"Action":"output","Package":"p","Test":"` + test + `","Output":"why\n"}
{"Action":"fail","Package":"p","Test":"` + test + `"}
`
	}
	const crash = `{"Action":"output","Package":"p","Test":"TestP","Output":"panic: boom\n"}
`
	passes := `{"Action":"pass","Package":"p","Test":"TestF"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	const broken = `{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","FailedBuild":"q"}
`
	const goFailed = `{"Action":"go-failed"}
`
	skips := `{"Action":"skip","Package":"p","Test":"TestF"}
{"Action":"pass","Package":"p"}
`
	for _, c := range []struct {
		name, in, second string
		ran              int
		err              error
		last             string
	}{
		{"passes alone", fails("TestF/sub") + fails("TestF") + end, passes, 1, nil, "0 passed, 0 failed, 0 skipped, 1 flaky"},
		{"fails again", fails("TestF") + end, fails("TestF") + end, 1, errFailed, "0 passed, 1 failed, 0 skipped"},
		{"is skipped then", fails("TestF") + end, skips, 1, errFailed, "0 passed, 1 failed, 0 skipped"},
		{"does not run then", fails("TestF") + end, "", 1, errFailed, "0 passed, 1 failed, 0 skipped"},
		{"three", fails("TestF") + fails("TestG") + fails("TestH") + end, passes, 3, nil,
			"0 passed, 0 failed, 0 skipped, 3 flaky"},
		{"too many", fails("TestA") + fails("TestB") + fails("TestC") + fails("TestD") + fails("TestE") + fails("TestF") +
			fails("TestG") + end, passes, 0, errFailed, "0 passed, 7 failed, 0 skipped"},
		{"crashed too", fails("TestF") + crash + end, passes, 0, errFailed, "0 passed, 2 failed, 0 skipped"},
		{"package alone", end, passes, 0, errFailed, "0 passed, 0 failed, 0 skipped"},
		{"told of its package", fails("TestF") + end + goFailed, passes, 1, nil, "0 passed, 0 failed, 0 skipped, 1 flaky"},
		{"a command fails too", fails("TestF") + end + goFailed + goFailed, passes, 0, errFailed,
			"0 passed, 1 failed, 0 skipped"},
		{"a command fails alone", passes + goFailed, passes, 0, errFailed, "1 passed, 0 failed, 0 skipped"},
		{"another is not built", fails("TestF") + end + broken, passes, 0, errFailed, "0 passed, 1 failed, 0 skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			ran := 0
			err := run(strings.NewReader(c.in), &out, false, func(id) io.Reader {
				ran++
				return strings.NewReader(c.second)
			})
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if !errors.Is(err, c.err) || ran != c.ran || lines[len(lines)-1] != c.last {
				t.Errorf("%v, %d ran again, %q; want %v, %d, %q", err, ran, lines[len(lines)-1], c.err, c.ran, c.last)
			}
		})
	}
}

// TestAgainInItsModule: a test of a module under tools, which the project's own module does not hold, runs again.
func TestAgainInItsModule(t *testing.T) {
	t.Chdir("../..")
	for _, c := range []id{
		{"pathwise.dev/pathwise/tools/wireguard-go", "TestParse"},
		{"pathwise.dev/pathwise/internal/stat", "TestMeanT"},
	} {
		s, err := read(again([]string{"go", "test", "-json"})(c), io.Discard)
		if err != nil || s.passed == 0 || s.badPackages > 0 {
			t.Errorf("%v ran again: %v, %d passed, %d packages failed", c, err, s.passed, s.badPackages)
		}
	}
}
