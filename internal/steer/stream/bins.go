package stream

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bins count events by time. The edges are multiples of the width on the
// monotonic clock, whenever counting began, so that bins of different processes
// add up exactly.
//
// In JSON the counts are base64 of a raw DEFLATE stream (RFC 1951) of unsigned
// varints: a count above zero is itself; a zero is followed by the number of
// empty bins in a row.
type Bins struct {
	Width time.Duration
	// First is the number of the first bin, which begins at First x Width.
	First  int64
	Counts []int64
}

// maxBins bounds the memory of a generator that was forgotten: 4.6 hours in
// milliseconds; then bins become twice as wide.
const maxBins = 1 << 24

// add counts n at time t.
func (b *Bins) add(t time.Duration, n int64) {
	i := int64(t / b.Width)
	if k := i - b.First; uint64(k) < uint64(len(b.Counts)) {
		b.Counts[k] += n
		return
	}
	b.reach(i, i)
	b.Counts[int64(t/b.Width)-b.First] += n
}

// reach makes room for the bins first to last, numbered in the present width.
func (b *Bins) reach(first, last int64) {
	if len(b.Counts) == 0 {
		b.First = first
	}
	first, last = min(first, b.First), max(last, b.First+int64(len(b.Counts))-1)
	for last-first >= maxBins {
		b.fold()
		first, last = first/2, last/2
	}
	if before := b.First - first; before > 0 {
		b.Counts = append(make([]int64, before), b.Counts...)
		b.First = first
	}
	if after := last - b.First + 1 - int64(len(b.Counts)); after > 0 {
		b.Counts = append(b.Counts, make([]int64, after)...)
	}
}

// fold doubles the width.
func (b *Bins) fold() {
	first := b.First / 2
	for k, n := range b.Counts {
		to := (b.First+int64(k))/2 - first
		b.Counts[k] = 0
		b.Counts[to] += n
	}
	if len(b.Counts) > 0 {
		b.Counts = b.Counts[:(b.First+int64(len(b.Counts))-1)/2-first+1]
	}
	b.First, b.Width = first, 2*b.Width
}

// merge adds o's counts. One width must be a multiple of the other; the wider stays.
func (b *Bins) merge(o Bins) error {
	if o.Width <= 0 || b.Width <= 0 || b.Width%o.Width != 0 && o.Width%b.Width != 0 {
		return fmt.Errorf("bins of %v and %v do not add up", b.Width, o.Width)
	}
	if o.Width > b.Width {
		b.widen(o.Width)
	}
	if len(o.Counts) == 0 {
		return nil
	}
	ratio := int64(b.Width / o.Width)
	b.reach(o.First/ratio, (o.First+int64(len(o.Counts))-1)/ratio)
	ratio = int64(b.Width / o.Width) // reach may have folded
	for k, n := range o.Counts {
		b.Counts[(o.First+int64(k))/ratio-b.First] += n
	}
	return nil
}

// widen makes the bins width wide, which is a multiple of what they are.
func (b *Bins) widen(width time.Duration) {
	ratio := int64(width / b.Width)
	wide := Bins{Width: width}
	if n := int64(len(b.Counts)); n > 0 {
		wide.reach(b.First/ratio, (b.First+n-1)/ratio)
	}
	for k, n := range b.Counts {
		wide.Counts[(b.First+int64(k))/ratio-wide.First] += n
	}
	*b = wide
}

// Sum counts from one time to another; a bin that lies there in part counts in
// proportion.
func (b *Bins) Sum(from, to time.Duration) float64 {
	if len(b.Counts) == 0 || to <= from || b.Width <= 0 {
		return 0
	}
	first := max(int64(from/b.Width), b.First)
	last := min(int64(to/b.Width), b.First+int64(len(b.Counts))-1)
	sum := 0.0
	for i := first; i <= last; i++ {
		begin := time.Duration(i) * b.Width
		part := min(to, begin+b.Width) - max(from, begin)
		sum += float64(b.Counts[i-b.First]) * float64(part) / float64(b.Width)
	}
	return sum
}

// Total is the sum of all bins.
func (b *Bins) Total() int64 {
	sum := int64(0)
	for _, n := range b.Counts {
		sum += n
	}
	return sum
}

// binsJSON is the JSON form of Bins.
type binsJSON struct {
	Width  time.Duration `json:"width_ns"`
	First  int64         `json:"first"`
	Counts string        `json:"counts"`
}

// MarshalJSON implements json.Marshaler.
func (b Bins) MarshalJSON() ([]byte, error) {
	var packed bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &packed)
	deflate, err := flate.NewWriter(text, flate.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("encode bins: %w", err)
	}
	var buf []byte
	for k := 0; k < len(b.Counts); {
		run := 0
		for k+run < len(b.Counts) && b.Counts[k+run] == 0 {
			run++
		}
		if run > 0 {
			buf = binary.AppendUvarint(append(buf, 0), uint64(run))
			k += run
			continue
		}
		buf = binary.AppendUvarint(buf, uint64(b.Counts[k]))
		k++
	}
	_, err = deflate.Write(buf)
	if err := errors.Join(err, deflate.Close(), text.Close()); err != nil {
		return nil, fmt.Errorf("encode bins: %w", err)
	}
	return json.Marshal(binsJSON{b.Width, b.First, packed.String()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Bins) UnmarshalJSON(data []byte) error {
	var j binsJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("decode bins: %w", err)
	}
	raw, err := base64.StdEncoding.DecodeString(j.Counts)
	if err != nil {
		return fmt.Errorf("decode bins: %w", err)
	}
	const most = int64(1) << 62
	if j.Width <= 0 || j.First < 0 || j.First > most/int64(j.Width)-maxBins {
		return fmt.Errorf("decode bins: bin %d of width %v", j.First, j.Width)
	}
	counts, err := unpack(flate.NewReader(bytes.NewReader(raw)))
	if err != nil {
		return fmt.Errorf("decode bins: %w", err)
	}
	*b = Bins{j.Width, j.First, counts}
	return nil
}

// unpack reads the varints, at most maxBins of counts.
func unpack(r io.Reader) ([]int64, error) {
	in := bufio.NewReader(r)
	var counts []int64
	for {
		v, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) { // cut off inside a varint it is io.ErrUnexpectedEOF
			return counts, nil
		} else if err != nil {
			return nil, err
		}
		run := uint64(1)
		if v == 0 {
			if run, err = binary.ReadUvarint(in); err != nil {
				return nil, fmt.Errorf("length of a run: %w", err)
			}
		}
		if run == 0 || run > uint64(maxBins-len(counts)) || v > 1<<62 {
			return nil, fmt.Errorf("bin %d: a run of %d of %d", len(counts), run, v)
		}
		if v == 0 {
			counts = append(counts, make([]int64, run)...)
		} else {
			counts = append(counts, int64(v))
		}
	}
}
