package mongowire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// packet is a message of the operation with that payload.
func packet(op int32, payload ...[]byte) []byte {
	out := make([]byte, headerLength)
	for _, p := range payload {
		out = append(out, p...)
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)))
	binary.LittleEndian.PutUint32(out[4:], 7)
	binary.LittleEndian.PutUint32(out[12:], uint32(op))
	return out
}

func doc(t testing.TB, d bson.D) []byte {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sequence is a section of kind 1.
func sequence(name string, docs ...[]byte) []byte {
	body := append([]byte(name), 0)
	for _, d := range docs {
		body = append(body, d...)
	}
	return append(binary.LittleEndian.AppendUint32([]byte{1}, uint32(len(body)+4)), body...)
}

func ping(t testing.TB) []byte {
	return doc(t, bson.D{{Key: "ping", Value: 1}, {Key: "$db", Value: "admin"}})
}

func TestReadMessage(t *testing.T) {
	none, body := []byte{0, 0, 0, 0}, append([]byte{0}, ping(t)...)
	x := doc(t, bson.D{{Key: "x", Value: 1}})
	summed := packet(opMsg, []byte{1, 0, 0, 0}, body, make([]byte, 4))
	binary.LittleEndian.PutUint32(summed[len(summed)-4:],
		crc32.Checksum(summed[:len(summed)-4], crc32.MakeTable(crc32.Castagnoli)))
	damaged := bytes.Clone(body)
	damaged[5] = 0x55 // a type that there is not
	deep := doc(t, bson.D{})
	for range maxDepth + 1 {
		deep = bsoncore.BuildDocument(nil, bsoncore.AppendDocumentElement(nil, "a", deep))
	}
	for name, tc := range map[string]struct {
		raw  []byte
		want string // of the error; "" for none
	}{
		"body":                   {packet(opMsg, none, body), ""},
		"body and sequence":      {packet(opMsg, none, body, sequence("documents", x, x)), ""},
		"sequence before body":   {packet(opMsg, none, sequence("documents", x), body), ""},
		"checksum":               {summed, ""},
		"optional flag":          {packet(opMsg, []byte{0, 0, 1, 0}, body), ""},
		"query":                  {packet(opQuery, none, []byte("admin.$cmd\x00"), make([]byte, 8), ping(t)), ""},
		"wrong checksum":         {packet(opMsg, []byte{1, 0, 0, 0}, body, make([]byte, 4)), "wrong checksum"},
		"unknown flag":           {packet(opMsg, []byte{4, 0, 0, 0}, body), "unknown flags"},
		"two bodies":             {packet(opMsg, none, body, body), "two bodies"},
		"no body":                {packet(opMsg, none, sequence("documents", x)), "no body"},
		"two sequences":          {packet(opMsg, none, body, sequence("a", x), sequence("a", x)), "two sequences"},
		"sequence is too long":   {packet(opMsg, none, body, []byte{1, 255, 0, 0, 0, 'a', 0}), "sequence of length"},
		"unknown section":        {packet(opMsg, none, []byte{2}), "section of kind 2"},
		"damaged document":       {packet(opMsg, none, damaged), "damaged"},
		"too deep":               {packet(opMsg, none, append([]byte{0}, deep...)), "too deep"},
		"nothing":                {packet(opMsg), "no flags"},
		"old operation":          {packet(2002, none), "operation 2002"},
		"query of a collection":  {packet(opQuery, none, []byte("a.b\x00"), make([]byte, 8), ping(t)), "only commands"},
		"a length that is none":  {append([]byte{15, 0, 0, 0}, make([]byte, 12)...), "length 15"},
		"a length beyond bounds": {append([]byte{0, 0, 0, 0x70}, make([]byte, 12)...), "length"},
		"cut off":                {packet(opMsg, none, body)[:20], io.ErrUnexpectedEOF.Error()},
		"end":                    {nil, io.EOF.Error()},
	} {
		r := reader{Reader: bytes.NewReader(tc.raw)}
		m, err := r.next()
		switch {
		case tc.want == "" && (err != nil || m.body == nil || m.id != 7):
			t.Errorf("%s: %+v, %v", name, m, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// FuzzConversation: whatever comes, the server neither panics nor answers with
// what is no message.
func FuzzConversation(f *testing.F) {
	none := []byte{0, 0, 0, 0}
	commands := []bson.D{
		{{Key: "ping", Value: 1}},
		{{Key: "hello", Value: 1}},
		{{Key: "insert", Value: "c"},
			{Key: "documents",
				Value: bson.A{bson.D{{Key: "x", Value: 1.5}}, bson.D{{Key: "_id", Value: 1}, {Key: "a", Value: bson.A{1, "b"}}}}}},
		{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: 0}}}}},
			{Key: "projection", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "batchSize", Value: 1}},
		{{Key: "getMore", Value: int64(1)}, {Key: "collection", Value: "c"}},
		{{Key: "killCursors", Value: "c"}, {Key: "cursors", Value: bson.A{int64(1)}}},
		{{Key: "update", Value: "c"},
			{Key: "updates",
				Value: bson.A{
					bson.D{{Key: "q", Value: bson.D{}},
						{Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "x", Value: "long"}}}}},
						{Key: "multi", Value: true}}}}},
		{{Key: "delete", Value: "c"},
			{Key: "deletes",
				Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "x", Value: nil}}}, {Key: "limit", Value: 1}}}}},
		{{Key: "count", Value: "c"}, {Key: "query", Value: bson.D{}}, {Key: "skip", Value: 1}},
		{{Key: "create", Value: "c"}, {Key: "capped", Value: true}, {Key: "size", Value: 100}},
		{{Key: "createIndexes", Value: "c"},
			{Key: "indexes",
				Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "name", Value: "x_1"}}}}},
		{{Key: "drop", Value: "c"}},
	}
	var all []byte
	for _, c := range commands {
		p := packet(opMsg, none, []byte{0}, doc(f, append(c, bson.E{Key: "$db", Value: "d"})))
		f.Add(p)
		all = append(all, p...)
	}
	f.Add(all)
	f.Add(packet(opMsg, none, []byte{0}, doc(f, bson.D{{Key: "insert", Value: "c"}, {Key: "$db", Value: "d"}}),
		sequence("documents", doc(f, bson.D{{Key: "_id", Value: "a"}}))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := New(func() time.Time { return time.Unix(1e9, 0) }, cpuTime)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s.converse(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(raw), &out})
		r := reader{Reader: &out}
		for {
			m, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			// The answer to OP_QUERY is of an operation that the reader does not take.
			if err != nil && !strings.Contains(err.Error(), "operation 1 ") {
				t.Fatalf("answered with what is no message: %v", err)
			}
			if err == nil {
				if err := bson.Raw(m.body).Validate(); err != nil {
					t.Fatalf("answered with what is no document: %v", err)
				}
			}
		}
	})
}
