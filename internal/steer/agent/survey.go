package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/telemetry"
)

// survey is what the loop wants of telemetry and has from it. Reading walks the
// sockets of all connections, and so does to limit them to other peers: that is done
// apart from the loop, which only asks.
type survey struct {
	*journal
	passive *telemetry.Collector // nil where connections are not observed
	bell    bell

	// Of the loop: read is when connections were last read of, and connected when there
	// were some; awaited since when the reading is that evidence waits for, zero if it does
	// not.
	read, connected, awaited time.Time

	mu sync.Mutex // of what follows
	// wanted: a reading is asked for; came: there is one.
	wanted, came bool
	latest       telemetry.Reading
	// limited are the peers that telemetry is to be limited to, and peers the same until
	// that was done.
	limited, peers []netip.Addr
	gone           []uint64 // namespaces to be watched no more
	// faults are what telemetry could not tell.
	faults telemetry.Faults
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

func newSurvey(j *journal) *survey { return &survey{journal: j, bell: newBell()} }

// do changes what is wanted and wakes run.
func (s *survey) do(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.bell.ring()
}

// limit has telemetry observe connections with these peers alone: the latest call
// counts. Others would pay for what nobody asks.
func (s *survey) limit(peers []netip.Addr) {
	s.mu.Lock()
	same := len(peers) == 0 || slices.Equal(peers, s.limited)
	s.mu.Unlock()
	if !same {
		s.do(func() { s.limited, s.peers = peers, peers })
	}
}

// unwatch has telemetry forget a namespace.
func (s *survey) unwatch(cookie uint64) { s.do(func() { s.gone = append(s.gone, cookie) }) }

// pending reports whether a reading is on its way, and waits whether there is one.
func (s *survey) pending() (pending, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted, s.came
}

// reading takes the latest one, if there is one that was not taken.
func (s *survey) reading(now time.Time) (telemetry.Reading, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.latest, s.came
	s.latest, s.came = telemetry.Reading{}, false
	if ok {
		s.read = now
	}
	if len(r.Flows) > 0 {
		s.connected = now
	}
	return r, ok
}

// unobserved is what telemetry could not tell.
func (s *survey) unobserved() telemetry.Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// patient is how long evidence waits for a reading of connections: of many
// thousands one takes tens of milliseconds.
const patient = epoch / 2

// informed reports whether evidence can be gathered: what is read of connections
// belongs to the same time as what is counted. A reading walks the kernel's whole
// table: where nothing was in it for a while, it is looked into less often.
func (s *survey) informed(now time.Time) bool {
	if s.passive == nil {
		return true
	}
	pending, waits := s.pending()
	switch {
	case waits, !s.awaited.IsZero() && now.Sub(s.awaited) >= patient:
		s.awaited = time.Time{}
		return true
	case !s.awaited.IsZero():
		return false
	case pending, now.Sub(s.connected) >= quiet && now.Sub(s.read) < 5*epoch:
		return true // the one that was too late is still on its way; or none is needed
	}
	s.awaited = now
	s.do(func() { s.wanted = true })
	return false
}

// faultsEvery is how often it is asked what telemetry could not tell.
const faultsEvery = time.Second

// run does what is asked for, until ctx ends. netnsOf is the namespace of a pod by its
// cookie, "" if none has it.
func (s *survey) run(ctx context.Context, netnsOf func(uint64) string) error {
	s.checkFaults(false) // those of a predecessor's time were its to tell
	checked := s.cfg.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.bell:
		}
		s.mu.Lock()
		wanted, peers, gone := s.wanted, s.peers, s.gone
		s.peers, s.gone = nil, nil
		s.mu.Unlock()
		if wanted {
			s.readConnections()
		}
		for _, cookie := range gone {
			s.unwatchNow(cookie, netnsOf)
		}
		if peers != nil {
			s.setPeers(peers)
		}
		if now := s.cfg.Now(); now.Sub(checked) >= faultsEvery {
			checked = now
			s.checkFaults(true)
		}
	}
}

