package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary stand in for pathwise, so that scripts and
// generators run the code under test, and for a CNI plugin that plants limits.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pathwise": main, kubectlName: main, planter: plantMain})
}

// binDir is where "make build plugins" puts programs and CNI plugins.
func binDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// setup gives a script the built plugins and a store of its own, so that scripts
// do not meet the user's labs.
func setup(bin string) func(*testscript.Env) error {
	return func(e *testscript.Env) error {
		e.Setenv("CNI_PATH", filepath.Join(bin, "cni"))
		e.Setenv("PATH", e.Getenv("PATH")+":"+bin)
		e.Setenv("PATHWISE_STATE", filepath.Join(e.WorkDir, "state"))
		e.Defer(func() {
			if left, err := os.ReadDir(filepath.Join(e.WorkDir, "state", "labs")); err != nil || len(left) == 0 {
				return
			}
			if out, err := removeLabs(e.Vars); err != nil {
				e.T().Log(fmt.Sprintf("lab down: %v: %s", err, out))
			}
		})
		return nil
	}
}

// removeLabs removes what commands that failed have left in an environment's store, as they would else fail when they
// are run again.
func removeLabs(environment []string) ([]byte, error) {
	down := exec.Command("pathwise", "lab", "down", "--all", "--force")
	down.Env = environment
	return down.CombinedOutput()
}

// TestScripts runs the command line as a user does; golden output is in the scripts.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", UpdateScripts: os.Getenv("UPDATE") != "",
		Setup: setup(binDir(t)), Condition: condition})
}

// condition is the scripts' own: userns where an unprivileged user can be played,
// which Linux allows nobody whose root directory is not the namespace's
// (user_namespaces(7)).
func condition(name string) (bool, error) {
	if name != "userns" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return exec.Command("unshare", "--user", "true").Run() == nil, nil
}
