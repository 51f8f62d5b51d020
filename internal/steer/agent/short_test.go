package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestShortConnections: a client fetches a page on a connection of its own each time, and the default network drops
// large packets on their way to it. Each connection is over a moment after it was moved, by the server's close or by
// the client's, and tells all the same that it got through there: after some the pair leaves, at both ends, and the
// next ones wait for nothing.
func TestShortConnections(t *testing.T) {
	b := newBed(t, "t-short", "routed-bgp", "vxlan")
	for _, h := range []string{"h1", "h2"} {
		b.start(h, nil)
	}
	addr := b.pod("b").Addr().String()
	dir := b.nginx(addr)
	if err := errors.Join(os.Remove(filepath.Join(dir, "f")),
		os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1400), 0o644)); err != nil {
		t.Fatal(err)
	}
	b.inPod("b", "nginx", "-p", dir, "-c", dir+"/nginx.conf")
	barred := func(host, local, remote string) bool {
		r := b.agents[host]
		r.members.Lock()
		defer r.members.Unlock()
		p := r.entries.firstNamed(local, remote)
		return p != nil && p.lines[0].bar.Left(r.cfg.Now()) > 0
	}
	for closes, option := range map[string]string{"server": "--no-http-keep-alive", "client": "--tries=1"} {
		b.within("the "+closes+" closes", func() {
			b.reset()
			stop := b.inPod("a", "sh", "-c", fmt.Sprintf("while :; do wget -qO /dev/null %s http://%s:8080/f; done",
				option, addr))
			defer stop()
			b.await("the pair to open", func() bool {
				return b.agents["h1"].opened("a", "b") && b.agents["h2"].opened("b", "a")
			})
			b.move("routed-bgp")
			b.drops("a", "routed-bgp", "iifname DEV meta length > 1000 drop", 0)
			b.await("the pair to leave, at the server's end", func() bool { return barred("h2", "b", "a") })
			b.await("the pair to leave, at the client's end", func() bool { return barred("h1", "a", "b") })
			before := time.Now()
			const fetches = 50
			for range fetches {
				b.run(b.pod("a"), "wget", "-qO", "/dev/null", "--timeout=1", "http://"+addr+":8080/f")
			}
			t.Logf("%d fetches took %v", fetches, time.Since(before).Round(time.Millisecond))
			b.runIn(b.pod("a").Netns, "nft", "delete table inet pw-t")
		})
	}
}

// inPod starts a program in a pod, until it is stopped or the test ends.
func (b *bed) inPod(pod string, argv ...string) (stop func()) {
	b.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := netns.Start(b.pod(pod).Netns, cmd); err != nil {
		b.t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may be gone
			_ = cmd.Wait()
		}
	}
	b.t.Cleanup(stop)
	return stop
}
