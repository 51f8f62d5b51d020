package uperf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// number reads an integer with a binary suffix, of which uperf reads the first
// letter alone; a part of a byte is dropped.
func number(v string, low, high int) (int, error) {
	n, unit, err := quantity(v)
	if unit != "" {
		shift := strings.IndexByte("bkmg", unit[0])
		if shift < 0 || !strings.HasPrefix("bytes", unit) && len(unit) > 1 && unit[1:] != "b" && unit[1:] != "ib" {
			err = errors.New("no unit")
		} else {
			n *= float64(int(1) << (10 * shift))
		}
	}
	if n = float64(int64(min(n, 1e15))); err != nil || n < float64(low) || n > float64(high) {
		return 0, fmt.Errorf("expected a number from %d to %d, which may end in k, m or g", low, high)
	}
	return int(n), nil
}

// quantity takes a number apart from what follows it.
func quantity(v string) (n float64, unit string, err error) {
	v = strings.ToLower(v)
	unit = strings.TrimLeft(v, "0123456789.")
	n, err = strconv.ParseFloat(strings.TrimSuffix(v, unit), 64)
	return n, unit, err
}

// span reads a time. A bare m is none: uperf takes it for milliseconds, and who
// writes it means minutes.
func span(v string) (time.Duration, error) {
	n, unit, err := quantity(v)
	scale, known := map[string]time.Duration{
		"": time.Second, "s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second,
		"seconds": time.Second, "ms": time.Millisecond, "msec": time.Millisecond, "us": time.Microsecond,
		"usec": time.Microsecond, "ns": time.Nanosecond, "nsec": time.Nanosecond,
	}[unit]
	if unit != "" && strings.HasPrefix("minutes", unit) {
		return 0, fmt.Errorf("uperf takes %s for milliseconds: expected a time such as 300s or 5ms", unit)
	}
	d := time.Duration(min(n, 1e9) * float64(scale))
	if err != nil || !known || d <= 0 || d > 24*time.Hour {
		return 0, errors.New("expected a time such as 30s, 5ms or 100us")
	}
	return d, nil
}
