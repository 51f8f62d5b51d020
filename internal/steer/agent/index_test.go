package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

// An index finds what a map finds, of as many keys as it was made for.
func TestIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		keys := make([]string, rng.IntN(40))
		for i := range keys {
			keys[i] = fmt.Sprint(rng.IntN(30))
		}
		x, first := newIndex(len(keys), func(at int32) string { return keys[at] }), map[string]int32{}
		for i, k := range keys {
			was, known := first[k]
			if !known {
				first[k] = int32(i)
			}
			if other, twice := x.add(int32(i)); twice != known || twice && other != was {
				t.Fatalf("add %d of %v: %d, %t", i, keys, other, twice)
			}
		}
		for i := range 31 {
			at, ok := x.find(fmt.Sprint(i))
			if want, known := first[fmt.Sprint(i)]; ok != known || ok && at != want {
				t.Fatalf("find %d of %v: %d, %t", i, keys, at, ok)
			}
		}
	}
	if _, ok := (index[string]{}).find("a"); ok {
		t.Error("found in none")
	}
}

// crowded is a cluster of 1,000 hosts with 20 pods each on three networks, the agents' among them.
func crowded() Cluster {
	c := Cluster{}
	addr := func(network, n int) netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(network), byte(n >> 8), byte(n)})
	}
	for h := range 1000 {
		c.Hosts = append(c.Hosts, topo.Host{Name: fmt.Sprintf("node-%d", h), Index: h + 1})
		for p := range 20 {
			n := 20*h + p
			pod := topo.Pod{Name: fmt.Sprintf("default/p%d", n), UID: fmt.Sprintf("%08x-0000-4000-8000-%012x", n, n),
				Host: h + 1, Agent: p == 0}
			for i, network := range []string{"default", "default/bulk", "default/fast"} {
				pod.Attachments = append(pod.Attachments,
					topo.Attachment{Network: network, Dev: fmt.Sprintf("net%d", i), Addr: addr(i, n)})
			}
			c.Pods = append(c.Pods, pod)
		}
	}
	return c
}

// What changes of one host leaves the others' pods checked, and refuses a wrong one all the same.
func TestCheckAfterAChange(t *testing.T) {
	was, now := crowded(), crowded()
	for i := 100; i < 120; i++ {
		now.Pods[i].Attachments[1].MTU++
	}
	now.Pods = append(now.Pods[:40:40], now.Pods[43:]...)
	var r register
	if err := errors.Join(r.vet(was), r.vet(now)); err != nil {
		t.Error(err)
	}
	if x := r.since; len(x.came) != 20 || len(x.gone) != 23 {
		t.Errorf("%d pods were checked again, and %d have gone", len(x.came), len(x.gone))
	}
	now.Pods = slices.Clone(now.Pods)
	now.Pods[110].Attachments = slices.Clone(now.Pods[110].Attachments)
	now.Pods[110].Attachments[1].Dev = "../net1"
	if err := r.vet(now); err == nil {
		t.Error("a device that leads elsewhere was taken")
	}
}

// BenchmarkDescribe is what an agent does where one pod of 20,000 has changed.
func BenchmarkDescribe(b *testing.B) {
	c := crowded()
	r := &describer{journal: newJournal(Config{Host: "node-7", Source: func() (Cluster, error) {
		return c, nil
	}}.clocked())}
	for b.Loop() {
		pods := append([]topo.Pod{}, c.Pods...)
		pods[9999].Attachments = append([]topo.Attachment{}, pods[9999].Attachments...)
		c.Pods = pods
		if err := r.describe(); err != nil {
			b.Fatal(err)
		}
	}
}
