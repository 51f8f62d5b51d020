package decide

import (
	"math"
	"slices"
	"time"
)

// window is the number of samples in a median: at an evidence period of 100 ms
// half a second, so that a stall of one or two samples does not move it.
const window = 5

// ring holds the last few samples.
type ring struct {
	V [window]float64 `json:"v"`
	N int             `json:"n"`
}

func (r *ring) add(v float64) { r.V[r.N%window] = v; r.N++ }

// median of what the ring holds; ok is false with fewer than least.
func (r ring) median(least int) (float64, bool) {
	n := min(r.N, window)
	if n == 0 || n < least {
		return 0, false
	}
	v := r.V
	slices.Sort(v[:n])
	return (v[(n-1)/2] + v[n/2]) / 2, true
}

// State is what a policy remembers of a pair. The zero value is the beginning.
// It is a value: policies copy it before they change it.
type State struct {
	Started bool `json:"started"`
	// Active path and since when; LastMove is the kind of the last decision to move.
	Active   string        `json:"active"`
	Since    time.Duration `json:"since_ns"`
	LastMove Kind          `json:"last_move,omitempty"`
	Load     Load          `json:"load"`
	// FailedOverFrom is the path that failed, where the pair came to the active one for that and not
	// for gain.
	FailedOverFrom string `json:"fled,omitempty"`
	// Before is the time of an operation on the active path before it was that.
	Before float64 `json:"before"`
	// Misled: soon after the pair had come to the active path, an operation took longer there
	// than before.
	Misled bool     `json:"misled,omitempty"`
	Paths  []Memory `json:"paths,omitempty"`
	// LeadNeed is the need that the leads of paths are about.
	LeadNeed Need  `json:"lead_need,omitempty"`
	Track    Track `json:"track"`
	Trial    Trial `json:"trial"`
	// Shown is what a canary showed of the active path.
	Shown Shown `json:"shown,omitzero"`
	// Shared is about flows that share several networks.
	Shared Shared `json:"shared,omitzero"`
	// Pending is a move that waits for its turn.
	Pending Pending `json:"pending"`
	// Previous is the path that the last of them left, and when; Reversals counts moves
	// that were soon taken back, fading.
	Previous   string        `json:"previous,omitempty"`
	PreviousAt time.Duration `json:"previous_at_ns"`
	Reversals  float64       `json:"reversals"`
	ReversalAt time.Duration `json:"reversal_at_ns"`
	// Silent counts samples without answer.
	Silent  int `json:"silent"`
	Stalled int `json:"stalled"`
	// Draws counts random numbers taken.
	Draws uint64  `json:"draws"`
	Bulk  float64 `json:"bulk"`
}

// Memory is what is remembered of one path.
type Memory struct {
	Network string `json:"network"`
	// Health is the rate measured on the path over its prior at that load.
	Health   float64       `json:"health"`
	Measured bool          `json:"measured"`
	HealthAt time.Duration `json:"health_at_ns"`
	// Doubt is the standard error of its logarithm.
	Doubt float64 `json:"doubt,omitempty"`
	// Best is the highest rate seen by class of load, the prior of a path that has
	// none: what a path gives to one connection says little of what it gives to
	// thirty, which is why the best network changes with the load (Atici and Boluk
	// 2020, Table 6).
	Best [loadClasses]float64 `json:"best"`
	// Proven: data has passed since the path last failed.
	Proven bool `json:"proven"`
	// Base is the probes' round trip when the path is calm; Ops the latest
	// times of an operation.
	Base float64 `json:"base"`
	Ops  ring    `json:"ops"`
	// RTTs are the probes' latest round trips, and Then is their median when the path's rate
	// was measured, or the pair's flows were last there.
	RTTs ring    `json:"rtts"`
	Then float64 `json:"then,omitempty"`
	// LeftAt is when flows of the pair were last on the path.
	LeftAt time.Duration `json:"left_at_ns,omitempty"`
	// Own is how many times longer an operation takes once the pair's own traffic
	// is on the path, as seen when it came; 0 unknown.
	Own   float64       `json:"own"`
	OwnAt time.Duration `json:"own_at_ns"`
	// Down, and since when; FailedUnderCanary says that the latest failure came while a canary
	// was on it.
	Down              bool          `json:"down"`
	DownAt            time.Duration `json:"down_at_ns,omitempty"`
	FailedUnderCanary bool          `json:"failed_under_canary,omitempty"`
	// TroubledAt is when it was last not up, be it that nothing answered on any path.
	TroubledAt time.Duration `json:"troubled_at_ns,omitempty"`
	// ProbesLost says that while it was down probes were not answered, which data that does
	// not pass is not the only reason for.
	ProbesLost bool `json:"probes_lost,omitempty"`
	// OutageLoss is the loss of probes that past outages account for.
	OutageLoss float64 `json:"outage_loss,omitempty"`
	// Overestimate is how often it has not kept what a canary showed.
	Overestimate Overestimate `json:"overestimate,omitzero"`
	// Lead is the evidence that the path is better than the active one.
	Lead Lead `json:"lead"`
	// OpNoise is the scatter of the logarithm of Ops.
	OpNoise float64 `json:"op_noise"`
	// Sway is how the time of an operation has swayed.
	Sway Sway `json:"sway"`
	// Empty counts canaries in a row that held no flow.
	Empty int `json:"empty"`
	// Sustained is what the path carried at SustainedAt of flows that got all they asked for.
	Sustained   float64       `json:"sustained,omitempty"`
	SustainedAt time.Duration `json:"sustained_at_ns,omitempty"`
	// NextTrial is when the next canary may begin, ChangedAt when what is known of
	// the path alongside the active one last changed.
	NextTrial time.Duration `json:"next_trial_ns"`
	ChangedAt time.Duration `json:"changed_at_ns"`
	// Against is what the active path gave when the last canary began.
	Against float64 `json:"against"`
	// NextShare is when a portion of the flows may next try what the path adds, after ShareFails
	// times in a row in which it added nothing.
	NextShare  time.Duration `json:"next_share_ns,omitempty"`
	ShareFails int           `json:"share_fails,omitempty"`
}

