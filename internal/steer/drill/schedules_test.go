package drill

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// Each phase tells what was achieved of its best network.
func TestPhases(t *testing.T) {
	all := []leg{{what: "phase 1", span: time.Second}, {what: "phase 2, x blackhole", span: time.Second},
		{what: "phase 3", span: time.Second}}
	kept := map[string]outcome{"x": {rates: []float64{4e8, 0, 0}}, "y": {rates: []float64{3e8, 3e8, 0}}}
	v := Sample{Variant: "verdict", Values: map[string]float64{}, Text: map[string]string{"schedule": "s"}}
	phases(&v, all, outcome{rates: []float64{4e8, 2.7e8, 0}}, kept)
	if got := v.Text["phase 2"]; got != "phase 2, x blackhole: 270 Mbit/s of 300 Mbit/s on y" {
		t.Error(got)
	}
	f := phasesFigure([]Sample{{Variant: "x"}, v})
	if f.N != 2 || f.Least != 0.9 || f.Most != 1 || f.Note != "by phase: s 1.000 0.900" {
		t.Errorf("%+v", f)
	}
}

// What flows on two networks at once got beyond the better one does not make up
// for what a phase lost.
func TestCapped(t *testing.T) {
	kept := map[string]outcome{"x": {rates: []float64{4e8, 1e8}}, "y": {rates: []float64{3e8, 2e8}}}
	mine := outcome{rates: []float64{6e8, 1.5e8}}
	if got := capped(mine, kept).rates; !slices.Equal(got, []float64{4e8, 1.5e8}) {
		t.Error(got)
	}
	if mine.rates[0] != 6e8 {
		t.Error("the outcome itself was changed")
	}
}

// A process that still has the file open does not spoil what replaced it.
func TestReplaceRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.jsonl")
	agent, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	line := []byte("a line that was recorded before, as long as any\n")
	for range 100 {
		if _, err := agent.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	rec := decide.Recording{Records: []decide.Record{{For: time.Second, Evidence: decide.PairEvidence{
		Pair: "a>b", Active: "x", Paths: []decide.PathEvidence{{Network: "x", State: decide.Up}}}}}}
	if err := replaceRecording(path, rec); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Write(line); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := decide.ReadRecording(path, f); err != nil || len(got.Records) != 1 {
		t.Errorf("%d records, %v", len(got.Records), err)
	}
}
