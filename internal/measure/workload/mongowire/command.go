package mongowire

import (
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// wireVersion is MongoDB 7.0's, as FerretDB's. Version is what buildInfo tells.
const (
	wireVersion = 21
	Version     = "7.0.42"
)

// Identity is a field of buildInfo by which a client tells this server from
// MongoDB itself.
const Identity = "pathwise"

// request is a command being carried out.
type request struct {
	*Server
	message
	name, db string
}

// run carries out a command and appends the fields of its answer but "ok".
func (s *Server) run(m message, dst []byte) ([]byte, *failure) {
	first, _, ok := next(m.body[4:])
	if !ok {
		return dst, failedToParse("empty command")
	}
	q := request{Server: s, message: m, name: string(first.key), db: m.text("$db")}
	switch q.name {
	case "hello", "isMaster", "ismaster":
		return q.hello(dst)
	case "ping", "endSessions", "fsync":
		return dst, nil
	case "buildInfo", "buildinfo":
		return q.buildInfo(dst)
	case "serverStatus":
		return q.serverStatus(dst)
	}
	if m.op != opMsg {
		return dst, unknownCommand(q.name)
	}
	switch q.name {
	case "insert":
		return q.insert(dst)
	case "find":
		return q.find(dst)
	case "getMore":
		return q.getMore(dst)
	case "killCursors":
		return q.killCursors(dst)
	case "update":
		return q.update(dst)
	case "delete":
		return q.remove(dst)
	case "count":
		return q.count(dst)
	case "create":
		return q.create(dst)
	case "createIndexes":
		return q.createIndexes(dst)
	case "drop":
		return q.drop(dst)
	default:
		return dst, unknownCommand(q.name)
	}
}

func (q request) hello(dst []byte) ([]byte, *failure) {
	primary := "isWritablePrimary"
	if q.name != "hello" {
		primary = "ismaster"
	}
	dst = bsoncore.AppendBooleanElement(dst, primary, true)
	if ok, there := field(q.body, "helloOk"); there && truthy(ok) {
		dst = bsoncore.AppendBooleanElement(dst, "helloOk", true)
	}
	dst = bsoncore.AppendInt32Element(dst, "maxBsonObjectSize", maxDocument)
	dst = bsoncore.AppendInt32Element(dst, "maxMessageSizeBytes", maxMessage)
	dst = bsoncore.AppendInt32Element(dst, "maxWriteBatchSize", maxBatch)
	dst = bsoncore.AppendTimeElement(dst, "localTime", q.now())
	dst = bsoncore.AppendInt32Element(dst, "minWireVersion", 0)
	dst = bsoncore.AppendInt32Element(dst, "maxWireVersion", wireVersion)
	return bsoncore.AppendBooleanElement(dst, "readOnly", false), nil
}

func (q request) buildInfo(dst []byte) ([]byte, *failure) {
	dst = bsoncore.AppendStringElement(dst, "version", Version)
	dst = bsoncore.AppendInt32Element(dst, "maxBsonObjectSize", maxDocument)
	return bsoncore.AppendStringElement(dst, Identity, "memory-only"), nil
}

// serverStatus tells the process's CPU time as MongoDB on Linux does.
func (q request) serverStatus(dst []byte) ([]byte, *failure) {
	user, system := q.usage()
	dst = bsoncore.AppendStringElement(dst, "version", Version)
	dst = bsoncore.AppendStringElement(dst, "process", Identity)
	dst = bsoncore.AppendDoubleElement(dst, "uptime", q.now().Sub(q.began).Truncate(time.Second).Seconds())
	dst = bsoncore.AppendDocumentElement(dst, "connections", bsoncore.BuildDocument(nil,
		bsoncore.AppendInt32Element(nil, "current", q.connections.Load())))
	return bsoncore.AppendDocumentElement(dst, "extra_info", bsoncore.BuildDocument(nil,
		bsoncore.AppendInt64Element(nil, "user_time_us", user.Microseconds()),
		bsoncore.AppendInt64Element(nil, "system_time_us", system.Microseconds()))), nil
}

// collection finds the collection that the command names; nil where there is
// none. With make it is made.
func (q request) collection(make bool) (*collection, *failure) {
	ns, bad := q.namespace()
	if bad != nil {
		return nil, bad
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.collections[ns]
	if c == nil && make {
		if bad := q.newCollection(ns, 0); bad != nil {
			return nil, bad
		}
		c = q.collections[ns]
	}
	return c, nil
}

// namespace is the database and collection that the command is about.
func (q request) namespace() (string, *failure) {
	name := q.text(q.name)
	if name == "" || q.db == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "$\x00") {
		return "", &failure{73, "InvalidNamespace", "Invalid namespace specified '" + q.db + "." + name + "'"}
	}
	if ns := q.db + "." + name; len(ns) <= longestName {
		return ns, nil
	}
	return "", &failure{73, "InvalidNamespace", fmt.Sprintf("Fully qualified namespace is too long: at most %d bytes",
		longestName)}
}

// text is a field of the command that is a string; "" where there is none.
func (m message) text(name string) string {
	v, _ := field(m.body, name)
	s, _ := v.StringValueOK()
	return s
}

// flag is a field that is yes or no.
func (m message) flag(name string, otherwise bool) bool {
	v, there := field(m.body, name)
	if !there {
		return otherwise
	}
	return truthy(v)
}

// whole is a field that is a whole number of 0 or more.
func (m message) whole(name string, otherwise int64) (int64, *failure) {
	v, there := field(m.body, name)
	if !there {
		return otherwise, nil
	}
	n, ok := integer(v)
	switch {
	case !ok:
		return 0, typeMismatch("BSON field '" + name + "' is the wrong type '" + v.Type.String() + "'")
	case n < 0:
		return 0, &failure{51024, "Location51024", "BSON field '" + name + "' value must be >= 0"}
	}
	return n, nil
}

// document is a field that is a document; nil where there is none.
func (m message) document(name string) (bsoncore.Document, *failure) {
	v, there := field(m.body, name)
	if !there {
		return nil, nil
	}
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, typeMismatch("BSON field '" + name + "' is the wrong type '" + v.Type.String() +
			"', expected type 'object'")
	}
	return v.Data, nil
}

// list is an array of documents, in the body or alongside it.
func (m message) list(name string) ([]bsoncore.Document, *failure) {
	if docs, there := m.sequences[name]; there {
		return docs, nil
	}
	v, there := field(m.body, name)
	if !there {
		return nil, missingField("BSON field '" + name + "' is missing but a required field")
	}
	if v.Type != bsoncore.TypeArray {
		return nil, typeMismatch("BSON field '" + name + "' is the wrong type '" + v.Type.String() +
			"', expected type 'array'")
	}
	var out []bsoncore.Document
	for rest := v.Data[4:]; len(rest) > 1; {
		e, more, ok := next(rest)
		if !ok || e.Type != bsoncore.TypeEmbeddedDocument {
			return nil, typeMismatch("BSON field '" + name + "' holds what is no object")
		}
		out, rest = append(out, e.Data), more
	}
	return out, nil
}
