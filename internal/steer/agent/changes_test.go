package agent

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/topo"
)

// churn makes a cluster another, at random. What was told before stays as it was.
type churn struct {
	*rand.Rand
	n int // pods that were made
	c Cluster
}

// addr is one of few, so that pods have the same now and then.
func (r *churn) addr(v6 bool) netip.Addr {
	n := byte(r.IntN(250))
	if v6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(r.IntN(2)), 15: n})
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(2)), n})
}

func (r *churn) attachments() (out []topo.Attachment) {
	v6 := r.IntN(10) == 0
	for i := range 1 + r.IntN(3) {
		at := topo.Attachment{Network: fmt.Sprint("n", i), Dev: fmt.Sprint("net", i), Addr: r.addr(v6)}
		if !v6 && r.IntN(4) == 0 {
			at.Addr6 = r.addr(true)
		}
		out = append(out, at)
	}
	return out
}

func (r *churn) pod() topo.Pod {
	r.n++
	return topo.Pod{Name: fmt.Sprint("p", r.n), UID: fmt.Sprint("uid-", r.n), Host: 1 + r.IntN(6), Agent: r.IntN(20) == 0,
		Attachments: r.attachments()}
}

// step changes something, and now and then nothing, or all.
func (r *churn) step() {
	pods := slices.Clone(r.c.Pods)
	at := 1 + r.IntN(max(1, len(pods)-1)) // the first is the agent's own
	switch has, what := len(pods) > 1, r.IntN(14); {
	case !has || what < 3:
		pods = slices.Insert(pods, 1+r.IntN(len(pods)), r.pod())
	case what < 5:
		pods = slices.Delete(pods, at, at+1)
	case what < 6:
		pods[at] = r.pod()
	case what < 7:
		pods[at].UID = fmt.Sprint("uid-", 1+r.IntN(r.n)) // of another, if that is there
	case what < 9:
		pods[at].Attachments = r.attachments()
	case what < 10:
		pods[at].Attachments = slices.Clone(pods[at].Attachments)
		pods[at].Attachments[0].Addr = pods[r.IntN(len(pods))].Addr()
	case what < 11:
		other := 1 + r.IntN(len(pods)-1)
		pods[at], pods[other] = pods[other], pods[at]
	case what < 12: // a host's pods are read again
		for i := range pods {
			if pods[i].Host == pods[at].Host {
				pods[i].Attachments = slices.Clone(pods[i].Attachments)
			}
		}
	case what < 13:
		pods[at].Attachments = slices.Clone(pods[at].Attachments)
		pods[at].Attachments[0].Dev = []string{"net0", "../net0"}[r.IntN(2)]
	case r.IntN(20) == 0:
		r.Shuffle(len(pods)-1, func(i, j int) { pods[i+1], pods[j+1] = pods[j+1], pods[i+1] })
	}
	r.c.Pods = pods
}

// shared are the addresses that several claims are for, at least one by a pod that could be steered,
// and the pods, by place, that are in such a conflict: by the definition, one by one.
func shared(pods []topo.Pod) (addrs map[netip.Addr]bool, in map[int]bool) {
	by := map[netip.Addr][]int{}
	for i, p := range pods {
		for _, at := range p.Attachments {
			if at.Addr.IsValid() {
				by[at.Addr] = append(by[at.Addr], i)
			}
			if at.Addr6.IsValid() && at.Addr6 != at.Addr {
				by[at.Addr6] = append(by[at.Addr6], i)
			}
		}
	}
	addrs, in = map[netip.Addr]bool{}, map[int]bool{}
	for a, who := range by {
		if len(who) > 1 && slices.ContainsFunc(who, func(i int) bool { return len(pods[i].Attachments) > 1 }) {
			addrs[a] = true
			for _, i := range who {
				in[i] = true
			}
		}
	}
	return addrs, in
}

