package mongowire

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Bounds of what clients can make the server remember, but for documents. MongoDB has
// 64 indexes a collection and 255 bytes a name too, and no bound of collections.
const (
	mostCollections = 10_000
	mostIndexes     = 64
	longestName     = 255
)

// newCollection enters a collection. The server's lock is held.
func (s *Server) newCollection(ns string, capped int) *failure {
	if len(s.collections) >= mostCollections {
		return &failure{96, "OperationFailed", fmt.Sprintf("there are %d collections already", len(s.collections))}
	}
	s.collections[ns] = newCollection(capped)
	return nil
}

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
	return dst, q.newCollection(ns, int(size))
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
	for id, c := range q.cursors.open {
		if c.ns == ns {
			q.cursors.forget(id)
		}
	}
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
		if bad := q.newCollection(ns, 0); bad != nil {
			return dst, bad
		}
	}
	before := len(q.indexes[ns]) + 1 // that of _id
	if bad := q.note(ns, names); bad != nil {
		return dst, bad
	}
	after := len(q.indexes[ns]) + 1
	dst = bsoncore.AppendInt32Element(dst, "numIndexesBefore", int32(before))
	dst = bsoncore.AppendInt32Element(dst, "numIndexesAfter", int32(after))
	if after == before {
		return bsoncore.AppendStringElement(dst, "note", "all indexes already exist"), nil
	}
	return bsoncore.AppendBooleanElement(dst, "createdCollectionAutomatically", made), nil
}

// note enters indexes of a collection by their names. The server's lock is held.
func (s *Server) note(ns string, names []string) *failure {
	if s.indexes[ns] == nil {
		s.indexes[ns] = map[string]bool{}
	}
	for _, n := range names {
		switch {
		case n == "_id_" || s.indexes[ns][n]:
		case len(n) > longestName || len(s.indexes[ns])+1 >= mostIndexes:
			return &failure{67, "CannotCreateIndex",
				fmt.Sprintf("expected at most %d indexes in %s, with names of at most %d bytes", mostIndexes, ns, longestName)}
		default:
			s.indexes[ns][n] = true
		}
	}
	return nil
}
