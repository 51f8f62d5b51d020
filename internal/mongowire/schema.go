package mongowire

import (
	"maps"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// create makes a collection; a capped one loses its oldest documents once it
// holds more than size bytes.
func (q request) create(dst []byte) ([]byte, *failure) {
	ns, bad := q.namespace()
	if bad != nil {
		return dst, bad
	}
	var size int64
	if q.flag("capped", false) {
		if size, bad = q.whole("size", 0); bad != nil {
			return dst, bad
		}
		if size == 0 {
			return dst, &failure{72, "InvalidOptions", "the 'size' field is required when 'capped' is true"}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.collections[ns] != nil {
		return dst, &failure{48, "NamespaceExists", "Collection " + ns + " already exists."}
	}
	q.collections[ns] = newCollection(int(size))
	return dst, nil
}

// drop forgets a collection, its indexes and cursors. As of MongoDB 7.0 it is
// no error where there is none.
func (q request) drop(dst []byte) ([]byte, *failure) {
	ns, bad := q.namespace()
	if bad != nil {
		return dst, bad
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.indexes[ns]) + 1
	delete(q.collections, ns)
	delete(q.indexes, ns)
	maps.DeleteFunc(q.cursors.open, func(_ int64, c *cursor) bool { return c.ns == ns })
	dst = bsoncore.AppendInt32Element(dst, "nIndexesWas", int32(n))
	return bsoncore.AppendStringElement(dst, "ns", ns), nil
}

// createIndexes takes note of indexes. No answer depends on one that is not
// unique, so those are all that there can be.
func (q request) createIndexes(dst []byte) ([]byte, *failure) {
	ns, bad := q.namespace()
	if bad != nil {
		return dst, bad
	}
	list, bad := q.list("indexes")
	if bad != nil {
		return dst, bad
	}
	if len(list) == 0 {
		return dst, badValue("Must specify at least one index to create")
	}
	var names []string
	for _, i := range list {
		one := message{body: i}
		keys, bad := one.document("key")
		if bad != nil {
			return dst, bad
		}
		if keys == nil || one.text("name") == "" {
			return dst, failedToParse("an index needs a key and a name")
		}
		if one.flag("unique", false) {
			return dst, notImplemented("a unique index")
		}
		names = append(names, one.text("name"))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	made := q.collections[ns] == nil
	if made {
		q.collections[ns] = newCollection(0)
	}
	if q.indexes[ns] == nil {
		q.indexes[ns] = map[string]bool{}
	}
	before := len(q.indexes[ns]) + 1 // that of _id
	for _, n := range names {
		if n != "_id_" {
			q.indexes[ns][n] = true
		}
	}
	after := len(q.indexes[ns]) + 1
	dst = bsoncore.AppendInt32Element(dst, "numIndexesBefore", int32(before))
	dst = bsoncore.AppendInt32Element(dst, "numIndexesAfter", int32(after))
	if after == before {
		return bsoncore.AppendStringElement(dst, "note", "all indexes already exist"), nil
	}
	return bsoncore.AppendBooleanElement(dst, "createdCollectionAutomatically", made), nil
}