// Pending is a move decided but not yet made.
type Pending struct {
	To string        `json:"to,omitempty"`
	At time.Duration `json:"at_ns"`
}

// memory returns the memory of a network, made where it is new.
func (s *State) memory(network string) *Memory {
	for i := range s.Paths {
		if s.Paths[i].Network == network {
			return &s.Paths[i]
		}
	}
	s.Paths = append(s.Paths, Memory{Network: network, Health: 1})
	return &s.Paths[len(s.Paths)-1]
}

// observe takes in the evidence.
func (s *step) observe(ev PairEvidence) {
	s.observeActive(ev)
	// Memories of paths that are gone go too, so that State stays small.
	s.Paths = slices.DeleteFunc(s.Paths, func(m Memory) bool { _, ok := ev.path(m.Network); return !ok })
	if s.Shared.Active != ev.Active {
		s.Shared = Shared{}
	}
	for _, p := range ev.Paths {
		m := s.memory(p.Network)
		m.observeCondition(p, ev.At, s.Trial.To == p.Network || s.Shared.Trying == p.Network, &s.p.Failure)
		m.observeProbe(p, &s.p.Memory)
		s.observeEased(m, p, ev.At)
		if p.Data.Rx > 0 && p.Buckets > 0 && !p.Data.Blank && p.Data.RTOs == 0 {
			m.Proven = true
		}
	}
	s.observeTraffic(ev)
	s.observeShown(ev)
}

// observeActive notices that the active path or the load is another.
func (s *step) observeActive(ev PairEvidence) {
	if !s.Started || ev.Active != s.Active {
		if s.Started && s.LastMove == Switch {
			if ev.Active == s.Previous && ev.At-s.PreviousAt < s.p.Memory.ReversalWithin && s.misled() {
				s.Reversals, s.ReversalAt = s.reversals(ev.At)+1, ev.At
			}
			s.Previous, s.PreviousAt = s.Active, ev.At
		}
		if s.FailedOverFrom = ""; s.LastMove == Failover || s.LastMove == Fallback {
			s.FailedOverFrom = s.Active
		}
		s.Started, s.Active, s.Since, s.LastMove, s.Silent = true, ev.Active, ev.At, "", 0
		s.Before, _ = s.memory(ev.Active).Ops.median(window)
		s.Misled = false
		s.resetBaseline(ev.At, true)
	}
	if ev.Pause || ev.Load.level() == 0 {
		return // a pause is no other load
	}
	// Of another load, figures of before are no baseline.
	if was, is := float64(s.Load.level()), float64(ev.Load.level()); math.Abs(was-is) > s.p.Load.Change*max(was, is) {
		s.resetBaseline(ev.At, s.need(ev) != Latency)
		s.Track.SlowStart = s.p.Track.SlowStart
	}
	s.Load = ev.Load
}

// misled tells whether it was a mistake to come to the path that is left now: an operation
// took longer there than it had before, soon after the pair had come. What changed later
// is another matter.
func (s *step) misled() bool {
	now, ok := s.memory(s.Active).Ops.median(1)
	return s.Misled || s.Before > 0 && ok && now > s.p.Memory.MisledAt*s.Before
}

// reversals is the count of mistakes as it has faded.
func (s *step) reversals(at time.Duration) float64 {
	return s.Reversals * math.Exp(-(at-s.ReversalAt).Seconds()/s.p.Memory.ReversalMemory.Seconds())
}

// resetBaseline drops what was only true of the active path as it was. The lead of
// others in latency is seen by probes, and another load does not change it.
func (s *step) resetBaseline(at time.Duration, lead bool) {
	s.Track, s.Trial, s.Pending, s.Stalled = Track{}, Trial{}, Pending{}, 0
	for i := range s.Paths {
		if lead {
			s.Paths[i].Lead = Lead{}
		}
		s.Paths[i].NextTrial, s.Paths[i].ChangedAt = min(s.Paths[i].NextTrial, after(at, s.p.Canary.LeastWait)), at
	}
}

