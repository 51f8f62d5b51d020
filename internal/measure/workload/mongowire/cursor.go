package mongowire

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// cursors are those of which clients have not seen the end.
type cursors struct {
	open map[int64]*cursor
	// Those that are open lie between oldest and last.
	oldest, last int64
	// held is what all their documents take, in bytes.
	held int
}

// cursor is documents that did not fit into an answer, as they were then.
type cursor struct {
	ns   string
	docs []bsoncore.Document
	held int
}

func (c *cursor) add(doc bsoncore.Document) {
	c.docs = append(c.docs, doc)
	c.held += len(doc) + overhead
}

// Bounds of what clients leave behind that never ask again: the oldest goes.
const (
	mostCursors = 1000
	mostHeld    = 256 << 20
)

// keep enters a cursor and returns its number.
func (s *Server) keep(c *cursor) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursors.keep(c)
}

func (s *cursors) keep(c *cursor) int64 {
	s.last++
	s.open[s.last] = c
	s.held += c.held
	for ; s.oldest < s.last && (s.last-s.oldest >= mostCursors || s.held > mostHeld); s.oldest++ {
		s.forget(s.oldest)
	}
	return s.last
}

// forget closes a cursor, if it is open.
func (s *cursors) forget(id int64) {
	if c := s.open[id]; c != nil {
		s.held -= c.held
		delete(s.open, id)
	}
}

// getMore answers with the next documents of a cursor.
func (q request) getMore(dst []byte) ([]byte, *failure) {
	v, _ := field(q.body, "getMore")
	id, ok := v.Int64OK()
	if !ok {
		return dst, typeMismatch("BSON field 'getMore.getMore' is the wrong type, expected type 'long'")
	}
	ns := q.db + "." + q.text("collection")
	size, bad := q.whole("batchSize", 0)
	if bad != nil {
		return dst, bad
	}
	if size == 0 {
		size = -1 // as many as fit
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.cursors.open[id]
	if c == nil {
		return dst, &failure{43, "CursorNotFound", fmt.Sprintf("cursor id %d not found", id)}
	}
	if c.ns != ns {
		return dst, &failure{13, "Unauthorized",
			fmt.Sprintf("Requested getMore on namespace '%s', but cursor belongs to a different namespace %s", ns, c.ns)}
	}
	b := newBatch(dst, "nextBatch", size)
	for len(c.docs) > 0 && b.add(projection{}, c.docs[0]) {
		sent := len(c.docs[0]) + overhead
		c.held, q.cursors.held = c.held-sent, q.cursors.held-sent
		c.docs[0] = nil
		c.docs = c.docs[1:]
	}
	if len(c.docs) == 0 && b.n != size {
		q.cursors.forget(id)
		id = 0
	}
	return b.end(id, ns), nil
}

// killCursors forgets cursors.
func (q request) killCursors(dst []byte) ([]byte, *failure) {
	v, _ := field(q.body, "cursors")
	if v.Type != bsoncore.TypeArray {
		return dst, missingField("BSON field 'killCursors.cursors' is missing but a required field")
	}
	killed, missing := bsoncore.NewArrayBuilder(), bsoncore.NewArrayBuilder()
	q.mu.Lock()
	defer q.mu.Unlock()
	for rest := v.Data[4:]; len(rest) > 1; {
		e, more, ok := next(rest)
		id, isLong := e.Int64OK()
		if !ok || !isLong {
			return dst, typeMismatch("BSON field 'killCursors.cursors' holds what is no long")
		}
		rest = more
		if q.cursors.open[id] == nil {
			missing.AppendInt64(id)
			continue
		}
		q.cursors.forget(id)
		killed.AppendInt64(id)
	}
	dst = bsoncore.AppendArrayElement(dst, "cursorsKilled", killed.Build())
	dst = bsoncore.AppendArrayElement(dst, "cursorsNotFound", missing.Build())
	dst = bsoncore.AppendArrayElement(dst, "cursorsAlive", bsoncore.NewArrayBuilder().Build())
	return bsoncore.AppendArrayElement(dst, "cursorsUnknown", bsoncore.NewArrayBuilder().Build()), nil
}
