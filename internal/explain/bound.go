package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Bound is what keeps a network from more.
type Bound string

// The bounds. The first that fits is given, in this order. Those that their own
// counters tell come first, as other programs do not move these.
const (
	ByRate      Bound = "rate"        // all that was offered came through
	ByShaper    Bound = "shaper"      // a queue with a rate, such as HTB or TBF
	ByPolicer   Bound = "policer"     // something drops packets on purpose
	ByWindow    Bound = "window"      // what the receiver's socket may hold
	ByBuffer    Bound = "send-buffer" // what the sender's socket may hold
	ByGenerator Bound = "generator"   // the load generator itself
	ByTunnel    Bound = "tunnel"      // the CPU, and tunnels took what other networks do not need
	ByCrypto    Bound = "encryption"  // the CPU, most of it for encryption
	ByDatapath  Bound = "datapath"    // the CPU, most of it in a user-space datapath
	ByPackets   Bound = "packets"     // the CPU, with smaller packets than the baseline's
	ByNetfilter Bound = "netfilter"   // the CPU, most of it in rules
	ByCPU       Bound = "cpu"         // the CPU, no stage is above the rest
	ByOverflow  Bound = "overflow"    // datagrams for which receiving sockets had no room
	ByOneCore   Bound = "one-core"    // one core in softirq, others are idle
	ByOneTask   Bound = "one-task"    // one core, not in softirq, others are idle
	ByOthers    Bound = "busy"        // cannot be told: other programs had the CPU
	ByReader    Bound = "reader"      // the receiving program
	ByLoss      Bound = "loss"        // packets are lost, and TCP gives way
	ByPauses    Bound = "pauses"      // connections had nothing to send
	BySerial    Bound = "serial"      // the CPU, by work that went from core to core
	ByWaiting   Bound = "waiting"     // nothing was busy
	Unknown     Bound = "unknown"
)

// Thresholds of the bounds, as shares of the machine, a core or the lab's CPU time.
const (
	// deliveredAll: of the offered rate; the rest is the window's edges.
	deliveredAll = 0.95
	// generatorFull is bench's gate generator-bound.
	generatorFull = 0.85
	// saturated: with less of the machine idle, the CPU is the bound (bench's gate).
	saturated = 0.05
	// coreFull: a core with less idle time than the rest is used up.
	coreFull = 0.95
	// coreLab: the lab's part of a core that it has filled.
	coreLab = 0.8
	// coreSoftIRQ of a full core makes it one of softirqs.
	coreSoftIRQ = 0.5
	// tunnelPart of the lab's time in tunnels, and dearer than the baseline by
	// tunnelDearer, makes tunnels the cause.
	tunnelPart   = 0.08
	tunnelDearer = 1.15
	// mainPart of the lab's time makes a stage the cause.
	mainPart = 0.3
	// smaller packets than this part of the baseline's are a cause.
	smaller = 0.5
	// otherWork of the machine is worth a word, and leaves the CPU's part open.
	otherWork = 0.1
)

// Situation is what a bound is derived from.
type Situation struct {
	Account
	// Offered and Got are the rate that the load asks for and what came through, in
	// bit/s or, where PerSecond says so, in operations a second, all pairs together;
	// 0 where there is none.
	Offered, Got float64
	PerSecond    bool
	// Baseline is the account of the baseline network for the same question;
	// nil where it was not looked at.
	Baseline *Account
}

// Bound says what bounds the network, and the sentence that says so with figures.
func (s Situation) Bound() (Bound, string) {
	b, why := s.bound()
	text := fmt.Sprintf("%s: %s", s.Network, why)
	for _, more := range []string{s.cost(), s.packets(), s.disturbed(b)} {
		if more != "" {
			text += "; " + more
		}
	}
	return b, text + "."
}

// rule is one bound: "" where it does not fit.
type rule func(Situation) (Bound, string)

