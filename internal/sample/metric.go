package sample

import "slices"

// Better says which direction of a metric is the better one.
type Better int

// Directions.
const (
	Higher Better = 1
	Lower  Better = -1
)

// Aspect groups metrics for ranking, after Atici and Boluk (2020): what a
// network achieves, and how robust it is while it does.
type Aspect string

// Aspects.
const (
	Performance Aspect = "performance"
	Robustness  Aspect = "robustness"
	// Cost is shown alongside the ranking, and not summed into it.
	Cost Aspect = "cost"
)

// Metric describes a figure that trials carry under its Name.
type Metric struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Better Better `json:"better"`
	Aspect Aspect `json:"aspect"`
	Doc    string `json:"doc"`
}

// Names of the metrics.
const (
	Throughput     = "throughput"
	Rate           = "rate"
	LatencyP50     = "latency_p50"
	LatencyP99     = "latency_p99"
	LatencyP999    = "latency_p999"
	LatencyMean    = "latency_mean"
	LatencyIdle    = "latency_idle"
	LatencyLoaded  = "latency_loaded"
	LatencyGrowth  = "latency_growth"
	ThroughputDown = "throughput_down"
	ThroughputUp   = "throughput_up"
	Retransmits    = "retransmits"
	Jitter         = "jitter"
	Loss           = "loss"
	Errors         = "errors"
	Startup        = "startup"
	StartupNetwork = "startup_network"
	CPUPerGB       = "cpu_per_gb"
	CPUPerKop      = "cpu_per_kop"
	LatencyFirst   = "latency_first"
	Passes         = "passes"
	CPUPerPacket   = "cpu_per_packet"
	// CPUCores and SoftIRQShare are of the CPU time that every trial carries;
	// see Trial.Figure.
	CPUCores     = "cpu_cores"
	SoftIRQShare = "softirq_share"
)

// Metrics lists every metric, in the order in which they are shown.
func Metrics() []Metric {
	return []Metric{
		{Throughput, "bit/s", Higher, Performance, "payload that the receiving application got (goodput), all pairs together"},
		{Rate, "1/s", Higher, Performance, "finished operations (round trips, connections), all pairs together"},
		{LatencyP50, "s", Lower, Performance, "median time of an operation, such as a round trip or a request, from merged histograms: from when it began, or at a constant rate from when it was due"},
		{LatencyP99, "s", Lower, Performance, "99th percentile of the same"},
		{LatencyP999, "s", Lower, Performance, "99.9th percentile of the same"},
		{LatencyMean, "s", Lower, Performance, "mean of the same"},
		{LatencyIdle, "s", Lower, Performance, "median round trip on the path before it is loaded"},
		{LatencyLoaded, "s", Lower, Performance, "median round trip alongside streams that fill the path both ways"},
		{LatencyFirst, "s", Lower, Performance, "median round trip of the first packets of a flow, which the network's datapath had forgotten"},
		{LatencyGrowth, "ratio", Lower, Performance, "latency_loaded over latency_idle"},
		{ThroughputDown, "bit/s", Higher, Performance, "payload that clients got from servers while both sent, all pairs together"},
		{ThroughputUp, "bit/s", Higher, Performance, "payload that servers got from clients while both sent, all pairs together"},
		{Startup, "s", Lower, Performance, "from the request for a pod to its first answered ping"},
		{StartupNetwork, "s", Lower, Performance, "the part of the start-up spent in CNI ADD"},
		{Retransmits, "1/GB", Lower, Robustness, "TCP segments sent again, per 10^9 bytes of payload"},
		{Jitter, "s", Lower, Robustness, "RFC 1889 interarrival jitter that the UDP receiver saw"},
		{Loss, "ratio", Lower, Robustness, "UDP datagrams lost, of those sent, as the receiver counted"},
		{Errors, "1", Lower, Robustness, "operations that began in the window and failed: refused, reset, timed out or answered wrongly, all pairs together"},
		{CPUPerGB, "CPU-s/GB", Lower, Cost, "CPU time of the whole machine per 10^9 bytes of payload, idle baseline subtracted"},
		{CPUPerKop, "CPU-s/1000", Lower, Cost, "CPU time of the whole machine per 1000 operations, idle baseline subtracted"},
		{CPUPerPacket, "CPU-s", Lower, Cost, "CPU time of the whole machine per packet that Open vSwitch's datapaths took in, idle baseline subtracted"},
		{Passes, "1", Lower, Cost, "passes through Open vSwitch's datapath that a packet took: 1, and one more each time it was recirculated, as to be tracked"},
	}
}

// Derived lists the metrics that trials do not carry but tell, see Trial.Figure.
// Claims can be about them; no ranking or table shows them.
func Derived() []Metric {
	return []Metric{
		{CPUCores, "cores", Lower, Cost, "processors of the whole machine kept busy, idle baseline subtracted"},
		{SoftIRQShare, "ratio", Lower, Cost, "part of the busy time spent in interrupts and softirqs"},
	}
}

// MetricByName returns the metric called name, a derived one too.
func MetricByName(name string) (Metric, bool) {
	all := append(Metrics(), Derived()...)
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return Metric{}, false
}
