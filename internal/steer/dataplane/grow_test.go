package dataplane

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// crowd enters n peers that nobody knows.
func (b *bed) crowd(p *Plane, n int) error {
	for i := range n {
		peer := benchPeer(i)
		peer.Pairs[0].Local = stable(1).Local
		if err := p.SetPeer(peer); err != nil {
			return err
		}
	}
	return nil
}

// TestGrowingProcess is no test: it is the agent that TestKilledGrowing kills, which makes
// room for more peers as fast as it can.
func TestGrowingProcess(t *testing.T) {
	ns, dir := os.Getenv("PATHWISE_GROW_NETNS"), os.Getenv("PATHWISE_GROW_DIR")
	if ns == "" {
		return
	}
	b := &bed{t: t, pods: []string{"", ns}, dir: dir, planes: map[int]*Plane{}, mtu: [3]int{1500, 1450, 9000},
		lease: time.Hour, peers: 1 << 14}
	b.open(1)
	b.move(1, 2)
	if _, err := os.Stdout.WriteString("open\n"); err != nil {
		t.Fatal(err)
	}
	for {
		b.planes[1].cfg.Peers = b.planes[1].room + 1 // so that it can go on
		if err := b.planes[1].grow(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilledGrowing: the agent is killed at any moment while it makes room. Traffic goes
// on, where it was; the next agent finds peers and choices; and nothing stays pinned that
// is not used. Fails if maps take the others' place before they are complete.
func TestKilledGrowing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.peers = 1 << 14
	b.open(2)
	b.open(1)
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	s := b.bulk("10.90.2.2:7002", 5e6, false)
	if err := exchange(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	b.move(1, 2)
	if err := b.planes[1].Close(); err != nil {
		t.Fatal(err)
	}
	delete(b.planes, 1)
	halfway := 0
	for i := range 30 {
		b.killGrowing(time.Duration(i*13%100) * time.Millisecond)
		left := b.sizes()
		if len(left) > 1 {
			halfway++
		}
		_, before := b.crossed(2, 2)
		if err := exchange(conn, "nobody steers"); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		if err := s.more(1e5); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		if _, after := b.crossed(2, 2); after < before+20 {
			t.Errorf("kill %d, %v left: traffic has left its path: %d packets", i, left, after-before)
		}
		b.adopted(i)
	}
	t.Logf("%d of 30 kills left two sets of maps; longest gap %v", halfway, s.longest())
}

// killGrowing runs TestGrowingProcess for a while.
func (b *bed) killGrowing(after time.Duration) {
	b.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestGrowingProcess$")
	cmd.Env = append(os.Environ(), "PATHWISE_GROW_NETNS="+b.pods[1], "PATHWISE_GROW_DIR="+b.dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
}

// sizes are the directories of maps that pod 1 has.
func (b *bed) sizes() (out []string) {
	b.t.Helper()
	pins, err := os.ReadDir(b.config(1).PinDir)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, pin := range pins {
		if pin.IsDir() {
			out = append(out, pin.Name())
		}
	}
	return out
}

// adopted opens the plane of pod 1, which must be whole, and lets go of it.
func (b *bed) adopted(i int) {
	b.t.Helper()
	p, err := Open(b.config(1))
	if err != nil {
		b.t.Fatalf("kill %d: %v", i, err)
	}
	defer p.Close()
	if known, err := p.Known(b.peer(1)); err != nil || !known {
		b.t.Errorf("kill %d: the peer is not known again: %v", i, err)
	}
	if err := p.SetPeer(b.peer(1)); err != nil {
		b.t.Fatal(err)
	}
	if c, err := p.Choices("pod-2"); err != nil || slices.ContainsFunc(c[:], func(c Choice) bool { return c.Path != 2 }) {
		b.t.Errorf("kill %d: the choices are gone: %v", i, err)
	}
	if left := b.sizes(); len(left) != 1 || left[0] != roomPins+fmt.Sprint(p.room) {
		b.t.Errorf("kill %d: room for %d peers, pinned are %v", i, p.room, left)
	}
}

// TestGrowFails: where room cannot be made, the data plane is as it was: what was steered
// is, and is switched. Fails if the maps that no program uses are taken for the plane's.
func TestGrowFails(t *testing.T) {
	b := newBed(t)
	b.peers = 1024
	one := b.open(1)
	b.open(2)
	// What is in the way of the new maps, as another's would be.
	if err := os.MkdirAll(filepath.Join(b.config(1).PinDir, roomPins+strconv.Itoa(firstRoom*growth), "in the way"),
		0o700); err != nil {
		t.Fatal(err)
	}
	if err := b.crowd(one, firstRoom); err == nil {
		t.Fatal("room was made")
	}
	if one.room != firstRoom || len(one.used) != firstRoom {
		t.Errorf("there is room for %d peers", one.room)
	}
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	for _, path := range []int{2, 1} {
		b.move(1, path)
		before := b.sent(1, path)
		for range 3 {
			if err := exchange(conn, "more room would be good"); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.sent(1, path) - before; n < 3 {
			t.Errorf("%d packets went over path %d", n, path)
		}
	}
	if err := os.RemoveAll(filepath.Join(b.config(1).PinDir, roomPins+strconv.Itoa(firstRoom*growth))); err != nil {
		t.Fatal(err)
	}
	if err := b.crowd(one, firstRoom); err != nil || one.room != firstRoom*growth {
		t.Errorf("later: room for %d peers: %v", one.room, err)
	}
}

// TestLaterLayout: going back from a version with a later layout retires what it has
// left, whatever its maps are like.
func TestLaterLayout(t *testing.T) {
	b := newBed(t)
	b.lease = DefaultLease
	b.open(2)
	b.open(1)
	conn := b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001")
	b.move(1, 2)
	if err := exchange(conn, "by the later one"); err != nil {
		t.Fatal(err)
	}
	// Ours replaces it: what is pinned is the later version's now.
	later := filepath.Join(b.dir, "layout-3", "pod-1")
	if err := os.MkdirAll(filepath.Dir(later), 0o700); err != nil {
		t.Fatal(err)
	}
	b.repin(b.config(1).PinDir, later)
	if err := b.planes[1].Close(); err != nil {
		t.Fatal(err)
	}
	cfg, now := b.config(1), time.Now()
	cfg.Former, cfg.Now = []string{later}, func() time.Time { return now }
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.planes[1] = p
	if err := p.SetPeer(b.peer(1)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 1}, {saysBye, 1}, {stillComes, 0}} {
		now = now.Add(step.after)
		if n, err := p.Former(); err != nil || n != step.left {
			t.Errorf("%d are left, %v; expected %d", n, err, step.left)
		}
		if err := exchange(conn, "both versions"); err != nil {
			t.Fatal(err)
		}
	}
	b.move(1, 1)
	before := b.sent(1, 1)
	for range 3 {
		if err := exchange(conn, "ours alone"); err != nil {
			t.Fatal(err)
		}
	}
	if b.sent(1, 1) < before+2 {
		t.Error("nothing is steered")
	}
	if _, err := os.Stat(later); !os.IsNotExist(err) {
		t.Errorf("its pins are left: %v", err)
	}
}

// repin moves pins, which a bpf file system renames.
func (b *bed) repin(from, to string) {
	b.t.Helper()
	if err := os.Rename(from, to); err != nil {
		b.t.Fatal(err)
	}
}
