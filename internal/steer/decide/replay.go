package decide

import (
	"slices"
	"time"
)

// Result is what a policy achieved, alongside what could have been. Amounts are
// rates times seconds, in the unit of the records.
type Result struct {
	// Class of the flows, where a pair has more than one; Classes has what each achieved.
	Class   Class    `json:"class,omitempty"`
	Classes []Result `json:"classes,omitempty"`
	Policy  string   `json:"policy"`
	Pairs   int      `json:"pairs"`
	Epochs  int      `json:"epochs"`
	// Unknown counts epochs whose truth the policy's path lacks: they are left
	// out of every amount.
	Unknown  int     `json:"unknown"`
	Achieved float64 `json:"achieved"`
	// Hindsight is the best choice of one path per epoch, with the cost of
	// switching, windows that have to grow included; HindsightFree without.
	Hindsight     float64 `json:"hindsight"`
	HindsightFree float64 `json:"hindsight_free"`
	// HindsightShared is the best with as many networks at once as flows may share, without
	// the cost of switching; 0 where that is not known.
	HindsightShared float64 `json:"hindsight_shared,omitempty"`
	// Static is the best single network for each pair, without failover, which connections begin on.
	Static         float64  `json:"static"`
	StaticNetworks []string `json:"static_networks"`
	Switches       int      `json:"switches"`
	Failovers      int      `json:"failovers"`
	Canaries       int      `json:"canaries"`
	// Shares counts times when the portions of networks that flows share were changed.
	Shares int `json:"shares,omitempty"`
	// False counts switches for gain after which the path that was left would
	// have carried more than the one moved to, loss counted, until the next move.
	False int `json:"false_switches"`
	// Slower50 and Slower99 are the median and the 99th percentile of the time of an
	// operation, over those of the class alone on its best network.
	Slower50 float64  `json:"slower_p50,omitempty"`
	Slower99 float64  `json:"slower_p99,omitempty"`
	Trace    []Traced `json:"-"`
}

// Traced is one epoch of a replay.
type Traced struct {
	At       time.Duration
	Pair     string
	Load     Load
	Decision Decision
	After    Assignment
	// Rate is what the epoch gave on average, loss counted.
	Rate float64
}

// OfHindsight is what was achieved as a part of the best in hindsight; 1 where
// there was nothing to achieve.
func (r Result) OfHindsight() float64 { return ratio(r.Achieved, r.Hindsight) }

// OfStatic is what was achieved over what the best static networks give.
func (r Result) OfStatic() float64 { return ratio(r.Achieved, r.Static) }

// OfShared is what was achieved as a part of the best with several networks at once.
func (r Result) OfShared() float64 { return ratio(r.Achieved, r.HindsightShared) }

func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}

// Replay runs recorded evidence through a policy. The pair begins on the
// recorded active path and from then on is where the policy puts it. Where that
// is not where the recording had it, the data of the paths concerned is made
// from the truth of the record before; probes stay as recorded, so that what the
// pair's own load does to them is not seen. Flows share no networks, as the truth does not
// tell what these give together.
func Replay(policy Policy, rec Recording) Result {
	if c, ok := policy.(CostAware); ok {
		policy = c.WithShare(false)
	}
	out := Result{Policy: policy.Name()}
	runs := map[string]*run{}
	var order []string
	for _, r := range rec.Records {
		pair := r.Evidence.Pair
		if runs[pair] == nil {
			runs[pair] = &run{at: Assignment{Active: r.Evidence.Active}}
			order = append(order, pair)
		}
		out.Trace = append(out.Trace, runs[pair].replay(policy, rec.Header, r))
	}
	for _, pair := range order {
		runs[pair].book.close(&out)
	}
	out.Pairs = len(order)
	return out
}

// run is one pair's replay.
type run struct {
	state State
	at    Assignment
	truth map[string]float64
	book  ledger
}

func (n *run) replay(policy Policy, h Header, r Record) Traced {
	if _, ok := r.Evidence.path(n.at.Active); !ok {
		// The path went away; so did the pair's traffic, to where it was recorded.
		n.at = Assignment{Active: r.Evidence.Active}
	}
	ev := n.rebase(r.Evidence)
	state, d := policy.Step(n.state, ev)
	n.state = state
	next := n.at.Apply(d)
	loss := h.Loss
	if loss == 0 {
		loss = ev.SwitchLoss.Mean
	}
	rate := n.book.add(epoch{truth: r.Truth, seconds: r.For.Seconds(), loss: loss}, n.at, next, d.Kind)
	n.at, n.truth = next, r.Truth
	return Traced{At: ev.At, Pair: ev.Pair, Load: ev.Load, Decision: d, After: next, Rate: rate}
}

