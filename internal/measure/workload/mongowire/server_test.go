package mongowire

import (
	"context"
	"net"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// serve runs a server for the test and returns a client of it.
func serve(t testing.TB) *mongo.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(time.Now, cpuTime)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + l.Addr().String()).SetServerSelectionTimeout(
		5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client
}

func TestDriver(t *testing.T) {
	c := serve(t).Database("test").Collection("docs")
	ctx := t.Context()
	var docs []any
	for i := range 500 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "x", Value: float64(i % 10)}})
	}
	if res, err := c.InsertMany(ctx, docs); err != nil || len(res.InsertedIDs) != 500 {
		t.Fatalf("insert: %v", err)
	}
	if _, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: 7.0}}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("insert again: %v", err)
	}
	for _, tc := range []struct {
		name   string
		filter bson.D
		want   int
	}{
		{"all, by getMore", bson.D{}, 500},
		{"range of _id", bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: 50}, {Key: "$lt", Value: 100}}}}, 49},
		{"field", bson.D{{Key: "x", Value: 3}}, 50},
		{"no such field", bson.D{{Key: "nonexistent", Value: 5}}, 0},
		{"null is a field that is not there", bson.D{{Key: "nonexistent", Value: nil}}, 500},
	} {
		cursor, err := c.Find(ctx, tc.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []bson.M
		if err := cursor.All(ctx, &got); err != nil || len(got) != tc.want {
			t.Errorf("%s: %d documents, %v; want %d", tc.name, len(got), err, tc.want)
		}
	}
	res, err := c.UpdateMany(ctx, bson.D{{Key: "x", Value: 3}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "y", Value: "new"}}}})
	if err != nil || res.MatchedCount != 50 || res.ModifiedCount != 50 {
		t.Errorf("update: %+v, %v", res, err)
	}
	if res, err := c.DeleteOne(ctx, bson.D{{Key: "y", Value: "new"}}); err != nil || res.DeletedCount != 1 {
		t.Errorf("delete: %+v, %v", res, err)
	}
	if n, err := c.EstimatedDocumentCount(ctx); err != nil || n != 499 {
		t.Errorf("count: %d, %v", n, err)
	}
	if _, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "x", Value: 1}}}); err != nil {
		t.Error(err)
	}
	if err := c.Drop(ctx); err != nil {
		t.Error(err)
	}
	err = c.FindOne(ctx, bson.D{{Key: "$where", Value: "1"}}).Err()
	if e := (mongo.CommandError{}); !asCommandError(err, &e) || e.Code != 2 {
		t.Errorf("what is not there: %v", err)
	}
}

func asCommandError(err error, target *mongo.CommandError) bool {
	e, ok := err.(mongo.CommandError)
	*target = e
	return ok
}

// TestCapped: a capped collection keeps the newest documents, within its size.
func TestCapped(t *testing.T) {
	db := serve(t).Database("test")
	const size = 1 << 20
	if err := db.CreateCollection(t.Context(), "ring",
		options.CreateCollection().SetCapped(true).SetSizeInBytes(size)); err != nil {
		t.Fatal(err)
	}
	c := db.Collection("ring")
	for i := range 300 {
		docs := make([]any, 100)
		for j := range docs {
			docs[j] = bson.D{{Key: "n", Value: i*100 + j}}
		}
		if _, err := c.InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	n, err := c.EstimatedDocumentCount(t.Context())
	if err != nil || n*(29+overhead) > size || n*(29+overhead) < size*9/10 {
		t.Errorf("%d documents, %v", n, err)
	}
	var first struct{ N int }
	if err := c.FindOne(t.Context(), bson.D{}).Decode(&first); err != nil || first.N != 30_000-int(n) {
		t.Errorf("first is %d of %d, %v", first.N, n, err)
	}
}
