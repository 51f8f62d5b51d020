package decide

import "time"

// Params are the figures of the cost-aware policy, by what they serve. DefaultParams
// gives those that agents use.
//
// Tags say of each its unit, the range in which it makes sense, and its source: a
// paper, the kernel, or a measurement. "chosen" is a figure whose source nobody has
// written down. What is a size of State (window, loadClasses) or of the data plane
// (Buckets) is no parameter.
//
// Each mechanism can be turned off by its figures: see Mechanisms.
type Params struct {
	Failure      FailureParams
	Track        TrackParams
	Load         LoadParams
	Memory       MemoryParams
	Estimate     EstimateParams
	Lead         LeadParams
	Gain         GainParams
	Spread       SpreadParams
	Canary       CanaryParams
	Overestimate OverestimateParams
	Class        ClassParams
	Share        ShareParams
}

// ClassParams are about classes of flows.
type ClassParams struct {
	// Turn is from how many bytes from one answer to the next a flow is bulk; what has
	// carried less is judged after so many Turns, or after Patience.
	Turn     float64       `unit:"bytes" range:"1000 1e9" source:"chosen: half a default socket buffer; pages and records are smaller"`
	Turns    float64       `unit:"answers" range:"1 1000" source:"chosen"`
	Patience time.Duration `unit:"s" range:"0 60" source:"chosen"`
	// Shown looks make a class known, and Sure bounds how much more than that it takes to
	// change it.
	Shown int `unit:"looks" range:"1 100" source:"package agent: flows are looked at each 250 ms"`
	Sure  int `unit:"looks" range:"1 100" source:"chosen"`
	// Gone is for how long a class must have carried nothing for the classes to join.
	Gone time.Duration `unit:"s" range:"0 600" source:"chosen"`
}

// FailureParams are about paths that fail and come back.
type FailureParams struct {
	// SilentSamples without any answer, though the pair sends, count as failure; 0 for none.
	SilentSamples int `unit:"samples" range:"0 100" source:"chosen"`
	// An outage no longer than ShortOutage, in which probes went unanswered for
	// UnansweredAge, leaves the path as it was; after another one it must be tried again.
	ShortOutage   time.Duration `unit:"s" range:"0 600" source:"SeenFor"`
	UnansweredAge float64       `unit:"s" range:"0 10" source:"package agent: failed paths are probed each 30 ms"`
	// CanaryExcused: a failure under a canary is the canary's doing, and not counted.
	CanaryExcused bool `unit:"switch" source:"the drill faults: canaries drowned the probes of a slow path"`
	// OutageDiscounted takes out of the probes' loss what an outage that is over has left
	// in it. ReportedAfter is by when what was lost in it has been told: a probe is given
	// up after its deadline, and agents sum their probes up once a second.
	OutageDiscounted bool          `unit:"switch" source:"the drill faults: probes look back over 256 samples"`
	ReportedAfter    time.Duration `unit:"s" range:"0 60" source:"package agent: probes are summed up each second"`
	// StaleProbe is the age from which a probe says nothing.
	StaleProbe float64 `unit:"s" range:"0 60" source:"chosen"`
}

