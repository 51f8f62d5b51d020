package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestKill kills a bench at random moments with SIGKILL, cleans up with "lab down
// --all", and compares the machine with what it was before. PATHWISE_KILLS sets
// how often; "make soak" sets 100.
func TestKill(t *testing.T) {
	kills := 4
	if v := os.Getenv("PATHWISE_KILLS"); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills)
	rnd := rand.New(rand.NewPCG(seed, 0))
	bin := filepath.Join(binDir(t), "pathwise")
	exp := filepath.Join(t.TempDir(), "kill.yaml")
	// Networks with plugins, rules, daemons and containers, in quick succession.
	text := `{name: kill, networks: [nat, vxlan, routed-bgp, flannel-vxlan, docker-nat], topologies: [one-host, two-hosts], warmup: 0s, duration: 1s,
		repetitions: {min: 5, max: 5}, workloads: [{name: startup, topologies: one-host}, tcp-latency, tcp-stream]}`
	if err := os.WriteFile(exp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("PATHWISE_KILLS") == "" {
		// Tests of other packages run alongside this one and share /run/netns,
		// whose mount comes and goes with the last namespace.
		if err := errors.Join(netns.Prepare(), netns.Create("pw-t-hold")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(netns.Delete("pw-t-hold"), netns.Release()); err != nil {
				t.Error(err)
			}
		})
	}
	// What a killed program left before this test is not its own: the first
	// "lab down" would take it away as well.
	if out, err := exec.Command(bin, "lab", "down", "--all").CombinedOutput(); err != nil {
		t.Fatalf("lab down --all: %v: %s", err, out)
	}
	before := machineState(t)
	var killed []string
	for i := range kills {
		after := time.Duration(rnd.Int64N(int64(8 * time.Second)))
		killed = append(killed, killOnce(t, bin, exp, filepath.Join(t.TempDir(), "out"), after))
		diff := difference(before, machineState(t), killed)
		for range 4 {
			// Programs of tests in other packages come and go, some without a
			// mark (runc init has no environment); what is left stays.
			if diff != "" {
				time.Sleep(500 * time.Millisecond)
				diff = difference(before, machineState(t), killed)
			}
		}
		if diff != "" {
			t.Fatalf("kill %d, after %v, left:\n%s", i+1, after, diff)
		}
	}
}

// killOnce returns the process id of the bench that it killed, of which the
// names of its labs are made.
func killOnce(t *testing.T, bin, exp, out string, after time.Duration) string {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(bin, "bench", "-f", exp, "--out", out)
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("bench ended by itself: %v: %s", err, said.String())
	}
	down, err := exec.Command(bin, "lab", "down", "--all").CombinedOutput()
	if err != nil {
		t.Fatalf("lab down --all: %v: %s", err, down)
	}
	t.Logf("killed after %v: %s", after.Round(time.Millisecond), strings.ReplaceAll(strings.TrimSpace(string(down)), "\n",
		"; "))
	return strconv.Itoa(cmd.Process.Pid)
}

// machineState lists what a lab could leave on the machine.
func machineState(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, argv := range [][]string{{"ip", "-br", "link"}, {"ip", "-br", "addr"}, {"ip", "route", "show", "table", "all"},
		{"ip", "rule"},
		{"nft", "list", "ruleset"}, {"iptables-save"}, {"ip", "netns"}} {
		raw, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v", argv, err)
		}
		for line := range strings.Lines(string(raw)) {
			// iptables-save prints the time.
			if !strings.HasPrefix(line, "#") {
				out = append(out, argv[0]+": "+strings.TrimSpace(line))
			}
		}
	}
	raw, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		out = append(out, "mount: "+strings.TrimSpace(line))
	}
	for _, dir := range []string{"/run", "/tmp", "/var/lib/cni", "/var/run", "/var/lib/etcd", "/etc/cni",
		"/sys/fs/cgroup"} {
		out = append(out, files(dir)...)
	}
	out = append(out, programs(t)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// files lists paths a few levels deep, but those of this test and of Go's tools.
func files(dir string) []string {
	var out []string
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile, or not there at all
		}
		name := d.Name()
		if strings.HasPrefix(name, "go-build") || strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "testscript") ||
			strings.HasPrefix(name, "bash_jobs") || p == "/run/sshd" { // the agent's tests of ssh run alongside
			return filepath.SkipDir
		}
		if dir == "/sys/fs/cgroup" && !d.IsDir() {
			return nil
		}
		// Of /tmp, which everybody uses, only what lies there by our name.
		if dir == "/tmp" && d.IsDir() && p != dir {
			if strings.Contains(name, "pathwise") {
				out = append(out, "file: "+p)
			}
			return filepath.SkipDir
		}
		if dir != "/tmp" || strings.Contains(name, "pathwise") {
			out = append(out, "file: "+p)
		}
		return nil
	})
	return out
}

// programs lists the processes that a lab of the default store could have
// started: by its mark, or by name where they carry no other lab's.
func programs(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // it may have ended
		ours := bytes.Contains(env, []byte("PATHWISE_LAB="+lab.DefaultRoot+"/"))
		// One line each, also where an argument has several.
		args := strings.NewReplacer("\x00", " ", "\n", " ").Replace(string(cmdline))
		for _, name := range []string{"iperf3", "sockperf", "bird", "etcd", "flanneld", "runc", "dockerd", "containerd",
			"docker-proxy", "tincd",
			"pathwise bench", "pathwise generate", "pathwise delay-line", "/cni/"} {
			ours = ours || strings.Contains(args, name) && !bytes.Contains(env, []byte("PATHWISE_LAB="))
		}
		if ours {
			out = append(out, "process: "+e.Name()+" "+args)
		}
	}
	return out
}

// difference lists what came (+) and what went (-), but for what belongs to the
// labs of tests in other packages, which come and go meanwhile.
func difference(a, b, killed []string) string {
	var out strings.Builder
	for _, side := range []struct {
		sign      string
		one, half []string
	}{{"+", b, a}, {"-", a, b}} {
		for _, line := range side.one {
			if !slices.Contains(side.half, line) && !foreign(line, killed) {
				fmt.Fprintln(&out, side.sign, line)
			}
		}
	}
	return out.String()
}

func foreign(line string, killed []string) bool {
	// The labs of tests in other packages are named t-…; those tests also mount
	// BPF file systems in their own directories. The hosts of a Kubernetes bed are pwk-….
	for _, theirs := range []string{"pw-t-", "pathwise-t-", "/labs/t-", "mount: bpf /tmp/Test", "pwk-", "/kube/bed/"} {
		if strings.Contains(line, theirs) {
			return true
		}
	}
	// A lab of theirs has its number in names and in its directory.
	m := regexp.MustCompile(`(?:pw-|pathwise-|/labs/)b([0-9]+)-`).FindStringSubmatch(line)
	return m != nil && !slices.Contains(killed, m[1])
}