// rules lists them, the surest first: what a limit's own counter tells, then the CPU
// where no other program had it, and then what is left when nothing was busy.
func rules() []rule {
	return []rule{
		Situation.byRate, Situation.byShaper, Situation.byPolicer, Situation.bySurelyWindow,
		Situation.byGenerator, Situation.byMachine, Situation.byWindow, Situation.byOverflow, Situation.byCore,
		Situation.byOthers, Situation.byReader, Situation.byPartly, Situation.byLoss, Situation.byPauses, Situation.bySerial,
	}
}

func (s Situation) bound() (Bound, string) {
	for _, r := range rules() {
		if b, why := r(s); b != "" {
			return b, why
		}
	}
	_, busiest := s.busiest()
	return ByWaiting, fmt.Sprintf("not bound by CPU: %s of the machine was idle, and no core was full (the fullest %s); it waits for round trips, timers or a limit of the network%s",
		percent(s.Machine.Idle), percent(busiest.Busy()), s.unlike())
}

// unlike says that no counter shows a limit, where they were read.
func (s Situation) unlike() string {
	if !s.Watched {
		return ""
	}
	return " that has no counter"
}

// byGenerator: the load generator's own time.
func (s Situation) byGenerator() (Bound, string) {
	if s.GeneratorUser <= generatorFull {
		return "", ""
	}
	return ByGenerator, fmt.Sprintf("bound by the load generator, whose busiest thread spent %s of its time in user mode", percent(s.GeneratorUser))
}

// byMachine: no time is left. It is the CPU where the lab had it.
func (s Situation) byMachine() (Bound, string) {
	switch {
	case len(s.Cores) == 0:
		return Unknown, fmt.Sprintf("the machine was %s idle; what each core did is not known", percent(s.Machine.Idle))
	case s.Machine.Idle >= saturated:
		return "", ""
	case s.disturbance() >= otherWork:
		return s.busy()
	}
	return s.byCPU()
}

// byCore: one core has no time left, and the lab had it.
func (s Situation) byCore() (Bound, string) {
	core, busiest := s.busiest()
	if busiest.Idle >= 1-coreFull || len(s.LabCores) > core && s.LabCores[core] < coreLab || s.Missing != "" &&
		s.contended() {
		return "", ""
	}
	if busiest.SoftIRQ >= coreSoftIRQ {
		return ByOneCore,
			fmt.Sprintf("bound by one core in softirq: core %d spent %s of its time there, while %s of the machine was idle",
				core, percent(busiest.SoftIRQ), percent(s.Machine.Idle))
	}
	return ByOneTask, fmt.Sprintf("bound by core %d, which was full (%s), while %s of the machine was idle", core,
		modes(busiest), percent(s.Machine.Idle))
}

// byCPU looks for the cause in a machine that has no time left.
func (s Situation) byCPU() (Bound, string) {
	full := fmt.Sprintf("%d cores have no time left (%s idle)", len(s.Cores), percent(s.Machine.Idle))
	if len(s.Cores) == 1 {
		full = fmt.Sprintf("the one core has no time left (%s idle)", percent(s.Machine.Idle))
	}
	if s.Missing != "" || s.Samples == 0 {
		return ByCPU, fmt.Sprintf("bound by the CPU: %s, %s", full, modes(s.Machine))
	}
	own := s.Share(Encapsulation) + s.Share(Decapsulation)
	switch {
	case s.Share(Crypto) >= mainPart:
		return ByCrypto, fmt.Sprintf("bound by the CPU, by encryption first: %s, and %s of the lab's time went there", full,
			percent(s.Share(Crypto)))
	case s.Share(Datapath) >= mainPart:
		return ByDatapath,
			fmt.Sprintf("bound by the CPU, by a user-space datapath first: %s, and %s of the lab's time went there", full, percent(s.Share(Datapath)))
	case s.Tunnels >= tunnelPart && s.dearer() > tunnelDearer:
		return ByTunnel, fmt.Sprintf("bound by the CPU, by encapsulation before the rest: %s, and %s of the lab's time went into tunnels and what they call (%s in their own functions)",
			full, percent(s.Tunnels), percent(own))
	case s.Share(Netfilter) >= mainPart:
		return ByNetfilter,
			fmt.Sprintf("bound by the CPU, by rules of netfilter first: %s, and %s of the lab's time went there", full, percent(s.Share(Netfilter)))
	case s.smallPackets() && s.dearer() > 1:
		return ByPackets, fmt.Sprintf("bound by the CPU, which has more packets to carry: %s", full)
	}
	return ByCPU, "bound by the CPU: " + full
}