// TrackParams are about the figures of the active path. Weights are those of moving
// averages, by sample.
type TrackParams struct {
	// RateSamples make a recent rate, FullSamples in a row of senders that were not
	// short of data a measurement: whether applications limit what is sent is known a
	// while after they begin to.
	RateSamples int `unit:"samples" range:"0 5" source:"chosen"`
	FullSamples int `unit:"samples" range:"0 100" source:"package agent: queues are looked at each 250 ms"`
	// SlowStart is the number of samples of new connections that say nothing: TCP
	// begins with ten segments and doubles them each round trip.
	SlowStart int `unit:"samples" range:"0 100" source:"RFC 6928; drills with round trips of 20 ms"`
	// Noise is the scatter of the logarithm of rates around their recent median, from the
	// mean deviation: the first, its weight, the bound of one sample, its least and most.
	NoiseFirst  float64 `unit:"log" range:"0 1" source:"chosen"`
	NoiseWeight float64 `unit:"weight" range:"0 1" source:"chosen"`
	NoiseClip   float64 `unit:"log" range:"0 10" source:"chosen"`
	NoiseLeast  float64 `unit:"log" range:"0.001 1" source:"chosen: a calm minute must not make the next ripple a signal"`
	NoiseMost   float64 `unit:"log" range:"0.001 10" source:"chosen"`
	// Deviation is the standard over the mean deviation of a normal figure, sqrt(pi/2).
	Deviation float64 `unit:"ratio" range:"1 2" source:"normal distribution, rounded"`
	// MeanWeight is that of the mean rate, which begins afresh where it is further from the recent
	// median than MeanWithin times the noise.
	MeanWeight float64 `unit:"weight" range:"0 1" source:"chosen"`
	MeanWithin float64 `unit:"noises" range:"0 10" source:"chosen"`
	// A rate that is Grows times its mean still grows, as may that of flows that came within GrowsFor, where
	// they do not fill their path; 0 for never.
	Grows    float64       `unit:"ratio" range:"0 100" source:"the drill mixed"`
	GrowsFor time.Duration `unit:"s" range:"0 60" source:"FreeSamples"`
}

// LoadParams are about what the pair asks of its path.
type LoadParams struct {
	// Learn the need of pairs that declare none; else they wait for answers. BulkWeight is
	// how fast it is learned: what Data says is smoothed already, and a bulk transfer that
	// is taken for a dialogue is moved by its delay. From BulkAt it is bulk.
	Learn      bool    `unit:"switch" source:"the need follows the traffic"`
	BulkWeight float64 `unit:"weight" range:"0 1" source:"chosen"`
	BulkAt     float64 `unit:"share" range:"0 1" source:"chosen"`
	// Change is by how much a load is another, so that figures of before say nothing.
	Change float64 `unit:"share" range:"0 1" source:"chosen"`
	// ClassRatio is between the connections of one class of load and of the next.
	ClassRatio int `unit:"ratio" range:"2 1000000" source:"chosen"`
	// LimitedStays: a bulk pair that gets all it asks for is left where it is.
	LimitedStays bool `unit:"switch" source:"no path can give more than what is asked"`
}

// MemoryParams are about what is remembered of each path.
type MemoryParams struct {
	// HealthMost bounds the rate measured on a path over its prior, HealthChange is by how
	// much it differs where the path has changed.
	HealthMost   float64 `unit:"ratio" range:"1 100" source:"chosen"`
	HealthChange float64 `unit:"ratio" range:"0 2" source:"chosen"`
	// CalmDown and CalmUp are the weights of the probes' calm round trip where it falls and
	// rises, CalmClip bounds one sample.
	CalmDown float64 `unit:"weight" range:"0 1" source:"chosen"`
	CalmUp   float64 `unit:"weight" range:"0 1" source:"chosen"`
	CalmClip float64 `unit:"ratio" range:"1 100" source:"chosen"`
	// JitterFloor is what a busy CPU adds to the round trips of idle paths now and then.
	JitterFloor float64 `unit:"s" range:"0 0.01" source:"chosen: above the tens of microseconds by which idle paths sway"`
	// EasedAt is by how much shorter the probes' round trip is where a path is no more as it
	// was when its rate was measured, or until EasedAfter after the pair's flows have left
	// it, as these make a queue too; 0 for never.
	EasedAt    float64       `unit:"ratio" range:"0 1000" source:"M/M/1: a path of which others used four tenths and do no more"`
	EasedAfter time.Duration `unit:"s" range:"0 60" source:"chosen: above the half second of a median"`
	// OpFirst, OpWeight, OpClip, OpLeast and OpMost are those of the scatter of the time of
	// an operation, as in TrackParams.
	OpFirst  float64 `unit:"log" range:"0 1" source:"chosen"`
	OpWeight float64 `unit:"weight" range:"0 1" source:"chosen"`
	OpClip   float64 `unit:"log" range:"0 10" source:"chosen"`
	OpLeast  float64 `unit:"log" range:"0.001 1" source:"chosen"`
	OpMost   float64 `unit:"log" range:"0.001 10" source:"chosen"`
	// OpDeviation is Deviation of TrackParams.
	OpDeviation float64 `unit:"ratio" range:"1 2" source:"normal distribution, rounded"`
	// SwayFor is the time constant with which it is forgotten how the times of a path sway,
	// SwayStays how many independent times that is, and SwayErrors by how many standard errors
	// those of two paths differ where they are apart.
	SwayFor    time.Duration `unit:"s" range:"0.1 3600" source:"chosen: idle paths between two nodes stayed at one time for up to 2.5 s"`
	SwayStays  float64       `unit:"times" range:"1 1000" source:"2 SwayFor over 2.5 s"`
	SwayErrors float64       `unit:"standard errors" range:"0 100" source:"chosen: one wrong in an hour of sway at the worst that was seen"`
	// Own load: after OwnAfter on a path it shows what the pair's traffic does to it, by
	// OwnMost at most, forgotten with the time constant OwnFor.
	OwnAfter time.Duration `unit:"s" range:"0 60" source:"chosen"`
	OwnMost  float64       `unit:"ratio" range:"1 100" source:"chosen"`
	OwnFor   time.Duration `unit:"s" range:"1 86400" source:"chosen"`
	// MisledAt is by how much longer an operation takes than was promised where a move was a
	// mistake.
	MisledAt float64 `unit:"ratio" range:"0 100" source:"chosen: above the scatter of medians, below OwnMost"`
	// ReversalWithin is within what time a move that is taken back was a mistake, ReversalMemory the
	// time constant with which mistakes are forgotten. For each, Thinning more samples of
	// delay count as one: what disturbs a probe, a busy CPU most of all, disturbs its
	// neighbours too, so that once it has misled they are no independent evidence.
	ReversalWithin time.Duration `unit:"s" range:"0 3600" source:"chosen"`
	ReversalMemory time.Duration `unit:"s" range:"1 86400" source:"chosen"`
	Thinning       float64       `unit:"samples" range:"0 100" source:"chosen"`
}

