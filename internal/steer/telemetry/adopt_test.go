package telemetry

import (
	"bufio"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// agentPins makes the test binary an agent that watches the client's namespace,
// until it is killed.
const agentPins = "PATHWISE_TEST_TELEMETRY_PINS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(agentPins); dir != "" {
		agent(dir)
	}
	os.Exit(m.Run())
}

func agent(dir string) {
	root, err := CgroupRoot()
	if err != nil {
		panic(err)
	}
	c, err := Attach(root, dir)
	if err != nil {
		panic(err)
	}
	if _, err := c.Watch(client); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("ready\n")
	time.Sleep(time.Hour)
}

// killedAgent runs an agent, does work, and kills it.
func killedAgent(t *testing.T, dir string, work func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), agentPins+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && strings.TrimSpace(line) == "ready" {
		work()
	} else {
		t.Errorf("the agent says %q, %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
}

// attached are our programs on the cgroup.
func attached(t *testing.T) []ebpf.ProgramID {
	t.Helper()
	cg, err := os.Open(root(t))
	must(t, err)
	defer cg.Close()
	on, err := link.QueryPrograms(link.QueryOptions{Target: int(cg.Fd()), Attach: ebpf.AttachCGroupSockOps})
	must(t, err)
	var ids []ebpf.ProgramID
	for _, p := range on.Programs {
		prog, err := ebpf.NewProgramFromID(p.ID)
		must(t, err)
		info, err := prog.Info()
		must(t, err)
		prog.Close()
		if info.Name == telemetryProgPwTcpObserve {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// TestKilledAgentIsTakenOver: the program goes on without its agent, and the
// next one has the same program, maps and watched namespaces, and only what is new.
func TestKilledAgentIsTakenOver(t *testing.T) {
	buildPair(t)
	dir := pins(t)
	before := len(attached(t))
	var k connection
	killedAgent(t, dir, func() {
		k = connect(t, server4)
		k.send(t, megabyte)
		if c, err := Attach(root(t), dir); !errors.Is(err, ErrInUse) || c != nil {
			t.Errorf("a second collector: %v, %v", c, err)
		}
	})
	alone := attached(t)
	if len(alone) != before+1 {
		t.Fatalf("%d programs were there, %d are", before, len(alone))
	}
	k.send(t, 3*megabyte) // nobody listens
	k.settle(t)
	c := attach(t, dir)
	if !c.adopted || !slices.Equal(attached(t), alone) {
		t.Errorf("adopted %v, program %v, was %v", c.adopted, attached(t), alone)
	}
	cookie, err := Cookie(client)
	must(t, err)
	if got, err := c.Watched(); err != nil || !slices.Equal(got, []uint64{cookie}) {
		t.Errorf("watched %v, %v", got, err)
	}
	k.send(t, 2*megabyte) // without Watch
	got, _ := read(t, c, nil)
	if got.RTT.Count == 0 || got.BytesAcked == 0 || got.BytesAcked > 3*megabyte {
		t.Errorf("%+v", got)
	}
	again, err := c.Watch(client)
	if err != nil || again != cookie {
		t.Errorf("cookie %d, was %d, %v", again, cookie, err)
	}
	must(t, c.SetPeers([]netip.Addr{netip.MustParseAddr(server4)}))
	k.send(t, megabyte)
	if got, _ := read(t, c, nil); got.RTT.Count == 0 {
		t.Errorf("%+v", got)
	}
	must(t, c.Remove())
	if left := attached(t); len(left) != before {
		t.Errorf("%d programs left, %d were there", len(left), before)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pins left: %v", err)
	}
}

// TestClosedCollectorIsTakenOver: within one process too, and while a child that is being started has the lock's file.
func TestClosedCollectorIsTakenOver(t *testing.T) {
	dir := pins(t)
	first, err := Attach(root(t), dir)
	must(t, err)
	was := attached(t)
	child, err := unix.Dup(int(first.lock.Fd()))
	must(t, err)
	defer unix.Close(child)
	must(t, first.Close())
	second := attach(t, dir)
	if first.adopted || !second.adopted || !slices.Equal(attached(t), was) {
		t.Errorf("adopted %v and %v; programs %v and %v", first.adopted, second.adopted, was, attached(t))
	}
}

// TestStrangePinsAreReplaced: wherever an earlier agent, of this or another
// version, died, the next one has one working program of its own.
func TestStrangePinsAreReplaced(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir, maps string){
		"another version": func(t *testing.T, dir, maps string) {
			must(t, os.Mkdir(filepath.Join(dir, "maps-0123"), 0o700))
			entries, err := os.ReadDir(maps)
			must(t, err)
			for _, e := range entries { // bpffs renames only within one mount
				must(t, os.Rename(filepath.Join(maps, e.Name()), filepath.Join(dir, "maps-0123", e.Name())))
			}
			must(t, os.Remove(maps))
		},
		"a map is missing": func(t *testing.T, _, maps string) {
			must(t, os.Remove(filepath.Join(maps, telemetryMapPwTcpFlows)))
		},
		"a map of another shape": func(t *testing.T, _, maps string) {
			repin(t, filepath.Join(maps, telemetryMapPwTcpPeers),
				&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 9})
		},
		"new maps, but the old program": func(t *testing.T, _, maps string) {
			spec, err := loadTelemetry()
			must(t, err)
			repin(t, filepath.Join(maps, telemetryMapPwTcpFlows), spec.Maps[telemetryMapPwTcpFlows])
		},
		"no link": func(t *testing.T, dir, _ string) {
			n := len(attached(t))
			must(t, os.Remove(filepath.Join(dir, linkPin)))
			eventually(t, "the program goes with its link", func() bool { return len(attached(t)) < n })
		},
	} {
		t.Run(name, func(t *testing.T) {
			buildPair(t)
			dir := pins(t)
			before := len(attached(t))
			first, err := Attach(root(t), dir)
			must(t, err)
			_, err = first.Watch(client)
			must(t, err)
			k := connect(t, server4)
			k.send(t, megabyte)
			maps := first.mapsDir()
			must(t, first.Close())
			damage(t, dir, maps)
			c := attach(t, dir)
			if c.adopted {
				t.Error("adopted what is not its own")
			}
			// Agents of other tests attach to the same cgroup, and go again.
			eventually(t, "there is one program more than before", func() bool { return len(attached(t)) == before+1 })
			_, err = c.Watch(client)
			must(t, err)
			k.send(t, megabyte)
			if got, _ := read(t, c, nil); got.RTT.Count == 0 || got.BytesAcked == 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func repin(t *testing.T, path string, spec *ebpf.MapSpec) {
	t.Helper()
	must(t, os.Remove(path))
	m, err := ebpf.NewMap(spec)
	must(t, err)
	defer m.Close()
	must(t, m.Pin(path))
}

// TestOtherCgroup: pins of a link on another cgroup are no use.
func TestOtherCgroup(t *testing.T) {
	dir := pins(t)
	other := filepath.Join(root(t), "pw-t-tele")
	must(t, os.Mkdir(other, 0o755))
	t.Cleanup(func() { os.Remove(other) })
	before := len(attached(t))
	first, err := Attach(other, dir)
	must(t, err)
	must(t, first.Close())
	c := attach(t, dir)
	if c.adopted || len(attached(t)) != before+1 {
		t.Errorf("adopted %v; %d programs at the root, %d were there", c.adopted, len(attached(t)), before)
	}
}

func TestAttachSaysWhatIsWrong(t *testing.T) {
	dir := pins(t)
	if c, err := Attach(filepath.Join(root(t), "pw-t-nowhere"), dir); !errors.Is(err, os.ErrNotExist) || c != nil {
		t.Errorf("no such cgroup: %v, %v", c, err)
	}
	if c, err := Attach(t.TempDir(), dir); !errors.Is(err, ErrNoCgroup) || c != nil {
		t.Errorf("not a cgroup: %v, %v", c, err)
	}
	if c, err := Attach(root(t), t.TempDir()); err == nil || c != nil {
		t.Errorf("not a bpffs: %v, %v", c, err)
	}
	attach(t, dir) // nothing of the failed ones is in the way
}
