package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestJournal(t *testing.T) {
	var out bytes.Buffer
	j := newJournal(Config{Events: &out}.clocked())
	if e := j.last(); e.ID != 0 {
		t.Errorf("the last of none: %+v", e)
	}
	evs, more := j.since(0)
	if len(evs) != 0 {
		t.Errorf("got %v, want none", evs)
	}
	if e := j.note(Event{Kind: EventStarted, Reason: "one"}); e.ID != 1 {
		t.Errorf("the first event has number %d", e.ID)
	}
	select {
	case <-more:
	default:
		t.Error("who waited was not woken")
	}
	j.note(Event{Kind: EventPeer, Reason: "two"})
	if evs, _ := j.since(1); len(evs) != 1 || evs[0].Reason != "two" || evs[0].ID != 2 {
		t.Errorf("since 1: %+v", evs)
	}
	evs, more = j.since(2)
	select {
	case <-more:
		t.Error("woken without news")
	default:
	}
	if len(evs) != 0 || j.last().Reason != "two" {
		t.Errorf("since 2: %+v; last: %+v", evs, j.last())
	}
	j.write()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines written, want 2: %s", len(lines), out.String())
	}
	var e Event
	if err := json.Unmarshal([]byte(lines[1]), &e); err != nil || e.ID != 2 || e.Kind != EventPeer {
		t.Errorf("%s: %+v, %v", lines[1], e, err)
	}
}

// TestJournalIsBounded: old events go, numbers go on, and who asks for what is
// gone gets what is left.
func TestJournalIsBounded(t *testing.T) {
	j := newJournal(Config{}.clocked())
	for range 3*keep + 7 {
		j.note(Event{})
	}
	evs, _ := j.since(0)
	if len(evs) > keep || len(evs) < keep/2 {
		t.Errorf("%d events kept, want at most %d and most of them", len(evs), keep)
	}
	for i := 1; i < len(evs); i++ {
		if evs[i].ID != evs[i-1].ID+1 {
			t.Fatalf("number %d follows %d", evs[i].ID, evs[i-1].ID)
		}
	}
	if j.last().ID != 3*keep+7 {
		t.Errorf("the last has number %d", j.last().ID)
	}
	// What was given out is the caller's.
	evs[0].Reason = "changed"
	if again, _ := j.since(0); again[0].Reason != "" {
		t.Error("a caller has changed the journal")
	}
}

// full fails every write.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestJournalOnAFullDisk(t *testing.T) {
	j := newJournal(Config{Events: full{}}.clocked())
	j.note(Event{Reason: "kept"})
	if j.write(); j.last().Reason != "kept" {
		t.Error("the event is lost")
	}
}

func TestJournalFromManySides(t *testing.T) {
	j := newJournal(Config{}.clocked())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				j.note(Event{})
			}
		})
	}
	seen := 0
	for seen < 400 {
		evs, more := j.since(seen)
		if len(evs) == 0 {
			<-more
			continue
		}
		seen = evs[len(evs)-1].ID
	}
	wg.Wait()
}
