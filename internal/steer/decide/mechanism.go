package decide

import (
	"math"
	"slices"
)

// Mechanism is a part of the cost-aware policy that can be left out.
type Mechanism struct {
	Name string `json:"name"`
	// About is one sentence about what it does.
	About string `json:"about"`
	// Unseen is what it is for where no family of schedules has that: what it earns
	// there says nothing.
	Unseen string `json:"unseen,omitempty"`

	off func(*Params)
}

// Without are the default parameters with the mechanism turned off.
func (m Mechanism) Without() *Params {
	p := DefaultParams()
	m.off(&p)
	return &p
}

// Mechanisms lists all, in the order of Params.
func Mechanisms() []Mechanism {
	return slices.Concat(failureMechanisms(), trackMechanisms(), estimateMechanisms(), gainMechanisms(),
		canaryMechanisms())
}

func failureMechanisms() []Mechanism {
	return []Mechanism{
		{"silence", "leaves a path that sends and receives nothing before probes prove it failed",
			"failures that probes do not show", func(p *Params) { p.Failure.SilentSamples = 0 }},
		{"short-outage", "takes a path to be as it was before an outage of moments",
			"", func(p *Params) { p.Failure.ShortOutage = 0 }},
		{"canary-fail", "does not count a failure under a canary",
			"", func(p *Params) { p.Failure.CanaryExcused = false }},
		{"outage", "takes out of probes' loss what an outage has left in it",
			"", func(p *Params) { p.Failure.OutageDiscounted = false }},
		{"stale", "gains nothing from a path whose probes are old",
			"probes that stop", func(p *Params) { p.Failure.StaleProbe = math.Inf(1) }},
	}
}

func trackMechanisms() []Mechanism {
	return []Mechanism{
		{"slow-start", "leaves out the first samples of new connections", "", func(p *Params) { p.Track.SlowStart = 0 }},
		{"full-only", "measures a path only where senders were not short of data",
			"", func(p *Params) { p.Track.FullSamples = 0 }},
		{"mean-rate", "takes the mean rate where it is near the recent median",
			"", func(p *Params) { p.Track.MeanWithin = 0 }},
		{"growing", "waits until flows that have just come fill their path",
			"", func(p *Params) { p.Track.Grows = 0 }},
		{"need", "learns what pairs need that declare nothing", "", func(p *Params) { p.Load.Learn = false }},
		{"load-change", "begins its baseline afresh under another load", "", func(p *Params) { p.Load.Change = 1 }},
		{"load-class", "remembers rates by class of load", "", func(p *Params) { p.Load.ClassRatio = math.MaxInt }},
		{"limited", "leaves a bulk pair that gets all it asks for", "", func(p *Params) { p.Load.LimitedStays = false }},
		{"jitter-floor", "takes tens of microseconds for no queue",
			"a busy CPU that disturbs idle paths", func(p *Params) { p.Memory.JitterFloor = 0 }},
		{"own-load", "reckons with what the pair's traffic will do to an idle path",
			"what the pair's own load does to probes", func(p *Params) { p.Memory.OwnMost = 1 }},
		{"reversals", "wants more samples of delay once a move was taken back",
			"what the pair's own load does to probes", func(p *Params) { p.Memory.Thinning = 0 }},
	}
}

func estimateMechanisms() []Mechanism {
	return []Mechanism{
		{"timeout", "counts a lost packet as a retransmission timeout",
			"paths that lose packets", func(p *Params) { p.Estimate.Timeout = 0 }},
		{"headroom", "tries a path that may have been impaired whenever it was used",
			"", func(p *Params) { p.Estimate.Headroom = 0 }},
		{"recovery", "lets a bad measurement leave room with age",
			"", func(p *Params) { p.Estimate.Recovery = math.Inf(1) }},
		{"probe-loss", "expects less of a path whose probes are lost",
			"paths that lose packets", func(p *Params) { p.Estimate.LossWeight = 0 }},
		{"eased", "forgets what a path gave while others used it, once they have gone",
			"", func(p *Params) { p.Memory.EasedAt = 0 }},
		{"low-doubt", "takes what few samples have shown to be less, as evidence for a move",
			"", func(p *Params) { p.Estimate.LowDoubt = 0 }},
	}
}

