package agent

import (
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pathwise.dev/pathwise/internal/steer/dataplane"
)

// Metrics returns a handler that answers Prometheus with the agent's view of
// paths, what the data planes counted, and the agent's own counters.
func (sv *server) Metrics() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(exporter{sv, pathMetrics(), agentMetrics()}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return sv.begun.before(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
}

// exporter reads the figures when Prometheus asks, so none is kept twice.
type exporter struct {
	server *server
	paths  map[string]*prometheus.Desc
	own    map[string]*prometheus.Desc
}

func pathMetrics() map[string]*prometheus.Desc {
	labels := []string{"pair", "network", "class"}
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("pathwise_path_"+name, help, labels, nil)
	}
	return map[string]*prometheus.Desc{
		"rtt":     d("rtt_seconds", "Smoothed round trip time by probes."),
		"jitter":  d("jitter_seconds", "Jitter of round trips by probes (RFC 3550)."),
		"loss":    d("loss_ratio", "Lost over sent probes."),
		"goodput": d("goodput_bits_per_second", "What the pair's own traffic carried, both ways."),
		"retrans": d("retransmission_ratio", "Retransmitted over sent TCP segments."),
		"buckets": d("buckets", "Buckets of flows on the path, of 64."),
		"score":   d("score", "Sum of z-scores, as the policy sees it."),
		"up":      d("up", "1 where the path may be used."),
	}
}

func agentMetrics() map[string]*prometheus.Desc {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pathwise_agent_"+name, help, labels, nil)
	}
	return map[string]*prometheus.Desc{
		"switches":   d("switches_total", "Moves of flows."),
		"failovers":  d("failovers_total", "Paths found failed."),
		"homes":      d("homes_total", "Pairs that went to their default network as they had fallen silent."),
		"mutes":      d("mutes_total", "Paths found mute for one pair of pods."),
		"suspicions": d("suspicions_total", "Suspicions of a path, founded or not."),
		"kicks":      d("kicks_total", "Messages that woke connections after a failure (RFC 6069), and SYNs sent again."),
		"untracked":  d("untracked_total", "Tracked connections that the host's kernel was made to forget, as they had moved."),
		"unobserved": d("unobserved_total", "What telemetry could not tell of connections, by what there was no room for.", "what"),
		"stalls":     d("stalls_total", "Ticks of the agent's loop that came late."),
		"pods":       d("pods", "Pods that are steered."),
		"pairs":      d("pairs", "Pairs of pods that are known."),
		"memory":     d("kernel_memory_bytes", "Kernel memory of the pods' data planes: programs, maps and tables of flows."),
		"flows":      d("flows", "Flows that are told apart: steerable, or others, whose end, or the other end, has not taken them up.", "state"),
		"room":       d("flows_room", "Flows for which there is room now; it grows as they come."),
		"refused":    d("flows_refused_total", "Times when there was no room to tell a flow apart."),
		"dataplane":  d("dataplane_events_total", "Packets out of the ordinary, by what.", "event"),
		"probes":     d("probes_refused_total", "Probe packets refused, by reason.", "network", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (e exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range []map[string]*prometheus.Desc{e.paths, e.own} {
		for _, d := range m {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (e exporter) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, p := range e.server.Paths() {
		up := 0.0
		if p.State == "up" {
			up = 1
		}
		for name, v := range map[string]float64{"rtt": p.RTT, "jitter": p.Jitter, "loss": p.Loss, "goodput": p.Goodput,
			"retrans": p.Retrans, "buckets": float64(p.Buckets), "score": p.Score, "up": up} {
			gauge(e.paths[name], v, p.Pair, p.Network, p.Class)
		}
	}
	h := e.server.Health()
	gauge(e.own["pods"], float64(h.Pods))
	gauge(e.own["pairs"], float64(h.Pairs))
	stats, events := e.server.totals()
	count(e.own["stalls"], stats.stalls)
	count(e.own["kicks"], e.server.waker.kicks.Kicks())
	count(e.own["untracked"], e.server.untracked.forgotten.Load())
	count(e.own["switches"], stats.switches)
	count(e.own["failovers"], stats.failovers)
	count(e.own["homes"], stats.homes)
	count(e.own["suspicions"], stats.suspicions)
	count(e.own["mutes"], stats.mutes)
	e.capacity(gauge)
	count(e.own["refused"], events.Full)
	lost := e.server.survey.unobserved()
	for what, v := range map[string]uint64{"event": lost.Events, "socket": lost.Sockets,
		"flow":    lost.Flows,
		"evicted": lost.Evicted, "refused": lost.Refused, "stuck": stats.unremembered} {
		count(e.own["unobserved"], v, what)
	}
	for name, v := range map[string]uint64{"error": events.Errors, "too_big": events.TooBig, "no_path": events.NoPath,
		"lease": events.Lease, "stranger": events.Strangers, "icmp": events.ICMP, "forged": events.Forged,
		"unadmitted": events.Unadmitted, "full": events.Full, "dscp": events.DSCP,
		"elsewhere": events.Elsewhere} {
		count(e.own["dataplane"], v, name)
	}
	for network, c := range h.Reflectors {
		for reason, v := range c.Refused() {
			count(e.own["probes"], v, network, "reflector_"+reason)
		}
	}
	for network, c := range h.Senders {
		for reason, v := range c.Refused() {
			count(e.own["probes"], v, network, "sender_"+reason)
		}
	}
}

// capacity sums the flows of the pods, as they were last swept, and the kernel memory of
// their data planes. That is asked pod by pod, as it takes a millisecond for each.
func (sv *server) capacity() (c dataplane.Census, memory uint64) {
	sv.members.Lock()
	pods := slices.Collect(maps.Values(sv.members.pods))
	for _, l := range pods {
		c.Flows, c.Steerable, c.Room = c.Flows+l.census.Flows, c.Steerable+l.census.Steerable, c.Room+l.census.Room
	}
	sv.members.Unlock()
	for _, l := range pods {
		size, err := l.plane.Memory()
		if err != nil { // it may just have gone
			sv.cfg.Log.Debug("memory not asked for", "pod", l.Name, "error", err)
		}
		memory += size
	}
	return c, memory
}

// capacity tells what the data planes hold, and what that takes.
func (e exporter) capacity(gauge func(*prometheus.Desc, float64, ...string)) {
	c, memory := e.server.capacity()
	gauge(e.own["memory"], float64(memory))
	gauge(e.own["flows"], float64(c.Steerable), "steerable")
	gauge(e.own["flows"], float64(c.Flows-c.Steerable), "other")
	gauge(e.own["room"], float64(c.Room))
}

// totals sums the data planes' events.
func (sv *server) totals() (counters, dataplane.Events) {
	sv.members.Lock()
	defer sv.members.Unlock()
	var sum dataplane.Events
	for _, p := range sv.members.pods {
		sum.Add(p.plane.Events())
	}
	return *sv.stats, sum
}
