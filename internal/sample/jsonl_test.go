package sample_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

func trial(rep int) sample.Trial {
	h := sample.NewHistogram()
	for i := 1; i <= 100; i++ {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	return sample.Trial{
		Cell: sample.Cell{Network: "vxlan", Scenario: topo.Scenario{Placement: topo.TwoHosts, Pairs: 1, MTU: 1500},
			Workload: "tcp-latency", Load: sample.Load{Size: 64}},
		Repetition: rep, Order: rep, Status: sample.OK, Kernel: "host", Latency: h,
		Metrics: map[string]float64{sample.Rate: 1e4, sample.LatencyP50: 5e-5}, CPU: &sample.CPU{User: 1, Cores: 2},
		Notes: []string{"switch 2.0, in the kernel"},
	}
}

func file(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := sample.NewWriter(&b, sample.Header{Experiment: "x", Seed: 7, Planned: 3})
	if err != nil {
		t.Fatal(err)
	}
	for rep := 1; rep <= 3; rep++ {
		if err := w.Trial(trial(rep)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Footer(sample.Footer{Trials: 3}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	raw := file(t)
	res, _, good, err := sample.Read("f", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Seed != 7 || len(res.Trials) != 3 || res.Footer == nil || good != int64(len(raw)) {
		t.Errorf("got %+v, %d of %d bytes", res, good, len(raw))
	}
	got := res.Trials[1]
	if got.Cell != trial(2).Cell || got.Latency.Count() != 100 || got.Metrics[sample.Rate] != 1e4 {
		t.Errorf("got %+v", got)
	}
	if !slices.Equal(got.Notes, trial(2).Notes) {
		t.Errorf("notes %v", got.Notes)
	}
	if p := got.Latency.Percentile(50); p < 49e-6 || p > 51e-6 {
		t.Errorf("median %v", p)
	}
}

func TestReadNamesFileAndLine(t *testing.T) {
	raw := string(file(t))
	lines := strings.SplitAfter(raw, "\n")
	for _, tc := range []struct {
		name, text, want string
		is               error
	}{
		{"truncated", raw[:len(lines[0])+len(lines[1])+40], "f:3: truncated", sample.ErrTruncated},
		{"edited figure", strings.Replace(raw, `"rate":10000`, `"rate":90000`, 1), "f:2: key sum: changed",
			sample.ErrChanged},
		{"line removed", lines[0] + lines[2] + lines[3], "f:2: key sum: changed", sample.ErrChanged},
		{"lines swapped", lines[0] + lines[2] + lines[1], "f:2: key sum: changed", sample.ErrChanged},
		{"edited sum", strings.Replace(raw, `"sum":"`, `"sum":"0`, 1), "f:1: key sum: expected 16 hex digits", nil},
		{"newer", strings.Replace(raw, `"version":1`, `"version":2`, 1), "f:1: key header.version: newer format: file has 2",
			sample.ErrNewer},
		{"another format", strings.Replace(raw, "pathwise/samples", "elsewise/samples", 1),
			`f:1: key header.format: expected "pathwise/samples"`, nil},
		{"not JSON", "hello\n", "f:1: not a line of a pathwise/samples file", nil},
		{"empty", "", "f:1: empty file", nil},
		{"after the footer", raw + lines[1], "f:6: key sum: changed", sample.ErrChanged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, _, err := sample.Read("f", strings.NewReader(tc.text))
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("%v is not %v", err, tc.is)
			}
		})
	}
}

func TestResumeContinuesTheChain(t *testing.T) {
	raw := file(t)
	cut := raw[:bytes.LastIndexByte(raw[:len(raw)-1], '\n')-10] // within the third trial
	res, sum, good, err := sample.Read("f", bytes.NewReader(cut))
	if !errors.Is(err, sample.ErrTruncated) || len(res.Trials) != 2 {
		t.Fatalf("got %d trials, %v", len(res.Trials), err)
	}
	b := bytes.NewBuffer(bytes.Clone(cut[:good]))
	if err := sample.Resume(b, sum).Trial(trial(3)); err != nil {
		t.Fatal(err)
	}
	res, _, _, err = sample.Read("f", bytes.NewReader(b.Bytes()))
	if err != nil || len(res.Trials) != 3 {
		t.Errorf("got %d trials, %v", len(res.Trials), err)
	}
}

// full is a disk that takes n more bytes.
type full struct{ n int }

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.n {
		return f.n, errors.New("no space left on device")
	}
	f.n -= len(p)
	return len(p), nil
}

func TestWriterReportsAFullDisk(t *testing.T) {
	w, err := sample.NewWriter(&full{400}, sample.Header{Experiment: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Trial(trial(1)); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
}

func TestHistogramsMerge(t *testing.T) {
	a, b := sample.NewHistogram(), sample.NewHistogram()
	for range 99 {
		a.Record(time.Microsecond)
	}
	b.Record(time.Millisecond)
	a.Merge(b)
	a.Merge(nil)
	if a.Count() != 100 || a.Percentile(50) > 2e-6 || a.Percentile(99.9) < 0.9e-3 {
		t.Errorf("count %d, p50 %v, p99.9 %v", a.Count(), a.Percentile(50), a.Percentile(99.9))
	}
	a.Record(0)
	a.Record(time.Hour)
	if a.Count() != 102 {
		t.Error("values outside the range are not counted")
	}
}

func TestUnmeasured(t *testing.T) {
	ended := func(network string, status sample.Status) sample.Trial {
		return sample.Trial{Cell: sample.Cell{Network: network}, Status: status}
	}
	r := sample.Results{Trials: []sample.Trial{
		ended("vxlan", sample.Failed), ended("bridge", sample.Failed), ended("none", sample.Refused),
		ended("dummy", sample.Unsupported), ended("gre", sample.Invalid), ended("vxlan", sample.OK),
		ended("bridge", sample.Failed), ended("none", sample.Failed),
	}}
	var got []string
	for _, first := range r.Unmeasured() {
		got = append(got, first.Network)
	}
	if want := []string{"bridge", "gre"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file(f))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		res, sum, good, err := sample.Read("f", bytes.NewReader(raw))
		if good > int64(len(raw)) {
			t.Fatalf("read %d of %d bytes", good, len(raw))
		}
		if err != nil {
			return
		}
		again, sum2, _, err := sample.Read("f", bytes.NewReader(raw))
		if err != nil || sum != sum2 || len(again.Trials) != len(res.Trials) {
			t.Errorf("a second reading differs: %v", err)
		}
	})
}

func FuzzHistogram(f *testing.F) {
	raw, err := trial(1).Latency.MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h sample.Histogram
		if h.UnmarshalJSON(raw) == nil {
			_ = fmt.Sprint(h.Count(), h.Percentile(99), h.Mean(), h.Max())
			sample.NewHistogram().Merge(&h)
		}
	})
}
