package decide

import "time"

// DefaultParams are the figures that agents use.
func DefaultParams() Params {
	return Params{
		Failure: FailureParams{
			SilentSamples: 2,
			ShortOutage:   10 * time.Second, UnansweredAge: 0.15,
			CanaryExcused: true, OutageDiscounted: true, ReportedAfter: 2 * time.Second, StaleProbe: 3,
		},
		Track: defaultTrack(),
		Load: LoadParams{
			Learn: true, BulkWeight: 0.15, BulkAt: 0.5, Change: 0.2, ClassRatio: 4,
			LimitedStays: true,
		},
		Memory:   defaultMemory(),
		Estimate: defaultEstimate(),
		Lead: LeadParams{
			Threshold: 14, Clip: 3.5, Block: 20, SlowThreshold: 11, DriftNoise: 0.5, Dead: 2,
			StallAt: 1.5, StallSamples: 5,
		},
		Gain: defaultGain(),
		Spread: SpreadParams{
			Crowd: 4, Within: time.Second, Step: 16, Wait: 500 * time.Millisecond,
		},
		Canary: defaultCanary(),
		Overestimate: OverestimateParams{
			Kept: 0.7, Within: 2 * time.Second, Samples: 5, Most: 4, For: 2 * time.Minute,
		},
		Class: DefaultClasses(),
		Share: defaultShare(),
	}
}

func defaultShare() ShareParams {
	return ShareParams{
		Flows: 8, Margin: 0.06, CPUWeight: 1, Buckets: 16, Least: 4, Even: 1.5, WeighEvery: 4 * time.Second,
		Settle: 200 * time.Millisecond, Weight: 0.1,
		Samples: 4, SamplesMost: 30, AcceptAt: 3, RejectAt: 1.5, AddsMost: 4,
		CheckFirst: 30 * time.Second, CheckMost: 5 * time.Minute, CheckAgain: 5 * time.Second, Room: 0.85,
		FirstWait: 5 * time.Second, MostWait: 5 * time.Minute,
	}
}

// DefaultClasses are the figures by which agents tell classes of flows apart.
func DefaultClasses() ClassParams {
	return ClassParams{Turn: 32 << 10, Turns: 8, Patience: time.Second, Shown: 2, Sure: 4, Gone: 5 * time.Second}
}

func defaultTrack() TrackParams {
	return TrackParams{
		RateSamples: 3, FullSamples: 3, SlowStart: 2,
		NoiseFirst: 0.1, NoiseWeight: 0.05, NoiseClip: 0.3, NoiseLeast: 0.04, NoiseMost: 0.3, Deviation: 1.25,
		MeanWeight: 0.1, MeanWithin: 2, Grows: 1.03, GrowsFor: time.Second,
	}
}

func defaultMemory() MemoryParams {
	return MemoryParams{
		HealthMost: 2, HealthChange: 0.3, CalmDown: 0.2, CalmUp: 0.005, CalmClip: 2, JitterFloor: 100e-6,
		EasedAt: 1.7, EasedAfter: time.Second,
		OpFirst: 0.1, OpWeight: 0.05, OpClip: 0.5, OpLeast: 0.03, OpMost: 0.5, OpDeviation: 1.25,
		SwayFor: 15 * time.Second, SwayStays: 12, SwayErrors: 3.2,
		OwnAfter: 2 * time.Second, OwnMost: 3, OwnFor: time.Hour,
		MisledAt: 1.2, ReversalWithin: 30 * time.Second, ReversalMemory: 20 * time.Minute, Thinning: 4,
	}
}

func defaultEstimate() EstimateParams {
	return EstimateParams{
		Timeout: 0.2, JitterWeight: 4, Unknown: 2, LowDoubt: 2, PriorLow: 0.9, PriorHigh: 1.1, Headroom: 1.1,
		Ageing: 30, Recovery: 1, LossWeight: 10,
		OpsLow: 0.97, OpsHigh: 1.03,
	}
}

func defaultGain() GainParams {
	return GainParams{
		Horizon: 10 * time.Second, Margin: 0.03, LeastSaved: 50e-6, CostWeight: 1,
		Shown: true, SeenFor: 10 * time.Second,
		DemandFits: true, Busy: 0.3, SustainedShare: 0.95, SustainedFor: 30 * time.Second,
	}
}

func defaultCanary() CanaryParams {
	return CanaryParams{
		For: 400 * time.Millisecond, Most: 900 * time.Millisecond, Samples: 2,
		SamplesMost: 60, SamplesMostLarge: 25, Large: 16,
		Longest: 10 * time.Second, AcceptAt: 3, RejectAt: 1.5, Prior: 1, RatioClip: 3, MeanWithin: 0.2,
		LeastWait: time.Second, MostWait: 5 * time.Minute, Worse: 0.85, MuteSamples: 2, Outbid: true, Lasting: true,
		CostSwitches: 2, Bulk: 16, EmptyShift: 2, EmptyMost: 3, EmptyLargest: 32, Grow: 4,
		Kept: 0.9, FreeSRTT: 1.3, FreeSamples: 10, FullSamples: 2, Growth: 0.005,
	}
}