// unwatchNow forgets a namespace, unless a pod of another name has it by now.
func (s *survey) unwatchNow(cookie uint64, netnsOf func(uint64) string) {
	if netnsOf(cookie) != "" {
		return
	}
	_ = s.passive.Unwatch(cookie) // it may be gone already
	if name := netnsOf(cookie); name != "" {
		if _, err := s.passive.Watch(name); err != nil {
			s.warn("watch connections: %v", err)
		}
	}
}

// readConnections reads, and tells the loop.
func (s *survey) readConnections() {
	r, err := s.passive.Read()
	if err != nil {
		s.warn("read telemetry: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = false
	if err == nil {
		s.latest, s.came = r, true
	}
}

// setPeers limits telemetry. What failed is tried again when the loop next looks.
func (s *survey) setPeers(peers []netip.Addr) {
	err := s.passive.SetPeers(peers)
	switch {
	case errors.Is(err, telemetry.ErrTooManyPeers):
		s.warn("connections with some peers are not observed, as there are too many: their failures are found by probes alone")
	case err != nil:
		s.warn("%v", err)
		s.mu.Lock()
		s.limited = nil
		s.mu.Unlock()
	}
}

// checkFaults counts what telemetry could not tell, and tells that there is more of it.
func (s *survey) checkFaults(tell bool) {
	f, err := s.passive.Faults()
	if err != nil {
		s.warn("%v", err)
		return
	}
	s.mu.Lock()
	was := s.faults
	s.faults = f
	s.mu.Unlock()
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
			s.warn("%s", w.text)
		}
	}
}

// readings are what telemetry tells of pairs' connections.
type readings struct {
	members *members
	survey  *survey
	ledger  *telemetry.Ledger
	changes int // of the members, that telemetry is limited to
}

// take takes what was read of what the kernel counted about TCP connections.
func (rd *readings) take(now time.Time) {
	for p := range rd.members.pairs() {
		for i := range p.lines {
			p.lines[i].retrans, p.lines[i].rtos, p.lines[i].unacked = 0, 0, 0
			for row := range p.lines[i].rows {
				p.lines[i].rows[row].rtos, p.lines[i].rows[row].retrans = 0, 0
			}
		}
	}
	r, ok := rd.survey.reading(now)
	if !ok {
		return
	}
	by := map[telemetry.Pair]*pair{}
	for p := range rd.members.pairs() {
		by[p.telemetryPair()] = p
		for i := range p.lines {
			for row := range p.lines[i].rows {
				p.lines[i].rows[row] = rowReading{reportedAt: p.lines[i].rows[row].reportedAt,
					srtt: p.lines[i].rows[row].srtt}
			}
		}
	}
	rd.place(r, by)
	for _, acc := range rd.ledger.Fold(r) {
		p := by[acc.Pair]
		if p == nil {
			continue
		}
		for i, on := range p.routes {
			if uint8(on.Index) == acc.Path && acc.SegmentsOut+acc.RTT.Count > 0 {
				p.lines[i].take(acc, r.To-r.From, now)
			}
		}
	}
}

// place has the ledger know where the buckets are that a reading is of: the peer moves its own by itself, and an agent
// that has just begun finds them where its predecessor left them. That was at some time since the reading before.
func (rd *readings) place(r telemetry.Reading, by map[telemetry.Pair]*pair) {
	var (
		last          *pair
		own, followed [dataplane.Buckets]dataplane.Choice
	)
	for _, f := range r.Flows {
		p := by[f.Pair()]
		if p == nil {
			continue
		}
		if p != last {
			var err error
			if own, followed, err = p.flows(); err != nil {
				continue // the peer has just gone
			}
			last = p
		}
		choice := own[f.Bucket%dataplane.Buckets]
		if f.Theirs {
			choice = followed[f.Bucket%dataplane.Buckets]
		}
		rd.ledger.Moved(f.Key, uint8(choice.Path), r.From)
	}
}

// observe limits telemetry to connections with peers.
func (rd *readings) observe() {
	if rd.survey.passive == nil || rd.changes == rd.members.changes {
		return
	}
	rd.changes = rd.members.changes
	var peers []netip.Addr
	for p := range rd.members.pairs() {
		peers = append(peers, p.telemetryPair().Remote)
	}
	slices.SortFunc(peers, netip.Addr.Compare)
	peers = slices.Compact(peers)
	rd.survey.limit(peers)
}