// dearer is the CPU time per unit of work to the baseline's; 0 where not known.
func (s Situation) dearer() float64 {
	if s.Baseline == nil || s.Baseline.Network == s.Network || s.Baseline.Unit != s.Unit {
		return 0
	}
	return per(s.Lab, s.Baseline.Lab)
}

// seen is where packets are compared: between hosts on the underlay.
func (a Account) seen() *Packets {
	if a.Uplink != nil {
		return a.Uplink
	}
	return a.Pod
}

func (s Situation) smallPackets() bool {
	if s.Baseline == nil || s.Baseline.Network == s.Network || s.Baseline.seen() == nil || s.seen() == nil {
		return false
	}
	return s.seen().Size < smaller*s.Baseline.seen().Size
}

// busiest is the core with the least idle time, of those that the lab filled where there are any.
func (s Situation) busiest() (int, Modes) {
	var best int
	for i, c := range s.Cores {
		mine := len(s.LabCores) > i && s.LabCores[i] >= coreLab
		if had := len(s.LabCores) > best && s.LabCores[best] >= coreLab; mine && !had || mine == had &&
			c.Idle < s.Cores[best].Idle {
			best = i
		}
	}
	if len(s.Cores) == 0 {
		return 0, Modes{}
	}
	return best, s.Cores[best]
}

// cost is the CPU time per unit of work, and the stages that take most of it.
func (s Situation) cost() string {
	if s.Missing != "" || len(s.Stages) == 0 {
		return ""
	}
	var text string
	if s.Unit != NoWork {
		text = fmt.Sprintf("%s CPU-s per %s", figure(s.Lab), s.Unit)
		if d := s.dearer(); d > 0 {
			text += fmt.Sprintf(", %s times %s's", figure(d), s.Baseline.Network)
		}
		text += ": "
	}
	stages := slices.DeleteFunc(slices.Clone(s.Stages), func(c Cost) bool { return c.Stage == Sampling })
	slices.SortStableFunc(stages, func(a, b Cost) int { return cmp.Compare(b.Share, a.Share) })
	var parts []string
	for _, c := range stages[:min(3, len(stages))] {
		parts = append(parts, fmt.Sprintf("%s %s", c.Stage, percent(c.Share)))
	}
	text += strings.Join(parts, ", ")
	if c, ok := s.most(); ok {
		text += fmt.Sprintf(", and most of what it adds is %s (%s)", c.Stage, figure(c.PerWork))
	}
	return text
}

// most is the stage that takes most more than at the baseline, where the
// network is dearer at all.
func (s Situation) most() (Cost, bool) {
	if s.dearer() <= 1 {
		return Cost{}, false
	}
	var best Cost
	for _, c := range s.Stages {
		for _, o := range s.Baseline.Stages {
			if o.Stage == c.Stage {
				c.PerWork -= o.PerWork
			}
		}
		if c.PerWork > best.PerWork && c.Stage != Sampling {
			best = c
		}
	}
	return best, best.PerWork > 0
}

// packets is their size, where it was counted.
func (s Situation) packets() string {
	p := s.seen()
	if p == nil {
		return ""
	}
	text := "packets of " + size(p.Size) + " on average"
	if p.Segments > 1.05 {
		text += fmt.Sprintf(" (%s segments each)", figure(p.Segments))
	}
	if s.Baseline != nil && s.Baseline.Network != s.Network && s.Baseline.seen() != nil {
		text += fmt.Sprintf(" against %s", size(s.Baseline.seen().Size))
	}
	return text
}