// EstimateParams are about what a path that is not in use would give.
type EstimateParams struct {
	// Timeout is what a lost packet costs a request.
	Timeout float64 `unit:"s" range:"0 60" source:"Linux's least retransmission timeout, TCP_RTO_MIN"`
	// JitterWeight is that of the jitter in the time of an operation, of robust needs.
	JitterWeight float64 `unit:"ratio" range:"0 100" source:"RFC 6298: four times RTTVAR"`
	// Unknown is by how much a path of which nothing is known may exceed the active one.
	Unknown float64 `unit:"ratio" range:"1 100" source:"chosen"`
	// LowDoubt is by how many standard errors what was measured is taken to be less, where
	// that is evidence for a move: few samples may have been good by accident.
	LowDoubt float64 `unit:"errors" range:"0 20" source:"normal distribution: 2 in 100 are further out"`
	// PriorLow and PriorHigh bound what a path gives of its prior that was not measured.
	PriorLow  float64 `unit:"ratio" range:"0 1" source:"chosen"`
	PriorHigh float64 `unit:"ratio" range:"1 2" source:"chosen"`
	// Headroom is by how much a path that was impaired whenever it was used may exceed
	// all others: else one that follows a better one is never tried.
	Headroom float64 `unit:"ratio" range:"0 10" source:"chosen"`
	// Recovery is the time constant by which a path that was bad may have become good, and
	// Ageing that by which it may have got Headroom.
	Recovery float64 `unit:"s" range:"0.1 86400" source:"chosen"`
	Ageing   float64 `unit:"s" range:"0.1 86400" source:"chosen"`
	// LossWeight is that of the probes' loss in what a path carries.
	LossWeight float64 `unit:"ratio" range:"0 1000" source:"chosen"`
	// OpsLow and OpsHigh bound operations a second, which probes see.
	OpsLow  float64 `unit:"ratio" range:"0 1" source:"chosen"`
	OpsHigh float64 `unit:"ratio" range:"1 2" source:"chosen"`
}

