package agent

import (
	"maps"
	"time"

	"pathwise.dev/pathwise/stamp"
)

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
