package main

import (
	"errors"
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
			if err := run(strings.NewReader(c.in), &out, c.allowSkip); !errors.Is(err, c.err) {
				t.Errorf("got error %v, want %v", err, c.err)
			}
			if out.String() != c.out {
				t.Errorf("got\n%swant\n%s", out.String(), c.out)
			}
		})
	}
}