// LeadParams are about the evidence that a path is better: see Lead.
type LeadParams struct {
	// Threshold of the sum of log-likelihood ratios: the mean time to a false alarm is at
	// least near exp(Threshold) samples, at 100 ms a day and a half.
	Threshold float64 `unit:"log" range:"0 1000" source:"Page (1954), Lorden (1971)"`
	// Clip bounds one sample, so that it takes four to reach the threshold however far out
	// one of them lies: one spike of the scheduler spoils two samples at the most.
	Clip float64 `unit:"log" range:"0.1 1000" source:"Threshold / 4"`
	// Block is the number of samples in a block of the slow sum; its threshold is lower by
	// ln(Block), which makes false alarms as rare in time.
	Block         int     `unit:"samples" range:"1 10000" source:"chosen"`
	SlowThreshold float64 `unit:"log" range:"0 1e9" source:"Threshold - ln(Block)"`
	// The sums test for a shift of twice the drift: the margin, or DriftNoise of the
	// scatter where that is more.
	DriftNoise float64 `unit:"ratio" range:"0 10" source:"chosen"`
	// Dead is the number of clips that a sample counts in which the active path gives nothing.
	Dead float64 `unit:"clips" range:"0 100" source:"chosen"`
	// A path's probes are late from StallAt times their calm round trip. Where those of
	// most other paths are, the machine stalls, for StallSamples at the most; 0 for never.
	StallAt      float64 `unit:"ratio" range:"1 100" source:"chosen"`
	StallSamples int     `unit:"samples" range:"0 100" source:"chosen: half a second"`
}

// GainParams are about when a move for gain pays.
type GainParams struct {
	// Horizon is for how long a gain is expected to last. Schedules whose epochs are
	// shorter cannot be followed with profit anyway.
	Horizon time.Duration `unit:"s" range:"0.1 3600" source:"chosen"`
	// Margin is the least gain worth a thought: below it lies what two builds of one
	// network differ by.
	Margin float64 `unit:"share" range:"0 1" source:"public CNI benchmarks: builds differ by 0.5 to 4.4 % in the median"`
	// LeastSaved is the least time of an operation that moves a pair which declares no need,
	// while the times of the two paths still sway into each other.
	LeastSaved float64 `unit:"s" range:"0 0.01" source:"two nodes on a busy machine: idle paths swayed between 24 and 55 us"`
	// CostWeight is that of the upper bound of what switches cost, which a gain must exceed.
	CostWeight float64 `unit:"ratio" range:"0 100" source:"the bound as it is"`
	// Shown: the path has carried data, for a need of rate within SeenFor.
	Shown   bool          `unit:"switch" source:"a probe that is answered does not prove that data passes"`
	SeenFor time.Duration `unit:"s" range:"0 86400" source:"Horizon"`
	// DemandFits: a pair that gets all it asks for goes only where that much is carried. One that
	// sends more than Busy of the most that any path gave may be filling its path itself, and
	// goes only where that was measured, or where flows that got all they asked for had
	// SustainedShare of it within SustainedFor.
	DemandFits     bool          `unit:"switch" source:"an idle slow path answers fast"`
	Busy           float64       `unit:"share" range:"0 1e9" source:"chosen"`
	SustainedShare float64       `unit:"share" range:"0 1" source:"chosen"`
	SustainedFor   time.Duration `unit:"s" range:"0 86400" source:"chosen"`
}

// SpreadParams keep many pairs that see the same from moving as a herd.
type SpreadParams struct {
	// Crowd is the number of other pairs on a path from which moves are spread over Within,
	// and made in steps of Step buckets, Wait apart.
	Crowd  int           `unit:"pairs" range:"1 1000000000" source:"chosen"`
	Within time.Duration `unit:"s" range:"0 60" source:"chosen"`
	Step   int           `unit:"buckets" range:"1 64" source:"a quarter of Buckets"`
	Wait   time.Duration `unit:"s" range:"0 60" source:"chosen"`
}

