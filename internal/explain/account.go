package explain

import (
	"cmp"
	"maps"
	"slices"

	"pathwise.dev/pathwise/internal/sample"
)

// Modes is how a CPU's time was spent, as shares of the window from 0 to 1.
type Modes struct {
	User    float64 `json:"user"`
	System  float64 `json:"system"`
	SoftIRQ float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	Steal   float64 `json:"steal"`
	Idle    float64 `json:"idle"`
}

// Busy is the share used.
func (m Modes) Busy() float64 { return m.User + m.System + m.SoftIRQ + m.IRQ }

// Cost is what a stage took.
type Cost struct {
	Stage Stage `json:"stage"`
	// Share of the CPU time of the lab, from 0 to 1.
	Share float64 `json:"share"`
	// PerWork is in CPU-seconds per unit of work; 0 where no work was counted.
	PerWork float64 `json:"per_work"`
}

// Demand is what one side took: service demand as netperf and Suo et al. (2018) give it.
type Demand struct {
	// CPU is the side's share of the machine, from 0 to 1.
	CPU float64 `json:"cpu"`
	// PerKB is in us of CPU time per 1024 bytes of payload, PerOperation in us per
	// operation; 0 where the work is not counted so.
	PerKB        float64 `json:"us_per_kb,omitempty"`
	PerOperation float64 `json:"us_per_operation,omitempty"`
}

// Packets is what passed one kind of device, in the payload's direction.
type Packets struct {
	// PerWork is their number per unit of work.
	PerWork float64 `json:"per_work"`
	// Size is their mean in bytes, GSO and GRO packets taken as one.
	Size float64 `json:"size"`
	// Segments is how many packets of the MTU each would be on a wire; 0: not known.
	Segments float64 `json:"segments,omitempty"`
	// Sizes are shares by octave, as in Device; nil where they are not known.
	Sizes []float64 `json:"sizes,omitempty"`
	// number of packets in all windows.
	number float64
}

// Unit is what costs are divided by.
type Unit string

// The units of work.
const (
	PerGB  Unit = "GB"
	PerKop Unit = "1000 ops"
	NoWork Unit = ""
)

// Account is where the CPU time of a cell's trials went.
type Account struct {
	sample.Cell
	// Trials is how many trials the figures are of, Samples how many samples.
	Trials  int    `json:"trials"`
	Samples uint64 `json:"samples"`
	Lost    uint64 `json:"lost,omitempty"`
	// Missing says why there are no samples: then only Cores, Machine and packets are known.
	Missing string `json:"missing,omitempty"`
	Unit    Unit   `json:"unit,omitempty"`
	// Machine and Cores are of everything that ran, by /proc/stat.
	Machine Modes   `json:"machine"`
	Cores   []Modes `json:"cores,omitempty"`
	// Lab is the CPU time of the lab alone per unit of work, in CPU-seconds: that of
	// pods and hosts, without the underlay, which represents a wire.
	Lab float64 `json:"lab_per_work"`
	// LabShare is the lab's part of the machine's time, Outside what was neither its
	// nor idle, and Others the part of programs outside: without the kernel's own threads,
	// which work for the lab too.
	LabShare float64 `json:"lab_share"`
	Outside  float64 `json:"outside_share"`
	Others   float64 `json:"others_share"`
	// LabCores are the lab's shares of each core, and Contended is other programs' share
	// of the cores that it ran on, each core counted as much as it ran there.
	LabCores  []float64 `json:"lab_cores,omitempty"`
	Contended float64   `json:"contended"`
	Stages    []Cost    `json:"stages,omitempty"`
	// Contexts are the lab's shares by context.
	Contexts map[Context]float64 `json:"contexts,omitempty"`
	// Tunnels is the lab's share inside tunnels and what they call.
	Tunnels float64           `json:"tunnels"`
	Demand  map[string]Demand `json:"demand,omitempty"`
	// Pod and Uplink are the receiving pods' packets and those that the client's host sent.
	Pod    *Packets `json:"pod,omitempty"`
	Uplink *Packets `json:"uplink,omitempty"`
	// GeneratorUser is the mean of what trials tell.
	GeneratorUser float64 `json:"generator_user,omitempty"`
	// Bytes of payload in all windows, and Passed packets that the receiving pods got, or
	// the client's host sent where pods have no interface of their own.
	Bytes  float64 `json:"bytes,omitempty"`
	Passed float64 `json:"passed,omitempty"`
	// Limits are what the counters of limits counted, trial after trial; Watched says
	// that they were read in every trial.
	Limits  Limits   `json:"limits"`
	Watched bool     `json:"watched"`
	Streams *Streams `json:"streams,omitempty"`
	// Stacks are those of all trials, cores taken together, for flame graphs.
	Stacks []Stack `json:"-"`
}

