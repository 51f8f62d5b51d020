package main

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload/mongo"
)

// TestOperations: what the mongo workloads take for the right answers, FerretDB
// gives too, down to the bytes of the documents that it finds.
func TestOperations(t *testing.T) {
	f, err := open("127.0.0.1:0", t.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	start(t, f.Run)
	for _, w := range mongo.All("") {
		if w.Info().Name == "mongo-update-field-at-offset" {
			continue // one takes FerretDB seconds: TestSameAnswers does it with fewer documents
		}
		p := mongo.Place{URI: f.MongoDBURI(), Operation: strings.TrimPrefix(w.Info().Name, "mongo-"), Collection: "docs"}
		var b bytes.Buffer
		if err := mongo.Prepare(t.Context(), &b, p, false); err != nil {
			t.Fatalf("%s: %v", p.Operation, err)
		}
		if !strings.Contains(b.String(), "FerretDB") {
			t.Errorf("%s: the server is %s", p.Operation, b.String())
		}
		now, err := program.Monotonic()
		if err != nil {
			t.Fatal(err)
		}
		b.Reset()
		// Some take FerretDB most of a second, and those that begin in the warm-up do not count.
		o := mongo.Offer{Place: p, Connections: 1, Begin: now + 200*time.Millisecond, Duration: 1500 * time.Millisecond,
			Drop: true}
		if err := mongo.Generate(t.Context(), &b, o); err != nil || !strings.Contains(b.String(), `"failed":{}`) {
			t.Errorf("%s: %v %.300s", p.Operation, err, b.String())
		}
	}
}
