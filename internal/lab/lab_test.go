package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/custom"
	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
)

func store(t *testing.T) lab.Store {
	t.Helper()
	return lab.Store{Root: filepath.Join(t.TempDir(), "store")}
}

func spec(name string) lab.Spec {
	return lab.Spec{Name: name, Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}}
}

// empty fails the test when anything of the lab is left.
func empty(t *testing.T, s lab.Store, name string) {
	t.Helper()
	left, err := filepath.Glob("/run/netns/pw-" + name + "-*")
	if err != nil || len(left) > 0 {
		t.Errorf("namespaces left: %v %v", left, err)
	}
	if _, err := os.Stat(s.Root); !os.IsNotExist(err) {
		t.Errorf("store left: %v", err)
	}
}

// plugin writes a CNI plugin that is a shell script and returns a network with it.
func plugin(t *testing.T, script string) (network.Network, []string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "bad.conflist")
	if err := os.WriteFile(conf, []byte(`{"cniVersion":"1.0.0","name":"bad","plugins":[{"type":"bad"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	n, err := custom.Load("bad", network.List{Path: conf})
	if err != nil {
		t.Fatal(err)
	}
	return n, []string{dir}
}

func TestBadPluginsAreNamedAndLeaveNothing(t *testing.T) {
	for _, tc := range []struct{ name, script, want string }{
		{"hangs", "sleep 60 & wait", "CNI ADD took longer than 500ms"},
		{"crashes", "kill -SEGV $$", "plugin bad: signal: segmentation fault"},
		{"rubbish", "echo not json at all", `plugin bad: its result is no JSON: "not json at all"`},
		{"fails", `echo '{"cniVersion":"1.0.0","code":11,"msg":"out of ponies"}'; exit 1`, "out of ponies"},
		{"fails silently", "exit 3", "plugin bad: exit status 3"},
		{"prints nothing", "echo busy >&2", `plugin bad: it printed no result: it printed "busy"`},
		{"lies", `nsenter --net=$CNI_NETNS sh -c 'ip link add eth0 type veth peer name x0; ip addr add 10.9.9.9/24 dev eth0; ip addr add fd00:9::9/64 dev eth0'
			echo '{"cniVersion":"1.0.0","ips":[{"address":"10.9.9.9/24"},{"address":"fd00:9::8/64"}]}'`, "has address fd00:9::8, but it has 10.9.9.9, fd00:9::9"},
		{"does nothing", `echo '{"cniVersion":"1.0.0"}'`, "find the pod's interface"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := store(t)
			n, path := plugin(t, tc.script)
			name := "t-bad-" + strings.ReplaceAll(tc.name, " ", "-")
			_, err := s.Up(context.Background(), spec(name), n, lab.Options{CNIPath: path, Timeout: 500 * time.Millisecond})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			// A plugin that fails its DEL too keeps the record, so that the user can try again.
			if err := s.Down(context.Background(), name, true); err != nil && !errors.Is(err, lab.ErrNoLab) {
				t.Logf("down: %v", err)
			}
			left, _ := filepath.Glob("/run/netns/pw-" + name + "-*")
			if len(left) > 0 {
				t.Errorf("namespaces left: %v", left)
			}
		})
	}
}

func TestUpCancelledLeavesNothing(t *testing.T) {
	s := store(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Millisecond)
	defer cancel()
	_, err := s.Up(ctx, spec("t-cancel"), vxlan.New(), lab.Options{CNIPath: lab.DefaultCNIPath(bin(t, "pathwise"))})
	if err == nil {
		t.Fatal("up succeeded on a cancelled context")
	}
	empty(t, s, "t-cancel")
}

func bin(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDownIsIdempotentAndRefusesOwned(t *testing.T) {
	s := store(t)
	l, err := s.Up(context.Background(), spec("t-owned"), plain.Host{}, lab.Options{Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Down(context.Background(), "t-owned", false); !errors.Is(err, lab.ErrOwned) {
		t.Errorf("got %v, want ErrOwned", err)
	}
	if _, err := s.Up(context.Background(), spec("t-owned"), plain.Host{}, lab.Options{}); err == nil ||
		!strings.Contains(err.Error(), "exists already") {
		t.Errorf("got %v, want a lab that exists", err)
	}
	if err := l.Down(context.Background()); err != nil {
		t.Error(err)
	}
	if err := s.Down(context.Background(), "t-owned", false); !errors.Is(err, lab.ErrNoLab) {
		t.Errorf("got %v, want ErrNoLab", err)
	}
	empty(t, s, "t-owned")
}

// TestDownKillsWhatRunsInPods starts programs that have lost every tie to the
// lab but their namespace.
func TestDownKillsWhatRunsInPods(t *testing.T) {
	s := store(t)
	l, err := s.Up(context.Background(), spec("t-kill"), plain.None{}, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "100")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := netns.Start(l.Pods()[0].Netns, cmd); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := s.Down(context.Background(), "t-kill", false); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("the program ended by itself: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the program still runs")
		_ = cmd.Process.Kill()
	}
	empty(t, s, "t-kill")
}

// TestDaemonThatEndsIsReported starts a network whose daemon fails at once.
func TestDaemonThatEndsIsReported(t *testing.T) {
	s := store(t)
	begin := time.Now()
	_, err := s.Up(context.Background(), spec("t-daemon"), broken{}, lab.Options{})
	if err == nil || !strings.Contains(err.Error(), "daemon broken ended") ||
		!strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v, want the daemon's own words", err)
	}
	t.Logf("reported after %v", time.Since(begin))
	empty(t, s, "t-daemon")
}

type broken struct{ plain.None }

func (broken) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	err := site.Start(ctx,
		network.Daemon{Name: "broken", Netns: site.Hosts[0].Netns, Argv: []string{"sh", "-c", "echo no such thing; exit 1"}})
	return network.Plug{Mode: network.Closed, Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		err
}

func TestStateIsReadable(t *testing.T) {
	s := store(t)
	if _, err := s.Up(context.Background(), spec("t-state"), plain.Host{}, lab.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Down(context.Background(), "t-state", false); err != nil {
			t.Error(err)
		}
	}()
	st, err := s.Load("t-state")
	if err != nil || !st.Up || len(st.Pods) != 2 || len(st.Hosts) != 2 {
		raw, _ := json.Marshal(st)
		t.Errorf("state %s %v", raw, err)
	}
	// A damaged record does not keep the lab from going down.
	if err := os.WriteFile(filepath.Join(s.Root, "labs", "t-state", "lab.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	labs, err := s.List()
	if err != nil || len(labs) != 1 || labs[0].Spec.Name != "t-state" {
		t.Errorf("list: %v %v", labs, err)
	}
}
