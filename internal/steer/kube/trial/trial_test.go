package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// machine is a cluster whose pods are processes of this machine, all at 127.0.0.1.
type machine struct {
	t       *testing.T
	applied []string
	removed []string
	pod     func(name string) (Pod, error)
}

func (m *machine) Apply(_ context.Context, docs []byte) error {
	m.applied = append(m.applied, string(docs))
	return nil
}
func (m *machine) Remove(_ context.Context, _ string, pods []string) error {
	m.removed = append(m.removed, pods...)
	return nil
}

func (m *machine) Pod(_ context.Context, _, name string) (Pod, error) {
	if m.pod != nil {
		return m.pod(name)
	}
	return Pod{Addr: netip.MustParseAddr("127.0.0.1")}, nil
}

func (m *machine) Stream(ctx context.Context, _, _ string, in io.Reader, out io.Writer, args []string) error {
	if args[1] == "meter" {
		return Meter(in, out)
	}
	return Run(ctx, in, out)
}

func open(t *testing.T, m *machine) *Site {
	t.Helper()
	s, err := Open(t.Context(), m, Plan{Nodes: [2]string{"a", "b"}, Image: "pathwise:1", Self: "/the/program",
		Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSite: pods are made and removed, programs run in them, and their machine is counted once.
func TestSite(t *testing.T) {
	m := &machine{t: t}
	s := open(t, m)
	if strings.Count(m.applied[0], "kind: Pod") != 2 {
		t.Errorf("applied %s", m.applied)
	}
	cpu, err := s.CPU(t.Context())
	if err != nil || len(cpu) != 1 || cpu["a and b"].Cores == 0 {
		t.Errorf("%v, %v", cpu, err)
	}
	spec := lab.Spec{Name: "b1", Hosts: 2, Pods: []lab.PodSpec{{Name: "c1", Host: 1}, {Name: "s1", Host: 2}}}
	l, _, err := s.Up(t.Context(), spec, Host)
	if err != nil {
		t.Fatal(err)
	}
	pods := l.Pods()
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), topo.ServicePort+1)
	if len(pods) != 2 || pods[1].Service != at ||
		pods[0].Attachments[0].Dev != "lo" {
		t.Fatalf("%+v", pods)
	}
	if !workload.Elsewhere(l, pods[0]) {
		t.Error("a pod of a cluster is taken for one of this kernel")
	}
	if behind := workload.ClockOf(l, pods[0]); behind.Abs() > time.Second {
		t.Errorf("one machine has clocks %v apart", behind)
	}
	if res, err := l.Exec(t.Context(), pods[0], "sh", "-c", "echo well"); err != nil || string(res.Stdout) != "well\n" {
		t.Errorf("%q, %v", res.Stdout, err)
	}
	_, err = l.Exec(t.Context(), pods[0], "sh", "-c", "echo bad >&2; exit 3")
	if failed := (*program.Error)(nil); !errors.As(err, &failed) || failed.Stderr != "bad" {
		t.Errorf("%v", err)
	}
	before, err := l.Counters(network.Device{Netns: pods[0].Name, Name: "lo"})
	if err != nil || before.Packets == 0 && before.Bytes > 0 {
		t.Errorf("%+v, %v", before, err)
	}
	if err := errors.Join(l.Down(t.Context()), s.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if !slices.Equal(m.removed, []string{"b1-c1", "b1-s1", "meter-1", "meter-2"}) {
		t.Errorf("removed %v", m.removed)
	}
}

// TestNotThere: a pod that is not on its network is named, and what was made goes.
func TestNotThere(t *testing.T) {
	m := &machine{t: t}
	s := open(t, m)
	spec := lab.Spec{Name: "b1", Hosts: 2, Pods: []lab.PodSpec{{Name: "c1", Host: 1}}}
	_, _, err := s.Up(t.Context(), spec, "shop/fast")
	if err == nil || !strings.Contains(err.Error(), "pod b1-c1 has no address on shop/fast") {
		t.Errorf("%v", err)
	}
	m.pod = func(string) (Pod, error) {
		return Pod{Addr: netip.MustParseAddr("127.0.0.1"),
			Addrs: map[string][]netip.Addr{"shop/fast": {netip.MustParseAddr("192.0.2.77")}}}, nil
	}
	if _, _, err = s.Up(t.Context(), spec, "shop/fast"); err == nil || !strings.Contains(err.Error(),
		"no interface has its address 192.0.2.77") {
		t.Errorf("%v", err)
	}
	if len(m.removed) != 2 || !strings.Contains(m.applied[1], "k8s.v1.cni.cncf.io/networks: shop/fast") {
		t.Errorf("removed %v, applied %s", m.removed, m.applied[1:])
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRunEnds: a program ends when the one that ordered it has gone.
func TestRunEnds(t *testing.T) {
	in, ours := io.Pipe()
	line, err := json.Marshal(lab.Program{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = ours.Write(append(line, '\n'))
		time.Sleep(100 * time.Millisecond)
		ours.Close()
	}()
	var out bytes.Buffer
	begin := time.Now()
	if err := Run(t.Context(), in, &out); err != nil || time.Since(begin) > 20*time.Second ||
		!strings.Contains(out.String(), "killed") {
		t.Errorf("after %v: %s, %v", time.Since(begin), out.String(), err)
	}
}

// TestShow: an image of one program has no cat.
func TestShow(t *testing.T) {
	file := t.TempDir() + "/f"
	if err := os.WriteFile(file, []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ran := show([]string{file, file}); string(ran.Stdout) != "text\ntext\n" || ran.Failure != "" {
		t.Errorf("%+v", ran)
	}
	if ran := show([]string{file, file + "none"}); string(ran.Stdout) != "text\n" || ran.Failure == "" {
		t.Errorf("%+v", ran)
	}
}

func TestCheck(t *testing.T) {
	for name, ok := range map[string]bool{"default": true, "host": true, "shop/fast": true, "fast": false, "a/b/c": false,
		"A/b": false, "/x": false, "": false} {
		if err := Check(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNodeRestarts: a meter that has ended with its node is asked again once its pod runs, and until then is named.
func TestNodeRestarts(t *testing.T) {
	m := &machine{t: t}
	s := open(t, m)
	for range 2 {
		if err := s.gauges[0].close(); err != nil {
			t.Fatal(err)
		}
		m.pod = func(string) (Pod, error) { return Pod{Why: "its node is away"}, nil }
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := s.CPU(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "meter-1 is not Ready (its node is away)") {
			t.Errorf("%v", err)
		}
		m.pod = nil
		if cpu, err := s.CPU(t.Context()); err != nil || len(cpu) != 1 {
			t.Errorf("%v, %v", cpu, err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
