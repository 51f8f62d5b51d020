package mongowire

import (
	"sort"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// collection holds documents in the order in which they came.
type collection struct {
	mu   sync.RWMutex
	docs []bsoncore.Document
	// objects and others are the keys of _id. Most are ObjectIDs, for which a
	// map without pointers is kept, which the garbage collector need not read.
	objects map[[12]byte]struct{}
	others  map[string]struct{}
	// ascending: every _id is a whole number above the one before, the last of
	// them is last, so that a range of _id is found by halving.
	ascending bool
	last      int64
	// capped is the size in bytes beyond which the oldest documents go; 0 for none.
	capped, size int
}

// overhead is what a document takes besides its bytes, about.
const overhead = 64

func newCollection(capped int) *collection {
	return &collection{objects: map[[12]byte]struct{}{}, others: map[string]struct{}{}, ascending: true, capped: capped}
}

// insert adds a document, which it keeps; false where its _id is there already.
func (c *collection) insert(doc bsoncore.Document) bool {
	id, _ := field(doc, "_id")
	if !c.remember(id) {
		return false
	}
	n, whole := integer(id)
	if !whole || len(c.docs) > 0 && n <= c.last {
		c.ascending = false
	}
	c.last = n
	c.docs = append(c.docs, doc)
	c.size += len(doc) + overhead
	for c.capped > 0 && c.size > c.capped && len(c.docs) > 1 {
		c.forget(c.docs[0])
		c.docs[0] = nil
		c.docs = c.docs[1:]
	}
	return true
}

// remember enters an _id into the index; false where it is there.
func (c *collection) remember(id bsoncore.Value) bool {
	if id.Type == bsoncore.TypeObjectID {
		k := [12]byte(id.Data)
		if _, there := c.objects[k]; there {
			return false
		}
		c.objects[k] = struct{}{}
		return true
	}
	k := key(id)
	if _, there := c.others[k]; there {
		return false
	}
	c.others[k] = struct{}{}
	return true
}

// forget takes a document that goes out of the accounts.
func (c *collection) forget(doc bsoncore.Document) {
	c.size -= len(doc) + overhead
	if id, _ := field(doc, "_id"); id.Type == bsoncore.TypeObjectID {
		delete(c.objects, [12]byte(id.Data))
	} else {
		delete(c.others, key(id))
	}
}

// each calls fn with the position of every document that matches, until fn says
// that it has enough.
func (c *collection) each(f filter, fn func(i int) bool) {
	low, high := c.span(f)
	for i := low; i < high; i++ {
		if f.matches(c.docs[i]) && !fn(i) {
			return
		}
	}
}

// span bounds the positions in which matches can be, by the index of _id.
func (c *collection) span(f filter) (low, high int) {
	high = len(c.docs)
	if !c.ascending {
		return 0, high
	}
	for _, cond := range f {
		if cond.field != "_id" || classOf(cond.value.Type) != classNumber {
			continue
		}
		// The first position at which _id is not below the value, and the first above.
		at := func(least int) int {
			return sort.Search(len(c.docs), func(i int) bool {
				id, _ := field(c.docs[i], "_id")
				order, ordered := compare(id, cond.value)
				return ordered && order >= least
			})
		}
		switch cond.op {
		case "$eq":
			low, high = max(low, at(0)), min(high, at(1))
		case "$gt":
			low = max(low, at(1))
		case "$gte":
			low = max(low, at(0))
		case "$lt":
			high = min(high, at(0))
		default:
			high = min(high, at(1))
		}
	}
	return low, high
}

// remove takes out what matches, all of it or the first, and says how much.
func (c *collection) remove(f filter, one bool) (n int32) {
	var gone []int
	c.each(f, func(i int) bool {
		gone = append(gone, i)
		return !one
	})
	if len(gone) == 0 {
		return 0
	}
	kept := c.docs[:gone[0]]
	for i := gone[0]; i < len(c.docs); i++ {
		if len(gone) > 0 && gone[0] == i {
			c.forget(c.docs[i])
			gone, n = gone[1:], n+1
			continue
		}
		kept = append(kept, c.docs[i])
	}
	clear(c.docs[len(kept):])
	c.docs = kept
	return n
}
