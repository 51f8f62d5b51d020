package decide

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Need is what a pair asks of its path.
type Need string

// Needs.
const (
	// Throughput: the rate counts.
	Throughput Need = "throughput"
	// Latency: the time of a round trip counts, losses as the time that they cost.
	Latency Need = "latency"
	// Robust: rate, jitter, loss and retransmissions count alike.
	Robust Need = "robust"
	// Auto: learned from the pair's traffic; the zero value is the same.
	Auto Need = "auto"
)

// Needs lists the words that are allowed.
func Needs() []Need { return []Need{Throughput, Latency, Robust, Auto} }

// Condition is what probes and data say of a path.
type Condition string

// Conditions of a path.
const (
	Up Condition = "up"
	// Suspect: packets went out and none came in; not yet proved.
	Suspect Condition = "suspect"
	// Failed: proved, since alternatives answered probes sent later.
	Failed Condition = "failed"
	// Ineligible: must not carry the pair's traffic (policy, mark, MTU).
	Ineligible Condition = "ineligible"
)

// Conditions lists the words that are allowed.
func Conditions() []Condition { return []Condition{Up, Suspect, Failed, Ineligible} }

// Probe is active evidence: STAMP between the hosts. It sees an idle path's
// delay, never its throughput.
type Probe struct {
	// RTT, its mean deviation and the loss ratio over the last window; seconds.
	RTT    float64 `json:"rtt_s"`
	Jitter float64 `json:"jitter_s"`
	Loss   float64 `json:"loss"`
	// Samples in the window; with 0 the rest is unknown.
	Samples int `json:"samples"`
	// Age of the newest answer, in seconds.
	Age float64 `json:"age_s"`
}

// Data is passive evidence: what the pair's own traffic saw on a path.
type Data struct {
	// Goodput in bit/s, both directions.
	Goodput float64 `json:"goodput"`
	// AppLimited: the senders had nothing more to send, so that goodput says
	// what was asked and not what the path can do.
	AppLimited bool `json:"app_limited,omitempty"`
	// SRTT is the smoothed round trip of the connections, seconds; 0 unknown.
	SRTT float64 `json:"srtt_s,omitempty"`
	// Retrans is retransmitted over sent segments.
	Retrans float64 `json:"retrans,omitempty"`
	// RTOs is the number of retransmission timeouts since the evidence before.
	RTOs int `json:"rtos,omitempty"`
	// Tx and Rx are bytes per second.
	Tx float64 `json:"tx,omitempty"`
	Rx float64 `json:"rx,omitempty"`
	// Blank: too soon after a switch to mean anything (2 round trips).
	Blank bool `json:"blank,omitempty"`
}

// PathEvidence is what is known of one path of a pair.
type PathEvidence struct {
	Network string    `json:"network"`
	State   Condition `json:"state"`
	// Reason of a state other than up.
	Reason string `json:"reason,omitempty"`
	// Buckets of the pair on the path now.
	Buckets int   `json:"buckets"`
	Probe   Probe `json:"probe"`
	Data    Data  `json:"data"`
	// Prior is the rate in bit/s that a bench or a table promises at this load;
	// 0 for none.
	Prior float64 `json:"prior,omitempty"`
	// CPU is the cost in CPU-seconds per GB; 0 unknown. It breaks ties.
	CPU float64 `json:"cpu,omitempty"`
	// Answers: the pair's flows that wait for answers are on the path, where this is about
	// its bulk alone.
	Answers bool `json:"answers,omitempty"`
	// OtherPairs is the number of other pairs of these hosts on the path.
	OtherPairs int `json:"other_pairs,omitempty"`
	// Passes, of a path on which the pair sends and receives nothing: packets come over it to other pairs that
	// send, so that this one's may wait in a queue that they fill.
	Passes bool `json:"passes,omitempty"`
}

// Load is what the pair's applications ask.
type Load struct {
	// Threads or clients, where an application says so; a table is looked up by it.
	Threads int `json:"threads,omitempty"`
	// Connections that carry traffic now.
	Connections int `json:"connections,omitempty"`
	// Offered rate in bit/s; 0 where unknown or without bound. Schedules have it; in
	// evidence it is for people, as an agent does not know it.
	Offered float64 `json:"offered,omitempty"`
}

// level is the figure by which loads are told apart.
func (l Load) level() int {
	if l.Threads > 0 {
		return l.Threads
	}
	return l.Connections
}

