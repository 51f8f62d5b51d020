package mongowire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func server(t *testing.T) (s *Server, run func(bson.D) *failure) {
	t.Helper()
	s, err := New(time.Now, cpuTime)
	if err != nil {
		t.Fatal(err)
	}
	return s, func(d bson.D) *failure {
		t.Helper()
		_, bad := s.run(message{op: opMsg, body: doc(t, append(d, bson.E{Key: "$db", Value: "d"}))}, nil)
		return bad
	}
}

// TestCursorsAreBounded: clients that ask for the first document of many and never
// again leave no more behind than a bound, and what is accounted for is what is there.
func TestCursorsAreBounded(t *testing.T) {
	s, run := server(t)
	var docs bson.A
	for range 16 {
		docs = append(docs, bson.D{{Key: "x", Value: strings.Repeat("x", 1<<20)}})
	}
	if bad := run(bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: docs}}); bad != nil {
		t.Fatal(bad)
	}
	check := func(when string, most int) {
		t.Helper()
		sum := 0
		for _, c := range s.cursors.open {
			one := 0
			for _, d := range c.docs {
				one += len(d) + overhead
			}
			if one != c.held {
				t.Errorf("%s: a cursor of %d bytes says %d", when, one, c.held)
			}
			sum += one
		}
		if sum != s.cursors.held || sum > most {
			t.Errorf("%s: cursors hold %d bytes, and say %d: expected at most %d", when, sum, s.cursors.held, most)
		}
	}
	find := bson.D{{Key: "find", Value: "c"}, {Key: "batchSize", Value: 1}}
	for range 2 * mostHeld >> 24 {
		if bad := run(find); bad != nil {
			t.Fatal(bad)
		}
	}
	check("after many", mostHeld)
	if len(s.cursors.open) == 0 || s.cursors.open[s.cursors.last] == nil {
		t.Error("the newest cursor is gone")
	}
	for i := range 3 {
		if bad := run(bson.D{{Key: "getMore", Value: s.cursors.last}, {Key: "collection", Value: "c"},
			{Key: "batchSize", Value: 5}}); bad != nil {
			t.Fatal(bad)
		}
		check(fmt.Sprintf("after %d more", 5*(i+1)), mostHeld)
	}
	if bad := run(append(find, bson.E{Key: "singleBatch", Value: true})); bad != nil {
		t.Fatal(bad)
	}
	check("after a single batch", mostHeld)
	if bad := run(bson.D{{Key: "killCursors", Value: "c"},
		{Key: "cursors", Value: bson.A{s.cursors.last, s.cursors.last - 1}}}); bad != nil {
		t.Fatal(bad)
	}
	check("after some were killed", mostHeld)
	if bad := run(bson.D{{Key: "drop", Value: "c"}}); bad != nil {
		t.Fatal(bad)
	}
	check("after the drop", 0)
}

// TestNamesAreBounded: a client that makes collections and indexes without end, or of
// any length, is told.
func TestNamesAreBounded(t *testing.T) {
	s, run := server(t)
	if bad := run(bson.D{{Key: "create", Value: strings.Repeat("c", longestName)}}); bad == nil ||
		bad.name != "InvalidNamespace" {
		t.Errorf("a long name: %+v", bad)
	}
	for i := range 2 * mostIndexes {
		bad := run(bson.D{{Key: "createIndexes", Value: "c"},
			{Key: "indexes",
				Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "name", Value: fmt.Sprint(i)}}}}})
		if (bad == nil) != (i < mostIndexes-1) {
			t.Fatalf("index %d: %+v", i, bad)
		}
	}
	for i := range mostCollections + 10 {
		if bad := run(bson.D{{Key: "create", Value: fmt.Sprint("n", i)}}); (bad == nil) != (i < mostCollections-1) {
			t.Fatalf("collection %d: %+v", i, bad)
		}
	}
	if bad := run(bson.D{{Key: "insert", Value: "new"}, {Key: "documents", Value: bson.A{bson.D{}}}}); bad == nil ||
		len(s.collections) > mostCollections {
		t.Errorf("%d collections: %+v", len(s.collections), bad)
	}
	if bad := run(bson.D{{Key: "drop", Value: "n1"}}); bad != nil {
		t.Error(bad)
	}
	if bad := run(bson.D{{Key: "insert", Value: "new"}, {Key: "documents", Value: bson.A{bson.D{}}}}); bad != nil {
		t.Errorf("after a drop: %+v", bad)
	}
}
