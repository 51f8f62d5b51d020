package agent

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// survey is what the loop wants of telemetry and has from it. Reading walks the
// sockets of all connections, and so does to limit them to other peers: that is done
// apart from the loop, which only asks.
type survey struct {
	state *surveyState
	bell  bell
}

// bell wakes a goroutine that has work to do: once, however often it is rung meanwhile.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // it has rung
	}
}

type surveyState struct {
	mu sync.Mutex
	// wanted: a reading is asked for; came: there is one.
	wanted, came bool
	latest       telemetry.Reading
	peers        []netip.Addr // to be set, nil if none
	gone         []uint64     // namespaces to be watched no more
}

func newSurvey() survey { return survey{state: &surveyState{}, bell: newBell()} }

// do changes the state and wakes surveyAll.
func (s survey) do(change func(*surveyState)) {
	s.state.mu.Lock()
	change(s.state)
	s.state.mu.Unlock()
	s.bell.ring()
}

// limit has telemetry observe connections with these peers alone: the latest call
// counts.
func (s survey) limit(peers []netip.Addr) { s.do(func(st *surveyState) { st.peers = peers }) }

// unwatch has telemetry forget a namespace.
func (s survey) unwatch(cookie uint64) {
	s.do(func(st *surveyState) { st.gone = append(st.gone, cookie) })
}

// ask asks for a reading.
func (s survey) ask() { s.do(func(st *surveyState) { st.wanted = true }) }

// asked reports whether a reading is on its way, and waits whether there is one.
func (s survey) asked() (asked, waits bool) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return s.state.wanted, s.state.came
}

// reading takes the latest one, if there is one that was not taken.
func (s survey) reading() (telemetry.Reading, bool) {
	st := s.state
	st.mu.Lock()
	defer st.mu.Unlock()
	r, ok := st.latest, st.came
	st.latest, st.came = telemetry.Reading{}, false
	return r, ok
}

// patient is how long evidence waits for a reading of connections: of many
// thousands one takes tens of milliseconds.
const patient = epoch / 2

// informed reports whether evidence can be gathered: what is read of connections
// belongs to the same time as what is counted. A reading walks the kernel's whole
// table: where nothing was in it for a while, it is looked into less often.
func (a *Agent) informed(now time.Time) bool {
	if a.passive == nil {
		return true
	}
	asked, waits := a.survey.asked()
	switch {
	case waits, !a.awaited.IsZero() && now.Sub(a.awaited) >= patient:
		a.awaited = time.Time{}
		return true
	case !a.awaited.IsZero():
		return false
	case asked, now.Sub(a.connected) >= quiet && now.Sub(a.read) < 5*epoch:
		return true // the one that was too late is still on its way; or none is needed
	}
	a.awaited = now
	a.survey.ask()
	return false
}

// faultsEvery is how often it is asked what telemetry could not tell.
const faultsEvery = time.Second

// surveyAll does what is asked for, until ctx ends.
func (a *Agent) surveyAll(ctx context.Context) error {
	a.checkFaults(false) // those of a predecessor's time were its to tell
	checked := a.cfg.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.survey.bell:
		}
		st := a.survey.state
		st.mu.Lock()
		wanted, peers, gone := st.wanted, st.peers, st.gone
		st.peers, st.gone = nil, nil
		st.mu.Unlock()
		if wanted {
			a.readConnections()
		}
		for _, cookie := range gone {
			a.unwatch(cookie)
		}
		if peers != nil {
			a.setPeers(peers)
		}
		if now := a.cfg.Now(); now.Sub(checked) >= faultsEvery {
			checked = now
			a.checkFaults(true)
		}
	}
}

// unwatch forgets a namespace, unless a pod of another name has it by now.
func (a *Agent) unwatch(cookie uint64) {
	if a.netnsOf(cookie) != "" {
		return
	}
	_ = a.passive.Unwatch(cookie) // it may be gone already
	if name := a.netnsOf(cookie); name != "" {
		if _, err := a.passive.Watch(name); err != nil {
			a.warn("watch connections: %v", err)
		}
	}
}

// netnsOf is the namespace of a pod, "" if none has that cookie.
func (a *Agent) netnsOf(cookie uint64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.pods {
		if l.cookie == cookie {
			return l.Netns
		}
	}
	return ""
}

// readConnections reads, and tells the loop.
func (a *Agent) readConnections() {
	r, err := a.passive.Read()
	if err != nil {
		a.warn("read telemetry: %v", err)
	}
	st := a.survey.state
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wanted = false
	if err == nil {
		st.latest, st.came = r, true
	}
}

// setPeers limits telemetry. What failed is tried again when the loop next looks.
func (a *Agent) setPeers(peers []netip.Addr) {
	err := a.passive.SetPeers(peers)
	switch {
	case errors.Is(err, telemetry.ErrTooManyPeers):
		a.warn("connections with some peers are not observed, as there are too many: their failures are found by probes alone")
	case err != nil:
		a.warn("%v", err)
		a.mu.Lock()
		a.observed = nil
		a.mu.Unlock()
	}
}

// checkFaults counts what telemetry could not tell, and tells that there is more of it.
func (a *Agent) checkFaults(tell bool) {
	f, err := a.passive.Faults()
	if err != nil {
		a.warn("%v", err)
		return
	}
	a.mu.Lock()
	was := a.stats.unobserved
	a.stats.unobserved = f
	a.mu.Unlock()
	for _, w := range []struct {
		grown bool
		text  string
	}{
		{f.Events > was.Events, "more connections timed out at once than could be told: some are not woken when their path changes"},
		{f.Sockets > was.Sockets, "the kernel has no memory to observe some connections"},
		{f.Flows+f.Evicted > was.Flows+was.Evicted, "more flows than telemetry has room for: what was known of the quietest is forgotten"},
		{f.Refused > was.Refused, "this kernel does not let connections be observed that are older than the agent"},
	} {
		if w.grown && tell {
			a.warn("%s", w.text)
		}
	}
}