// dropLeads forgets by how much other paths were better than the active one.
func (s *step) dropLeads() {
	for i := range s.Paths {
		s.Paths[i].Lead = Lead{}
	}
}

// observeCondition follows failures. One under a canary is the canary's: flows that
// come to a path that carries less than they bring fill its queue, and probes are
// lost in it. That tells of the path's rate, and is answered as any canary that
// brought nothing is.
func (m *Memory) observeCondition(p PathEvidence, at time.Duration, tried bool, by *FailureParams) {
	down := p.State == Failed || p.State == Ineligible
	tried = tried && by.CanaryExcused
	switch {
	case down && !m.Down:
		m.FailedUnderCanary = tried && p.State == Failed
		m.Down, m.DownAt, m.Proven, m.ProbesLost, m.Lead = true, at, false, false, Lead{}
	case down && p.State == Failed && p.Probe.Age > by.UnansweredAge:
		m.ProbesLost = true
	case !down && m.Down:
		// After an outage of moments that probes have seen the path is as it was. After another
		// one nothing that was measured before counts; canaries may begin afresh.
		short := m.ProbesLost && at-m.DownAt <= by.ShortOutage
		if m.Down, m.Proven = false, short && m.Measured; !short {
			m.Measured, m.Health = false, 1
		}
		if !m.FailedUnderCanary {
			m.NextTrial, m.ChangedAt = 0, at
		}
	}
}

// loadClasses is the number of classes of a pair's load.
const loadClasses = 6

// class is that of the load: by default 1 to 3 connections, 4 to 15, 16 to 63 and so on.
func (s *step) class(l Load) (c int) {
	ratio := s.p.Load.ClassRatio
	for n := l.level(); n >= ratio && c < loadClasses-1; n /= ratio {
		c++
	}
	return c
}

// prior is the rate a path promises at this load, or the best it ever gave.
func (s *step) prior(p PathEvidence, l Load) float64 {
	if p.Prior > 0 {
		return p.Prior
	}
	return s.memory(p.Network).Best[s.class(l)]
}

// sustained tells whether the path has lately carried so much.
func (m *Memory) sustained(rate float64, at time.Duration, by *GainParams) bool {
	return m.Sustained >= by.SustainedShare*rate && at-m.SustainedAt < by.SustainedFor
}

// measure records the rate of a path whose senders were not short of data.
func (s *step) measure(p PathEvidence, l Load, rate, doubt float64, at time.Duration) {
	m, class := s.memory(p.Network), s.class(l)
	m.Best[class] = max(m.Best[class], rate)
	if prior := s.prior(p, l); prior > 0 {
		health := min(rate/prior, s.p.Memory.HealthMost)
		if !m.Measured || math.Abs(health-m.Health) > s.p.Memory.HealthChange {
			m.ChangedAt = at
		}
		m.Health, m.Doubt, m.Measured, m.HealthAt = health, doubt, true, at
	}
}

// observeTraffic follows the active path's data.
func (s *step) observeTraffic(ev PairEvidence) {
	p, ok := ev.path(ev.Active)
	d := p.Data
	if !ok || d.idle() {
		return
	}
	switch {
	case d.Rx > 0:
		s.Silent = 0
	case d.Tx > 0 && !p.Passes && (d.RTOs > 0 || p.State == Suspect || s.Silent > 0):
		s.Silent++
	}
	if d.Blank || s.Trial.To != "" || ev.Pause || d.silent() || p.State == Suspect {
		return
	}
	if h := &s.Shared; h.on() { // what one network carries of it is no baseline
		if h.Trying == "" && h.Check == 0 && h.Total > 0 {
			s.Bulk += s.p.Load.BulkWeight * (h.bulkiness(d, &s.p.Share) - s.Bulk)
		}
		return
	}
	s.Bulk += s.p.Load.BulkWeight * (bulkiness(d) - s.Bulk)
	t := &s.Track
	t.observe(d, &s.p.Track)
	if rate, ok := t.rate(&s.p.Track); ok && t.Full >= s.p.Track.FullSamples {
		s.measure(p, ev.Load, rate, s.Track.noise(&s.p.Track)*math.Sqrt(s.p.Track.MeanWeight/2), ev.At)
	}
}

// idle: no traffic, or none that was watched.
func (d Data) idle() bool { return d.Goodput == 0 && d.Tx == 0 && d.Rx == 0 && d.RTOs == 0 }

// silent: packets went out, a timeout went off, and nothing came in. That is no rate: what
// a path carries that nothing answers on is for the failure detector.
func (d Data) silent() bool { return d.Rx == 0 && d.Goodput == 0 && d.RTOs > 0 }

// bulkiness is 1 for traffic that wants more than it gets.
func bulkiness(d Data) float64 {
	if d.AppLimited {
		return 0
	}
	return 1
}
