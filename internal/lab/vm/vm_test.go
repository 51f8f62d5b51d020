package vm_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/lab/vm"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/topo"
)

// TestMain lets the test binary be the machines' init and agent.
func TestMain(m *testing.M) {
	switch {
	case guest.Inside():
		fmt.Fprintln(os.Stderr, guest.Init())
		os.Exit(1)
	case len(os.Args) == 5 && os.Args[1] == vm.Argument:
		opts := lab.Options{CNIPath: filepath.SplitList(os.Args[3]), Owned: true}
		share := lab.NewShare(lab.Store{Root: os.Args[2]}, catalogue.Find, opts)
		fmt.Fprintln(os.Stderr, vm.Serve(context.Background(), netip.MustParsePrefix(os.Args[4]), share))
		os.Exit(1)
	default:
		os.Exit(m.Run())
	}
}

// hypervisor boots machines of the kind of kernel.
func hypervisor(t *testing.T, kind, root string, path []string) vm.Hypervisor {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k, err := guest.Find(guest.Place{Self: filepath.Join(bin(t), "pathwise"), Getenv: os.Getenv}, kind)
	if err != nil || kind == guest.UML && !k.Works() {
		t.Fatalf("%s: %v %v", kind, err, k.Missing)
	}
	if !k.Works() {
		t.Skipf("no kernel for QEMU: %v", k.Missing)
	}
	return vm.Hypervisor{Config: vm.Config{Kernel: k, Self: self, Root: root, CNIPath: path, Env: os.Environ(),
		Memory: 384 << 20}}
}

