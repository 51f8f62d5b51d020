package drill

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// TestDrills runs a little of each mechanism for real: map writes under traffic,
// agents under faults, kills, forged probes and a course. It looks at what must
// be there, never at a time. "make build" makes the program that it needs.
func TestDrills(t *testing.T) {
	self := built(t)
	text := `
name: little
networks: [vxlan, macvlan]
drills:
  - {drill: switch, switches: 50, interval: 2ms, for: 200ms}
  - {drill: inserts, repetitions: 1, inserts: 200, switches: 120, workload: mongo-insert-int-vector}
  - {drill: blackhole, repetitions: 1, hold: 500ms, traffic: tcp, faults: [both, mptcp]}
  - {drill: kills, repetitions: 1, kills: 3}
  - {drill: forged, probes: 50}
  - {drill: peers, repetitions: 1, peers: [1, 20], for: 200ms, hosts: 0}
  - {drill: swings, for: 3s}
  - {drill: demo, for: 500ms, capacity: 100M}
  - {drill: shares, repetitions: 1, limits: beneath, for: 1s, capacity: 50M}
  - {drill: programs, repetitions: 1, hold: 500ms, faults: both}
  - {drill: mixed, repetitions: 1, programs: [iperf3, wrk, sockperf], for: 1500ms, capacity: 50M}
`
	f, err := Parse("little", strings.NewReader(text), func(n string) error { _, err := catalogue.Find(n); return err })
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store := lab.Store{Root: filepath.Join(dir, "state")}
	var all []Sample
	err = Run(context.Background(), Config{File: f, Seed: 1, Prefix: "t-drill", Out: filepath.Join(dir, "out"),
		Store: store, Self: self, Lab: lab.Options{CNIPath: lab.DefaultCNIPath(self)}, Find: catalogue.Find, Now: time.Now,
		Write: func(s []Sample) error { all = append(all, s...); return nil }, Say: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	if labs, err := store.List(); err != nil || len(labs) > 0 {
		t.Errorf("labs are left: %v, %v", labs, err)
	}
	for _, s := range all {
		if s.Error != "" {
			t.Errorf("%s, %s: %s", s.Drill, s.Variant, s.Error)
		}
		if s.Values["connections_lost"]+s.Values["corrupt"] > 0 && !strings.HasSuffix(s.Variant, "mptcp") {
			t.Errorf("%s, %s: %v, %v", s.Drill, s.Variant, s.Values, s.Text)
		}
		if adopted, of := s.Values["adopted"]; of && adopted == 0 || s.Values["stale"] > 0 {
			t.Errorf("%s: a successor does not say where its predecessor left the flows: %v, %v", s.Drill, s.Values, s.Text)
		}
		for _, r := range s.Reports {
			readReport(t, filepath.Join(dir, "out", r))
		}
	}
	figures, err := Figures(f, all)
	if err != nil || len(figures) < 15 {
		t.Errorf("got %d figures, %v", len(figures), err)
	}
	var b bytes.Buffer
	if err := Table(&b, figures); err != nil {
		t.Error(err)
	}
	t.Log(b.String())
}

// built is the program that drills run, for a test that makes namespaces.
func built(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make namespaces")
	}
	self, err := filepath.Abs("../../../bin/pathwise")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(self); err != nil {
		t.Skip("needs bin/pathwise: make build")
	}
	return self
}

// readReport: what is kept can be read again.
func readReport(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Parse(raw); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// TestTruthfulEvidence: recorded evidence gets the truth of its phase.
func TestTruthfulEvidence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	rec := decide.Recording{Header: decide.Header{Format: decide.Format, Version: decide.Version, Unit: "bit/s"}}
	for i := range 20 {
		rec.Records = append(rec.Records,
			decide.Record{For: decide.Period, Evidence: decide.PairEvidence{At: time.Duration(i) * decide.Period, Pair: "a>b",
				Active: "x", Paths: []decide.PathEvidence{{Network: "x", State: decide.Up}, {Network: "y", State: decide.Up}}}})
	}
	if err := decide.WriteRecording(f, rec); err != nil {
		t.Fatal(err)
	}
	f.Close()
	// Two legs of half a second, the last record at their end.
	at := 100 * time.Second
	mine := outcome{from: []time.Duration{at, at + time.Second/2},
		to:    []time.Duration{at + time.Second/2, at + time.Second},
		rates: []float64{1, 1}}
	kept := map[string]outcome{"x": {rates: []float64{10, 1}}, "y": {rates: []float64{4, 5}}}
	if err := truthful(path, decide.Schedule{Name: "s"}, make([]leg, 2), mine, kept); err != nil {
		t.Fatal(err)
	}
	f, err = os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := decide.ReadRecording(path, f)
	if err != nil || len(got.Records) != 10 || got.Records[0].Truth["x"] != 10 || got.Records[9].Truth["y"] != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
	if r := decide.Replay(decide.Static{Network: "x"}, got); r.Epochs != 10 || r.Hindsight <= 0 {
		t.Errorf("replay: %+v", r)
	}
}
