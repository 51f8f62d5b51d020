package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/dataplane"
)

// storm is a train of switches and what it was like.
type storm struct {
	done int
	// writes are the times of the map writes, each of all 64 buckets.
	writes []time.Duration
	// turns counts switches by the path left and the one moved to.
	turns map[[2]int]int
}

// shuffle moves the flows of pod a among the paths 0 to paths-1 at about an
// interval, n times.
func (p *planes) shuffle(ctx context.Context, n, paths int, interval time.Duration, r *rand.Rand) (storm, error) {
	out := storm{turns: map[[2]int]int{}}
	errs := make(chan error)
	go func() {
		// A thread of its own, which ends with the goroutine, and sleeps by itself:
		// the runtime's timers are coarser than the interval may be.
		runtime.LockOSThread()
		var first unix.CPUSet
		first.Set(0)
		_ = unix.SchedSetaffinity(0, &first)               // off the cores of pinned traffic, where there are several
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // else sleeps are up to 50 us longer
		errs <- p.switchPaths(ctx, &out, n, paths, interval, r)
	}()
	return out, <-errs
}

func (p *planes) switchPaths(ctx context.Context, out *storm, n, paths int, interval time.Duration,
	r *rand.Rand) error {
	at, next := 0, program.Kernel()
	for out.done < n {
		next += time.Duration((0.5 + r.Float64()) * float64(interval))
		if wait := next - program.Kernel(); wait > 0 {
			ts := unix.NsecToTimespec(int64(wait))
			_ = unix.Nanosleep(&ts, nil) // a signal only shortens it
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		to := (at + 1 + r.IntN(paths-1)) % paths
		out.done++
		// An agent has just read where the flows are, as evidence for what it decides,
		// and this process has slept: the write alone is to be timed, and neither what
		// the caches lost meanwhile (some 3 us on a Xeon at 2.8 GHz) nor the clock's own code.
		if _, err := p.from.Choices(p.b.UID); err != nil {
			return err
		}
		_ = time.Now()
		begin := time.Now() // by the vDSO: a system call would take longer than the write
		_, err := p.from.Switch(p.b.UID, dataplane.All, to)
		took := time.Since(begin)
		if err := errors.Join(err, p.tell()); err != nil {
			return err
		}
		out.writes = append(out.writes, took)
		out.turns[[2]int{at, to}]++
		at = to
	}
	return nil
}

// note writes the map writes' figures into a sample.
func (w storm) note(out *Sample) {
	out.Values["switches"] = float64(w.done)
	if len(w.writes) == 0 {
		return
	}
	sorted := make([]float64, len(w.writes))
	for i, d := range w.writes {
		sorted[i] = d.Seconds()
	}
	slices.Sort(sorted)
	out.Values["write_median_s"], out.Values["write_p99_s"], out.Values["write_most_s"] = median(sorted), p99(sorted),
		worst(sorted)
}

// explained is how many packets the difference of the paths' delays alone makes
// arrive out of order: where flows move to a path that is faster by n spacings,
// the first packet on it overtakes the last n on the path that was left.
func explained(turns map[[2]int]int, delays []time.Duration, spacing time.Duration) (packets int) {
	for turn, n := range turns {
		if faster := delays[turn[0]] - delays[turn[1]]; faster > 0 {
			packets += n * int(faster/spacing)
		}
	}
	return packets
}