// bin is where "make build plugins guest-kernel" puts what it makes.
func bin(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// userList is the network of a user's own CNI configuration list, whose hosts have
// each their part of one range.
const userList = `{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"macvlan","master":"${DEV}","mtu":${MTU},
	"ipam":{"type":"host-local","ranges":[[{"subnet":"${PODS}","rangeStart":"10.77.${HOST}.1","rangeEnd":"10.77.${HOST}.9"}]]}}]}`

// find looks the network up, "mine" being that of userList.
func find(t *testing.T, name string) network.Network {
	t.Helper()
	if name == "mine" {
		name = "cni:" + filepath.Join(t.TempDir(), "mine.conflist")
		if err := os.WriteFile(strings.TrimPrefix(name, "cni:"), []byte(userList), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n, err := catalogue.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(name, "cni:") {
		return network.Named(n, "mine") // as an experiment would call it
	}
	return n
}

// TestScenarios is the contract of virtual machines: on each topology, with each
// kind of outside and on each kind of kernel, pods reach one another, both ways and
// at the exact MTU, whichever kernel they are on; and nothing is left when the lab is
// removed by somebody else, as after a kill.
func TestScenarios(t *testing.T) {
	path := lab.DefaultCNIPath(filepath.Join(bin(t), "pathwise"))
	t.Setenv("PATH", bin(t)+":"+os.Getenv("PATH")) // an engine's containers run pathwise
	for _, tc := range []struct {
		place   topo.Placement
		outside topo.Outside
		kind    string
		network string
		mtu     int
	}{
		{topo.BMP2VMPLocal, topo.OutsideBridge, guest.UML, "vxlan", 1450},
		{topo.VMP2VMPLocal, topo.OutsideOVS, guest.UML, "routed-bgp", 1500},
		// Encapsulated twice.
		{topo.VMP2VMPRemote, topo.OutsideVXLAN, guest.UML, "vxlan", 1400},
		{topo.BMP2VMPRemote, topo.OutsideOVSVXLAN, guest.UML, "vxlan", 1400},
		{topo.BMP2VMPRemote, topo.OutsideOVS, guest.QEMU, "mine", 1500},
		// An engine inside, and the kernel's datapath of Open vSwitch where both hosts have it.
		{topo.BMP2VMPLocal, topo.OutsideBridge, guest.UML, "docker-macvlan", 1500},
		{topo.VMP2VMPRemote, topo.OutsideBridge, guest.UML, "weave-fastdp-like", 1376},
	} {
		t.Run(fmt.Sprintf("%s,%s,%s", tc.place, tc.outside, tc.kind), func(t *testing.T) {
			s := lab.Store{Root: lab.DefaultRoot}
			if tc.place == topo.VMP2VMPLocal { // a directory that the machines see too
				s.Root = outsideRun(t)
			}
			spec := lab.Spec{Name: "t-vm", Hosts: 2, VMs: tc.place.VMs(), Outside: tc.outside,
				Pods: []lab.PodSpec{{Name: "a", Host: 1}, {Name: "b", Host: 2}}}
			l, err := s.Up(t.Context(), spec, find(t, tc.network),
				lab.Options{CNIPath: path, Hypervisor: hypervisor(t, tc.kind, s.Root, path)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { removed(t, s, spec.Name) })
			t.Logf("notes: %q; booted after %v", l.Notes(), l.Booted)
			if noted := strings.Contains(strings.Join(l.Notes(), " "), "outside: Open vSwitch"); noted !=
				tc.outside.OpenVSwitch() {
				t.Errorf("notes %q", l.Notes())
			}
			for i, pod := range l.Pods() {
				if got := pod.Attachments[0].MTU; got != tc.mtu {
					t.Errorf("pod %s: MTU %d, want %d", pod.Name, got, tc.mtu)
				}
				reach(t, l, pod, l.Pods()[1-i], tc.mtu)
			}
			state, err := s.Load(spec.Name)
			if err != nil {
				t.Fatal(err)
			}
			attached(t, state)
		})
	}
}

// outsideRun is a directory for a store under a name without commas.
func outsideRun(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "store")
}

// reach pings at the exact MTU, and one byte above it, which must not pass; and
// looks into the pod by each of the ways that workloads use.
func reach(t *testing.T, l *lab.Lab, from, to topo.Pod, mtu int) {
	t.Helper()
	ping := func(size int) error {
		_, err := l.Exec(t.Context(), from, "ping", "-c3", "-i0.2", "-W5", "-Mdo", "-s"+strconv.Itoa(size-28),
			to.Addr().String())
		return err
	}
	if err := ping(mtu); err != nil {
		t.Errorf("%s to %s at MTU %d: %v", from.Name, to.Name, mtu, err)
	}
	if err := ping(mtu + 1); err == nil {
		t.Errorf("%s to %s: a packet of %d bytes passed", from.Name, to.Name, mtu+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		_, err := l.Exec(ctx, to, "iperf3", "-s", "-1", "-p", strconv.Itoa(int(to.Listen)))
		served <- err
	}()
	if err := workload.AwaitListening(t.Context(), l, to, workload.TCP); err != nil {
		t.Error(err)
	}
	if _, err := l.Exec(t.Context(), from, "iperf3", "-c", to.Addr().String(), "-n", "1M"); err != nil {
		t.Errorf("%s to %s: TCP: %v", from.Name, to.Name, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// attached runs a program in a pod of a virtual machine as "lab exec" does.
func attached(t *testing.T, state lab.State) {
	t.Helper()
	h, ns := state.InVM("b")
	if h.VM == "" {
		t.Fatal("pod b is in no virtual machine")
	}
	var stdout, stderr strings.Builder
	code, err := vm.Attach(t.Context(), h, ns, []string{"sh", "-c", "cat; ip -o link show eth0 >&2; exit 7"},
		vm.Streams{Stdin: strings.NewReader("in and out"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 7 || stdout.String() != "in and out" || !strings.Contains(stderr.String(), "eth0") {
		t.Errorf("got %d, %v, %q, %q", code, err, stdout.String(), stderr.String())
	}
}

// removed removes the lab by its record and looks for what is left.
func removed(t *testing.T, s lab.Store, name string) {
	t.Helper()
	if err := s.Down(context.Background(), name, true); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob("/run/netns/pw-" + name + "-*"); len(left) > 0 {
		t.Errorf("namespaces left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(s.Root, "labs", name)); err == nil {
		t.Error("the record is left")
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range procs {
		if raw, err := os.ReadFile(p); err == nil && strings.Contains(string(raw), filepath.Join(s.Root, "labs", name)) {
			t.Errorf("a process is left: %s", filepath.Dir(p))
		}
	}
}
