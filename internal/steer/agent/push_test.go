package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/impair"
)

// course is a flow that is to outlive an outage.
type course struct {
	proto string
	// opener and sender are hosts.
	opener, sender int
	// moved: it has been on another network before; early: it began before the agents knew
	// of the pair.
	moved, early bool
}

func (c course) String() string {
	return fmt.Sprintf("%s, h%d opens, h%d sends, moved %t, early %t", c.proto, c.opener, c.sender, c.moved, c.early)
}

// courses are all there are.
func courses() (out []course) {
	for _, proto := range []string{"tcp", "udp"} {
		for i := range 16 {
			out = append(out, course{proto, 1 + i&1, 1 + i>>1&1, i>>2&1 == 1, i>>3 == 1})
		}
	}
	return out
}

// TestEitherEndSends: the default network fails, and a flow goes on over another while it
// does, no matter which end opened it, whichever end sends. Each has a pair of pods of its own, and
// is alone, so that nothing else finds the failure for it.
func TestEitherEndSends(t *testing.T) {
	t.Parallel()
	const each = 6 // pods of a host
	spec := lab.Spec{Name: "t-push", Agents: true}
	for n := range each {
		spec.Pods = append(spec.Pods, lab.PodSpec{Name: fmt.Sprintf("a%d", n), Host: 1},
			lab.PodSpec{Name: fmt.Sprintf("b%d", n), Host: 2})
	}
	b := newBedOf(t, spec, "routed-bgp", "vxlan", "macvlan")
	b.start("h1", nil)
	b.start("h2", nil)
	for i, c := range courses() {
		b.within(c.String(), func() { b.outlives(c, fmt.Sprintf("a%d", i%each), fmt.Sprintf("b%d", i/each)) })
	}
}

// outlives has a flow between two pods outlive an outage of their default network.
func (b *bed) outlives(c course, one, two string) {
	pods := []string{1: one, 2: two}
	opener, other := pods[c.opener], pods[3-c.opener]
	agents := []*running{1: b.agents["h1"], 2: b.agents["h2"]}
	open := func() bool { return agents[1].opened(one, two) && agents[2].opened(two, one) }
	if !c.early {
		knock := b.flow("tcp", opener, other, opener, 1e5)
		b.await("the pair to open", open)
		knock.more(b, "before", 1000)
		knock.stop()
	}
	f := b.flow(c.proto, opener, other, pods[c.sender], 5e5)
	f.more(b, "at first", 2e5)
	b.await("the pair to open", open)
	if c.moved {
		owner := agents[c.opener]
		for _, to := range []string{"vxlan", "routed-bgp"} {
			// After the outage before, the kernel may still look for a neighbour: that is a failure, too.
			b.await("the order to be taken", func() bool {
				_, err := owner.Order(Order{Local: opener, Remote: other, Network: to})
				return err == nil
			})
			f.more(b, "over "+to, 2e5)
		}
	}
	f.more(b, "before the fault", 2e5)
	f.longest()
	b.impair("routed-bgp", impair.Impairment{DropIngress: true, DropEgress: true}, one, "agent-h1")
	defer b.mended("routed-bgp", one)
	f.more(b, "while the default network fails", 5e5)
	b.t.Logf("longest gap %v", f.longest())
}

// mended ends the outage of a network, and waits until the agents have found that.
func (b *bed) mended(network, pod string) {
	b.t.Helper()
	b.impair(network, impair.Impairment{}, pod, "agent-h1")
	for name, r := range b.agents {
		b.await("the default network to be well for "+name, func() bool {
			r.members.Lock()
			defer r.members.Unlock()
			for _, h := range r.members.remote {
				if hp := h.paths[network]; hp == nil || hp.Down() || hp.Suspected() {
					return false
				}
			}
			return true
		})
	}
}

// TestDownloads: real servers push, and their clients only listen, over flows that have
// never moved: the download goes on while its default network fails. That of datagrams is
// of a pair that is known, as one that is known later looks like one that nobody answers.
func TestDownloads(t *testing.T) {
	spec := lab.Spec{Name: "t-down", Agents: true, Pods: []lab.PodSpec{{Name: "b", Host: 2}}}
	for n := range 2 {
		spec.Pods = append(spec.Pods, lab.PodSpec{Name: fmt.Sprintf("a%d", n), Host: 1})
	}
	b := newBedOf(t, spec, "vxlan", "routed-bgp", "macvlan")
	b.start("h1", nil)
	b.start("h2", nil)
	addr := b.pod("b").Addr().String()
	dir := b.nginx(addr)
	nginx, wget := "nginx -p "+dir+" -c "+dir+"/nginx.conf", "wget -qO /dev/null http://"+addr+":8080/f"
	for _, d := range []struct{ name, pod, server, client, only string }{
		{"nginx, TCP alone fails", "a0", nginx, wget, "tcp"},
		{"nginx", "a0", nginx, wget, ""},
		{"iperf3, TCP", "a1", "iperf3 -s -B " + addr, "iperf3 -c " + addr + " -R -t 90 -b 50M", ""},
		{"iperf3, UDP", "a1", "iperf3 -s -B " + addr, "iperf3 -c " + addr + " -R -t 90 -u -b 5M", ""},
	} {
		b.within(d.name, func() { b.downloads(d.pod, strings.Fields(d.server), strings.Fields(d.client), d.only) })
	}
}

// nginx writes what nginx serves a large file by, at 50 Mbit/s.
func (b *bed) nginx(addr string) (dir string) {
	b.t.Helper()
	dir = b.t.TempDir()
	conf := fmt.Sprintf("daemon off; master_process off; pid nginx.pid; error_log stderr; events {} http { access_log off; "+
		"client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; "+
		"server { listen %s:8080; root %s; limit_rate 6m; } }", addr, dir)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600),
		os.WriteFile(filepath.Join(dir, "f"), nil, 0o644), os.Truncate(filepath.Join(dir, "f"), 2<<30)); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// downloads has a program in a pod download from one in pod b while the default network
// fails, or drops the packets alone that only says.
func (b *bed) downloads(pod string, server, client []string, only string) {
	fault := impair.Impairment{DropIngress: true, DropEgress: true}
	if err := fault.Only.UnmarshalText([]byte(only)); err != nil {
		b.t.Fatal(err)
	}
	a := b.agents["h1"]
	if a.opened(pod, "b") {
		b.await("the pair to be home", func() bool {
			_, err := a.Order(Order{Local: pod, Remote: "b", Network: "vxlan"})
			return err == nil
		})
	}
	for i, argv := range [][]string{server, client} {
		b.inPod([]string{"b", pod}[i], argv...)
		time.Sleep(300 * time.Millisecond) // the server listens
	}
	came := func(network string) uint64 { _, n := a.tallies(pod, "b", network); return n }
	on := came("vxlan")
	b.await("the pair to open", func() bool { return a.opened(pod, "b") && b.agents["h2"].opened("b", pod) })
	b.await("the download on the default network", func() bool { return came("vxlan") > on+1500 })
	elsewhere := came("routed-bgp") + came("macvlan")
	b.impair("vxlan", fault, pod, "agent-h1")
	defer b.mended("vxlan", pod)
	b.await("the download elsewhere", func() bool { return came("routed-bgp")+came("macvlan") > elsewhere+1000 })
}
