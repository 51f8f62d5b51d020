package profile

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkDatagram is the CPU time of a datagram over the loopback, with nobody
// looking and with a sampler: of its own thread, so that other work on the
// machine matters little. Turns alternate, as the machine's speed drifts.
func BenchmarkDatagram(b *testing.B) {
	const turn = 20000
	var spent [2]time.Duration
	var sent int
	for b.Loop() {
		for looking := range spent {
			spent[looking] += cpuOf(b, looking == 1, turn)
		}
		sent += turn
	}
	alone, looked := float64(spent[0].Nanoseconds())/float64(sent), float64(spent[1].Nanoseconds())/float64(sent)
	b.ReportMetric(alone, "ns-alone")
	b.ReportMetric(looked, "ns-looked-at")
	b.ReportMetric(looked/alone, "ratio")
	b.ReportMetric(0, "ns/op")
}

// cpuOf is the CPU time of sending and receiving n datagrams.
func cpuOf(b *testing.B, looking bool, n int) time.Duration {
	b.Helper()
	if looking {
		s, err := Open()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if err := s.Start(); err != nil {
			b.Fatal(err)
		}
	}
	done := make(chan time.Duration)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		before := threadTime()
		datagrams(b, func(sent int) bool { return sent < n })
		done <- threadTime() - before
	}()
	return <-done
}

// threadTime is the CPU time of the calling thread, to which its goroutine is locked.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
