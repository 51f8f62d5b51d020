package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/explain"
)

// planter is a CNI plugin that runs a command in the pod's namespace: "run" in its
// configuration. It is the last of a list, and passes on what the others did.
const planter = "plant"

func plantMain() {
	if err := plant(); err != nil {
		fmt.Printf(`{"cniVersion":"1.0.0","code":100,"msg":%q}`, err.Error())
		os.Exit(1)
	}
}

func plant() error {
	var conf struct {
		Run        string          `json:"run"`
		PrevResult json.RawMessage `json:"prevResult"`
	}
	if os.Getenv("CNI_COMMAND") == "VERSION" {
		fmt.Print(`{"cniVersion":"1.0.0","supportedVersions":["0.3.1","0.4.0","1.0.0"]}`)
		return nil
	}
	if err := json.NewDecoder(os.Stdin).Decode(&conf); err != nil {
		return err
	}
	if os.Getenv("CNI_COMMAND") != "ADD" {
		return nil
	}
	if out, err := exec.Command("nsenter", "--net="+os.Getenv("CNI_NETNS"), "sh", "-ec",
		conf.Run).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", conf.Run, err, out)
	}
	_, err := os.Stdout.Write(conf.PrevResult)
	return err
}

// planted is a list with a limit: its last plugins.
type planted struct {
	name string
	// plugins follow ptp.
	plugins []string
	// want is what may be named.
	want []explain.Bound
}

// runs is a plugin that runs a command in the pod.
func runs(command string) []string {
	raw, err := json.Marshal(map[string]string{"type": planter, "run": command})
	if err != nil {
		panic(err) // strings
	}
	return []string{string(raw)}
}

func plantedLimits() []planted {
	sysctl := func(name, value string) []string {
		return []string{fmt.Sprintf(`{"type":"tuning","sysctl":{%q:%q}}`, name, value)}
	}
	return []planted{
		{"tbf", []string{`{"type":"bandwidth","ingressRate":100000000,"ingressBurst":1000000,"egressRate":100000000,"egressBurst":1000000}`}, []explain.Bound{explain.ByShaper}},
		{"htb", runs("tc qdisc add dev eth0 root handle 1: htb default 10; tc class add dev eth0 parent 1: classid 1:10 htb rate 120mbit"), []explain.Bound{explain.ByShaper}},
		{"policer", runs("nft add table ip pw; nft 'add chain ip pw in { type filter hook input priority 0; }'; " +
			"nft add rule ip pw in limit rate over 15 mbytes/second burst 150 kbytes drop"), []explain.Bound{explain.ByPolicer}},
		{"window", sysctl("net.ipv4.tcp_rmem", "4096 8192 16384"), []explain.Bound{explain.ByWindow}},
		{"sendbuffer", sysctl("net.ipv4.tcp_wmem", "4096 8192 8192"), []explain.Bound{explain.ByBuffer}},
	}
}

// rules is a network whose limit is the CPU: 10,000 rules for each packet.
func rules() planted {
	return planted{"rules", runs("(echo 'add table ip pw'; echo 'add chain ip pw in { type filter hook input priority 0; }'; " +
		"i=0; while [ $i -lt 10000 ]; do echo \"add rule ip pw in tcp dport $((i + 10000)) tcp sport 7 drop\"; i=$((i + 1)); done) | nft -f -"),
		[]explain.Bound{explain.ByNetfilter, explain.ByOneCore, explain.ByOneTask, explain.BySerial}}
}

// list writes the list to dir and returns the experiment's line for it.
func (n planted) list(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, n.name+".conflist")
	plugins := append([]string{`{"type":"ptp","ipam":{"type":"host-local","subnet":"10.16.0.0/16","routes":[{"dst":"0.0.0.0/0"}]}}`}, n.plugins...)
	list := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[%s]}`, n.name, strings.Join(plugins, ","))
	if err := os.WriteFile(file, []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  - {name: %s, cni: %s}\n", n.name, file)
}

// explained benches the lists with --explain and returns what is found of each cell.
func explained(t *testing.T, nets []planted, workloads string) map[string]explain.Finding {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, planter)); err != nil {
		t.Fatal(err)
	}
	exp := "name: limits\ntopologies: one-host\nwarmup: 200ms\nduration: 800ms\nrepetitions: 1\nworkloads: [" + workloads +
		"]\nnetworks:\n"
	for _, n := range nets {
		exp += n.list(t, dir)
	}
	file, out := filepath.Join(dir, "limits.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte(exp), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		cmd := exec.Command("pathwise", args...) // this test's own
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Env = append(os.Environ(), "CNI_PATH="+filepath.Join(binDir(t), "cni")+":"+dir,
			"PATHWISE_STATE="+filepath.Join(dir, "state"))
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, stdout.Bytes(), stderr.Bytes())
		}
		return stdout.Bytes()
	}
	run("bench", "-f", file, "--explain", "--out", out)
	var doc struct{ Findings []explain.Finding }
	if err := json.Unmarshal(run("explain", out, "-o", "json"), &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]explain.Finding{}
	for _, f := range doc.Findings {
		found[f.Network+" "+f.Workload] = f
		t.Log(f.Workload, f.Sentence)
	}
	return found
}

// loops are other programs that take what CPU they can, until the test ends.
func loops(t *testing.T, n int) {
	t.Helper()
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
}

// TestExplainNamesTheLimit plants limits in networks of a user: each is named by its
// own counter, also where other programs take the CPU. There some cannot be told, which
// is said; none is taken for the CPU. 10,000 rules are, where nobody else took it.
func TestExplainNamesTheLimit(t *testing.T) {
	t.Run("quiet", func(t *testing.T) {
		named(t, append(plantedLimits(), rules()))
	})
	t.Run("loaded", func(t *testing.T) {
		loops(t, 2)
		named(t, append(plantedLimits(), planted{"free", nil, nil}))
	})
	t.Run("offered", func(t *testing.T) {
		loops(t, 2)
		const offered = "{name: udp-stream, load: {rate: 20M}}, {name: http, load: {rate: 500}}"
		for cell, f := range explained(t, []planted{{"free", nil, nil}}, offered) {
			if !slices.Contains([]explain.Bound{explain.ByRate, explain.ByOthers}, f.Bound) {
				t.Errorf("%s: %s: %s", cell, f.Bound, f.Sentence)
			}
		}
	})
}

// named benches the networks and checks that each one's limit is the planted one, or said
// to be unknown where others took the CPU, as other packages' tests may. A trial for
// which the machine was too busy is tried again, and so is one of which that is said.
func named(t *testing.T, nets []planted) {
	t.Helper()
	found := map[string]explain.Finding{}
	for left, try := nets, 0; len(left) > 0 && try < 3; try++ {
		maps.Copy(found, explained(t, left, "tcp-bulk"))
		left = slices.DeleteFunc(slices.Clone(left), func(n planted) bool {
			f, ok := found[n.name+" tcp-bulk"]
			return ok && f.Bound != explain.ByOthers
		})
	}
	for _, n := range nets {
		f, ok := found[n.name+" tcp-bulk"]
		switch {
		case !ok || f.Missing != "" || !f.Watched || len(f.Limits.Unread) > 0:
			t.Errorf("%s: not looked into: %s, unread %v", n.name, f.Missing, f.Limits.Unread)
		case slices.Contains(n.want, f.Bound),
			f.Bound == explain.ByOthers && max(f.Others, f.Contended)+f.Machine.Steal >= 0.1:
		default:
			t.Errorf("%s: %s, want one of %v: %s", n.name, f.Bound, n.want, f.Sentence)
		}
	}
}
