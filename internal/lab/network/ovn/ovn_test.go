package ovn_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/ovn"
	"pathwise.dev/pathwise/internal/topo"
)

func up(t *testing.T, spec lab.Spec) *lab.Lab {
	t.Helper()
	bin, err := filepath.Abs("../../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	n := ovn.New()
	cniPath := []string{filepath.Join(bin, "cni")}
	if missing := network.NewMachine(cniPath).Missing(n.Info().Needs); len(missing) > 0 {
		t.Skipf("this machine lacks %v", missing)
	}
	store := lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	l, err := store.Up(t.Context(), spec, n, lab.Options{CNIPath: cniPath, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Errorf("lab down: %v", err)
		}
	})
	return l
}

// TestThreeHosts: every pair over switches and router, at a larger MTU, at once
// after the lab is up: no packet may be lost to a host that has not heard of a pod.
func TestThreeHosts(t *testing.T) {
	l := up(t, lab.Spec{Name: "t-ovn-three", Hosts: 3, MTU: 9000,
		Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2},
			{Name: "c", Host: 3}, {Name: "near", Host: 1}}})
	for _, from := range l.Pods() {
		for _, to := range l.Pods() {
			if from.Name == to.Name {
				continue
			}
			size := strconv.Itoa(9000 - ovn.New().Info().Overhead - 28)
			if _, err := l.Exec(t.Context(), from, "ping", "-c1", "-W1", "-Mdo", "-s", size, to.Addr().String()); err != nil {
				t.Errorf("%s to %s: %v", from.Name, to.Name, err)
			}
		}
	}
	notes := strings.Join(l.Plug().Notes, "; ")
	if !regexp.MustCompile(`^OVN \d+\.\d+\.\d+; Open vSwitch \d.*datapath$`).MatchString(notes) {
		t.Errorf("the result says %q", notes)
	}
	ttl(t, l, l.Pods()[0], l.Pods()[1], 63) // one router between
	ttl(t, l, l.Pods()[0], l.Pods()[3], 64) // one switch
}

// ttl wants an answer with that time to live.
func ttl(t *testing.T, l *lab.Lab, from, to topo.Pod, want int) {
	t.Helper()
	res, err := l.Exec(t.Context(), from, "ping", "-c1", "-W1", to.Addr().String())
	if err != nil || !strings.Contains(string(res.Stdout), fmt.Sprintf("ttl=%d ", want)) {
		t.Errorf("%s to %s: no ttl=%d in %s (%v)", from.Name, to.Name, want, res.Stdout, err)
	}
}

// TestControllerCrashes: ovn-controller ends by SIGSEGV, as the packaged one does
// at times. It is back, and the lab goes on.
func TestControllerCrashes(t *testing.T) {
	l := up(t, lab.Spec{Name: "t-ovn-crash", Hosts: 2, Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}})
	a, b := l.Pods()[0], l.Pods()[1]
	pidOf := func() int {
		raw, err := os.ReadFile(filepath.Join(l.Dir(), "network", "h1.pid"))
		if err != nil {
			return 0 // between two of them there is none
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
		return pid
	}
	before := pidOf()
	if before == 0 {
		t.Fatal("no pid of ovn-controller")
	}
	if err := syscall.Kill(before, syscall.SIGSEGV); err != nil {
		t.Fatal(err)
	}
	for pid := before; pid == before || pid == 0; pid = pidOf() {
		if err := t.Context().Err(); err != nil {
			t.Fatal("ovn-controller is not back")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := l.Failed(); err != nil {
		t.Error(err)
	}
	if _, err := l.Exec(t.Context(), a, "ping", "-c3", "-i0.2", "-W1", b.Addr().String()); err != nil {
		t.Error(err)
	}
}

// TestPortSecurity: nothing leaves a pod with an address that is not the pod's.
func TestPortSecurity(t *testing.T) {
	l := up(t, lab.Spec{Name: "t-ovn-secure", Hosts: 2, Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 1}}})
	a, b := l.Pods()[0], l.Pods()[1]
	for _, argv := range [][]string{{"ip", "addr", "add", "10.77.1.200/32", "dev", "eth0"},
		{"ip", "neigh", "replace", b.Addr().String(), "lladdr", b.Attachments[0].MAC, "dev", "eth0"}} {
		if _, err := l.Exec(t.Context(), a, argv...); err != nil {
			t.Fatal(err)
		}
	}
	before := received(t, l, b)
	_, _ = l.Exec(t.Context(), a, "ping", "-c3", "-i0.1", "-W0.3", "-I", "10.77.1.200", b.Addr().String())
	if n := received(t, l, b) - before; n != 0 {
		t.Errorf("%d packets arrived from an address that is not the pod's", n)
	}
	if _, err := l.Exec(t.Context(), a, "ping", "-c1", "-W1", "-I", a.Addr().String(), b.Addr().String()); err != nil {
		t.Errorf("with its own: %v", err)
	}
}

// received counts the ICMP messages that the pod's kernel has taken in.
func received(t *testing.T, l *lab.Lab, p topo.Pod) (n int) {
	t.Helper()
	err := l.Do(p, func() error {
		raw, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		m := regexp.MustCompile(`(?m)^Icmp: (\d+)`).FindSubmatch(raw)
		if m == nil {
			return fmt.Errorf("no ICMP counters in %q", raw)
		}
		_, err = fmt.Sscan(string(m[1]), &n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