// PairEvidence is all that a policy may know of a pair at a time.
type PairEvidence struct {
	At   time.Duration `json:"at_ns"`
	Pair string        `json:"pair"`
	// Class of the flows that it is about; "" for all of the pair's.
	Class Class `json:"class,omitempty"`
	Need  Need  `json:"need,omitempty"`
	// App is the application, for a table; "" unknown.
	App string `json:"app,omitempty"`
	// Default is the network of the pair's stable addresses.
	Default string         `json:"default,omitempty"`
	Active  string         `json:"active"`
	Paths   []PathEvidence `json:"paths"`
	Load    Load           `json:"load"`
	// Pause: the pair is between bursts.
	Pause bool `json:"pause,omitempty"`
	// SwitchLoss is what a switch costs, as measured so far.
	SwitchLoss LossEstimate `json:"switch_loss"`
}

// path returns the evidence of a network; ok is false when there is none.
func (ev PairEvidence) path(network string) (p PathEvidence, ok bool) {
	for _, p := range ev.Paths {
		if p.Network == network {
			return p, true
		}
	}
	return PathEvidence{}, false
}

// Check tells what is wrong with the evidence, naming the key.
func (ev PairEvidence) Check() error {
	switch {
	case ev.Pair == "":
		return keyError("pair", "is empty")
	case ev.At < 0:
		return keyError("at_ns", "is negative")
	case ev.Need != "" && !slices.Contains(Needs(), ev.Need):
		return keyError("need", fmt.Sprintf("is %q: expected one of %v", ev.Need, Needs()))
	case len(ev.Paths) == 0:
		return keyError("paths", "is empty")
	case ev.Load.Threads < 0 || ev.Load.Connections < 0:
		return keyError("load", "is negative")
	}
	figures := map[string]float64{"load.offered": ev.Load.Offered, "switch_loss.mean_s": ev.SwitchLoss.Mean,
		"switch_loss.upper_s": ev.SwitchLoss.Upper}
	if err := checkFigures("", figures); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, p := range ev.Paths {
		if err := p.check(fmt.Sprintf("paths[%d]", i)); err != nil {
			return err
		}
		if seen[p.Network] {
			return keyError(fmt.Sprintf("paths[%d].network", i), fmt.Sprintf("names %q a second time", p.Network))
		}
		seen[p.Network] = true
	}
	if !seen[ev.Active] {
		return keyError("active", fmt.Sprintf("is %q, which is not among the paths", ev.Active))
	}
	if ev.Default != "" && !seen[ev.Default] {
		return keyError("default", fmt.Sprintf("is %q, which is not among the paths", ev.Default))
	}
	return nil
}

func (p PathEvidence) check(key string) error {
	switch {
	case p.Network == "":
		return keyError(key+".network", "is empty")
	case !slices.Contains(Conditions(), p.State):
		return keyError(key+".state", fmt.Sprintf("is %q: expected one of %v", p.State, Conditions()))
	case p.Buckets < 0 || p.Buckets > Buckets:
		return keyError(key+".buckets", fmt.Sprintf("is %d: expected 0 to %d", p.Buckets, Buckets))
	case p.Probe.Loss > 1:
		return keyError(key+".probe.loss", "is over 1")
	case p.Probe.Samples < 0 || p.Data.RTOs < 0 || p.OtherPairs < 0:
		return keyError(key, "has a negative count")
	}
	return checkFigures(key+".", map[string]float64{
		"probe.rtt_s": p.Probe.RTT, "probe.jitter_s": p.Probe.Jitter, "probe.loss": p.Probe.Loss, "probe.age_s": p.Probe.Age,
		"data.goodput": p.Data.Goodput, "data.srtt_s": p.Data.SRTT, "data.retrans": p.Data.Retrans, "data.tx": p.Data.Tx,
		"data.rx": p.Data.Rx,
		"prior":   p.Prior, "cpu": p.CPU,
	})
}

// checkFigures wants figures that are finite and not negative.
func checkFigures(prefix string, figures map[string]float64) error {
	bad := ""
	for key, v := range figures {
		if (v < 0 || math.IsNaN(v) || math.IsInf(v, 0)) && (bad == "" || key < bad) {
			bad = key
		}
	}
	if bad != "" {
		return keyError(prefix+bad, fmt.Sprintf("is %v: expected a figure of 0 or more", figures[bad]))
	}
	return nil
}

// keyError is a fault of one key.
func keyError(key, what string) error { return fmt.Errorf("%s %s", key, what) }
