package experiment

import (
	"fmt"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// What the key missing says of networks for which the machine lacks something.
const (
	skip = "skip"
	fail = "fail"
)

// What ends repetitions behind the least number, how networks are built, and the number of
// windows that the run chooses.
const (
	untilWidth    = "width"
	untilVerdicts = "verdicts"
	buildsOwn     = "own"
	buildsShared  = "shared"
	chosen        = "auto"
)

// Where the figure of a trend goes.
const (
	up   = "up"
	down = "down"
)

// kinds are the sorts of values that an experiment holds. Some are checked against what the
// draft has read before.
func (d *draft) kinds() map[string]config.Kind {
	const anything = 1 << 30
	return map[string]config.Kind{
		"name":     config.Name(),
		"network":  config.Parsed(asIs, "the name of a network"),
		"workload": config.Parsed(asIs, "the name of a workload"),
		"app":      config.Named(d.applicationName),
		"prose":    config.Prose(),
		"missing":  config.Word(skip, fail),
		"until":    config.Word(untilWidth, untilVerdicts),
		"way":      config.Word(up, down),
		"builds":   config.Word(buildsOwn, buildsShared),
		"share":    config.Percent(),
		"windows": config.NewKind(parseWindows, fmt.Sprintf("a number from 1 to %d, or %s", maxWindows, chosen),
			config.OrWord(config.Int(1, maxWindows), chosen)),
		"kernel": config.Parsed(d.kernelKind, "a kind of kernel: host, uml or qemu"),
		"vm":     config.Parsed(d.virtual, "a kind of guest kernel: uml or qemu"),
		"route":  config.Parsed(network.ParseRoute, "static or bgp", string(network.RouteStatic), string(network.RouteBGP)),
		"topology": config.Parsed(topo.ParsePlacement, config.Either(texts(topo.Placements())...),
			append(texts(topo.Placements()), "bmp2bmp-local", "bmp2bmp-remote")...),
		"pairs":   config.Int(1, topo.MaxPairs),
		"mtu":     config.Int(topo.MinMTU, topo.MaxMTU),
		"outside": config.Parsed(topo.ParseOutside, "bridge, vxlan, ovs or ovs-vxlan", texts(topo.Outsides())...),
		"cores": config.Parsed(topo.ParseCores, "free, same or apart",
			topo.CoresFree.Word(), topo.CoresSame.Word(), topo.CoresApart.Word()),
		"rmem": config.NewKind(parseRmem, "a size in bytes from 16k to 32m, or auto",
			config.OrWord(config.Size(int(topo.MinRmem), int(topo.MaxRmem)), topo.RmemAuto.Word())),
		"family":     config.Parsed(parseFamily, "4 or 6", "4", "6"),
		"measured":   config.Parsed(d.networkName, "a network of the experiment"),
		"asked":      config.Parsed(d.workloadName, "a workload of the experiment"),
		"size":       config.Size(1, anything),
		"rate":       config.Rate(1e12),
		"congestion": config.Parsed(workload.ParseCongestion, "a congestion control, such as cubic or bbr"),
		"metric":     config.Parsed(parseMetric, "the name of a metric", metricNames(sample.Metrics(), sample.Derived())...),
		"figure":     config.Parsed(asIs, "the name of a metric of the workload", metricNames(sample.Metrics())...),
		"level":      config.Parsed(asIs, "optimum or high", "optimum", "high"),
		"knob":       config.Parsed(claim.ParseKnob, config.Either(texts(claim.Knobs())...), texts(claim.Knobs())...),
		"weight":     config.NewKind(parseWeight, "a number above 0", above0()),
		"weights": {Read: later, Whole: true, Says: "a metric, a list of them, or {METRIC: WEIGHT}",
			Schema: config.ListOrMap(metricNames(sample.Metrics()), above0())},
		"amount": config.Parsed(asIs, "a figure with its unit, such as 5ms, 1.2G or 0.1%"),
	}
}

func texts[T ~string](all []T) (out []string) {
	for _, x := range all {
		out = append(out, string(x))
	}
	return out
}

// later leaves the weights of metrics to the part that they are of: its workload says which metrics there are.
func later(config.Value) (any, error) { return weights(nil), nil }

// asIs keeps a text: what is right depends on what comes behind it in the file.
func asIs(s string) (string, error) { return s, nil }

// above0 is what an editor is told of a weight.
func above0() *config.Schema {
	zero := 0.0
	return &config.Schema{Type: "number", ExclusiveMinimum: &zero}
}

// metricNames are the names of metrics.
func metricNames(lists ...[]sample.Metric) (out []string) {
	for _, m := range slices.Concat(lists...) {
		out = append(out, m.Name)
	}
	return out
}

func parseWindows(v config.Value) (windows, error) {
	if s, err := v.Text(); err == nil && s == chosen {
		return ChooseWindows, nil
	}
	n, err := v.Int(1, maxWindows)
	return windows(n), err
}

// parseRmem reads a receive buffer to begin with.
func parseRmem(v config.Value) (topo.Rmem, error) {
	if word, err := v.Text(); err == nil && word == topo.RmemAuto.Word() {
		return topo.RmemAuto, nil
	}
	n, err := v.Size(int(topo.MinRmem), int(topo.MaxRmem))
	return topo.Rmem(n), err
}

// parseFamily reads an IP family, which files call 4 and scenarios 0.
func parseFamily(s string) (int, error) {
	f, err := topo.ParseFamily(s)
	return topo.Scenario{Family: f}.IP(), err
}

// families are IP families as scenarios have them.
func families(written []int) (out []int) {
	for _, f := range written {
		if f == topo.IPv4 {
			f = 0
		}
		out = append(out, f)
	}
	return out
}

func parseMetric(s string) (string, error) {
	if _, ok := sample.MetricByName(s); ok {
		return s, nil
	}
	return s, fmt.Errorf("unknown metric %q: expected one of %s", s,
		strings.Join(metricNames(sample.Metrics(), sample.Derived()), ", "))
}

func parseWeight(v config.Value) (float64, error) {
	x, err := v.Number()
	if err == nil && x <= 0 {
		err = v.Errorf("%g: expected a weight above 0", x)
	}
	return x, err
}

// kernelKind reads where a network runs.
func (d *draft) kernelKind(kind string) (string, error) {
	if d.catalogue.Kernel == nil {
		return kind, nil
	}
	return kind, d.catalogue.Kernel(kind)
}

// virtual reads the kernel of virtual machines.
func (d *draft) virtual(kind string) (string, error) {
	if kind == HostKernel {
		return kind, fmt.Errorf("%q is no kernel of a virtual machine", kind)
	}
	return d.kernelKind(kind)
}

// networkName reads the name of a network of the experiment.
func (d *draft) networkName(name string) (string, error) {
	var names []string
	for _, n := range d.exp.Networks {
		names = appendNew(names, n.Name)
	}
	if !slices.Contains(names, name) {
		return name, fmt.Errorf("the experiment has no network %q: it has %s", name, strings.Join(names, ", "))
	}
	return name, nil
}

// workloadName reads the name of a workload of the experiment; for that of a paper, of
// one that its quick variant may leave out.
func (d *draft) workloadName(name string) (string, error) {
	if d.exp.Paper != nil {
		_, err := d.workload(name)
		return name, err
	}
	var names []string
	for _, e := range d.exp.Entries {
		names = appendNew(names, e.Workload)
	}
	if !slices.Contains(names, name) {
		return name, fmt.Errorf("the experiment has no workload %q: it has %s", name, strings.Join(names, ", "))
	}
	return name, nil
}
