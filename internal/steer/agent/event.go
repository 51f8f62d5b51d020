package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
)

// Event is one thing that an agent did or saw, for people and for analysis.
type Event struct {
	ID   int       `json:"id"`
	At   time.Time `json:"at"`
	Host string    `json:"host"`
	// Kind: a decide.Kind, or one of the words below.
	Kind string `json:"kind"`
	Pair string `json:"pair,omitempty"`
	// Class of the flows that it is about, "" for all of the pair's.
	Class string `json:"class,omitempty"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	// Reason is one sentence with figures.
	Reason string `json:"reason"`
	// By: "policy", "user", "peer" or "cluster".
	By string `json:"by,omitempty"`
	// DryRun: decided, not done.
	DryRun bool `json:"dry_run,omitempty"`
	// Took is the time of the map writes, and Detected that from the first packet
	// without answer to the decision, in nanoseconds.
	Took     time.Duration `json:"took_ns,omitempty"`
	Detected time.Duration `json:"detected_ns,omitempty"`
	// PredictedGain and ExpectedLoss as decided.
	PredictedGain float64 `json:"predicted_gain,omitempty"`
	ExpectedLoss  float64 `json:"expected_loss_s,omitempty"`
	// Of is the event whose outcome this is, Gain what it brought: the goodput (or
	// the round trip time) over the second after against the second before.
	Of       int                  `json:"of,omitempty"`
	Gain     *float64             `json:"gain,omitempty"`
	Evidence *decide.PairEvidence `json:"evidence,omitempty"`
}

// Kinds of events besides those of decisions.
const (
	EventStarted = "started"
	EventAdopted = "adopted"
	EventOutcome = "outcome"
	EventPeer    = "peer"
	EventSuspect = "suspect"
	EventCleared = "cleared"
	EventPinned  = "pinned"
	// EventPod: an interface or the sandbox of a pod has come back.
	EventPod = "pod"
	// EventConflict: pods that a description gives one address are not steered.
	EventConflict = "conflict"
	// EventWaiting: the agent's own pod is not there yet, or not whole.
	EventWaiting = "waiting"
	// EventElsewhere: new flows begin on other networks, as the default one fails, or no more.
	EventElsewhere = "elsewhere"
	EventWarning   = "warning"
	EventKey       = "key"
)

// Who moves flows, in Event.By.
const byPolicy, byUser, byPeer, byCluster = "policy", "user", "peer", "cluster"

// keep is how many events an agent holds in memory.
const keep = 2000

// journal keeps events, writes them down and wakes who follows.
type journal struct {
	cfg Config

	writing sync.Mutex // of written, the number of the latest event that is written down
	written int

	mu     sync.Mutex // of what follows
	events []Event
	next   int
	wake   chan struct{}
	warned map[string]time.Time // when a fault was last told
}

func newJournal(cfg Config) *journal {
	return &journal{cfg: cfg, next: 1, wake: make(chan struct{}), warned: map[string]time.Time{}}
}

// note dates, numbers and keeps the event, and returns it.
func (j *journal) note(e Event) Event {
	e.At, e.Host = j.cfg.Now(), j.cfg.Host
	j.mu.Lock()
	defer j.mu.Unlock()
	e.ID = j.next
	j.next++
	if len(j.events) >= keep {
		j.events = append(j.events[:0], j.events[keep/4:]...)
	}
	j.events = append(j.events, e)
	close(j.wake)
	j.wake = make(chan struct{})
	return e
}

// warn tells a fault that does not stop the agent, once a minute: what is tried
// twice a second must not drive other events out of the journal.
func (j *journal) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	j.warnOf(text, "%s", text)
}

// fault warns of what has happened to who, if it is an error.
func (j *journal) fault(who string, err error) {
	if err != nil {
		j.warn("%s: %v", who, err)
	}
}

// warnOf is warn for a fault whose figures change: about tells it from others.
func (j *journal) warnOf(about, format string, args ...any) {
	if j.isNews(about) {
		j.note(Event{Kind: EventWarning, Reason: fmt.Sprintf(format, args...)})
	}
}

// isNews reports whether a fault was not told in the last minute.
func (j *journal) isNews(about string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.cfg.Now()
	maps.DeleteFunc(j.warned, func(_ string, at time.Time) bool { return now.Sub(at) >= time.Minute })
	_, known := j.warned[about]
	if !known {
		j.warned[about] = now
	}
	return !known
}

// writeAll writes events down until ctx ends, apart from who notes them: a disk may be slow.
func (j *journal) writeAll(ctx context.Context) error {
	for {
		select {
		case <-j.write():
		case <-ctx.Done():
			return nil
		}
	}
}

// write writes down the events that are not yet, and returns a channel that closes when
// there are more.
func (j *journal) write() <-chan struct{} {
	j.writing.Lock()
	defer j.writing.Unlock()
	events, more := j.since(j.written)
	for _, e := range events {
		j.written = e.ID
		level := slog.LevelInfo
		if e.Kind == EventWarning {
			level = slog.LevelWarn
		}
		j.cfg.Log.Log(context.Background(), level, e.Reason, "event", e.Kind, "pair", e.Pair, "from", e.From, "to", e.To)
		if j.cfg.Events != nil {
			// A full disk must not stop the agent; the event stays in memory.
			_ = encoder(j.cfg.Events).Encode(e)
		}
	}
	return more
}

// encoder writes names of pairs as they are, p1>p2, so that grep finds them.
func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// since returns the events after number id, and a channel that closes when
// there are more.
func (j *journal) since(id int) ([]Event, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, e := range j.events {
		if e.ID > id {
			return append([]Event(nil), j.events[i:]...), j.wake
		}
	}
	return nil, j.wake
}
