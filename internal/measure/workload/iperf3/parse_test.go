package iperf3

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestParse reads what iperf3 3.12 printed on the development machine. The sums
// were taken from the same files with another program.
func TestParse(t *testing.T) {
	for name, want := range map[string]struct {
		spans                             int
		bytes, packets, lost, retransmits float64
		last                              float64
		congestion, failure               string
	}{
		"tcp-client":       {20, 4749590528, 0, 0, 1, 1.00027, "cubic", ""},
		"tcp-server":       {22, 4749590528, 0, 0, 0, 1.000307, "", ""},
		"udp-client":       {20, 24978800, 17842, 0, 0, 1.000082, "", ""},
		"udp-server":       {20, 24978800, 17842, 0, 0, 1.000084, "", ""},
		"udp-lossy-client": {9, 97288800, 69492, 0, 0, 1.051373, "", ""},
		"udp-lossy-server": {10, 48578600, 65986, 31287, 0, 1.05228, "", ""},
		"client-killed":    {5, 1508245504, 0, 0, 0, 0.519416, "", "the client has unexpectedly closed the connection"},
		"server-killed": {7, 2169896960, 0, 0, 1, 0.60016, "",
			"unable to write to stream socket: Connection reset by peer"},
		"refused":    {failure: "unable to connect to server: Connection refused"},
		"congestion": {failure: "unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported on this host"},
	} {
		rep, err := parse(read(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(rep.Spans) != want.spans || rep.Congestion != want.congestion || rep.Failure != want.failure {
			t.Errorf("%s: got %d spans, congestion %q, failure %q; want %d, %q, %q", name,
				len(rep.Spans), rep.Congestion, rep.Failure, want.spans, want.congestion, want.failure)
		}
		var sum span
		for _, s := range rep.Spans {
			sum.Bytes += s.Bytes
			sum.Packets += s.Packets
			sum.Lost += s.Lost
			sum.Retransmits += s.Retransmits
			sum.To = s.To
		}
		if sum.Bytes != want.bytes || sum.Packets != want.packets || sum.Lost != want.lost ||
			sum.Retransmits != want.retransmits || math.Abs(sum.To-want.last) > 1e-6 {
			t.Errorf("%s: got %+v, want %+v", name, sum, want)
		}
	}
	rep, err := parse(read(t, "udp-server"))
	if err != nil {
		t.Fatal(err)
	}
	if got := rep.Spans[0].Jitter; math.Abs(got-7.51090264603342e-06) > 1e-12 {
		t.Errorf("jitter %g s: want iperf3's milliseconds as seconds", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":              "",
		"text":                 "iperf3: error - unable to connect\n",
		"cut off":              `{"intervals":[{"streams":[{"start":0,"end":0.1`,
		"ends before it began": `{"intervals":[{"streams":[{"start":1,"end":0.5,"bytes":1}]}]}`,
		"negative bytes":       `{"intervals":[{"streams":[{"start":0,"end":1,"bytes":-1}]}]}`,
		"endless":              `{"intervals":[{"streams":[{"start":0,"end":1e300,"bytes":1}]}]}`,
	} {
		if rep, err := parse([]byte(in)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, rep)
		} else if !strings.HasPrefix(err.Error(), "read iperf3's JSON: ") {
			t.Errorf("%s: error %q does not say what failed", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		f.Fatal("no testdata", err)
	}
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"intervals":[{"streams":[{"start":0,"end":0,"bytes":5,"jitter_ms":null}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		rep, err := parse(raw)
		if err != nil {
			return
		}
		run := pairRun{server: rep, client: rep}
		for _, at := range []float64{-1, 0, 0.25, 3} {
			run.from = at
			got := clip(rep.Spans, at, at+0.5)
			lost, of := lost(got, got)
			for _, v := range []float64{got.Bytes, got.Packets, got.Lost, got.Retransmits, got.Jitter, got.Seconds, got.bits(),
				lost, of, of - lost} {
				if !(v >= 0) || math.IsInf(v, 0) {
					t.Fatalf("figure %g of %+v from %q", v, got, raw)
				}
			}
			for _, p := range series([]pairRun{run}, time.Second, 0.5) {
				if !(p.Value >= 0) || math.IsInf(p.Value, 0) {
					t.Fatalf("series value %g from %q", p.Value, raw)
				}
			}
		}
	})
}
