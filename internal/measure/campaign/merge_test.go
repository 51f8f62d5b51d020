package campaign

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/explain/limit"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// inGuest is a scenario of the tests' guest.
func inGuest() topo.Scenario {
	return topo.Scenario{Placement: topo.OneHost, Pairs: 1, MTU: 1500, Kernel: "uml-6"}
}

// TestMerger feeds what a guest tells in pieces of any size.
func TestMerger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	out, err := result.Create(dir, result.Plan{Header: sample.Header{Experiment: "x"},
		Machine: machine.Record{OS: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	cell := sample.Cell{Network: "ipvlan-l2", Scenario: inGuest(), Workload: "w"}
	first := sample.Trial{Cell: cell, Repetition: 1, Order: 1, Status: sample.OK, Kernel: "uml-6"}
	second := sample.Trial{Cell: cell, Repetition: 2, Order: 2, Kernel: "uml-6"}
	var text strings.Builder
	for _, m := range []message{{Machine: &machine.Record{OS: "guest"}}, {Event: &bench.Event{Trial: first}},
		{Event: &bench.Event{Trial: first, Ended: true}},
		{Event: &bench.Event{Trial: second}}} {
		if err := json.NewEncoder(&text).Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	order, seen := 41, 0
	m := &merger{out: out, trial: out.Log.Trial, look: limit.ReadHost, label: "uml-6", order: &order,
		watch: func(bench.Event) { seen++ }, fail: func(err error) { t.Error(err) }}
	for piece := range strings.SplitSeq(text.String(), "e") { // the separator is put back
		if _, err := m.Write([]byte(piece + "e")); err != nil {
			t.Fatal(err)
		}
		if seen == 3 {
			break
		}
	}
	if err := m.lost(errors.New("the guest died")); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := result.Open(dir)
	if err != nil || len(got.Samples.Trials) != 2 || seen != 3 || m.merged != 1 {
		t.Fatalf("%d trials, %d events, %d merged, %v", len(got.Samples.Trials), seen, m.merged, err)
	}
	a, b := got.Samples.Trials[0], got.Samples.Trials[1]
	if a.Order != 42 || a.Status != sample.OK || b.Order != 43 || b.Status != sample.Failed ||
		b.Reason != "the guest died" || b.Repetition != 2 {
		t.Errorf("got %+v and %+v", a, b)
	}
	if rec, _ := got.Machine["guest uml-6"].(map[string]any); rec["os"] != "guest" {
		t.Errorf("machine %v", got.Machine)
	}
}

func TestMergerRefusesNonsense(t *testing.T) {
	var failed error
	m := &merger{label: "uml-6", fail: func(err error) { failed = err }}
	if _, err := m.Write([]byte("pathwise: what\n")); err == nil || failed == nil {
		t.Errorf("got %v, %v", err, failed)
	}
}

// nowhere keeps nothing.
type nowhere struct{}

func (nowhere) Guest(string, machine.Record) error { return nil }
func (nowhere) Profile(explain.Profile) error      { return nil }

// FuzzMerger: whatever a guest tells, the result stays one that can be read, with its
// trials numbered after those before.
func FuzzMerger(f *testing.F) {
	cell := sample.Cell{Network: "macvlan", Scenario: inGuest(), Workload: "w"}
	trial := sample.Trial{Cell: cell, Repetition: 1, Status: sample.OK, Kernel: "uml-6"}
	var text bytes.Buffer
	tell := teller(&text)
	for _, m := range []message{{Machine: &machine.Record{}}, {Event: &bench.Event{Trial: trial}},
		{Event: &bench.Event{Trial: trial, Ended: true}}, {Footer: &sample.Footer{Trials: 1}}} {
		if err := tell(m); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(text.Bytes())
	f.Add([]byte("{}\nnull\n{\"event\":{\"Ended\":true}}\n{\"profile\":{},\"stacks\":\"AAAA\"}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var file bytes.Buffer
		log, err := sample.NewWriter(&file, sample.Header{Experiment: "x"})
		if err != nil {
			t.Fatal(err)
		}
		order := 7
		m := &merger{out: nowhere{}, trial: log.Trial, label: "uml-6", order: &order,
			look:  func() (limit.Host, error) { return limit.Host{}, nil },
			watch: func(bench.Event) {}, fail: func(error) {}}
		if _, err := m.Write(text); err == nil {
			err = m.lost(errors.New("the guest died"))
			if err != nil {
				t.Fatal(err)
			}
		}
		r, _, _, err := sample.Read("samples.jsonl", &file)
		if err != nil {
			t.Fatal(err)
		}
		for i, tr := range r.Trials {
			if tr.Order != 8+i {
				t.Errorf("trial %d has the order %d", i, tr.Order)
			}
		}
	})
}
