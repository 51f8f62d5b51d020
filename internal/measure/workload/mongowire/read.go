package mongowire

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// firstBatch is how many documents an answer to find holds unless told otherwise.
const firstBatch = 101

// selection is what find and count look at.
type selection struct {
	filter      filter
	skip, limit int64
}

func (q request) selection(filter string) (s selection, bad *failure) {
	doc, bad := q.document(filter)
	if bad != nil {
		return s, bad
	}
	if s.filter, bad = parseFilter(doc); bad != nil {
		return s, bad
	}
	if s.skip, bad = q.whole("skip", 0); bad != nil {
		return s, bad
	}
	s.limit, bad = q.whole("limit", 0)
	return s, bad
}

// each calls fn with every document that is selected. It holds the
// collection's lock.
func (s selection) each(c *collection, fn func(bsoncore.Document)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var n int64
	c.each(s.filter, func(i int) bool {
		if n++; n <= s.skip {
			return true
		}
		fn(c.docs[i])
		return s.limit == 0 || n < s.skip+s.limit
	})
}

// find answers with the first documents, and leaves the others to a cursor.
func (q request) find(dst []byte) ([]byte, *failure) {
	for _, name := range []string{"sort", "collation", "let", "tailable", "returnKey", "min", "max"} {
		if v, there := field(q.body, name); there && (v.Type != bsoncore.TypeEmbeddedDocument || len(v.Data) > 5) &&
			truthy(v) {
			return dst, notImplemented("find with " + name)
		}
	}
	ns, bad := q.namespace()
	if bad != nil {
		return dst, bad
	}
	s, bad := q.selection("filter")
	if bad != nil {
		return dst, bad
	}
	fields, bad := q.document("projection")
	if bad != nil {
		return dst, bad
	}
	p, bad := parseProjection(fields)
	if bad != nil {
		return dst, bad
	}
	size, bad := q.whole("batchSize", firstBatch)
	if bad != nil {
		return dst, bad
	}
	c, bad := q.collection(false)
	if bad != nil {
		return dst, bad
	}
	b := newBatch(dst, "firstBatch", size)
	rest, single := &cursor{ns: ns}, q.flag("singleBatch", false)
	if c != nil {
		s.each(c, func(doc bsoncore.Document) {
			if !b.add(p, doc) && !single {
				rest.add(p.append(nil, doc))
			}
		})
	}
	var id int64
	if !single && (b.n == size || len(rest.docs) > 0) {
		id = q.keep(rest)
	}
	return b.end(id, ns), nil
}

// batch is documents being appended to an answer.
type batch struct {
	dst           []byte
	cursor, array int32
	begin         int
	// n of at most size documents; full is for other reasons.
	n, size int64
	full    bool
}

func newBatch(dst []byte, name string, size int64) *batch {
	b := &batch{size: size}
	b.cursor, b.dst = bsoncore.AppendDocumentElementStart(dst, "cursor")
	b.array, b.dst = bsoncore.AppendArrayElementStart(b.dst, name)
	b.begin = len(b.dst)
	return b
}

// add appends a document; false where there is no room for it.
func (b *batch) add(p projection, doc bsoncore.Document) bool {
	if b.full || b.n == b.size {
		return false
	}
	before := len(b.dst)
	b.dst = append(b.dst, byte(bsoncore.TypeEmbeddedDocument))
	b.dst = append(strconv.AppendInt(b.dst, b.n, 10), 0)
	b.dst = p.append(b.dst, doc)
	if b.n > 0 && len(b.dst)-b.begin > maxDocument {
		b.dst, b.full = b.dst[:before], true
		return false
	}
	b.n++
	return true
}

// end closes the answer, with the cursor that has the rest.
func (b *batch) end(id int64, ns string) []byte {
	dst := append(b.dst, 0)
	dst = bsoncore.UpdateLength(dst, b.array, int32(len(dst))-b.array)
	dst = bsoncore.AppendInt64Element(dst, "id", id)
	dst = bsoncore.AppendStringElement(dst, "ns", ns)
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, b.cursor, int32(len(dst))-b.cursor)
}

// count answers with how many documents are selected.
func (q request) count(dst []byte) ([]byte, *failure) {
	s, bad := q.selection("query")
	if bad != nil {
		return dst, bad
	}
	c, bad := q.collection(false)
	if bad != nil {
		return dst, bad
	}
	var n int32
	if c != nil {
		s.each(c, func(bsoncore.Document) { n++ })
	}
	return bsoncore.AppendInt32Element(dst, "n", n), nil
}
