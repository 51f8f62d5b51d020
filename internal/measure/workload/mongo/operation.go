package mongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// operation is one of mongo-perf's tests (testcases/simple_{insert,update,query}.js).
// Numbers are doubles, as those of the MongoDB shell are, in which the tests are
// written; a document without an _id gets one from the server.
type operation struct {
	name string
	// test is its name in mongo-perf.
	test    string
	summary string
	// before are the documents of the collection before the load, and index the
	// field that has an index besides _id; "" for none.
	before func() []bson.Raw
	index  string
	// grows: the load adds documents.
	grows bool
	// steps are done one after the other, and again; each counts as one.
	steps func(c *mongo.Collection) []step
}

// step is one operation and the look at its answer.
type step func(ctx context.Context) error

func operations() []operation {
	return []operation{
		{name: "insert-empty", test: "Insert.Empty", summary: "insert of an empty document", grows: true,
			steps: inserting(func() []bson.Raw { return repeat(1, document(bson.D{})) })},
		{name: "insert-int-vector", test: "Insert.IntVector",
			summary: "insert of 100 documents {x: 1} by one command, counted as one", grows: true,
			steps: inserting(func() []bson.Raw { return repeat(100, document(bson.D{{Key: "x", Value: 1.0}})) })},
		{name: "insert-large-doc-vector", test: "Insert.LargeDocVector",
			summary: "insert of 100 documents of 1 KiB by one command, counted as one", grows: true,
			steps: inserting(func() []bson.Raw { return repeat(100, largeDocument()) })},
		{name: "update-field-at-offset", test: "Update.FieldAtOffset",
			summary: "update of the middle one of 512 fields in all of 100 documents",
			before:  func() []bson.Raw { return repeat(100, wideDocument()) }, steps: updating},
		{name: "query-empty", test: "Queries.Empty", summary: "query for all of 100 documents",
			before: func() []bson.Raw { return repeat(100, document(bson.D{})) }, steps: querying(bson.D{}, nil, 100, 100*22)},
		{name: "query-find-projection", test: "Queries.FindProjection",
			summary: "query for all of 100 documents with a projection of an indexed field",
			before:  func() []bson.Raw { return numbered(100, "x") }, index: "x",
			steps: querying(bson.D{}, bson.D{{Key: "x", Value: 1.0}}, 100, 100*33)},
		{name: "query-int-id-range", test: "Queries.IntIDRange", summary: "query for a range of _id, 49 of 4800 documents",
			before: func() []bson.Raw { return numbered(4800, "_id") },
			steps: querying(bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: 50.0}, {Key: "$lt", Value: 100.0}}}}, nil, 49,
				49*18)},
		{name: "query-no-match", test: "Queries.NoMatch", summary: "query that looks through 100 documents and finds none",
			before: func() []bson.Raw { return repeat(100, document(bson.D{})) },
			steps:  querying(bson.D{{Key: "nonexistent", Value: 5.0}}, nil, 0, 0)},
	}
}

// operationByName finds an operation.
func operationByName(name string) (operation, error) {
	for _, o := range operations() {
		if o.name == name {
			return o, nil
		}
	}
	return operation{}, fmt.Errorf("unknown operation %q", name)
}

// document encodes what is known to be encodable.
func document(d bson.D) bson.Raw {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err) // a mistake in this file
	}
	return raw
}

func repeat(n int, doc bson.Raw) []bson.Raw {
	out := make([]bson.Raw, n)
	for i := range out {
		out[i] = doc
	}
	return out
}

func numbered(n int, field string) (out []bson.Raw) {
	for i := range n {
		out = append(out, document(bson.D{{Key: field, Value: float64(i)}}))
	}
	return out
}

// largeDocument has one field, whose string fills it up to 1024 bytes.
func largeDocument() bson.Raw {
	const size = 1024
	doc := []byte{}
	for text := ""; len(doc) < size; text += "x" {
		doc = document(bson.D{{Key: "fieldName", Value: text}})
	}
	return doc
}

// wideDocument has 512 fields of one letter.
func wideDocument() bson.Raw {
	var d bson.D
	for i := range 512 {
		d = append(d, bson.E{Key: fmt.Sprintf("a_%d", i), Value: "a"})
	}
	return document(d)
}

// writeConcern is mongo-perf's: the journal is not waited for.
func writeConcern() bson.E {
	return bson.E{Key: "writeConcern", Value: bson.D{{Key: "j", Value: false}}}
}

// command is {name: COLLECTION, list: [docs...], ordered: true, writeConcern}.
// The shell sends commands as they are, so this goes round the driver's own
// insert, which would add an _id to each document.
func command(name string, c *mongo.Collection, list string, docs []bson.Raw) bson.Raw {
	var array []bsoncore.Value
	for _, d := range docs {
		array = append(array, bsoncore.Value{Type: bsoncore.TypeEmbeddedDocument, Data: d})
	}
	return document(bson.D{{Key: name, Value: c.Name()},
		{Key: list, Value: bson.RawValue{Type: bson.TypeArray, Value: bsoncore.BuildArray(nil, array...)}},
		{Key: "ordered", Value: true}, writeConcern()})
}

// inserting does one command that inserts the documents.
func inserting(docs func() []bson.Raw) func(c *mongo.Collection) []step {
	return func(c *mongo.Collection) []step {
		all := docs()
		return []step{writing(c, command("insert", c, "documents", all), len(all))}
	}
}

// updating does two commands by turns, so that each changes something.
func updating(c *mongo.Collection) (out []step) {
	for _, value := range []string{"a", "aa"} {
		u := document(bson.D{{Key: "q", Value: bson.D{}},
			{Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "a_256", Value: value}}}}},
			{Key: "multi", Value: true}, {Key: "upsert", Value: false}})
		out = append(out, writing(c, command("update", c, "updates", []bson.Raw{u}), 100))
	}
	return out
}

// errWrong: the server answered, and not what was asked.
var errWrong = errors.New("wrong answer")

// writing runs a command whose answer must tell of n documents.
func writing(c *mongo.Collection, cmd bson.Raw, n int) step {
	db := c.Database()
	return func(ctx context.Context) error {
		answer, err := db.RunCommand(ctx, cmd).Raw()
		if err != nil {
			return err
		}
		if got, ok := answer.Lookup("n").AsInt64OK(); !ok || got != int64(n) {
			return fmt.Errorf("%w: %v documents written, expected %d", errWrong, answer.Lookup("n"), n)
		}
		if _, err := answer.LookupErr("writeErrors"); err == nil {
			return fmt.Errorf("%w: write errors alongside %d documents written", errWrong, n)
		}
		return nil
	}
}

// querying asks for documents and counts them and their bytes.
func querying(filter, projection bson.D, n, bytes int) func(c *mongo.Collection) []step {
	return func(c *mongo.Collection) []step {
		what := document(filter)
		o := options.Find()
		if projection != nil {
			o.SetProjection(document(projection))
		}
		return []step{func(ctx context.Context) error {
			cursor, err := c.Find(ctx, what, o)
			if err != nil {
				return err
			}
			var docs, size int
			for cursor.Next(ctx) {
				docs, size = docs+1, size+len(cursor.Current)
			}
			// Closing tells the server where there is more, and cannot change what came.
			if err := errors.Join(cursor.Err(), cursor.Close(ctx)); err != nil {
				return err
			}
			if docs != n || size != bytes {
				return fmt.Errorf("%w: %d documents of %d bytes, expected %d of %d", errWrong, docs, size, n, bytes)
			}
			return nil
		}}
	}
}
