package drill

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// waits is how long a program waited for answers, in seconds: percentiles of its own word.
type waits struct{ p50, p99 float64 }

// asked is a transfer whose client tells how long it waited.
func asked(t *transfer, client *process, read func([]byte) (waits, error)) *transfer {
	if t == nil {
		return nil
	}
	t.answers = func() (waits, error) {
		out, err := client.finish()
		if err != nil {
			return waits{}, err
		}
		return read(out)
	}
	return t
}

// wrkWaits reads what wrk prints.
func wrkWaits(out []byte) (waits, error) {
	return readWaits("wrk", `(?m)^\s*%d%%\s+([0-9.]+(?:us|ms|s|m))\s*$`, out, func(text string) (float64, error) {
		d, err := time.ParseDuration(text)
		return d.Seconds(), err
	})
}

// sockperfWaits reads what sockperf prints with --full-rtt, in microseconds.
func sockperfWaits(out []byte) (waits, error) {
	return readWaits("sockperf", `(?m)percentile %d\.000 =\s+([0-9.]+)\s*$`, out, func(text string) (float64, error) {
		us, err := strconv.ParseFloat(text, 64)
		return us * 1e-6, err
	})
}

// readWaits finds the percentiles in what a program prints, each on a line of the form.
func readWaits(program, form string, out []byte, value func(string) (float64, error)) (w waits, err error) {
	for percent, to := range map[int]*float64{50: &w.p50, 99: &w.p99} {
		found := regexp.MustCompile(fmt.Sprintf(form, percent)).FindSubmatch(out)
		if found == nil {
			return w, fmt.Errorf("read %s's report: %w", program, errNoPercentile)
		}
		if *to, err = value(string(found[1])); err != nil {
			return w, fmt.Errorf("read %s's report: %w", program, err)
		}
	}
	return w, nil
}

var errNoPercentile = errors.New("it tells no percentiles")
