package stamp

import (
	"fmt"
	"math"
	"time"
)

// Format is how a packet's timestamps are written.
type Format uint8

// The formats of RFC 8762, section 4.2.1: NTP's 64 bits, and PTPv2 truncated to
// 32 bits of seconds and 32 of nanoseconds. Both carry UTC here, as the clock of
// the machine does, though PTP proper counts TAI: the difference cancels between
// two machines that do the same, and in round trips always.
const (
	NTP Format = iota
	PTP
)

// Timestamp is a time as it travels; its Format is told by the error estimate.
type Timestamp uint64

// ntpEpoch is 1970 in seconds since 1900.
const ntpEpoch = 2208988800

// Encode writes t.
func (f Format) Encode(t time.Time) Timestamp {
	sec, ns := t.Unix(), uint64(t.Nanosecond())
	if f == PTP {
		return Timestamp(uint64(uint32(sec))<<32 | ns)
	}
	return Timestamp(uint64(uint32(sec+ntpEpoch))<<32 | ns<<32/1e9)
}

// Decode reads ts as the time nearest to near that it can mean: both formats
// wrap, NTP in 2036 and PTP in 2106. The error is ErrTimestamp: PTP's nanoseconds end
// below 10^9.
func (f Format) Decode(ts Timestamp, near time.Time) (time.Time, error) {
	sec, low := uint32(ts>>32), uint64(uint32(ts))
	ns, epoch := low, int64(0)
	if f == NTP {
		ns, epoch = (low*1e9+1<<31)>>32, ntpEpoch
	} else if low >= 1e9 {
		return time.Time{}, fmt.Errorf("decode timestamp: %w", ErrTimestamp)
	}
	at := near.Unix()
	// The signed difference of the low 32 bits picks the era.
	at += int64(int32(sec - uint32(at+epoch)))
	return time.Unix(at, int64(ns)), nil
}

// ErrorEstimate is the field of RFC 4656, section 4.1.2, with the Z bit of
// RFC 8186: S, Z, a scale of 6 bits and a multiplier of 8.
type ErrorEstimate uint16

const (
	bitS = 1 << 15
	bitZ = 1 << 14
)

// EstimateError says how far off the sender's clock may be, rounded up.
func EstimateError(synchronized bool, f Format, by time.Duration) ErrorEstimate {
	units := math.Ceil(max(by.Seconds(), 0) * (1 << 32))
	scale := 0
	for units > 255 && scale < 63 {
		units, scale = math.Ceil(units/2), scale+1
	}
	e := ErrorEstimate(scale<<8) | ErrorEstimate(max(units, 1)) // zero is corrupt, says RFC 4656
	if synchronized {
		e |= bitS
	}
	if f == PTP {
		e |= bitZ
	}
	return e
}

// Synchronized reports whether the clock was synchronised to UTC.
func (e ErrorEstimate) Synchronized() bool { return e&bitS != 0 }

// Format is that of the timestamps alongside the estimate.
func (e ErrorEstimate) Format() Format {
	if e&bitZ != 0 {
		return PTP
	}
	return NTP
}

// Bound is how far off the clock may be.
func (e ErrorEstimate) Bound() time.Duration {
	s := float64(e&0xff) * math.Exp2(float64(e>>8&0x3f)-32)
	return time.Duration(min(s*1e9, math.MaxInt64/2))
}
