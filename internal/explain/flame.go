package explain

import (
	"maps"
	"slices"
)

// Frame is a box of a flame graph: a function and the time in it and in what it called.
type Frame struct {
	Name string
	// Stage of the function by itself; "" where the table does not know it.
	Stage Stage
	// From and Share are its place and width, as parts of the whole from 0 to 1.
	From, Share float64
	// Depth counts from 0, the whole.
	Depth int
}

// node is a function under its callers.
type node struct {
	name     string
	count    uint64
	children map[string]*node
}

func (n *node) child(name string) *node {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	c := n.children[name]
	if c == nil {
		c = &node{name: name}
		n.children[name] = c
	}
	return c
}

// Flame lays out the lab's stacks as a flame graph: by context, place, and the
// functions from the root on. A softirq's stack begins with the softirq, as who
// happened to run it is not the cause. Boxes narrower than least are left out.
func Flame(t *Table, stacks []Stack, least float64) []Frame {
	root := &node{name: "lab"}
	for _, s := range stacks {
		if s.Place == Outside || s.Place == Underlay || s.Context == Free {
			continue
		}
		root.count += s.Count
		at := root
		for _, name := range append([]string{string(s.Context), string(s.Place)}, rooted(s)...) {
			at = at.child(name)
			at.count += s.Count
		}
	}
	if root.count == 0 {
		return nil
	}
	var out []Frame
	var lay func(n *node, from float64, depth int)
	lay = func(n *node, from float64, depth int) {
		share := float64(n.count) / float64(root.count)
		if share < least {
			return
		}
		f := Frame{Name: n.name, From: from, Share: share, Depth: depth}
		if e, ok := t.find(n.name); ok && depth > 2 {
			f.Stage = e.stage
		}
		out = append(out, f)
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			c := n.children[name]
			lay(c, from, depth+1)
			from += float64(c.count) / float64(root.count)
		}
	}
	lay(root, 0, 0)
	return out
}

// rooted are the frames below the last softirq, or the process in user mode.
func rooted(s Stack) []string {
	if len(s.Frames) == 0 {
		return []string{s.Process}
	}
	for i := len(s.Frames) - 1; i >= 0; i-- {
		if isSoftIRQ(s.Frames[i]) {
			return s.Frames[i:]
		}
	}
	return s.Frames
}