// CanaryParams are about flows that try a path.
type CanaryParams struct {
	// A stage that shows no data ends after Most; Samples of data are needed. For is what
	// a canary is reckoned to take.
	For     time.Duration `unit:"s" range:"0.1 60" source:"chosen"`
	Most    time.Duration `unit:"s" range:"0.1 60" source:"chosen"`
	Samples int           `unit:"samples" range:"1 5" source:"chosen"`
	// Where the figures are near, a canary goes on for up to SamplesMost, or SamplesMostLarge
	// where it holds more than Large buckets.
	SamplesMost      int `unit:"samples" range:"1 1000" source:"chosen"`
	SamplesMostLarge int `unit:"samples" range:"1 1000" source:"chosen"`
	Large            int `unit:"buckets" range:"1 64" source:"a quarter of Buckets"`
	// Longest is within what time of traffic any canary is decided, all its stages together
	// and whatever its samples lack.
	Longest time.Duration `unit:"s" range:"0.1 600" source:"chosen"`
	// AcceptAt is the number of standard errors that a canary's gain must exceed: it is
	// looked at after each sample, which makes accidents likelier. RejectAt is by how many
	// it must fall short of Margin to end before its time: a canary that is ended in error
	// comes again, where a move in error costs more.
	AcceptAt float64 `unit:"errors" range:"0 20" source:"chosen"`
	// Prior is the weight of the odds that nothing has changed just now, in AcceptAt: see acceptAt.
	Prior    float64 `unit:"ratio" range:"0 10" source:"Gott (1993)"`
	RejectAt float64 `unit:"errors" range:"0 20" source:"simulation; Wald (1945): two bounds for two kinds of error"`
	// RatioClip bounds the logarithm of one sample's ratio, in noises.
	RatioClip float64 `unit:"noises" range:"0.1 1000" source:"chosen"`
	// MeanWithin is how near the mean must be to what the median says to be used.
	MeanWithin float64 `unit:"log" range:"0 10" source:"chosen"`
	// A canary is not repeated before LeastWait, and comes again after MostWait, or once the
	// active path gives less than Worse of what it gave then.
	LeastWait time.Duration `unit:"s" range:"0.1 600" source:"chosen"`
	MostWait  time.Duration `unit:"s" range:"1 86400" source:"chosen"`
	Worse     float64       `unit:"share" range:"0 1" source:"chosen"`
	// MuteSamples in a row, in which timers fired and nothing came back, end a canary.
	MuteSamples int `unit:"samples" range:"1 20" source:"the drill shares: a full path answers nothing to two flows for a tenth of a second"`
	// Outbid: a canary that can show less gain than another path may have, which is due, ends for that one.
	Outbid bool `unit:"switch" source:"simulation: two paths alike were compared for 6 s, and one with twice the rate waited"`
	// Lasting: the longer nothing has changed, the rarer are canaries.
	Lasting bool `unit:"switch" source:"Gott (1993)"`
	// CostSwitches is how many switches a canary's share costs: there and back.
	CostSwitches float64 `unit:"switches" range:"0 10" source:"there and back"`
	// Bulk buckets of many bulk flows are tried; 0 for as many as hold a flow. They lose
	// little, as the others take what they leave, and are soon at what the path can give,
	// which a few are not: BBR probes for a quarter more every eight round trips.
	Bulk int `unit:"buckets" range:"0 64" source:"Cardwell et al. (2016)"`
	// A canary without flows is repeated with 2^EmptyShift times the buckets, up to
	// EmptyLargest; after EmptyMost of them in a row with all.
	EmptyShift   int `unit:"bits" range:"0 6" source:"chosen"`
	EmptyMost    int `unit:"canaries" range:"0 3" source:"chosen"`
	EmptyLargest int `unit:"buckets" range:"1 64" source:"half of Buckets"`
	// Grow is by how much a canary grows whose flows get all they ask for, or leave their path without a queue; 1 for
	// not.
	Grow int `unit:"ratio" range:"1 64" source:"chosen"`
	// Flows that take less than FreeSRTT times the calm round trip and lose nothing do not fill their path, and
	// may get more as their windows grow: they have FreeSamples, and more while they gain Growth a sample.
	// FullSamples in a row say that they fill it. Those that get Kept times what they got before are joined by
	// the others.
	Kept        float64 `unit:"ratio" range:"0 10" source:"chosen: the scatter of a few samples"`
	FreeSRTT    float64 `unit:"ratio" range:"0 100" source:"chosen"`
	FreeSamples int     `unit:"samples" range:"1 1000" source:"chosen"`
	FullSamples int     `unit:"samples" range:"1 1000" source:"chosen: a stall spoils one"`
	Growth      float64 `unit:"share" range:"0 1" source:"RFC 9438: half a segment a round trip, of windows of a hundred"`
}

