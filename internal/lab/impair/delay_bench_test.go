package impair

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkHeldUp tells what holding packets costs: the throughput of one TCP
// connection from the pod, and how much longer than told a lone datagram takes.
// Netem is measured by running it on a kernel that has it:
//
//	go test -c ./internal/lab/impair && pathwise guest exec -- ./impair.test -test.run - -test.bench HeldUp
func BenchmarkHeldUp(b *testing.B) {
	for _, tc := range []struct {
		name string
		i    Impairment
	}{
		{"nothing", Impairment{}},
		{"1ms out", Impairment{Delay: ms}},
		{"1ms both", Impairment{Delay: ms, Direction: Both}},
		{"10ms both", Impairment{Delay: 10 * ms, Direction: Both}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			bed := newBed(b, "veth")
			if err := bed.m.Apply(bed.eth0, tc.i); err != nil {
				b.Fatal(err)
			}
			f, _, err := bed.m.InForce(bed.eth0)
			if err != nil {
				b.Fatal(err)
			}
			b.Log("by ", strings.Join(f.By, ", "))
			const size = 512 << 20
			before := lineTime(b)
			var took time.Duration
			for range b.N {
				took += bed.transfer(b, size)
			}
			b.ReportMetric((lineTime(b)-before).Seconds()/(float64(b.N)*size/1e9), "line-s/GB")
			b.ReportMetric(float64(b.N)*size*8/took.Seconds()/1e9, "Gbit/s")
			var over []time.Duration
			for range 200 {
				over = append(over, bed.lone(b)-tc.i.Delay)
			}
			slices.Sort(over)
			b.ReportMetric(float64(over[100].Microseconds()), "us-over-p50")
			b.ReportMetric(float64(over[198].Microseconds()), "us-over-p99")
			if err := bed.m.Clear(bed.eth0); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// lineTime is the CPU time of the delay line, none where there is none.
func lineTime(b *testing.B) time.Duration {
	b.Helper()
	pids := lines(b)
	if len(pids) == 0 {
		return 0
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pids[0]))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')'):]))
	var ticks time.Duration
	for _, f := range fields[12:14] { // utime, stime; USER_HZ is 100
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * ms
}
