package docker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/docker"
	"pathwise.dev/pathwise/internal/lab/network/macvlan"
	"pathwise.dev/pathwise/internal/lab/oci"
	"pathwise.dev/pathwise/internal/topo"
)

// options of a lab whose containers run what "make build" made.
func options(t *testing.T) lab.Options {
	t.Helper()
	self, err := filepath.Abs("../../../../bin/pathwise")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(self); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	return lab.Options{CNIPath: lab.DefaultCNIPath(self), Self: self}
}

func spec(name string) lab.Spec {
	return lab.Spec{Name: name, Hosts: 2,
		Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 1}, {Name: "c", Host: 2}}}
}

// need fails the test where Docker cannot run.
func need(t *testing.T, n network.Network) {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv("PATHWISE_ALLOW_SKIP") != "" {
		t.Skip("labs need root")
	}
	if miss := network.NewMachine(nil).Missing(n.Info().Needs); len(miss) > 0 {
		t.Fatalf("this machine lacks %v: run make setup", miss)
	}
}

// remains lists what is on the machine of labs in the store, or by the name.
func remains(t *testing.T, store lab.Store, name string) []string {
	t.Helper()
	var out []string
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, store.Root) || strings.Contains(line, "/pw-"+name+"-") {
			out = append(out, "mount "+strings.TrimSpace(line))
		}
	}
	out = append(out, oci.Cgroups("/pathwise-"+name)...)
	if _, err := os.Stat(store.Root); !errors.Is(err, os.ErrNotExist) {
		out = append(out, fmt.Sprintf("%s (%v)", store.Root, err))
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range environs {
		env, _ := os.ReadFile(p) // it may have ended
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "cmdline"))
		if bytes.Contains(env, []byte("PATHWISE_LAB="+store.Root)) || bytes.Contains(line, []byte(store.Root)) {
			out = append(out, p+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	for _, dir := range []string{"/run/docker", "/run/docker.pid", "/run/containerd", "/opt/containerd",
		"/etc/docker/key.json", "/var/lib/docker"} {
		if _, err := os.Stat(dir); err == nil {
			out = append(out, dir)
		}
	}
	return out
}

// dial connects from a pod to a listener in namespace ns.
func dial(l *lab.Lab, from topo.Pod, ns string, to netip.Addr) error {
	var ln net.Listener
	err := l.Do(topo.Pod{Netns: ns}, func() (err error) {
		ln, err = net.Listen("tcp4", netip.AddrPortFrom(to, 7005).String())
		return err
	})
	if err != nil {
		return err
	}
	defer ln.Close()
	return l.Do(from, func() error {
		c, err := net.DialTimeout("tcp4", ln.Addr().String(), time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// TestTwoLabs has two labs with the same addresses side by side, each with two
// engines; one that goes leaves the other as it was.
func TestTwoLabs(t *testing.T) {
	n := docker.New(docker.Overlay)
	need(t, n)
	before := remains(t, lab.Store{Root: "/absent"}, "t-none")
	var stores []lab.Store
	var labs []*lab.Lab
	for _, name := range []string{"t-dock1", "t-dock2"} {
		s := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
		l, err := s.Up(t.Context(), spec(name), n, options(t))
		if err != nil {
			t.Fatal(err)
		}
		stores, labs = append(stores, s), append(labs, l)
		t.Cleanup(func() {
			if err := s.Down(context.Background(), name, true); err != nil && !errors.Is(err, lab.ErrNoLab) {
				t.Error(err)
			}
		})
	}
	works := func(l *lab.Lab) {
		t.Helper()
		p := l.Pods()
		for _, to := range p[1:] {
			if err := dial(l, p[0], to.Netns, to.Addr()); err != nil {
				t.Errorf("%s to %s: %v", p[0].Netns, to.Netns, err)
			}
		}
	}
	works(labs[0])
	works(labs[1])
	if err := stores[0].Down(t.Context(), "t-dock1", false); err != nil {
		t.Fatal(err)
	}
	if left := remains(t, stores[0], "t-dock1"); fmt.Sprint(left) != fmt.Sprint(before) {
		t.Errorf("left of the first:\n%s", strings.Join(left, "\n"))
	}
	works(labs[1])
	if err := stores[1].Down(t.Context(), "t-dock2", false); err != nil {
		t.Fatal(err)
	}
	if left := remains(t, stores[1], "t-dock2"); fmt.Sprint(left) != fmt.Sprint(before) {
		t.Errorf("left of the second:\n%s", strings.Join(left, "\n"))
	}
}

// TestSecondNetwork adds a network by CNI to pods that an engine runs, and
// refuses the other order.
func TestSecondNetwork(t *testing.T) {
	first, second := docker.New(docker.Bridge), macvlan.New(macvlan.Bridge)
	need(t, first)
	s := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	_, err := s.UpAll(t.Context(), spec("t-dock2nd"), []network.Network{second, first}, options(t))
	if err == nil || !strings.Contains(err.Error(), "can only be the first network") {
		t.Errorf("an engine's network as the second: got %v", err)
	}
	l, err := s.UpAll(t.Context(), spec("t-dock2nd"), []network.Network{first, second}, options(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(context.Background(), "t-dock2nd", false); err != nil {
			t.Error(err)
		}
	})
	a, c := l.Pods()[0], l.Pods()[2]
	if len(a.Attachments) != 2 || a.Attachments[0].Dev != "eth0" || a.Attachments[1].Dev != "net1" {
		t.Fatalf("pod a has %+v", a.Attachments)
	}
	if err := dial(l, a, c.Netns, c.Attachments[1].Addr); err != nil {
		t.Errorf("to the other host by the second network: %v", err)
	}
	if err := dial(l, a, l.Underlay(), l.Gateway().Addr()); err != nil {
		t.Errorf("to the outside by the engine's: %v", err)
	}
}

// storeEnv has the test's own program build a lab, to be killed meanwhile.
const storeEnv = "PATHWISE_TEST_BUILD"

// TestKilled kills, at five moments, the process that builds a lab, and wants
// nothing left when the lab has gone down.
func TestKilled(t *testing.T) {
	kinds := []docker.Kind{docker.Overlay, docker.NAT, docker.Container, docker.Bridge, docker.Macvlan}
	if root := os.Getenv(storeEnv); root != "" {
		for _, k := range kinds {
			if strings.HasSuffix(root, "/"+string(k)) {
				_, err := lab.Store{Root: root}.Up(t.Context(), spec("t-dkill"), docker.New(k), options(t))
				t.Log(err)
				time.Sleep(time.Minute)
			}
		}
	}
	need(t, docker.New(docker.Overlay))
	before := remains(t, lab.Store{Root: "/absent"}, "t-none")
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for i, kind := range kinds {
		store := lab.Store{Root: filepath.Join(t.TempDir(), string(kind))}
		// Later and later, and never at the same moment.
		after := time.Duration(i)*500*time.Millisecond + time.Duration(rnd.Int64N(int64(time.Second)))
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), storeEnv+"="+store.Root)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		t.Logf("%s: killed after %v, with %d processes in containers", kind, after.Round(time.Millisecond),
			len(oci.Processes("/pathwise-t-dkill")))
		err := store.Down(context.Background(), "t-dkill", false)
		if errors.Is(err, lab.ErrNoLab) {
			err = store.Tidy()
		}
		if err != nil {
			t.Fatalf("lab down: %v", err)
		}
		if left, err := filepath.Glob(netns.Path("pw-t-dkill-*")); err != nil || len(left) > 0 {
			t.Errorf("namespaces left: %v %v", left, err)
		}
		if left := remains(t, store, "t-dkill"); fmt.Sprint(left) != fmt.Sprint(before) {
			t.Fatalf("killed after %v, left:\n%s", after, strings.Join(left, "\n"))
		}
	}
}
