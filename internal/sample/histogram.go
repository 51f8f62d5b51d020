package sample

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram holds latencies with three significant digits between 100 ns and
// one minute. Histograms of repetitions are merged; percentiles are never averaged.
type Histogram struct {
	hdr *hdrhistogram.Histogram
}

// Range and precision of a Histogram.
const (
	minLatency   = 100 * time.Nanosecond
	maxLatency   = time.Minute
	latencyDigit = 3
)

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(int64(minLatency), int64(maxLatency), latencyDigit)}
}

// Record adds one latency; values outside the range count at its ends.
func (h *Histogram) Record(d time.Duration) {
	// The clamped value is always recordable, so there is no error to return.
	_ = h.hdr.RecordValue(int64(min(max(d, minLatency), maxLatency)))
}

// Merge adds the values of o.
func (h *Histogram) Merge(o *Histogram) {
	if o != nil {
		h.hdr.Merge(o.hdr)
	}
}

// Count is the number of values recorded.
func (h *Histogram) Count() int64 { return h.hdr.TotalCount() }

// Percentile returns the latency below which p percent of the values lie, in
// seconds; 0 for an empty histogram.
func (h *Histogram) Percentile(p float64) float64 {
	return time.Duration(h.hdr.ValueAtPercentile(p)).Seconds()
}

// Mean is the arithmetic mean in seconds.
func (h *Histogram) Mean() float64 { return h.hdr.Mean() / float64(time.Second) }

// Max is the largest value in seconds.
func (h *Histogram) Max() float64 { return time.Duration(h.hdr.Max()).Seconds() }

// Figures writes the figures of a latency, in seconds, into metrics.
func (h *Histogram) Figures(metrics map[string]float64) {
	metrics[LatencyP50] = h.Percentile(50)
	metrics[LatencyP99] = h.Percentile(99)
	metrics[LatencyP999] = h.Percentile(99.9)
	metrics[LatencyMean] = h.Mean()
}

// MarshalJSON encodes in HdrHistogram's compressed V2 form, which other tools read.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	raw, err := h.hdr.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode histogram: %w", err)
	}
	return json.Marshal(string(raw))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(data []byte) (err error) {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("decode histogram: %w", err)
	}
	// The library indexes into what it read without looking (v1.4.0), so a
	// damaged payload panics there instead of failing.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decode histogram: damaged payload: %v", r)
		}
	}()
	hdr, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("decode histogram: %w", err)
	}
	h.hdr = hdr
	return nil
}
