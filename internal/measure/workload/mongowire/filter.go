package mongowire

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// filter is a query: every condition must hold.
type filter []condition

// condition compares a field with a value.
type condition struct {
	field string
	op    string
	value bsoncore.Value
}

// parseFilter reads a query of fields and their values, or of fields and the
// operators $eq, $gt, $gte, $lt and $lte.
func parseFilter(doc bsoncore.Document) (f filter, bad *failure) {
	if doc == nil {
		return nil, nil
	}
	for rest := []byte(doc[4:]); len(rest) > 1 && bad == nil; {
		e, more, ok := next(rest)
		if !ok {
			return nil, badValue("damaged filter")
		}
		rest = more
		switch name := string(e.key); {
		case strings.HasPrefix(name, "$"):
			return nil, badValue("unknown top level operator: " + name)
		case strings.Contains(name, "."):
			return nil, notImplemented("fields of fields in a filter")
		case e.Type == bsoncore.TypeEmbeddedDocument && hasOperators(e.Data):
			f, bad = f.withOperators(name, e.Data)
		default:
			f, bad = f.with(condition{name, "$eq", e.Value})
		}
	}
	return f, bad
}

// hasOperators tells {$gt: 5} from a document to compare with.
func hasOperators(doc []byte) bool {
	e, _, ok := next(doc[4:])
	return ok && len(e.key) > 0 && e.key[0] == '$'
}

func (f filter) withOperators(name string, doc []byte) (_ filter, bad *failure) {
	for rest := doc[4:]; len(rest) > 1 && bad == nil; {
		e, more, ok := next(rest)
		if !ok {
			return nil, badValue("damaged filter")
		}
		rest = more
		f, bad = f.with(condition{name, string(e.key), e.Value})
	}
	return f, bad
}

// with adds a condition that can be judged.
func (f filter) with(c condition) (filter, *failure) {
	switch c.op {
	case "$eq", "$gt", "$gte", "$lt", "$lte":
	default:
		return nil, badValue("unknown operator: " + c.op)
	}
	if t := c.value.Type; t == bsoncore.TypeRegex || t == bsoncore.TypeArray {
		return nil, notImplemented("a filter by " + t.String())
	}
	return append(f, c), nil
}

// matches reports whether the document meets every condition.
func (f filter) matches(doc bsoncore.Document) bool {
	for _, c := range f {
		v, ok := field(doc, c.field)
		if !ok {
			v = bsoncore.Value{Type: bsoncore.TypeNull} // what is not there is null to a query
		}
		if !c.holds(v) {
			return false
		}
	}
	return true
}

// holds judges a value, and of an array any of its elements too.
func (c condition) holds(v bsoncore.Value) bool {
	if v.Type == bsoncore.TypeArray {
		for rest := v.Data[4:]; len(rest) > 1; {
			e, more, ok := next(rest)
			if !ok {
				return false
			}
			if c.compares(e.Value) {
				return true
			}
			rest = more
		}
	}
	return c.compares(v)
}

func (c condition) compares(v bsoncore.Value) bool {
	order, ordered := compare(v, c.value)
	if !ordered {
		return false
	}
	switch c.op {
	case "$eq":
		return order == 0
	case "$gt":
		return order > 0
	case "$gte":
		return order >= 0
	case "$lt":
		return order < 0
	default:
		return order <= 0
	}
}
