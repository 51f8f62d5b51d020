package mongowire

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// maxBatch is how many documents a command may write.
const maxBatch = 100_000

// writeError is a document that was not written; the command itself is well.
type writeError struct {
	index int
	*failure
}

func appendWriteErrors(dst []byte, errs []writeError) []byte {
	if len(errs) == 0 {
		return dst
	}
	index, dst := bsoncore.AppendArrayElementStart(dst, "writeErrors")
	for i, e := range errs {
		dst = bsoncore.AppendDocumentElement(dst, fmt.Sprint(i), bsoncore.BuildDocument(nil,
			bsoncore.AppendInt32Element(nil, "index", int32(e.index)),
			bsoncore.AppendInt32Element(nil, "code", e.code),
			bsoncore.AppendStringElement(nil, "errmsg", e.text)))
	}
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, index, int32(len(dst))-index)
}

// insert keeps documents, in order until one cannot be kept, unless told that
// order does not matter.
func (q request) insert(dst []byte) ([]byte, *failure) {
	docs, bad := q.list("documents")
	if bad != nil {
		return dst, bad
	}
	if len(docs) > maxBatch {
		return dst, &failure{16, "InvalidLength",
			fmt.Sprintf("Write batch sizes must be between 1 and %d. Got %d operations.", maxBatch, len(docs))}
	}
	c, bad := q.collection(true)
	if bad != nil {
		return dst, bad
	}
	ordered := q.flag("ordered", true)
	kept, errs := q.complete(docs)
	var n int32
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed []writeError
	for i, doc := range kept {
		bad := errs[i]
		if bad == nil && c.insert(doc) {
			n++
			continue
		}
		if bad == nil {
			bad = &failure{11000, "DuplicateKey", "E11000 duplicate key error collection: " + q.db + "." + q.text("insert")}
		}
		failed = append(failed, writeError{i, bad})
		if ordered {
			break
		}
	}
	dst = bsoncore.AppendInt32Element(dst, "n", n)
	return appendWriteErrors(dst, failed), nil
}

// complete copies documents into memory of their own, all in one piece, each
// with its _id in front: a new one where it has none.
func (q request) complete(docs []bsoncore.Document) (out []bsoncore.Document, errs map[int]*failure) {
	const idLength = 1 + len("_id") + 1 + 12
	size := 0
	for _, d := range docs {
		size += len(d) + idLength
	}
	slab := make([]byte, 0, size)
	errs = map[int]*failure{}
	for i, d := range docs {
		begin := len(slab)
		id, bad := identity(d)
		if bad == nil && len(d)+idLength > maxDocument {
			bad = &failure{10334, "BSONObjectTooLarge", "object to insert too large"}
		}
		if bad != nil {
			errs[i] = bad
			out = append(out, nil)
			continue
		}
		slab = append(slab, 0, 0, 0, 0)
		if id == nil {
			slab = bsoncore.AppendHeader(slab, bsoncore.TypeObjectID, "_id")
			slab = q.appendObjectID(slab)
			slab = append(slab, d[4:]...)
		} else {
			at := len(d) - len(id.rest) // where the _id is in d
			slab = append(slab, id.whole...)
			slab = append(slab, d[4:at]...)
			slab = append(slab, d[at+len(id.whole):]...)
		}
		// Nothing may grow into the next document's memory.
		doc := slab[begin:len(slab):len(slab)]
		bsoncore.UpdateLength(doc, 0, int32(len(doc)))
		out = append(out, doc)
	}
	return out, errs
}

// idField is a document's _id and what is from there on.
type idField struct {
	element
	rest []byte
}

// identity finds a document's _id; nil where it has none.
func identity(d bsoncore.Document) (*idField, *failure) {
	for rest := []byte(d[4:]); len(rest) > 1; {
		e, more, ok := next(rest)
		if !ok {
			return nil, badValue("damaged document")
		}
		if string(e.key) == "_id" {
			switch e.Type {
			case bsoncore.TypeArray, bsoncore.TypeRegex, bsoncore.TypeUndefined:
				return nil, &failure{53, "InvalidIdField", "The '_id' value cannot be of type " + e.Type.String()}
			}
			return &idField{e, rest}, nil
		}
		rest = more
	}
	return nil, nil
}

// update changes documents.
func (q request) update(dst []byte) ([]byte, *failure) {
	updates, bad := q.list("updates")
	if bad != nil {
		return dst, bad
	}
	c, bad := q.collection(true)
	if bad != nil {
		return dst, bad
	}
	var matched, modified int32
	for _, u := range updates {
		one := message{body: u}
		what, bad := one.document("q")
		if bad != nil {
			return dst, bad
		}
		f, bad := parseFilter(what)
		if bad != nil {
			return dst, bad
		}
		how, _ := field(u, "u")
		s, bad := parseUpdate(how)
		if bad != nil {
			return dst, bad
		}
		if one.flag("upsert", false) {
			return dst, notImplemented("upsert")
		}
		c.mu.Lock()
		n, m := c.update(f, s, !one.flag("multi", false))
		c.mu.Unlock()
		matched, modified = matched+n, modified+m
	}
	dst = bsoncore.AppendInt32Element(dst, "n", matched)
	return bsoncore.AppendInt32Element(dst, "nModified", modified), nil
}

// remove deletes documents.
func (q request) remove(dst []byte) ([]byte, *failure) {
	deletes, bad := q.list("deletes")
	if bad != nil {
		return dst, bad
	}
	c, bad := q.collection(false)
	if bad != nil {
		return dst, bad
	}
	var n int32
	for _, d := range deletes {
		one := message{body: d}
		what, bad := one.document("q")
		if bad != nil {
			return dst, bad
		}
		f, bad := parseFilter(what)
		if bad != nil {
			return dst, bad
		}
		limit, bad := one.whole("limit", 0)
		if bad != nil {
			return dst, bad
		}
		if limit > 1 {
			return dst, failedToParse(fmt.Sprintf("The limit field in delete objects must be 0 or 1. Got %d", limit))
		}
		if c != nil {
			c.mu.Lock()
			n += c.remove(f, limit == 1)
			c.mu.Unlock()
		}
	}
	return bsoncore.AppendInt32Element(dst, "n", n), nil
}
