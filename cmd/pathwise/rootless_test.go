package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/stat"
)

// nobody is the ordinary user that tests play.
const nobody = 65534

// ordinary is an ordinary user with a program and a directory that he may write.
type ordinary struct {
	t        *testing.T
	bin, dir string
	env      []string
}

func newOrdinary(t *testing.T) ordinary {
	t.Helper()
	testbed.RequireRoot(t)
	dir, err := os.MkdirTemp("", "pw-t-rootless-") // t.TempDir's parents are root's alone
	if err != nil {
		t.Fatal(err)
	}
	u := ordinary{t: t, bin: filepath.Join(dir, "pathwise"), dir: filepath.Join(dir, "home")}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", u.bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The user may not reach the checkout, such as one in /root.
	cni := filepath.Join(dir, "cni")
	copying := []string{"-c", `mkdir "$1" && cd "$0" && cp bridge ptp host-local portmap "$1"`,
		filepath.Join(binDir(t), "cni"), cni}
	if out, err := exec.Command("sh", copying...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, err := range []error{os.Mkdir(u.dir, 0o700), os.Chown(u.dir, nobody, nobody), os.Chmod(dir, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	u.env = []string{"HOME=" + u.dir, "XDG_RUNTIME_DIR=" + u.dir, "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin",
		"CNI_PATH=" + cni}
	return u
}

// command is pathwise by the user or, with root, by root in the same directory.
func (u ordinary) command(root bool, args ...string) *exec.Cmd {
	cmd := exec.Command(u.bin, args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	if root {
		cmd.Env = append(slices.Clone(u.env), "PATHWISE_STATE="+filepath.Join(u.dir, "state"))
	} else {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// run returns what the user's command says on both outputs, and its exit code.
func (u ordinary) run(args ...string) (string, int) {
	u.t.Helper()
	cmd := u.command(false, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		u.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// want runs the command, which must end with the code and say the text.
func (u ordinary) want(code int, text string, args ...string) string {
	u.t.Helper()
	out, got := u.run(args...)
	if got != code || !strings.Contains(out, text) {
		u.t.Errorf("pathwise %s: code %d, want %d and %q:\n%s", strings.Join(args, " "), got, code, text, out)
	}
	return out
}

func (u ordinary) record() string { return filepath.Join(u.dir, "pathwise-rootless", "holder.json") }

// gone waits until no holder is left.
func (u ordinary) gone() {
	u.t.Helper()
	for range 500 {
		if _, err := os.Stat(u.record()); os.IsNotExist(err) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	u.t.Error("the holder of the user's namespaces is left behind")
}

// TestRootless is what Pathwise is to an ordinary user.
func TestRootless(t *testing.T) {
	u := newOrdinary(t)
	for name, test := range map[string]func(*testing.T, ordinary){"lab": rootlessLab, "forbidden": rootlessForbidden,
		"figures": rootlessFigures} {
		t.Run(name, func(t *testing.T) {
			u := u
			u.t = t
			test(t, u)
		})
	}
}

// rootlessLab: an ordinary user's lab is there for each of his commands, goes with
// the one that removes it, and leaves nothing where its holder is killed.
func rootlessLab(t *testing.T, u ordinary) {
	t.Helper()
	u.want(0, "pod p2   10.77.2.1", "lab", "up", "--network", "vxlan")
	u.want(0, "lab lab, up: network vxlan", "lab", "status")
	u.want(0, " 0% packet loss", "lab", "exec", "p1", "--", "ping", "-c1", "10.77.2.1")
	u.want(7, "", "lab", "exec", "p1", "--", "sh", "-c", "exit 7")
	u.want(0, u.dir, "lab", "exec", "p1", "--", "pwd")
	u.want(1, "lab impair needs the machine's root to attach eBPF programs: run as root, for example with sudo", "lab",
		"impair", "p1", "vxlan", "--drop", "both")
	u.want(1, "bench --explain needs the machine's root", "bench", "--explain", "--networks", "bridge", "--workloads",
		"tcp-rr")
	u.want(1, "drills need the machine's root", "bench", "-f", "steering")
	u.want(1, "agent needs root to attach eBPF programs: run as root, for example with sudo", "agent")
	u.want(0, "removed lab lab", "lab", "down")
	u.gone()
	u.want(0, "missing: the machine's root (the engine wants mounts and control groups: run as root, for example with sudo)", "networks")

	u.want(0, "pod p1", "lab", "up", "--network", "routed-bgp", "--name", "killed")
	raw, err := os.ReadFile(u.record())
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(string(raw), `{"pid":%d,`, &pid); err != nil {
		t.Fatal(err)
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		t.Fatal(err)
	}
	if in := inside(space); len(in) < 3 {
		t.Errorf("processes %v in the user's namespace: expected the holder and BIRD twice", in)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for holder := fmt.Sprintf("/proc/%d/ns/user", pid); slices.Contains(inside(space), holder); {
		time.Sleep(time.Millisecond) // a signal takes its time on a busy machine
	}
	u.want(0, "NETWORK", "networks") // the next command ends what is left
	u.gone()
	if in := inside(space); len(in) > 0 {
		t.Errorf("processes %v are left of a lab whose holder was killed", in)
	}
}

// inside lists the processes in a user namespace, those that have ended excepted.
func inside(space string) []string {
	links, _ := filepath.Glob("/proc/[0-9]*/ns/user") // the pattern is well formed
	var out []string
	for _, l := range links {
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(l), "../status")) // it may have gone
		ended := len(status) == 0 || strings.Contains(string(status), "\nState:\tZ")
		if to, err := os.Readlink(l); err == nil && to == space && !ended {
			out = append(out, l)
		}
	}
	return out
}

// rootlessForbidden: where the kernel allows no user namespace, one line says by
// which knob. The limit is set within a namespace, and holds for those made in it.
func rootlessForbidden(t *testing.T, u ordinary) {
	t.Helper()
	script := `echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" "$@"`
	for _, args := range [][]string{{"lab", "up", "--network", "bridge"}, {"bench"}, {"networks"}} {
		cmd := exec.Command("sh", append([]string{"-c", script, u.bin}, args...)...)
		cmd.Dir, cmd.Env = u.dir, u.env
		all := []syscall.SysProcIDMap{{Size: nobody + 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all,
			GidMappingsEnableSetgroups: true}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		if failed := err != nil; failed == (args[0] == "networks") {
			t.Errorf("%v: %v", args, err)
		}
		said := stderr.String()
		if strings.Count(said, "\n") != 1 || !strings.Contains(said, "sysctl user.max_user_namespaces is 0") ||
			!strings.Contains(said, "sudo") {
			t.Errorf("%v says %q", args, said)
		}
	}
}

// rootlessFigures measures in turn as an ordinary user and as root: trials are
// complete, results say which are rootless, and the two are of one order.
func rootlessFigures(t *testing.T, u ordinary) {
	t.Helper()
	const file = "name: pairs\nnetworks: [bridge]\ntopologies: one-host\nwarmup: 100ms\nduration: 300ms\nrepetitions: 1\nworkloads: [tcp-rr]\n"
	if err := os.WriteFile(filepath.Join(u.dir, "pairs.yaml"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	user, root := stat.Blocks{}, stat.Blocks{}
	for i := range 3 {
		for _, asRoot := range []bool{i%2 == 0, i%2 != 0} {
			side, name := user, fmt.Sprintf("user-%d", i)
			if asRoot {
				side, name = root, fmt.Sprintf("root-%d", i)
			}
			side[i] = u.rate(asRoot, name)
		}
	}
	// The bounds hold on a machine that does other work.
	ratio := stat.RatioT(user, root, 0.95)
	t.Logf("tcp-rr on bridge, rootless over root: %.3f [%.3f, %.3f], %d pairs", ratio.Center, ratio.Low, ratio.High,
		ratio.N)
	if ratio.N != 3 || !(ratio.Center > 0.02 && ratio.Center < 50) ||
		!(ratio.Low <= ratio.Center && ratio.Center <= ratio.High) {
		t.Errorf("rootless over root: %+v", ratio)
	}
	said, code := u.run("compare", "user-0", "root-0")
	if code != 0 || !strings.Contains(said, "warning: the first result is rootless, the other was measured as root") {
		t.Errorf("compare: code %d: %s", code, said)
	}
	if said, _ := u.run("compare", "user-0", "user-1"); strings.Contains(said, "rootless, the other") {
		t.Errorf("compare of two alike: %s", said)
	}
	u.gone()
}

// rate is the bridge's rate of round trips in a bench of its own.
func (u ordinary) rate(root bool, name string) float64 {
	u.t.Helper()
	cmd := u.command(root, "bench", "-f", "pairs.yaml", "--out", name)
	if out, err := cmd.CombinedOutput(); err != nil {
		u.t.Fatalf("%s: %v: %s", name, err, out)
	}
	r, err := result.Open(filepath.Join(u.dir, name))
	if err != nil {
		u.t.Fatal(err)
	}
	if isRootless(r.Machine) == root {
		u.t.Errorf("%s: the machine's record says rootless: %v", name, isRootless(r.Machine))
	}
	said := false
	for _, w := range r.Samples.Header.Warnings {
		said = said || w.Gate == "rootless"
	}
	if said == root {
		u.t.Errorf("%s: the result warns of being rootless: %v", name, said)
	}
	for _, trial := range r.Samples.Trials {
		if trial.Network != "bridge" {
			continue
		}
		if v, ok := trial.Figure(sample.Rate); ok && trial.Status == sample.OK && v > 0 {
			return v
		}
		u.t.Fatalf("%s: %s %s", name, trial.Status, trial.Reason)
	}
	u.t.Fatalf("%s: no trial of the bridge", name)
	return 0
}
