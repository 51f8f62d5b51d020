package claim

import (
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Where picks questions. What it leaves empty picks all.
type Where struct {
	Workload   string           `json:"workload,omitempty"`
	Placements []topo.Placement `json:"topologies,omitempty"`
	Pairs      []int            `json:"pairs,omitempty"`
	MTUs       []int            `json:"mtu,omitempty"`
	Outsides   []topo.Outside   `json:"outside,omitempty"`
	// Families are IP families, 0 for IPv4 as in a scenario.
	Families []int `json:"family,omitempty"`
	// Kernels names kinds, as host or uml, or one kernel, as uml-6.1.176.
	Kernels []string `json:"kernels,omitempty"`
	// Loads: a question's load must agree with one of them in all that is not 0.
	Loads []sample.Load `json:"loads,omitempty"`
}

// HostKernel is how Where calls the machine's own kernel, whose questions carry
// no mark.
const HostKernel = "host"

// Picks tells whether the question is one of those meant.
func (w Where) Picks(q sample.Question) bool {
	return (w.Workload == "" || w.Workload == q.Workload) &&
		has(w.Placements, q.Scenario.Placement) && has(w.Pairs, q.Scenario.Pairs) && has(w.MTUs, q.Scenario.MTU) &&
		has(w.Outsides, q.Scenario.Outside) && has(w.Families, q.Scenario.Family) &&
		w.onKernel(q.Scenario.Kernel) && w.loaded(q.Load)
}

// has reports whether the list has x; an empty one has all.
func has[T comparable](list []T, x T) bool { return len(list) == 0 || slices.Contains(list, x) }

func (w Where) onKernel(kernel string) bool {
	if kernel == "" {
		return has(w.Kernels, HostKernel)
	}
	return len(w.Kernels) == 0 || slices.ContainsFunc(w.Kernels, func(k string) bool {
		return kernel == k || strings.HasPrefix(kernel, k+"-")
	})
}

func (w Where) loaded(l sample.Load) bool {
	return len(w.Loads) == 0 || slices.ContainsFunc(w.Loads, func(want sample.Load) bool {
		return (want.Connections == 0 || want.Connections == l.Connections) &&
			(want.Size == 0 || want.Size == l.Size) && (want.Rate == 0 || want.Rate == l.Rate) &&
			(want.Congestion == "" || want.Congestion == l.Congestion)
	})
}

// with returns w with what o sets in its place.
func (w Where) with(o Where) Where {
	if o.Workload != "" {
		w.Workload = o.Workload
	}
	if len(o.Placements) > 0 {
		w.Placements = o.Placements
	}
	if len(o.Pairs) > 0 {
		w.Pairs = o.Pairs
	}
	if len(o.MTUs) > 0 {
		w.MTUs = o.MTUs
	}
	if len(o.Outsides) > 0 {
		w.Outsides = o.Outsides
	}
	if len(o.Families) > 0 {
		w.Families = o.Families
	}
	if len(o.Loads) > 0 {
		w.Loads = o.Loads
	}
	return w
}

// common returns the question without what w sets, which is what two sides of
// a ratio need not share.
func (w Where) common(q sample.Question) sample.Question {
	if w.Workload != "" {
		q.Workload = ""
	}
	if len(w.Placements) > 0 {
		if q.Scenario.Outside == q.Scenario.Placement.Outside() {
			q.Scenario.Outside = "" // nothing but what the topology brings
		}
		q.Scenario.Placement = ""
	}
	if len(w.Outsides) > 0 {
		q.Scenario.Outside = ""
	}
	if len(w.Families) > 0 {
		q.Scenario.Family = 0
	}
	if len(w.Pairs) > 0 {
		q.Scenario.Pairs = 0
	}
	if len(w.MTUs) > 0 {
		q.Scenario.MTU = 0
	}
	if len(w.Loads) > 0 {
		q.Load = sample.Load{}
	}
	return q
}

func (w Where) equal(o Where) bool {
	return w.Workload == o.Workload && slices.Equal(w.Placements, o.Placements) && slices.Equal(w.Pairs, o.Pairs) &&
		slices.Equal(w.MTUs, o.MTUs) && slices.Equal(w.Outsides, o.Outsides) &&
		slices.Equal(w.Families, o.Families) && slices.Equal(w.Loads, o.Loads)
}

// same tells whether two sides mean the same figures.
func (s Side) same(o Side) bool { return s.Network == o.Network && s.Where.equal(o.Where) }
