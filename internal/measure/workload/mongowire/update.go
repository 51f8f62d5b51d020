package mongowire

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// set is an update by $set: fields and their new values.
type set []element

// parseUpdate reads {$set: {field: value, ...}}.
func parseUpdate(v bsoncore.Value) (set, *failure) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, notImplemented("an update by " + v.Type.String())
	}
	var out set
	for rest := v.Data[4:]; len(rest) > 1; {
		op, more, ok := next(rest)
		if !ok {
			return nil, badValue("damaged update")
		}
		rest = more
		if string(op.key) != "$set" {
			if !strings.HasPrefix(string(op.key), "$") {
				return nil, notImplemented("an update that replaces documents")
			}
			return nil, notImplemented("the update operator " + string(op.key))
		}
		if op.Type != bsoncore.TypeEmbeddedDocument {
			return nil, failedToParse("Modifiers operate on fields but we found type " + op.Type.String() + " instead")
		}
		for inner := op.Data[4:]; len(inner) > 1; {
			e, more, ok := next(inner)
			if !ok {
				return nil, badValue("damaged update")
			}
			inner = more
			switch name := string(e.key); {
			case name == "_id":
				return nil, notImplemented("an update of _id")
			case name == "" || strings.ContainsAny(name, ".$"):
				return nil, notImplemented("an update of the field " + name)
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// update changes what matches, all of it or the first.
func (c *collection) update(f filter, s set, one bool) (matched, modified int32) {
	c.each(f, func(i int) bool {
		matched++
		before := len(c.docs[i])
		changed := false
		for _, e := range s {
			var did bool
			c.docs[i], did = put(c.docs[i], e)
			changed = changed || did
		}
		if changed {
			modified++
		}
		c.size += len(c.docs[i]) - before
		return !one
	})
	return matched, modified
}

// slack is room that a document gets for values that grow by a little.
const slack = 64

// put gives a document's field a value: in its place, or at the end where it is
// new. It works in the document's own memory where there is room.
func put(doc bsoncore.Document, e element) (bsoncore.Document, bool) {
	at, old := len(doc)-1, 0 // before the last byte
	for rest := []byte(doc[4:]); len(rest) > 1; {
		has, more, ok := next(rest)
		if !ok {
			break
		}
		if bytes.Equal(has.key, e.key) {
			if bytes.Equal(has.whole, e.whole) {
				return doc, false
			}
			at, old = len(doc)-len(rest), len(has.whole)
			break
		}
		rest = more
	}
	if grown := len(doc) - old + len(e.whole); grown > cap(doc) {
		doc = append(make([]byte, 0, grown+slack), doc...)
	}
	doc = slices.Replace(doc, at, at+old, e.whole...)
	binary.LittleEndian.PutUint32(doc, uint32(len(doc)))
	return doc, true
}
