package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/bridge"
	"pathwise.dev/pathwise/internal/lab/network/plain"
	"pathwise.dev/pathwise/internal/lab/network/vxlan"
	"pathwise.dev/pathwise/internal/measure/bench"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// datagrams is a small real workload: the client sends UDP datagrams to the
// server's address for the window. It fails, lies or stalls on request.
type datagrams struct {
	// fail is what Run returns.
	fail error
	// claim is the payload that it claims to have moved, in bytes.
	claim float64
	// silent leaves out the promised metric.
	silent bool
	// before is called when Run starts.
	before func()
	// inPod is called then, too, with the bed.
	inPod func(workload.Bed)
	// unseen has the meter told of the end at once.
	unseen func() bool
}

func (datagrams) Info() workload.Info {
	return workload.Info{Name: "datagrams", Metrics: []string{sample.Throughput}, Pairs: true}
}

func (d datagrams) Run(ctx context.Context, bed workload.Bed, _ sample.Load, w workload.Window,
	m workload.Meter) (workload.Outcome, error) {
	if d.before != nil {
		d.before()
	}
	if d.inPod != nil {
		d.inPod(bed)
	}
	if d.fail != nil {
		return workload.Outcome{}, d.fail
	}
	err := bed.Do(bed.Pairs[0].Client, func() error {
		c, err := net.Dial("udp4", bed.Pairs[0].Server.Service.String())
		if err != nil {
			return err
		}
		defer c.Close()
		// A lost ARP request is repeated after a second only: wait for an answer.
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if _, err := c.Write(make([]byte, 1)); err != nil {
				break
			}
		}
		m.Begin()
		if d.unseen != nil && d.unseen() {
			return nil
		}
		for end := time.Now().Add(w.Duration); time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, _ = c.Write(make([]byte, 1000)) // nobody listens: the port answers unreachable
		}
		return nil
	})
	m.End()
	out := workload.Outcome{Metrics: map[string]float64{sample.Throughput: 1e6 + float64(time.Now().Nanosecond()%1000)},
		Bytes: d.claim}
	if d.silent {
		out.Metrics = nil
	}
	return out, err
}

// run is one run of bench over the networks with one workload.
type run struct {
	out    bytes.Buffer
	events []bench.Event
	footer sample.Footer
	store  lab.Store
}

