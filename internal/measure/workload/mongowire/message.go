package mongowire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// The wire protocol's operations that are spoken here. OP_QUERY and OP_REPLY
// are of old, and drivers begin with them to learn that OP_MSG is understood.
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

// Flags of OP_MSG. The lower 16 bits are those that a receiver must know.
const (
	checksumPresent = 1 << 0
	moreToCome      = 1 << 1
	mustKnow        = 0xffff
)

const (
	headerLength = 16
	// maxMessage and maxDocument are MongoDB's, in bytes.
	maxMessage  = 48_000_000
	maxDocument = 16 << 20
	// maxDepth is how deep MongoDB lets documents nest.
	maxDepth = 180
)

// errMessage: what came is no message of the protocol, and the connection is of
// no more use.
var errMessage = errors.New("malformed message")

// message is a command as it came.
type message struct {
	id, op int32
	// flags of OP_MSG.
	flags uint32
	body  bsoncore.Document
	// sequences are documents that stand alongside the body, by the field that they are of.
	sequences map[string][]bsoncore.Document
}

// reader takes messages off a connection, all into the same memory.
type reader struct {
	io.Reader
	buffer []byte
}

// trusted is up to which length a header's promise gets memory at once.
const trusted = 1 << 20

// next reads one message. Its documents are sound, and hold until the next one
// is read. At the connection's end it returns io.EOF.
func (r *reader) next() (message, error) {
	var head [headerLength]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	length := int32(binary.LittleEndian.Uint32(head[:]))
	if length < headerLength || length > maxMessage {
		return message{}, fmt.Errorf("%w: length %d", errMessage, length)
	}
	rest := int(length - headerLength)
	r.buffer = r.buffer[:0]
	for len(r.buffer) < rest {
		begin := len(r.buffer)
		r.buffer = slices.Grow(r.buffer, min(rest-begin, trusted))[:min(rest, begin+trusted)]
		if _, err := io.ReadFull(r, r.buffer[begin:]); err != nil {
			return message{}, err
		}
	}
	return parseMessage(head, r.buffer)
}

// parseMessage reads what follows a header.
func parseMessage(head [headerLength]byte, raw []byte) (message, error) {
	m := message{id: int32(binary.LittleEndian.Uint32(head[4:])), op: int32(binary.LittleEndian.Uint32(head[12:]))}
	var err error
	switch m.op {
	case opMsg:
		err = m.parseMsg(head, raw)
	case opQuery:
		err = m.parseQuery(raw)
	default:
		err = fmt.Errorf("operation %d is not spoken here", m.op)
	}
	if err != nil {
		return m, fmt.Errorf("%w: %w", errMessage, err)
	}
	return m, nil
}

// parseMsg reads flags, sections and the checksum of an OP_MSG.
func (m *message) parseMsg(head [headerLength]byte, raw []byte) error {
	if len(raw) < 4 {
		return errors.New("no flags")
	}
	m.flags = binary.LittleEndian.Uint32(raw)
	if unknown := m.flags & mustKnow &^ (checksumPresent | moreToCome); unknown != 0 {
		return fmt.Errorf("unknown flags %#x", unknown)
	}
	if m.flags&checksumPresent != 0 {
		if len(raw) < 8 {
			return errors.New("no checksum")
		}
		end := len(raw) - 4
		sum := crc32.Update(crc32.Checksum(head[:], crc32.MakeTable(crc32.Castagnoli)), crc32.MakeTable(crc32.Castagnoli),
			raw[:end])
		if sum != binary.LittleEndian.Uint32(raw[end:]) {
			return errors.New("wrong checksum")
		}
		raw = raw[:end]
	}
	rest := raw[4:]
	for len(rest) > 0 {
		kind := rest[0]
		var err error
		switch kind {
		case 0:
			rest, err = m.parseBody(rest[1:])
		case 1:
			rest, err = m.parseSequence(rest[1:])
		default:
			err = fmt.Errorf("section of kind %d", kind)
		}
		if err != nil {
			return err
		}
	}
	if m.body == nil {
		return errors.New("no body")
	}
	return nil
}

func (m *message) parseBody(raw []byte) (rest []byte, err error) {
	if m.body != nil {
		return nil, errors.New("two bodies")
	}
	m.body, rest, err = document(raw)
	return rest, err
}

