package result_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/measure/result"
)

func TestProfiles(t *testing.T) {
	dir, run := create(t)
	if got, err := result.Profiles(dir); err != nil || len(got) != 0 || result.Explained(dir) {
		t.Fatalf("nobody looked: %+v, %v", got, err)
	}
	// A profile of uperf's in the same directory is none of these.
	theirs := filepath.Join(dir, result.ProfilesDir, "web.json")
	if err := os.MkdirAll(filepath.Dir(theirs), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(theirs, []byte("<profile/>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := result.Profiles(dir); err != nil || len(got) != 0 || result.Explained(dir) {
		t.Fatalf("taken for what --explain wrote: %+v, %v", got, err)
	}
	want := []explain.Profile{
		{Record: explain.Record{Cell: trial(1).Cell, Order: 1, Frequency: 997, Window: 2, Bytes: 5},
			Stacks: []explain.Stack{{Context: explain.SoftIRQ, Place: explain.Server, Process: "p", Frames: []string{"f", "g"},
				Count: 7}}},
		{Record: explain.Record{Cell: trial(2).Cell, Order: 2, Missing: "no perf events"}},
	}
	for _, p := range want {
		if err := run.Profile(p); err != nil {
			t.Fatal(err)
		}
	}
	got, err := result.Profiles(dir)
	if err != nil || !reflect.DeepEqual(got, want) || !result.Explained(dir) {
		t.Errorf("got %+v, %v", got, err)
	}
	path := filepath.Join(dir, result.ProfilesDir, "0001.folded.gz")
	if err := os.WriteFile(path, []byte("cpu0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Profiles(dir); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("damaged stacks: %v", err)
	}
	record := filepath.Join(dir, result.ProfilesDir, "0002.json")
	if err := os.WriteFile(record, []byte("{\n\"order\": x}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Profiles(dir); err == nil || !strings.HasPrefix(err.Error(), record+":2:") {
		t.Errorf("damaged record: %v", err)
	}
}