func (r *run) results(t *testing.T) sample.Results {
	t.Helper()
	res, _, _, err := sample.Read("samples", bytes.NewReader(r.out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func config(t *testing.T, r *run, w datagrams, nets ...network.Network) bench.Config {
	t.Helper()
	bin, err := filepath.Abs("../../../bin/pathwise")
	if err != nil {
		t.Fatal(err)
	}
	r.store = lab.Store{Root: filepath.Join(t.TempDir(), "store")}
	c := bench.Config{
		Networks:  map[string]network.Network{},
		Workloads: map[string]workload.Workload{"datagrams": w},
		Store:     r.store, Lab: lab.Options{CNIPath: lab.DefaultCNIPath(bin), Owned: true}, Seed: 5, Now: time.Now,
		Observe: func(e bench.Event) { r.events = append(r.events, e) },
	}
	c.Experiment = experiment.Experiment{Name: "t", Repeat: experiment.Repeat{Min: 2, Max: 2, Width: 0.5}}
	for _, n := range nets {
		c.Networks[n.Info().Name] = n
		c.Experiment.Networks = append(c.Experiment.Networks, experiment.Network{Name: n.Info().Name, Find: n.Info().Name})
	}
	c.Experiment.Entries = []experiment.Entry{{Workload: "datagrams", Loads: []sample.Load{{}},
		Scenarios: []topo.Scenario{{Placement: topo.TwoHosts, Pairs: 1, MTU: 1500}},
		Window:    workload.Window{Duration: 100 * time.Millisecond}}}
	if c.Log, err = sample.NewWriter(&r.out, sample.Header{Seed: 5}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *run) do(t *testing.T, c bench.Config) sample.Results {
	t.Helper()
	var err error
	if r.footer, err = bench.Run(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	return r.results(t)
}

func keys(trials []sample.Trial) []string {
	var out []string
	for _, t := range trials {
		out = append(out, fmt.Sprintf("%s#%d:%s", t.Network, t.Repetition, t.Status))
	}
	return out
}

func TestRunMeasuresEveryCellInEveryRepetition(t *testing.T) {
	var r run
	res := r.do(t, config(t, &r, datagrams{claim: 1000}, plain.None{}, plain.Host{}, bridge.New(bridge.Private),
		vxlan.New()))
	got := keys(res.Trials)
	slices.Sort(got)
	want := []string{"bridge#1:unsupported", "host#1:ok", "host#2:ok", "none#1:refused", "vxlan#1:ok", "vxlan#2:ok"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
		for _, tr := range res.Trials {
			t.Logf("%s#%d: %s %s", tr.Network, tr.Repetition, tr.Status, tr.Reason)
		}
	}
	if r.footer.Trials != 6 || len(r.footer.Warnings) != 0 {
		t.Errorf("footer %+v", r.footer)
	}
	for i, tr := range res.Trials {
		if tr.Order != i+1 {
			t.Errorf("trial %d has order %d", i+1, tr.Order)
		}
		if tr.Status == sample.OK && (tr.CPU == nil || tr.Phases.Window < 0.1 || tr.Metrics[sample.CPUPerGB] < 0) {
			t.Errorf("%s: %+v", tr.Network, tr)
		}
	}
	last := r.events[len(r.events)-1]
	if !last.Ended || last.Done != 6 || last.Total != 6 || last.Left != 0 {
		t.Errorf("last event %+v", last)
	}
	if _, err := os.Stat(r.store.Root); !os.IsNotExist(err) {
		t.Errorf("store left: %v", err)
	}
}

// noted is a network that tells how it was built.
type noted struct{ network.Network }

func (n noted) Build(ctx context.Context, site network.Site) (network.Plug, error) {
	plug, err := n.Network.Build(ctx, site)
	plug.Notes = []string{"built by hand"}
	return plug, err
}

func TestNotesStandInTheSample(t *testing.T) {
	var r run
	for _, tr := range r.do(t, config(t, &r, datagrams{claim: 1000}, plain.Host{}, noted{vxlan.New()})).Trials {
		if want := tr.Network == "vxlan"; slices.Equal(tr.Notes, []string{"built by hand"}) != want {
			t.Errorf("%s: notes %v", tr.Network, tr.Notes)
		}
	}
}

func TestTheSeedDecidesTheOrder(t *testing.T) {
	order := func(seed uint64) []string {
		var r run
		c := config(t, &r, datagrams{fail: errors.New("no time")}, plain.Host{}, bridge.New(bridge.Published), vxlan.New())
		c.Seed = seed
		return keys(r.do(t, c).Trials)
	}
	a := order(5)
	if !slices.Equal(a, order(5)) {
		t.Error("the same seed, another order")
	}
	if slices.Equal(a, order(6)) && slices.Equal(a, order(7)) {
		t.Error("every seed has the same order")
	}
}

func TestFailuresAreResults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		w      datagrams
		status sample.Status
		want   string
	}{
		{"error", datagrams{fail: errors.Join(errors.New("one"), errors.New("two"))}, sample.Failed, "one; two"},
		{"another way", datagrams{claim: 1e12}, sample.Invalid, "traffic took another way"},
		{"no figure", datagrams{claim: 1, silent: true}, sample.Failed, "workload datagrams measured no throughput"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r run
			res := r.do(t, config(t, &r, tc.w, plain.Host{}))
			if len(res.Trials) != 2 {
				t.Fatalf("%d trials: a failed cell is tried in every repetition", len(res.Trials))
			}
			for _, tr := range res.Trials {
				if tr.Status != tc.status || !strings.Contains(tr.Reason, tc.want) || strings.Contains(tr.Reason, "\n") {
					t.Errorf("%s: %q", tr.Status, tr.Reason)
				}
			}
		})
	}
}

func TestResumeRunsWhatIsLeft(t *testing.T) {
	var whole run
	res := whole.do(t, config(t, &whole, datagrams{claim: 1}, plain.Host{}, vxlan.New()))
	var rest run
	c := config(t, &rest, datagrams{claim: 1}, plain.Host{}, vxlan.New())
	c.Done = res.Trials[:3]
	got := rest.do(t, c).Trials
	if len(got) != 1 || got[0].Cell != res.Trials[3].Cell || got[0].Repetition != res.Trials[3].Repetition ||
		got[0].Order != 4 {
		t.Errorf("resumed with %v after %v", keys(got), keys(res.Trials))
	}
	if rest.footer.Trials != 4 {
		t.Errorf("footer %+v", rest.footer)
	}
}

func TestTheStoppingRuleStops(t *testing.T) {
	var r run
	c := config(t, &r, datagrams{claim: 1}, plain.Host{})
	c.Experiment.Repeat = experiment.Repeat{Min: 3, Max: 9, Width: 0.5} // the figures lie within 0.1 %
	if n := len(r.do(t, c).Trials); n != 3 {
		t.Errorf("%d trials, want the least number", n)
	}
	var wide run
	c = config(t, &wide, datagrams{claim: 1}, plain.Host{})
	c.Experiment.Repeat = experiment.Repeat{Min: 2, Max: 4, Width: 1e-9}
	if n := len(wide.do(t, c).Trials); n != 4 {
		t.Errorf("%d trials, want the greatest number", n)
	}
	if len(wide.footer.Warnings) != 1 || wide.footer.Warnings[0].Gate != "wide" {
		t.Errorf("footer %+v", wide.footer)
	}
	var spent run
	c = config(t, &spent, datagrams{claim: 1}, plain.Host{})
	c.Experiment.Repeat, c.Experiment.Budget = experiment.Repeat{Min: 2, Max: 50, Width: 1e-9}, time.Second
	if n := len(spent.do(t, c).Trials); n < 2 || n > 10 {
		t.Errorf("%d trials within the budget", n)
	}
}

// TestClaimsHaveTheirRepetitions, also where the budget is spent, and no other cell has.
func TestClaimsHaveTheirRepetitions(t *testing.T) {
	var r run
	c := config(t, &r, datagrams{claim: 1}, plain.Host{}, vxlan.New(), plain.None{})
	c.Experiment.Repeat, c.Experiment.Budget = experiment.Repeat{Min: 1, Max: 9, Claims: 3, Width: 1e-9}, time.Nanosecond
	c.Experiment.Claims = []claim.Claim{{ID: "c", Metric: sample.Throughput, Test: claim.Test{Ratio: &claim.Ratio{
		Of: claim.Side{Network: "host"}, To: claim.Side{Network: "none"}}}}}
	got := keys(r.do(t, c).Trials)
	slices.Sort(got)
	if want := []string{"host#1:ok", "host#2:ok", "host#3:ok", "none#1:refused", "vxlan#1:ok"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if last := r.events[len(r.events)-1]; last.Done != 5 || last.Total != 5 {
		t.Errorf("last event %+v", last)
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	var r run
	ctx, cancel := context.WithCancel(context.Background())
	c := config(t, &r, datagrams{before: cancel}, vxlan.New())
	_, err := bench.Run(ctx, c)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := len(r.results(t).Trials); n != 0 {
		t.Errorf("%d trials of a cancelled run", n)
	}
	if _, err := os.Stat(r.store.Root); !os.IsNotExist(err) {
		t.Errorf("store left: %v", err)
	}
}

func TestAFullDiskStopsTheRun(t *testing.T) {
	var r run
	c := config(t, &r, datagrams{claim: 1}, plain.Host{})
	c.Log = sample.Resume(noSpace{}, "")
	if _, err := bench.Run(context.Background(), c); err == nil ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
}

type noSpace struct{}

func (noSpace) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestWindows: a build with several windows is one trial whose figures are their means.
func TestWindows(t *testing.T) {
	var r run
	runs := 0
	c := config(t, &r, datagrams{claim: 1000, before: func() { runs++ }}, plain.Host{})
	c.Experiment.Repeat.Windows = 3
	trials := r.do(t, c).Trials
	if len(trials) != 2 || runs != 6 {
		t.Fatalf("%d trials of %d windows, expected 2 of 6 in all", len(trials), runs)
	}
	for _, tr := range trials {
		if tr.Status != sample.OK || len(tr.Windows) != 3 || tr.Phases.Window < 0.3 || tr.Phases.Loaded < tr.Phases.Window {
			t.Errorf("trial %+v", tr)
			continue
		}
		if mean := (tr.Windows[0] + tr.Windows[1] + tr.Windows[2]) / 3; tr.Metrics[sample.Throughput]-mean > 1e-6*mean ||
			mean-tr.Metrics[sample.Throughput] > 1e-6*mean {
			t.Errorf("throughput %g of windows %v", tr.Metrics[sample.Throughput], tr.Windows)
		}
	}
	runs = 0
	c = config(t, &r, datagrams{fail: errors.New("broken"), before: func() { runs++ }}, plain.Host{})
	c.Experiment.Repeat.Windows = 3
	if c.Log, runs = mustWriter(t, &r), 0; len(r.do(t, c).Trials) != 2 || runs != 2 {
		t.Errorf("%d windows were tried of builds whose first one fails, expected 2", runs)
	}
}

func mustWriter(t *testing.T, r *run) *sample.Writer {
	t.Helper()
	r.out.Reset()
	w, err := sample.NewWriter(&r.out, sample.Header{Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	return w
}
