package mongo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Place is where an operation works: the server, and the collection there.
type Place struct {
	URI string
	// Operation is the name of one.
	Operation string
	// Collection in Pathwise's database.
	Collection string
}

// Prepared is what Prepare found.
type Prepared struct {
	// Server in words: which one it is, and its version.
	Server string `json:"server"`
}

// cappedSize bounds a collection that grows, in bytes of a server that keeps
// it in memory. Such a collection is full, and the oldest documents go, within
// the first tenths of a second of a load that inserts vectors: the window sees
// the same all along. What a client sends and gets does not depend on it.
const cappedSize = 16 << 20

// MongoDB's codes of errors that do not keep an operation from being prepared.
const (
	codeNotFound     = 26 // no such collection to drop
	codeUnauthorized = 13
	codeNoCommand    = 59
)

// Prepare brings the collection into the state in which mongo-perf's test
// begins, and writes what it found to w. With capped, one that grows is bounded.
func Prepare(ctx context.Context, w io.Writer, p Place, capped bool) error {
	o, err := operationByName(p.Operation)
	if err != nil {
		return err
	}
	client, err := connect(p.URI, 1, "", new(atomic.Int64))
	if err != nil {
		return err
	}
	defer client.close()
	var out Prepared
	if out.Server, err = client.identify(ctx); err != nil {
		return err
	}
	db := client.Database(database)
	if err := drop(ctx, db, p.Collection); err != nil {
		return err
	}
	if capped && o.grows {
		cmd := bson.D{{Key: "create", Value: p.Collection}, {Key: "capped", Value: true}, {Key: "size", Value: cappedSize}}
		if err := db.RunCommand(ctx, cmd).Err(); err != nil {
			return fmt.Errorf("create collection: %w", err)
		}
	}
	if err := o.fill(ctx, db.Collection(p.Collection)); err != nil {
		return err
	}
	// As mongo-perf does before each test; some servers know no such command.
	err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "fsync", Value: 1}}).Err()
	if err != nil && !hasCode(err, codeNoCommand, codeUnauthorized) {
		return fmt.Errorf("sync server: %w", err)
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// drop removes a collection, if it is there.
func drop(ctx context.Context, db *mongo.Database, name string) error {
	if err := db.RunCommand(ctx, bson.D{{Key: "drop", Value: name}}).Err(); err != nil && !hasCode(err, codeNotFound) {
		return fmt.Errorf("drop collection: %w", err)
	}
	return nil
}

func hasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return false
	}
	for _, c := range codes {
		if server.HasErrorCode(c) {
			return true
		}
	}
	return false
}

// fill inserts the documents that the operation finds, and makes the index.
func (o operation) fill(ctx context.Context, c *mongo.Collection) error {
	if o.index != "" {
		index := bson.D{{Key: "key", Value: bson.D{{Key: o.index, Value: 1.0}}}, {Key: "name", Value: o.index + "_1"}}
		if err := c.Database().RunCommand(ctx,
			bson.D{{Key: "createIndexes", Value: c.Name()}, {Key: "indexes", Value: bson.A{index}}}).Err(); err != nil {
			return fmt.Errorf("create index: %w", err)
		}
	}
	if o.before == nil {
		return nil
	}
	docs := o.before()
	if err := writing(c, command("insert", c, "documents", docs), len(docs))(ctx); err != nil {
		return fmt.Errorf("insert documents: %w", err)
	}
	answer, err := c.Database().RunCommand(ctx, bson.D{{Key: "count", Value: c.Name()}}).Raw()
	if err != nil {
		return fmt.Errorf("count documents: %w", err)
	}
	if n, ok := answer.Lookup("n").AsInt64OK(); !ok || n != int64(len(docs)) {
		return fmt.Errorf("count documents: %w: %v after %d were inserted", errWrong, answer.Lookup("n"), len(docs))
	}
	return nil
}