// OverestimateParams are about paths that give canaries more than they keep.
type OverestimateParams struct {
	// A path that gives less than Kept of what its canary showed, within Within, has not kept it.
	Kept   float64       `unit:"share" range:"0 1" source:"chosen"`
	Within time.Duration `unit:"s" range:"0 60" source:"chosen: above the second that policers save up"`
	// Of its next canaries the first Samples tell nothing, twice as many each time up to Most times, for as long
	// as For.
	Samples int           `unit:"samples" range:"0 100" source:"chosen"`
	Most    int           `unit:"times" range:"1 8" source:"chosen"`
	For     time.Duration `unit:"s" range:"0 86400" source:"chosen"`
}

// ShareParams are about flows that share several networks.
type ShareParams struct {
	// On: they may, from so many Flows on; sharing ends below half of them.
	On    bool `unit:"switch" source:"the agent's --share"`
	Flows int  `unit:"connections" range:"2 1000000" source:"chosen: of eight, all are in one half of the buckets once in 128 times"`
	// Margin is by how much networks must carry more together than the best of them.
	// CPUWeight is that of the CPU that a byte takes more then.
	Margin    float64 `unit:"share" range:"0 1" source:"chosen: twice what two builds of one network differ by"`
	CPUWeight float64 `unit:"ratio" range:"0 100" source:"chosen: a tenth more CPU for each byte is to bring a tenth more"`
	// A network is tried with so many Buckets. Portions are Least or more, and follow what
	// networks carry each WeighEvery where they differ from that by Even: a flow that is moved
	// may be reordered.
	Buckets    int           `unit:"buckets" range:"1 32" source:"Canary.Bulk"`
	Least      int           `unit:"buckets" range:"1 16" source:"chosen: two of a row"`
	Even       float64       `unit:"ratio" range:"1 64" source:"chosen"`
	WeighEvery time.Duration `unit:"s" range:"0.1 600" source:"chosen"`
	// For Settle after flows have moved nothing is seen. Weight is that of moving averages.
	Settle time.Duration `unit:"s" range:"0 10" source:"drills with round trips of 20 ms: TCP needs ten of them"`
	Weight float64       `unit:"weight" range:"0 1" source:"TrackParams.MeanWeight"`
	// Samples decide where they are clear by AcceptAt errors, or speak against it by RejectAt,
	// and SamplesMost otherwise. AddsMost bounds what one of them counts.
	Samples     int     `unit:"samples" range:"1 100" source:"chosen"`
	SamplesMost int     `unit:"samples" range:"1 1000" source:"chosen"`
	AcceptAt    float64 `unit:"errors" range:"0 20" source:"Canary.AcceptAt"`
	RejectAt    float64 `unit:"errors" range:"0 20" source:"Canary.RejectAt"`
	AddsMost    float64 `unit:"ratio" range:"1 100" source:"chosen: a spike is one sample"`
	// All flows are on one network for some samples, to see what it carries alone, after
	// CheckFirst, and after twice as long each time, up to CheckMost. Where all carry no more
	// than one did they are at once, but not within CheckAgain.
	CheckFirst time.Duration `unit:"s" range:"1 3600" source:"chosen: a check takes 0.6 s, 2 % of it"`
	CheckMost  time.Duration `unit:"s" range:"1 86400" source:"Canary.MostWait"`
	CheckAgain time.Duration `unit:"s" range:"0.1 600" source:"chosen"`
	// Room: one network is enough that carried this part more alone than is asked for.
	Room float64 `unit:"share" range:"0 1" source:"chosen"`
	// A network that added nothing is tried again after FirstWait, and after twice as long each
	// time, up to MostWait.
	FirstWait time.Duration `unit:"s" range:"0.1 600" source:"chosen"`
	MostWait  time.Duration `unit:"s" range:"1 86400" source:"Canary.MostWait"`
}

// checkWait is the time until it is looked what one network carries alone, after so many looks.
func (p *ShareParams) checkWait(checks int) time.Duration {
	return min(p.CheckFirst<<min(checks, 20), p.CheckMost)
}