func gainMechanisms() []Mechanism {
	return []Mechanism{
		{"evidence", "waits until a better path is no accident (CUSUM)", "", func(p *Params) { p.Lead.Threshold = 0 }},
		{"slow-sum", "sees what lies below the scatter of a sample",
			"", func(p *Params) { p.Lead.SlowThreshold = math.Inf(1) }},
		{"clip", "bounds what one sample counts", "", func(p *Params) { p.Lead.Clip = 1000 }},
		{"stall", "leaves samples out in which the machine stalls",
			"stalls of more than one sample", func(p *Params) { p.Lead.StallSamples = 0 }},
		{"margin", "ignores gains that two builds of a network differ by", "", func(p *Params) { p.Gain.Margin = 0 }},
		{"cost", "wants more gain than a switch costs",
			"switches that cost 0.3 s and more", func(p *Params) { p.Gain.CostWeight = 0 }},
		{"shown", "wants to have seen that the path carries data",
			"paths that answer probes and carry no data", func(p *Params) { p.Gain.Shown = false }},
		{"demand", "does not follow delay to a path that carries less", "queues that the pair's own load makes",
			func(p *Params) { p.Gain.DemandFits = false }},
		{"busy", "asks more of a path the nearer the pair is to filling one", "queues that the pair's own load makes",
			func(p *Params) { p.Gain.Busy = math.Inf(1) }},
		{"crowd", "spreads the moves of many pairs", "many pairs", func(p *Params) { p.Spread.Crowd = math.MaxInt }},
	}
}

func canaryMechanisms() []Mechanism {
	return []Mechanism{
		{"doubt", "goes on with a canary until its gain is clear", "", func(p *Params) { p.Canary.AcceptAt = 0 }},
		{"prior", "wants more of a canary the longer nothing has changed",
			"", func(p *Params) { p.Canary.Prior = 0 }},
		{"give-up", "ends a canary early that is unlikely to gain",
			"", func(p *Params) { p.Canary.RejectAt = p.Canary.AcceptAt }},
		{"ratio-clip", "bounds what one sample of a canary counts",
			"hours of quiet", func(p *Params) { p.Canary.RatioClip = 1000 }},
		{"mean-gain", "takes a canary's mean where it is near its median",
			"hours of quiet", func(p *Params) { p.Canary.MeanWithin = 0 }},
		{"worse", "tries again at once when the active path gets worse", "", func(p *Params) { p.Canary.Worse = 0 }},
		{"lasting", "tries the less often the longer nothing has changed",
			"", func(p *Params) { p.Canary.Lasting = false }},
		{"outbid", "ends a canary where another path may bring more than it can still show",
			"", func(p *Params) { p.Canary.Outbid = false }},
		{"quarter", "tries a quarter of many bulk flows", "", func(p *Params) { p.Canary.Bulk = 0 }},
		{"mute", "ends a canary that nothing comes back of after the second sample, not the first",
			"full paths that answer nothing for a moment", func(p *Params) { p.Canary.MuteSamples = 1 }},
		{"empty", "enlarges a canary that held no flow",
			"flows spread unevenly over buckets", func(p *Params) { p.Canary.EmptyMost = 0 }},
		{"grow", "enlarges a canary whose flows do not fill the path", "", func(p *Params) { p.Canary.Grow = 1 }},
		{"slack", "takes a canary without a queue for one that does not fill the path",
			"senders that are slow to find a rate", func(p *Params) { p.Canary.FreeSRTT = -1e9 }},
		{"overestimate", "leaves out what a canary shows at first of a path that did not keep it",
			"networks that save up what goes unused", func(p *Params) { p.Overestimate.Samples = 0 }},
	}
}
