package agent

import (
	"slices"

	"pathwise.dev/pathwise/internal/topo"
)

// changes are what tells a list of pods from one before it, by places. In a large cluster something
// changes all the time, and next to nothing of all: what is looked at is that alone.
type changes struct {
	to   []int32 // by the place before: the place now, or -1 of one that is gone
	gone []int32 // places before
	came []int32 // places now
}

// changed compares pods with those before. One that is another than it was has gone and come, and so
// may one that is far from where it was.
func changed(was, now []topo.Pod) changes {
	x, at := changes{to: make([]int32, len(was))}, 0
	leave := func(n int) {
		for range n {
			x.to[at], x.gone = -1, append(x.gone, int32(at))
			at++
		}
	}
	for i := range now {
		n := nearby(was[at:], &now[i])
		if n < 0 {
			x.came = append(x.came, int32(i))
			continue
		}
		leave(n)
		x.to[at] = int32(i)
		at++
	}
	leave(len(was) - at)
	return x
}

// nearby is the place of the pod as it is near the beginning of a list, or -1.
func nearby(was []topo.Pod, p *topo.Pod) int {
	const near = 256 // a host has fewer pods
	for n := range min(len(was), near) {
		if same(&was[n], p) {
			return n
		}
	}
	return -1
}

// same reports whether all is the same of two pods that is checked, or by which they are found.
func same(p, q *topo.Pod) bool {
	return p.UID == q.UID && p.Host == q.Host && p.Agent == q.Agent && p.Netns == q.Netns && p.Need == q.Need &&
		len(p.Attachments) == len(q.Attachments) && (len(p.Attachments) == 0 || &p.Attachments[0] == &q.Attachments[0] ||
		slices.Equal(p.Attachments, q.Attachments))
}

// oneMemory reports whether two lists are the same, and not only equal.
func oneMemory(a, b []topo.Pod) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