// rebase makes evidence speak of the replayed assignment.
func (n *run) rebase(ev PairEvidence) PairEvidence {
	recorded := ev.Active
	ev.Active = n.at.Active
	ev.Paths = slices.Clone(ev.Paths)
	for i := range ev.Paths {
		p := &ev.Paths[i]
		had := p.Buckets
		p.Buckets = int(n.at.Share(p.Network)*Buckets + 0.5)
		if recorded == n.at.Active && had == p.Buckets {
			continue
		}
		if (had > 0) == (p.Buckets > 0) && recorded == n.at.Active {
			continue
		}
		p.Data = Data{}
		if p.Buckets == 0 {
			continue
		}
		truth, known := n.truth[p.Network]
		bytes := truth / 8
		p.Data = Data{Goodput: truth, SRTT: p.Probe.RTT, Tx: max(bytes, 1), Rx: bytes, Blank: !known}
		if known && truth == 0 {
			p.Data.RTOs = 1
		}
	}
	return ev
}

// epoch is a span in which every path gives a fixed rate.
type epoch struct {
	truth map[string]float64
	// shared is what each gives alongside the pair's other flows; nil where there are none.
	shared map[string]float64
	// filled is the part of that which windows let connections have; nil for all of it.
	filled rates
	// pipes are what windows have to fill where they matter; nil elsewhere. fresh: connections begin, or go on
	// after a pause, and fill what they are on.
	pipes   map[string]pipe
	fresh   bool
	seconds float64
	// loss is what a switch at its beginning costs, in seconds.
	loss float64
	// sum is what the flows get of the networks that they share, and most the most that any
	// networks give together.
	sum, most float64
}

// gives is what a path gives.
func (e epoch) gives(network string) float64 {
	part := 1.0
	if v, ok := e.filled[network]; ok {
		part = v
	}
	if e.shared != nil {
		return part * e.shared[network]
	}
	return part * e.truth[network]
}

// ledger adds up one pair's epochs.
type ledger struct {
	epochs   []epoch
	rates    []float64
	achieved float64
	unknown  int
	moves    []booked
	count    map[Kind]int
}

// booked is a switch for gain, to be judged in hindsight.
type booked struct {
	kind     Kind
	from, to string
	epoch    int
}

// add books an epoch at whose beginning the assignment changed, and returns
// the rate that it gave. What moves is charged the loss at the rate of the path
// that it leaves, as in Table 5 of Atici and Boluk (2020); see Paper. A canary
// gets no credit for the sum of both paths: each share counts as if
// its path carried all, so that hindsight, which has one path at a time, is a
// fair yardstick. Flows that share networks have what these give together.
func (l *ledger) add(e epoch, before, after Assignment, kind Kind) float64 {
	for _, a := range []Assignment{before, after} {
		for _, n := range a.Networks() {
			if _, known := e.truth[n]; a.Share(n) > 0 && !known {
				l.unknown++
				return 0
			}
		}
	}
	i := len(l.epochs)
	l.epochs = append(l.epochs, e)
	got := 0.0
	// In this order and not the map's, so that sums come out alike every time.
	for _, n := range after.Networks() {
		got += after.Share(n) * e.gives(n) * e.seconds
	}
	if !after.With.None() && e.most > 0 {
		got = e.sum * e.seconds
	}
	for _, n := range before.Networks() {
		if left := before.Share(n) - after.Share(n); left > 0 {
			got -= e.loss * left * e.gives(n)
		}
	}
	l.achieved += got
	l.rates = append(l.rates, got/e.seconds)
	if l.count == nil {
		l.count = map[Kind]int{}
	}
	if before.Active != after.Active {
		l.count[kind]++
		l.moves = append(l.moves, booked{kind: kind, from: before.Active, to: after.Active, epoch: i})
	}
	if kind == Canary && before.Canary != after.Canary {
		l.count[Canary]++
	}
	if kind == Share && before.With != after.With {
		l.count[Share]++
	}
	return got / e.seconds
}

// networks lists the networks of the epochs, sorted.
func (l *ledger) networks() (out []string) {
	for _, e := range l.epochs {
		for n := range e.truth {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out
}

// close adds the pair to the result.
func (l *ledger) close(out *Result) {
	networks := l.networks()
	out.Epochs += len(l.epochs)
	out.Unknown += l.unknown
	out.Achieved += l.achieved
	paid, free := l.hindsight(networks)
	out.Hindsight += paid
	out.HindsightFree += free
	best, name := l.static(networks)
	out.Static += best
	if name != "" && !slices.Contains(out.StaticNetworks, name) {
		out.StaticNetworks = append(out.StaticNetworks, name)
	}
	out.Switches += l.count[Switch]
	out.Failovers += l.count[Failover] + l.count[Fallback]
	out.Canaries += l.count[Canary]
	out.Shares += l.count[Share]
	for _, e := range l.epochs {
		out.HindsightShared += e.most * e.seconds
	}
	out.False += l.falseSwitches()
}

// falseSwitches counts the switches for gain that did not pay.
func (l *ledger) falseSwitches() (n int) {
	for i, m := range l.moves {
		if m.kind != Switch {
			continue
		}
		end := len(l.epochs)
		if i+1 < len(l.moves) {
			end = l.moves[i+1].epoch
		}
		gained := -l.epochs[m.epoch].loss * l.epochs[m.epoch].gives(m.from)
		for _, e := range l.epochs[m.epoch:end] {
			gained += (e.gives(m.to) - e.gives(m.from)) * e.seconds
		}
		if gained < 0 {
			n++
		}
	}
	return n
}