func (m *message) parseSequence(raw []byte) ([]byte, error) {
	if len(raw) < 4 {
		return nil, errors.New("sequence without a length")
	}
	length := int64(int32(binary.LittleEndian.Uint32(raw)))
	if length < 4 || length > int64(len(raw)) {
		return nil, fmt.Errorf("sequence of length %d", length)
	}
	rest, after := raw[4:length], raw[length:]
	name, rest, ok := bsoncore.ReadKey(rest)
	if !ok {
		return nil, errors.New("sequence without a name")
	}
	if _, twice := m.sequences[name]; twice {
		return nil, fmt.Errorf("two sequences %q", name)
	}
	docs := []bsoncore.Document{}
	for len(rest) > 0 {
		doc, more, err := document(rest)
		if err != nil {
			return nil, err
		}
		docs, rest = append(docs, doc), more
	}
	if m.sequences == nil {
		m.sequences = map[string][]bsoncore.Document{}
	}
	m.sequences[name] = docs
	return after, nil
}

// parseQuery reads an OP_QUERY: flags, collection, skip, return, document.
func (m *message) parseQuery(raw []byte) error {
	if len(raw) < 4 {
		return errors.New("no flags")
	}
	collection, rest, ok := bsoncore.ReadKey(raw[4:])
	if !ok || len(rest) < 8 {
		return errors.New("cut off")
	}
	if collection != "admin.$cmd" {
		return fmt.Errorf("a query of %q: only commands are taken", collection)
	}
	var err error
	m.body, _, err = document(rest[8:])
	return err
}

// document takes a sound document off the front of raw.
func document(raw []byte) (doc bsoncore.Document, rest []byte, err error) {
	doc, rest, ok := bsoncore.ReadDocument(raw)
	if !ok {
		return nil, nil, errors.New("document is cut off")
	}
	if err := sound(doc, maxDepth); err != nil {
		return nil, nil, err
	}
	return doc, rest, nil
}

// sound checks that a document is one throughout, so that others may read it
// without looking. The library's own check has no bound of depth.
func sound(doc []byte, depth int) error {
	if depth == 0 {
		return errors.New("document nests too deep")
	}
	if len(doc) < 5 || doc[len(doc)-1] != 0 {
		return errors.New("document without an end")
	}
	for rest := doc[4:]; len(rest) > 1; {
		e, more, ok := next(rest)
		if !ok {
			return errors.New("document is damaged")
		}
		var err error
		switch e.Type {
		case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray:
			err = sound(e.Data, depth-1)
		case bsoncore.TypeString, bsoncore.TypeJavaScript, bsoncore.TypeSymbol:
			if len(e.Data) < 5 || e.Data[len(e.Data)-1] != 0 {
				err = errors.New("string without an end")
			}
		}
		if err != nil {
			return err
		}
		rest = more
	}
	return nil
}

// element is a document's field.
type element struct {
	key []byte
	// whole is type, key and value.
	whole []byte
	bsoncore.Value
}

// next takes an element off the front of a document's rest, which ends in the
// document's last byte.
func next(rest []byte) (e element, more []byte, ok bool) {
	if len(rest) < 3 {
		return e, nil, false
	}
	for i, b := range rest[1:] {
		if b == 0 {
			e.key = rest[1 : 1+i]
			e.Value, more, ok = bsoncore.ReadValue(rest[2+i:], bsoncore.Type(rest[0]))
			if !ok || len(more) == 0 {
				return e, nil, false
			}
			e.whole = rest[:len(rest)-len(more)]
			return e, more, true
		}
	}
	return e, nil, false
}

// field finds a field of a sound document.
func field(doc bsoncore.Document, key string) (bsoncore.Value, bool) {
	for rest := []byte(doc[4:]); len(rest) > 1; {
		e, more, ok := next(rest)
		if !ok {
			break
		}
		if string(e.key) == key {
			return e.Value, true
		}
		rest = more
	}
	return bsoncore.Value{}, false
}

// appendReply appends the answer to m: head and document, which fill writes.
func (m message) appendReply(dst []byte, id int32, fill func([]byte) []byte) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, headerLength)...)
	op := uint32(opMsg)
	if m.op == opQuery {
		op = opReply
		dst = append(dst, 8, 0, 0, 0) // flags: await capable
		dst = append(dst, make([]byte, 12)...)
		dst = append(dst, 1, 0, 0, 0) // one document
	} else {
		dst = append(dst, 0, 0, 0, 0, 0) // no flags, a body
	}
	dst = fill(dst)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(id))
	binary.LittleEndian.PutUint32(dst[start+8:], uint32(m.id))
	binary.LittleEndian.PutUint32(dst[start+12:], op)
	return dst
}
