package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/route"
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
	Encapsulated bool   `json:"encapsulated,omitempty"`
	Why          string `json:"why"`
}

// Order is a manual override.
type Order struct {
	// Local and Remote are names of pods; Network that of a path.
	Local  string `json:"local"`
	Remote string `json:"remote"`
	// Network to switch or pin to; "" unpins.
	Network string `json:"network"`
	// Pin keeps the policy from moving the pair away; failures excepted. To a path that
	// is not up the pair moves once it is.
	Pin bool `json:"pin"`
	// Force also moves to a path that the agent holds for unfit.
	Force bool `json:"force"`
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

// mostOrder bounds an order, in bytes.
const mostOrder = 1 << 16

// readOrder wants one order and nothing but its keys: one that is misspelt would be
// left out, and an order without a network unpins.
func readOrder(r io.Reader) (Order, error) {
	var o Order
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return Order{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Order{}, errors.New("something follows the order")
	}
	return o, nil
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

var (
	errNoPair, errRefused = errors.New("no such pair on this host"), errors.New("refused")
	errStayed             = errors.New("some are elsewhere: see \"pathwise events\"")
)

// overrides do what users say of pairs.
type overrides struct {
	*journal
	members *members
	judge   *judge
	mover   *mover
	entries *entries
	stacks  *stacks
}

// Order moves or pins a pair by hand. The flows of the local pod move; those that
// the remote one has opened are its own agent's to move.
func (od *overrides) Order(o Order) (Event, error) {
	od.members.Lock()
	defer od.members.Unlock()
	p, entered := od.entries.named(o.Local, o.Remote)
	if p == nil {
		return Event{}, fmt.Errorf("%s>%s: %w: it takes a pod of %s and one of another host, both on several networks",
			o.Local, o.Remote, errNoPair, od.cfg.Host)
	}
	e, err := od.order(p, o)
	if err != nil && entered {
		_, failed := od.entries.part(p)
		err = errors.Join(err, failed) // a refusal changes nothing
	}
	return e, err
}

// order is Order for a pair that is entered. What it refuses leaves the pair as it was.
func (od *overrides) order(p *pair, o Order) (Event, error) {
	if o.Network == "" {
		if o.Pin || o.Force {
			return Event{}, fmt.Errorf("%w: %s: expected a network to move it to", errRefused, p.name)
		}
		was := p.pinned
		if was == "" {
			return od.unchanged(p, p.on().Network, "it is not pinned: the policy decides"), nil
		}
		p.pinned = ""
		return od.note(Event{Kind: EventPinned, Pair: p.name, From: was, By: byUser,
			Reason: "unpinned: the policy decides again"}), nil
	}
	to, ev, err := od.admit(p, o)
	if unfit := (unfitError{}); o.Pin && errors.As(err, &unfit) {
		p.pinned = o.Network
		return od.note(Event{Kind: EventPinned, Pair: p.name, From: p.on().Network, To: o.Network, By: byUser,
			Reason: fmt.Sprintf("pinned, pending: %s is %s (%s): it moves there once that is up", o.Network, unfit.state,
				unfit.why)}), nil
	}
	if err != nil {
		return Event{}, err
	}
	before := od.journal.last()
	if err := od.obey(p, to, ev); err != nil {
		return Event{}, err
	}
	if o.Pin {
		p.pinned = o.Network
		return od.note(Event{Kind: EventPinned, Pair: p.name, To: o.Network, By: byUser,
			Reason: "pinned: only failure moves it"}), nil
	}
	if e := od.journal.last(); e.ID != before.ID {
		return e, nil
	}
	return od.unchanged(p, to.Network, "it is there already"), nil
}

// unchanged is the answer to an order that changes nothing, which is no event.
func (od *overrides) unchanged(p *pair, network, why string) Event {
	return Event{At: od.cfg.Now(), Host: od.cfg.Host, Kind: string(decide.Stay), Pair: p.name, From: network, To: network,
		By: byUser, Reason: why}
}

// admit finds the path that an order names, and whether it may be carried out. It
// changes nothing.
func (od *overrides) admit(p *pair, o Order) (route.Route, decide.PairEvidence, error) {
	to, ok := p.routes.byNetwork(o.Network)
	if !ok {
		var have []string
		for _, r := range p.routes {
			have = append(have, r.Network)
		}
		return to, decide.PairEvidence{}, fmt.Errorf("%s has no path on %q: expected one of %v", p.name, o.Network, have)
	}
	if od.cfg.DryRun {
		return to, decide.PairEvidence{}, fmt.Errorf("%w: this agent runs with --dry-run", errRefused)
	}
	ev := od.judge.evidence(p, od.cfg.Now())
	if e := ev.Paths[slices.IndexFunc(ev.Paths,
		func(e decide.PathEvidence) bool { return e.Network == o.Network })]; e.State != decide.Up && !o.Force {
		return to, ev, unfitError{o.Network, e.State, e.Reason}
	}
	return to, ev, nil
}

// unfitError refuses a move to a path that is not up. A pin to it is kept until it is.
type unfitError struct {
	network string
	state   decide.Condition
	why     string
}

func (e unfitError) Error() string {
	return fmt.Sprintf("%v: %s is %s (%s): \"pathwise pin\" moves there once it is up, --force does all the same", errRefused,
		e.network, e.state, e.why)
}

// Unwrap makes it a refusal.
func (e unfitError) Unwrap() error { return errRefused }

// obey moves the pair's flows as the user says, or leaves them where they were.
func (od *overrides) obey(p *pair, to route.Route, ev decide.PairEvidence) error {
	if od.stacks.preparing(p, together(decide.Assignment{Active: to.Network})) {
		od.members.Unlock()
		od.stacks.fitter.Do(p) // here, as the user waits
		od.members.Lock()
		if !od.members.knows(p) {
			return fmt.Errorf("%s: %w", p.name, errNoPair)
		}
	}
	assigned, rows := p.assignments(), p.rows
	p.endTrials()
	od.mover.carryOut(p, decide.Decision{Kind: decide.Switch, From: p.on().Network, To: to.Network,
		Buckets: decide.Buckets, Confidence: 1, Reason: "the user said so", Evidence: ev}, byUser, 0)
	choices, err := p.local.plane.Choices(p.remote.UID)
	if err == nil && !slices.ContainsFunc(choices[:], func(c dataplane.Choice) bool { return c.Path != to.Index }) {
		return nil
	}
	p.setAssignments(assigned)
	p.rows, p.outcome = rows, nil
	_, _, back := od.mover.place(p)
	if err = errors.Join(err, back); err == nil {
		err = errStayed
	}
	return fmt.Errorf("%w: the flows of %s did not move to %s: %w", errRefused, p.name, to.Network, err)
}
