package catalogue_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/topo"
)

// TestMain lets the test binary be a guest's first process.
func TestMain(m *testing.M) {
	switch {
	case guest.Inside():
		fmt.Fprintln(os.Stderr, guest.Init())
		os.Exit(1)
	case len(os.Args) == 3 && os.Args[1] == guest.AnswerArgument:
		if err := guest.Answer(os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

// insideVariable names the guest kernel that the tests run on.
const insideVariable = "PATHWISE_TEST_INSIDE"

// elsewhere reports whether the test of a network that lacks this is TestGuest's.
func elsewhere(t *testing.T, missing []network.Missing) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" || !network.OnlyKernel(missing) {
		return false
	}
	t.Logf("the host's kernel lacks %v: TestGuest runs this on a guest's", missing)
	return true
}

// TestGuest runs TestContract, TestContractIPv6 and TestPairs, for every network that the host's
// kernel cannot build, on the first guest kernel that can. PATHWISE_GUEST names
// others to run there: "all", or some with commas.
func TestGuest(t *testing.T) {
	if os.Getenv(insideVariable) != "" {
		return
	}
	host := network.NewMachine(cniPath(t))
	asked := strings.Split(os.Getenv("PATHWISE_GUEST"), ",")
	var left []network.Info
	for _, n := range catalogue.All() {
		info := n.Info()
		miss := host.Missing(info.Needs)
		wanted := len(miss) > 0
		if asked[0] != "" {
			wanted = slices.Contains(asked, info.Name) || slices.Contains(asked, "all")
		}
		if wanted && network.OnlyKernel(miss) {
			left = append(left, info)
		}
	}
	for _, k := range guest.Kernels(guest.Place{Self: filepath.Join(cniPath(t)[0], "..", "pathwise"), Getenv: os.Getenv}) {
		if len(left) == 0 {
			return
		}
		if !k.Works() {
			t.Logf("guest kernel %s is not there: %v", k.Name, k.Missing)
			continue
		}
		var here []network.Info
		if here, left = split(t, k, left); len(here) > 0 {
			t.Run(k.Label(), func(t *testing.T) {
				t.Parallel() // a guest of either kind has one processor
				runInside(t, k, here)
			})
		}
	}
	for _, info := range left {
		if len(host.Missing(info.Needs)) > 0 {
			t.Errorf("%s: no kernel here can build it: the host's lacks %v (run make setup for guest kernels)", info.Name, host.Missing(info.Needs))
		}
	}
}

// inGuest is a guest whose init is this binary.
func inGuest(t *testing.T, k guest.Kernel) guest.Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return guest.Config{Kernel: k, Store: lab.Store{Root: filepath.Join(t.TempDir(), "store")}, Self: self, WorkDir: dir,
		Env: append(os.Environ(), insideVariable+"="+k.Label())}
}

// split asks the kernel which networks it can build.
func split(t *testing.T, k guest.Kernel, infos []network.Info) (can, cannot []network.Info) {
	t.Helper()
	var needs []network.Need
	for _, info := range infos {
		needs = append(needs, network.KernelNeeds(info.Needs)...)
	}
	lacks, err := guest.Ask(context.Background(), inGuest(t, k), needs, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		miss := slices.ContainsFunc(info.Needs, func(n network.Need) bool {
			return slices.ContainsFunc(lacks, func(m network.Missing) bool { return m.Kind == n.Kind && m.Name == n.Name })
		})
		if miss {
			cannot = append(cannot, info)
		} else {
			can = append(can, info)
		}
	}
	return can, cannot
}

// runInside runs the tests of the networks in a guest, and tells how they ended
// for each.
func runInside(t *testing.T, k guest.Kernel, infos []network.Info) {
	var names []string
	for _, info := range infos {
		names = append(names, regexp.QuoteMeta(info.Name))
	}
	c := inGuest(t, k)
	c.Argv = []string{c.Self, "-test.v", "-test.count=1", "-test.run=^(TestContract|TestContractIPv6|TestPairs)$/^(" +
		strings.Join(names, "|") + ")$"}
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	c.Ready = func(after time.Duration) {
		t.Logf("guest kernel %s: ready after %v", k.Label(), after.Round(time.Millisecond))
	}
	ctx := context.Background()
	if end, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-10*time.Second))
		defer cancel()
	}
	_, err := guest.Run(ctx, c)
	if err != nil {
		t.Error(err)
	}
	verdicts := readVerdicts(said.String())
	for _, info := range infos {
		t.Run(info.Name, func(t *testing.T) {
			tests := []string{"TestContract"}
			if slices.Contains(info.Families, topo.IPv6) {
				tests = append(tests, "TestContractIPv6")
			}
			if n, err := catalogue.Find(info.Name); err != nil {
				t.Error(err)
			} else if len(pairsOf(t, n)) > 0 {
				tests = append(tests, "TestPairs")
			}
			for _, test := range tests {
				v, ok := verdicts[test+"/"+info.Name]
				switch {
				case !ok:
					t.Errorf("%s on %s: no verdict: %s", test, k.Label(), said.String())
				case v.word != "PASS":
					t.Errorf("%s on %s: %s after %s:\n%s", test, k.Label(), v.word, v.took, v.said)
				default:
					t.Logf("%s on %s: passed in %s", test, k.Label(), v.took)
				}
			}
		})
	}
}

// verdict is how a test of one network ended.
type verdict struct{ word, took, said string }

// readVerdicts reads what "-test.v" prints of tests' parts, which run one after
// the other, by test and network.
func readVerdicts(out string) map[string]verdict {
	begin := regexp.MustCompile(`^=== \w+\s+(\w+/[^/\s]+)`)
	end := regexp.MustCompile(`^    --- (\w+): (\w+/[^/\s]+) \((\S+)\)`)
	verdicts := map[string]verdict{}
	said := map[string]string{}
	at := ""
	for line := range strings.Lines(out) {
		if m := begin.FindStringSubmatch(line); m != nil {
			at = m[1]
		} else if m := end.FindStringSubmatch(line); m != nil {
			verdicts[m[2]] = verdict{m[1], m[3], said[m[2]]}
		} else if !strings.HasPrefix(line, "--- ") { // that of all of them
			said[at] += line
		}
	}
	return verdicts
}

func TestReadVerdicts(t *testing.T) {
	got := readVerdicts("=== RUN   TestContract\n=== RUN   TestContract/a\n    x.go:1: bad\n=== RUN   TestContract/b-c\n" +
		"--- FAIL: TestContract (3.00s)\n    --- FAIL: TestContract/a (1.00s)\n    --- PASS: TestContract/b-c (2.00s)\n" +
		"=== RUN   TestPairs\n=== RUN   TestPairs/a\n=== RUN   TestPairs/a/a,x\n--- PASS: TestPairs (4.00s)\n    --- PASS: TestPairs/a (4.00s)\n" +
		"        --- PASS: TestPairs/a/a,x (3.00s)\nFAIL\n")
	if len(got) != 3 || got["TestContract/a"].word != "FAIL" || !strings.Contains(got["TestContract/a"].said, "bad") ||
		got["TestContract/b-c"] != (verdict{"PASS", "2.00s", ""}) || got["TestPairs/a"].took != "4.00s" {
		t.Errorf("got %+v", got)
	}
}