// Share returns a stage's share of the lab's CPU time.
func (a Account) Share(s Stage) float64 {
	if i := slices.IndexFunc(a.Stages, func(c Cost) bool { return c.Stage == s }); i >= 0 {
		return a.Stages[i].Share
	}
	return 0
}

// Accounts sums up profiles by cell, in the order of questions and networks' names.
func Accounts(t *Table, profiles []Profile) []Account {
	cells := map[sample.Cell][]Profile{}
	for _, p := range profiles {
		cells[p.Cell] = append(cells[p.Cell], p)
	}
	keys := slices.SortedFunc(maps.Keys(cells), func(a, b sample.Cell) int {
		return cmp.Or(a.Question().Compare(b.Question()), cmp.Compare(a.Network, b.Network))
	})
	var out []Account
	for _, k := range keys {
		out = append(out, account(t, k, cells[k]))
	}
	return out
}

// account sums up the profiles of one cell.
func account(t *Table, cell sample.Cell, profiles []Profile) Account {
	a := Account{Cell: cell, Trials: len(profiles), Contexts: map[Context]float64{}, Demand: map[string]Demand{}}
	var total Record
	for _, p := range profiles {
		total.Window += p.Window
		total.Bytes += p.Bytes
		total.Operations += p.Operations
		a.GeneratorUser += p.GeneratorUser / float64(len(profiles))
		a.Lost += p.Lost
		a.Missing = cmp.Or(a.Missing, p.Missing)
		total.Cores = addCores(total.Cores, p.Cores)
		total.Devices = append(total.Devices, p.Devices...)
	}
	for _, c := range total.Cores {
		a.Cores = append(a.Cores, shares(c))
	}
	a.Machine = shares(whole(total.Cores))
	work := a.work(total)
	a.Pod, a.Uplink = passed(total.Devices, PodDevice, work), passed(total.Devices, Uplink, work)
	if p := cmp.Or(a.Pod, a.Uplink); p != nil {
		a.Passed = p.number
	}
	a.gather(profiles)
	if a.Missing != "" {
		a.Others = per(a.Limits.Others, total.Window*float64(len(total.Cores)))
		a.Contended = a.Others
		return a
	}
	a.attribute(t, profiles, total, work)
	return a
}

// work is the number of units done; 0 where nothing was counted.
func (a *Account) work(total Record) float64 {
	switch {
	case total.Bytes > 0:
		a.Unit = PerGB
		return total.Bytes / 1e9
	case total.Operations > 0:
		a.Unit = PerKop
		return total.Operations / 1e3
	}
	return 0
}

// attribute goes through the stacks. A sample represents its part of the time
// that the cores had: a virtual machine that was not run misses ticks.
func (a *Account) attribute(t *Table, profiles []Profile, total Record, work float64) {
	merged := map[string]int{}
	stages, contexts := map[Stage]float64{}, map[Context]float64{}
	places := map[Place]float64{}
	var lab, tunnels float64
	cores := make(parts, len(total.Cores))
	for _, p := range profiles {
		for _, s := range p.Stacks {
			a.Samples += s.Count
			a.merge(merged, s)
			cores.add(s)
			if s.Context == Free {
				continue
			}
			n := float64(s.Count)
			places[s.Place] += n
			if s.Place == Outside || s.Place == Underlay {
				continue
			}
			lab += n
			stages[t.StageOf(s)] += n
			contexts[s.Context] += n
			if t.inTunnel(s.Frames) {
				tunnels += n
			}
		}
	}
	if a.Samples == 0 {
		return
	}
	all := float64(a.Samples)
	tick := total.Window * float64(len(total.Cores)) / all
	a.LabShare, a.Outside = lab/all, places[Outside]/all
	a.LabCores, a.Others, a.Contended = cores.shares(a.Machine, a.Cores)
	a.Lab = per(lab*tick, work)
	for _, s := range t.Stages() {
		if n := stages[s]; n > 0 {
			a.Stages = append(a.Stages, Cost{Stage: s, Share: n / lab, PerWork: per(n*tick, work)})
		}
	}
	for c, n := range contexts {
		a.Contexts[c] = n / lab
	}
	a.Tunnels = per(tunnels, lab)
	sides := map[string]float64{
		"client": places[Client] + places[ClientHost], "server": places[Server] + places[ServerHost],
		"shared": places[Shared], "underlay": places[Underlay],
	}
	for side, n := range sides {
		if n > 0 {
			a.Demand[side] = Demand{CPU: n / all, PerKB: per(n*tick*1e6, total.Bytes/1024),
				PerOperation: per(n*tick*1e6, total.Operations)}
		}
	}
}

