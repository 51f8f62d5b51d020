package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"pathwise.dev/pathwise/internal/measure/workload/mongowire"
)

// both connects to a new FerretDB and to a new server of mongowire.
func both(t *testing.T) (ferret, own *mongo.Client) {
	t.Helper()
	f, err := open("127.0.0.1:0", t.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	start(t, f.Run)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := mongowire.New(time.Now, func() (user, system time.Duration) { return 0, 0 })
	if err != nil {
		t.Fatal(err)
	}
	start(t, func(ctx context.Context) error { return s.Serve(ctx, l) })
	return client(t, f.MongoDBURI()), client(t, "mongodb://"+l.Addr().String())
}

func start(t *testing.T, serve func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func client(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(uri).SetRetryReads(false).SetRetryWrites(
		false).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestSameAnswers plays random sequences of the commands that mongo-perf needs to
// FerretDB and to Pathwise's own server, and compares every answer. The seed is
// PATHWISE_SEED, or drawn.
func TestSameAnswers(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("PATHWISE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("PATHWISE_SEED=%d", seed)
	const sequences, length = 12, 60
	ferret, own := both(t)
	said, values := map[string]int{}, 0
	for n := range sequences {
		p := &player{Rand: rand.New(rand.NewPCG(seed, uint64(n))), ferret: ferret.Database("d"), own: own.Database("d"),
			collection: fmt.Sprintf("c%d", n), ids: map[string]string{}, cursors: map[int64]int64{}}
		first := p.unknown()
		if n == 0 {
			first = append(p.wide(), first...)
		}
		for step := range len(first) + length {
			var cmd bson.D
			if step < len(first) {
				cmd = first[step]
			} else {
				cmd = p.command()
			}
			if why := p.play(t.Context(), cmd); why != "" {
				t.Fatalf("sequence %d, step %d: %v: %s", n, step, short(cmd), why)
			}
			said[cmd[0].Key]++
		}
		values += p.values
	}
	t.Logf("commands: %v; %d values are the same", said, values)
}

// player makes commands and plays them to both.
type player struct {
	*rand.Rand
	ferret, own *mongo.Database
	collection  string
	// ids maps ObjectIDs that FerretDB made to those that the other one made for
	// the same document: they meet in the first answer that has both.
	ids map[string]string
	// cursors maps FerretDB's cursors that are open to the other one's.
	cursors map[int64]int64
	// values were compared, so that agreement is about something.
	values int
}

// play runs a command on both; "" where they agree.
func (p *player) play(ctx context.Context, cmd bson.D) string {
	mine := slices.Clone(cmd)
	for i, e := range mine {
		switch v := e.Value.(type) {
		case int64: // a cursor
			mine[i].Value = p.cursors[v]
		case []int64:
			other := make([]int64, len(v))
			for j, id := range v {
				other[j] = p.cursors[id]
			}
			mine[i].Value = other
		}
	}
	want, wantErr := p.ferret.RunCommand(ctx, cmd).Raw()
	got, gotErr := p.own.RunCommand(ctx, mine).Raw()
	if why := sameErrors(wantErr, gotErr); why != "" || wantErr != nil {
		return why
	}
	var a, b bson.D
	if err := bson.Unmarshal(want, &a); err != nil {
		return err.Error()
	}
	if err := bson.Unmarshal(got, &b); err != nil {
		return err.Error()
	}
	if why := p.same("", a, b); why != "" {
		return fmt.Sprintf("%s\nFerretDB: %.1500v\nown:      %.1500v", why, a, b)
	}
	if next, err := want.LookupErr("cursor", "id"); cmd[0].Key == "killCursors" || err == nil && next.Int64() == 0 {
		clear(p.cursors) // there is one at a time
	}
	return ""
}

// sameErrors compares errors by MongoDB's code. Texts are for people and no part
// of the protocol; FerretDB's differ from MongoDB's own too.
func sameErrors(want, got error) string {
	var a, b mongo.ServerError
	isA, isB := asServer(want, &a), asServer(got, &b)
	switch {
	case want == nil && got == nil:
		return ""
	case !isA || !isB:
		return fmt.Sprintf("FerretDB: %v; own: %v", want, got)
	case !slices.Equal(a.ErrorCodes(), b.ErrorCodes()):
		return fmt.Sprintf("FerretDB: codes %v, %v; own: %v, %v", a.ErrorCodes(), want, b.ErrorCodes(), got)
	}
	return ""
}

func asServer(err error, target *mongo.ServerError) bool {
	e, ok := err.(mongo.ServerError)
	*target = e
	return ok
}

// same compares values, and learns which ObjectIDs and cursors are the same.
func (p *player) same(path string, a, b any) string {
	switch x := a.(type) {
	case bson.D:
		y, ok := b.(bson.D)
		if !ok || len(x) != len(y) {
			return fmt.Sprintf("%s: %d fields, own %v", path, len(x), b)
		}
		for i := range x {
			if x[i].Key != y[i].Key {
				return fmt.Sprintf("%s: field %s, own %s", path, x[i].Key, y[i].Key)
			}
			if why := p.same(path+"."+x[i].Key, x[i].Value, y[i].Value); why != "" {
				return why
			}
		}
		return ""
	case bson.A:
		y, ok := b.(bson.A)
		if !ok || len(x) != len(y) {
			return fmt.Sprintf("%s: %d elements, own %d", path, len(x), len(y))
		}
		for i := range x {
			if why := p.same(fmt.Sprintf("%s[%d]", path, i), x[i], y[i]); why != "" {
				return why
			}
		}
		return ""
	}
	switch {
	case path == ".cursor.id":
		return p.sameCursor(a, b)
	case strings.HasPrefix(path, ".cursorsKilled"):
		a = p.cursors[a.(int64)]
	case path == ".nIndexesWas":
		return "" // FerretDB always says 1 (its issue 2337)
	case strings.HasSuffix(path, ".errmsg"):
		return "" // as in sameErrors
	}
	if x, ok := a.(bson.ObjectID); ok {
		y, ok := b.(bson.ObjectID)
		known, seen := p.ids[x.Hex()]
		if !ok || seen && known != y.Hex() {
			return fmt.Sprintf("%s: %v, own %v", path, a, b)
		}
		p.ids[x.Hex()] = y.Hex()
		return ""
	}
	p.values++
	if a != b {
		return fmt.Sprintf("%s: %T %v, own %T %v", path, a, a, b, b)
	}
	return ""
}

// sameCursor: numbers of cursors are the server's own affair, but for 0.
func (p *player) sameCursor(a, b any) string {
	x, y := a.(int64), b.(int64)
	if (x == 0) != (y == 0) {
		return fmt.Sprintf("cursor %d, own %d", x, y)
	}
	if x != 0 {
		p.cursors[x] = y
	}
	return ""
}

func short(cmd bson.D) string { return fmt.Sprintf("%.600v", cmd) }
