package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
)

// TestSeveralNetworksLeaveNothing compares the machine before and after a lab of
// several networks with everything that a lab can hold: daemons, a user's own
// plugins, impairments pinned in its BPF file system, and an agent's process.
func TestSeveralNetworksLeaveNothing(t *testing.T) {
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := netns.Create("pw-t-hold2"); err != nil { // see TestKill
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Delete("pw-t-hold2"); err != nil {
			t.Error(err)
		}
		if err := netns.Release(); err != nil {
			t.Error(err)
		}
	})
	bin := binDir(t)
	t.Setenv("PATH", os.Getenv("PATH")+":"+bin)
	list := filepath.Join(t.TempDir(), "mine.conflist")
	text := `{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"bridge","bridge":"mine0",
		"ipam":{"type":"host-local","ranges":[[{"subnet":"${SUBNET}"}]]}}]}`
	if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var nets []network.Network
	for _, name := range []string{"routed-bgp", "vxlan", "macvlan", "flannel-vxlan", "flannel-host-gw", "cni:" + list} {
		n, err := catalogue.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		nets = append(nets, n)
	}
	before := machineState(t)
	store := lab.Store{Root: lab.DefaultRoot}
	spec := lab.Spec{Name: "several", Agents: true, Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}}
	l, err := store.UpAll(context.Background(), spec, nets, lab.Options{CNIPath: []string{filepath.Join(bin, "cni")}})
	if err != nil {
		t.Fatal(err)
	}
	pins, err := store.MountBPF("several")
	if err == nil {
		_, err = store.MountBPF("several") // again is as once
	}
	if err != nil {
		t.Error(err)
	}
	for _, p := range l.Pods() {
		host := l.Hosts()[p.Host-1].Netns
		for _, a := range p.Attachments {
			m := impair.Impairer{Pins: pins, Line: []string{filepath.Join(bin, "pathwise"), impair.LineArgument},
				Mark: store.Mark("several")}
			err := m.Apply(impair.Port{Netns: p.Netns, Dev: a.Dev, Host: host}, impair.Impairment{DropEgress: true, Rate: 1e9,
				Delay: time.Millisecond})
			if err != nil {
				t.Error(err)
			}
		}
	}
	agent := exec.Command("sleep", "1000")
	agent.Env = []string{store.Mark("several")}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	if err := store.Down(context.Background(), "several", false); err != nil {
		t.Error(err)
	}
	if err := agent.Wait(); err == nil {
		t.Error("the agent's process ended by itself")
	}
	for tries := 0; ; tries++ { // see TestKill
		diff := leftOf(difference(before, machineState(t), nil), store.Mark("several"))
		if diff == "" {
			return
		}
		if tries == 4 {
			t.Fatalf("left:\n%s", diff)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// leftOf drops from a difference the processes and cgroups that are not the
// lab's: other programs of the machine come and go.
func leftOf(diff, mark string) string {
	var out strings.Builder
	for line := range strings.Lines(diff) {
		if _, process, ok := strings.Cut(line, " process: "); ok {
			pid, _, _ := strings.Cut(process, " ")
			env, _ := os.ReadFile(filepath.Join("/proc", pid, "environ")) // it may have ended
			if !strings.Contains(string(env), mark) {
				continue
			}
		}
		if strings.Contains(line, " file: /sys/fs/cgroup") && !strings.Contains(line, "pathwise") {
			continue
		}
		out.WriteString(line)
	}
	return out.String()
}
