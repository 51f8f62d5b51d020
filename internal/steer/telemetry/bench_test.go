package telemetry

import (
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// BenchmarkRoundTrip is one request and answer of a byte over veth: without the
// program, with it but not watched, and watched. run-ns is what one run of the
// program takes on average, runs/op how many there are for a small request.
func BenchmarkRoundTrip(b *testing.B) {
	for _, how := range []string{"without", "unwatched", "watched"} {
		b.Run(how, func(b *testing.B) {
			buildPair(b)
			if how != "without" {
				c := attach(b, pins(b))
				if how == "watched" {
					_, err := c.Watch(client)
					must(b, err)
					_, err = c.Watch(server)
					must(b, err)
				}
			}
			k := connect(b, server4)
			go func() {
				for buf := make([]byte, 1); ; {
					if _, err := k.s.Read(buf); err != nil {
						return
					}
					if _, err := k.s.Write(buf); err != nil {
						return
					}
				}
			}()
			buf := make([]byte, 1)
			for b.Loop() {
				if _, err := k.c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := k.c.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("run", func(b *testing.B) {
		stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
		must(b, err)
		defer stats.Close()
		buildPair(b)
		c := attach(b, pins(b))
		_, err = c.Watch(client)
		must(b, err)
		k := connect(b, server4)
		start := runs(b, c)
		for b.Loop() {
			k.send(b, 100)
		}
		s := runs(b, c)
		b.ReportMetric(float64(s.RunCount-start.RunCount)/float64(b.N), "runs/op")
		b.ReportMetric(float64(s.Runtime-start.Runtime)/float64(s.RunCount-start.RunCount), "run-ns")
	})
}

// BenchmarkRead is a Read while that many flows are remembered, all of them active.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{0, 1000, 16000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c := attach(b, pins(b))
			keys, values := make([]telemetryFlowKey, n), make([]telemetryFlowValue, n)
			for i := range keys {
				keys[i] = telemetryFlowKey{Netns: uint64(i)}
			}
			for at := uint64(1); b.Loop(); at++ {
				b.StopTimer()
				for i := range values {
					values[i].LastActive = at
				}
				if n > 0 {
					_, err := c.maps[telemetryMapPwTcpFlows].BatchUpdate(keys, values, nil)
					must(b, err)
				}
				b.StartTimer()
				r, err := c.Read()
				if err != nil || len(r.Flows) < n*9/10 {
					b.Fatal(len(r.Flows), err)
				}
			}
		})
	}
}

// runs are the program's runs so far; the kernel counts them only while
// statistics are enabled.
func runs(b *testing.B, c *Collector) *ebpf.ProgramStats {
	b.Helper()
	info, err := c.link.Info()
	must(b, err)
	prog, err := ebpf.NewProgramFromID(info.Program)
	must(b, err)
	defer prog.Close()
	s, err := prog.Stats()
	must(b, err)
	return s
}