// merge adds a stack to those for the flame graph, which knows no cores.
func (a *Account) merge(index map[string]int, s Stack) {
	if s.Context == Free {
		return
	}
	s.CPU = 0
	key := string(s.Context) + ";" + string(s.Place) + ";" + s.Process
	for _, f := range s.Frames {
		key += ";" + f
	}
	if i, ok := index[key]; ok {
		a.Stacks[i].Count += s.Count
		return
	}
	index[key] = len(a.Stacks)
	a.Stacks = append(a.Stacks, s)
}

// inTunnel reports whether a tunnel's function is in the stack, above no
// interrupt or softirq: what it calls is done for it.
func (t *Table) inTunnel(frames []string) bool {
	for i := len(frames) - 1; i >= 0; i-- {
		e, ok := t.find(frames[i])
		switch {
		case !ok:
		case e.stage == Encapsulation || e.stage == Decapsulation:
			return true
		case e.how == boundary:
			return false
		}
	}
	return false
}

// per is n for each unit of work, 0 without any.
func per(n, work float64) float64 {
	if work <= 0 {
		return 0
	}
	return n / work
}

func addCores(sum, more []sample.CPU) []sample.CPU {
	for len(sum) < len(more) {
		sum = append(sum, sample.CPU{})
	}
	for i, c := range more {
		sum[i] = add(sum[i], c)
	}
	return sum
}

func add(a, b sample.CPU) sample.CPU {
	return sample.CPU{User: a.User + b.User, System: a.System + b.System, SoftIRQ: a.SoftIRQ + b.SoftIRQ,
		IRQ: a.IRQ + b.IRQ, Steal: a.Steal + b.Steal, Idle: a.Idle + b.Idle, Cores: 1}
}

func whole(cores []sample.CPU) (out sample.CPU) {
	for _, c := range cores {
		out = add(out, c)
	}
	return out
}

// shares turns CPU-seconds into shares of all that was counted.
func shares(c sample.CPU) Modes {
	all := c.Busy() + c.Steal + c.Idle
	return Modes{User: per(c.User, all), System: per(c.System, all), SoftIRQ: per(c.SoftIRQ, all), IRQ: per(c.IRQ, all),
		Steal: per(c.Steal, all), Idle: per(c.Idle, all)}
}

// passed sums up devices of one role: of pods, what the busier direction's
// receivers got; of uplinks, what the busier direction's sender gave.
func passed(devices []Device, role string, work float64) *Packets {
	direction := Received
	if role == Uplink {
		direction = Sent
	}
	sums := map[Place]*Device{}
	var best *Device
	for _, d := range devices {
		if d.Role != role || d.Direction != direction {
			continue
		}
		s := sums[d.Place]
		if s == nil {
			s = &Device{}
			sums[d.Place] = s
		}
		s.Packets += d.Packets
		s.Bytes += d.Bytes
		s.Segments += d.Segments
		for len(s.Sizes) < len(d.Sizes) {
			s.Sizes = append(s.Sizes, 0)
		}
		for i, n := range d.Sizes {
			s.Sizes[i] += n
		}
		if best == nil || s.Bytes > best.Bytes {
			best = s
		}
	}
	if best == nil || best.Packets == 0 {
		return nil
	}
	n := float64(best.Packets)
	p := &Packets{number: n, PerWork: per(n, work), Size: float64(best.Bytes) / n, Segments: float64(best.Segments) / n}
	for _, c := range best.Sizes {
		p.Sizes = append(p.Sizes, float64(c)/n)
	}
	return p
}