// TestDescribeAnyChange: whatever changes in whatever order, an agent that looks at the changes alone
// has what one has that looks at all: it refuses the same, leaves the same pods alone, tells the same
// conflicts, and finds the same pods.
func TestDescribeAnyChange(t *testing.T) {
	for seed := range uint64(12) {
		r := churn{Rand: rand.New(rand.NewPCG(seed, 20))}
		r.c.Hosts = []topo.Host{{Name: "h1", Index: 1}}
		r.c.Pods = []topo.Pod{{Name: "own", UID: "own", Host: 1, Agent: true}}
		for range int(seed) * 16 { // from none to hundreds
			r.c.Pods = append(r.c.Pods, r.pod())
		}
		a := describerOf(&r.c)
		taken, refused, rolled := 0, 0, 0
		for step := range 120 {
			for range 1 + r.IntN(3) {
				r.step()
			}
			whole := describerOf(&r.c)
			is, want := a.describe(), whole.describe()
			if fmt.Sprint(is) != fmt.Sprint(want) {
				t.Fatalf("seed %d, step %d: %v, one that looks at all %v", seed, step, is, want)
			}
			if want != nil {
				refused++
				for i := range r.c.Pods { // what is wrong is taken away
					r.c.Pods[i].UID = fmt.Sprint("uid-again-", i)
				}
				r.c.Pods = slices.Clone(r.c.Pods)
				for i := range r.c.Pods {
					r.c.Pods[i].Attachments = slices.Clone(r.c.Pods[i].Attachments)
					for n := range r.c.Pods[i].Attachments {
						r.c.Pods[i].Attachments[n].Dev = "net0"
					}
				}
				continue
			}
			if taken++; len(a.described.late.peers) > 0 {
				rolled++
			}
			a.alike(t, whole, r)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		if taken < 20 || refused == 0 || rolled == 0 {
			t.Errorf("seed %d: %d taken, %d refused, %d with some that came late", seed, taken, refused, rolled)
		}
	}
}

func describerOf(c *Cluster) *describer {
	list := func() (Cluster, error) { return *c, nil }
	return &describer{journal: newJournal(Config{Host: "h1", Source: list}.clocked())}
}

// alike compares with one that has looked at all, and with the definition of a conflict.
func (r *describer) alike(t *testing.T, whole *describer, of churn) {
	t.Helper()
	is, want := r.described, whole.described
	addrs, in := shared(of.c.Pods)
	for i, p := range of.c.Pods {
		native, has := in[i] && !p.Agent && len(p.Attachments) > 1, len(is.Pods[i].Attachments)
		if native != (has < len(p.Attachments)) {
			t.Errorf("pod %s: %d of %d attachments, in conflict %t", p.Name, has, len(p.Attachments), native)
		}
	}
	for a := range addrs {
		if r.conflicts[a] == "" {
			t.Errorf("conflict of %s is not told", a)
		}
	}
	if len(r.conflicts) != len(addrs) || !reflect.DeepEqual(r.conflicts, whole.conflicts) {
		t.Errorf("conflicts %v, one that looks at all %v", r.conflicts, whole.conflicts)
	}
	if !reflect.DeepEqual(is.Pods, want.Pods) || !reflect.DeepEqual(is.local, want.local) ||
		!reflect.DeepEqual(is.names, want.names) || !reflect.DeepEqual(is.agents, want.agents) {
		t.Error("another cluster")
	}
	if !reflect.DeepEqual(is.filter, want.filter) {
		t.Error("other candidates")
	}
	alike := func(what any, find func(elsewhere) (topo.Pod, bool)) {
		p, ok := find(is.elsewhere)
		q, known := find(want.elsewhere)
		if ok != known || ok && (p.Name != q.Name || p.UID != q.UID || !same(&p, &q)) {
			t.Errorf("%v: found %t %+v, one that looks at all %t %+v", what, ok, p, known, q)
		}
	}
	uids := []string{""}
	for n := range 100 { // what came last, and has gone, too
		uids = append(uids, fmt.Sprint("uid-", of.n-n), fmt.Sprint("uid-", of.n-n, ofIPv6), fmt.Sprint("uid-again-", n))
	}
	for _, p := range of.c.Pods {
		uids = append(uids, p.UID, p.UID+ofIPv6)
	}
	for _, uid := range uids {
		alike(uid, func(e elsewhere) (topo.Pod, bool) { return e.named(uid) })
		alike(uid, func(e elsewhere) (topo.Pod, bool) { return e.identified(idBy(uid)) })
	}
	for n := range 250 {
		for _, a := range []netip.Addr{
			netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), netip.AddrFrom4([4]byte{10, 0, 1, byte(n)}),
			netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(n)}), netip.AddrFrom16([16]byte{0: 0xfd, 14: 1, 15: byte(n)}), {}} {
			alike(a, func(e elsewhere) (topo.Pod, bool) { return e.addressed(a) })
		}
	}
}

// TestTally: hashes are counted as their keys are.
func TestTally(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	tl, of := newTally[int](200), map[int]int{}
	for range 20000 {
		k := rng.IntN(100)
		if rng.IntN(2) == 0 && of[k] > 0 {
			of[k]--
			tl.remove(k)
		} else if of[k] < 5 {
			of[k]++
			tl.add(k)
		}
		several := 0
		for _, n := range of {
			if n > 1 {
				several++
			}
		}
		if tl.several != several || tl.many(k) != (of[k] > 1) {
			t.Fatalf("%d several, want %d; of %d %d", tl.several, several, k, of[k])
		}
	}
	if tl.used != 100 || !tl.room(200) || tl.room(300) {
		t.Errorf("%d slots of %d are used", tl.used, len(tl.slots))
	}
}
