package mongowire

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// projection says which fields of a document are told: those that it names, or
// all but those, and _id by itself. The zero value tells all.
type projection struct {
	on     bool
	only   bool
	fields []string
	id     bool
}

func parseProjection(doc bsoncore.Document) (projection, *failure) {
	p := projection{id: true}
	if doc == nil {
		return p, nil
	}
	decided := false
	for rest := []byte(doc[4:]); len(rest) > 1; {
		e, more, ok := next(rest)
		if !ok {
			return p, badValue("damaged projection")
		}
		rest = more
		p.on = true
		name, c := string(e.key), classOf(e.Type)
		if c != classNumber && c != classBool || strings.ContainsAny(name, ".$") || name == "" {
			return p, notImplemented("the projection of " + name)
		}
		include := truthy(e.Value)
		if name == "_id" {
			p.id = include
			continue
		}
		if decided && include != p.only {
			return p, mixedProjection(name, include)
		}
		decided, p.only = true, include
		p.fields = append(p.fields, name)
	}
	if !decided {
		p.only = p.id // {_id: 1} alone tells nothing else
	}
	return p, nil
}

func mixedProjection(name string, include bool) *failure {
	if include {
		return &failure{31253, "Location31253", "Cannot do inclusion on field " + name + " in exclusion projection"}
	}
	return &failure{31254, "Location31254", "Cannot do exclusion on field " + name + " in inclusion projection"}
}

// append writes the document as it is told.
func (p projection) append(dst []byte, doc bsoncore.Document) []byte {
	if !p.on {
		return append(dst, doc...)
	}
	index, dst := bsoncore.AppendDocumentStart(dst)
	for rest := []byte(doc[4:]); len(rest) > 1; {
		e, more, ok := next(rest)
		if !ok {
			break
		}
		rest = more
		tell := p.id
		if string(e.key) != "_id" {
			tell = slices.Contains(p.fields, string(e.key)) == p.only
		}
		if tell {
			dst = append(dst, e.whole...)
		}
	}
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, index, int32(len(dst))-index)
}
