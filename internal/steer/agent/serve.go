package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/stamp"
)

// PathStatus is one path of a pair that has traffic, as an agent sees it.
type PathStatus struct {
	Host string `json:"host"`
	// Pair is LOCAL>REMOTE: the flows that the local pod has opened.
	Pair string `json:"pair"`
	// Class of the pair's flows that this is about, where bulk has a path of its own: then
	// buckets are of the 32 of its row.
	Class   string `json:"class,omitempty"`
	Network string `json:"network"`
	State   string `json:"state"`
	// RTT and Jitter by probes, in seconds; Loss as a ratio.
	RTT    float64 `json:"rtt_s"`
	Jitter float64 `json:"jitter_s"`
	Loss   float64 `json:"loss"`
	// Goodput both ways in bit/s; Retrans as a ratio; SRTT in seconds.
	Goodput float64 `json:"goodput"`
	Retrans float64 `json:"retrans"`
	SRTT    float64 `json:"srtt_s"`
	// CPU in CPU-seconds per GB; 0 unknown.
	CPU   float64 `json:"cpu,omitempty"`
	Score float64 `json:"score"`
	// Buckets of the pair's 64 that are on the path.
	Buckets int  `json:"buckets"`
	Active  bool `json:"active"`
	Pinned  bool `json:"pinned,omitempty"`
	// Pending: the pair is pinned to the path, and is to move there once it is up.
	Pending bool `json:"pending,omitempty"`
	// Encapsulated: packets go in UDP there.
	Encapsulated bool `json:"encapsulated,omitempty"`
	// Policy names what says need, pin or dry run of the local pod's flows.
	Policy string `json:"policy,omitempty"`
	Why    string `json:"why"`
}

// server tells who asks how the agent and its paths fare.
type server struct {
	*journal
	overrides *overrides
	members   *members
	judge     *judge
	wires     *wires
	survey    *survey
	waker     *waker
	untracked *untracked
	begun     readiness
	waiting   string // for what of its own pod the agent waits; "": for nothing. The lock guards it
	start     time.Time
	stats     *counters
}

// Paths returns the paths of all pairs that have traffic, or have a pin.
func (sv *server) Paths() []PathStatus {
	sv.members.Lock()
	defer sv.members.Unlock()
	now := sv.cfg.Now()
	out := []PathStatus{}
	for p := range sv.members.pairs() {
		if now.Sub(p.active) >= 10*quiet && p.pinned == "" {
			continue
		}
		all := []decide.PairEvidence{sv.judge.evidence(p, now)}
		if p.rows.Apart {
			of := p.ofRows(all[0], now)
			all = of[:]
		}
		for _, ev := range all {
			for _, e := range ev.Paths {
				out = append(out, sv.judge.status(p, ev, e))
			}
		}
	}
	slices.SortStableFunc(out, func(x, y PathStatus) int { return cmp.Compare(x.Pair, y.Pair) })
	return out
}

// Serve answers on a Unix socket until ctx ends: GET /paths, /events?since=N&wait=1,
// /health, /maps; POST /order. Who has connected as another user than root and the agent's
// own is refused, whatever the socket's permissions.
func (sv *server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: guarded(sv.begun.before(sv.handler())), ConnContext: identify,
		ReadHeaderTimeout: 5 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve control socket: %w", err)
	}
	return nil
}

// readiness is said once, when the agent has taken up what there is, or waits for its own
// pod. Before, it would tell who asks that it steers nothing, while flows go on as its
// predecessor had them.
type readiness struct {
	said chan struct{}
	say  func()
}

func newReadiness() readiness {
	said := make(chan struct{})
	return readiness{said, sync.OnceFunc(func() { close(said) })}
}

// before has requests wait for it.
func (r readiness) before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-r.said:
			h.ServeHTTP(w, req)
		case <-req.Context().Done():
		}
	})
}

// handler answers the requests of Serve.
func (sv *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /paths", func(w http.ResponseWriter, _ *http.Request) { reply(w, sv.Paths()) })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { reply(w, sv.Health()) })
	mux.HandleFunc("GET /maps", func(w http.ResponseWriter, _ *http.Request) { reply(w, sv.Maps()) })
	mux.HandleFunc("GET /events", sv.serveEvents)
	mux.HandleFunc("POST /order", func(w http.ResponseWriter, r *http.Request) {
		o, err := readOrder(http.MaxBytesReader(w, r.Body, mostOrder))
		if err != nil {
			http.Error(w, fmt.Sprintf("decode order: %v", err), http.StatusBadRequest)
			return
		}
		e, err := sv.overrides.Order(o)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		reply(w, e)
	})
	return mux
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

// serveEvents sends the events after a number; with wait, once there are some.
func (sv *server) serveEvents(w http.ResponseWriter, r *http.Request) {
	since := 0
	if s := r.URL.Query().Get("since"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			http.Error(w, fmt.Sprintf("since=%q: expected a number", s), http.StatusBadRequest)
			return
		}
		since = n
	}
	events, more := sv.journal.since(since)
	if len(events) == 0 && r.URL.Query().Get("wait") != "" {
		select {
		case <-more:
			events, _ = sv.journal.since(since)
		case <-r.Context().Done():
		case <-time.After(20 * time.Second):
		}
	}
	reply(w, append([]Event{}, events...))
}

// Health is how an agent itself fares.
type Health struct {
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Policy  string    `json:"policy"`
	DryRun  bool      `json:"dry_run"`
	Pods    int       `json:"pods"`
	Pairs   int       `json:"pairs"`
	Stalls  uint64    `json:"stalls"`
	// Waiting says for what the agent waits, before it can steer; "": for nothing.
	Waiting string `json:"waiting,omitempty"`
	// Senders and Reflectors count probes by network, refused ones by reason.
	Senders    map[string]stamp.SenderCounters    `json:"senders"`
	Reflectors map[string]stamp.ReflectorCounters `json:"reflectors"`
}

// Health returns it.
func (sv *server) Health() Health {
	sv.members.Lock()
	h := Health{Host: sv.cfg.Host, Started: sv.start, Policy: sv.cfg.Policy.Name(), DryRun: sv.cfg.DryRun,
		Pods: len(sv.members.pods), Stalls: sv.stats.stalls, Waiting: sv.waiting, Senders: map[string]stamp.SenderCounters{},
		Reflectors: map[string]stamp.ReflectorCounters{}}
	for _, p := range sv.members.pods {
		h.Pairs += len(p.pairs)
	}
	links := maps.Clone(sv.wires.links)
	sv.members.Unlock()
	for name, w := range links {
		h.Senders[name], h.Reflectors[name] = w.sender.Counters(), w.reflector.Counters()
	}
	return h
}
