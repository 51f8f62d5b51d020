package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Kind is what an Event tells.
type Kind uint8

// The kinds, by growing gravity.
const (
	Retransmit Kind = 1 // in recovery, or after a timeout; at most one a millisecond and flow
	TailProbe  Kind = 2 // no acknowledgment for about two round trips (RFC 8985 section 7); as often at most
	Timeout    Kind = 3 // none until the retransmission timer fired (RFC 6298)
)

// String is the kind as logs have it.
func (k Kind) String() string {
	switch k {
	case Retransmit:
		return "retransmit"
	case TailProbe:
		return "tail-probe"
	case Timeout:
		return "timeout"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Event is a sign of trouble, told as it happens; Read has the totals.
type Event struct {
	Key
	Kind       Kind
	At         time.Duration // CLOCK_MONOTONIC
	Count      uint32        // of a Timeout: how many in a row, this one included; else segments
	Unacked    uint32        // first sequence number that is not acknowledged (snd_una)
	LocalPort  uint16
	RemotePort uint16
}

// eventSize is sizeof(struct event) in telemetry.bpf.c.
const eventSize = 48

// ErrRecord means bytes that are no event of this program.
var ErrRecord = errors.New("malformed event")

// decodeEvent reads struct event; the ring is pinned, so that its records may
// be those of another version.
func decodeEvent(b []byte) (Event, error) {
	if len(b) != eventSize {
		return Event{}, fmt.Errorf("%w: %d bytes, not %d", ErrRecord, len(b), eventSize)
	}
	e := Event{
		Key: Key{
			Netns:  binary.LittleEndian.Uint64(b[8:]),
			Remote: netip.AddrFrom16([16]byte(b[16:32])).Unmap(),
			Bucket: b[44],
		},
		At:         time.Duration(binary.LittleEndian.Uint64(b)),
		Count:      binary.LittleEndian.Uint32(b[32:]),
		Unacked:    binary.LittleEndian.Uint32(b[36:]),
		LocalPort:  binary.LittleEndian.Uint16(b[40:]),
		RemotePort: binary.LittleEndian.Uint16(b[42:]),
		Kind:       Kind(b[45]),
	}
	if e.Kind < Retransmit || e.Kind > Timeout || e.Bucket >= 64 || e.At < 0 {
		return Event{}, fmt.Errorf("%w: %s of bucket %d at %d", ErrRecord, e.Kind, e.Bucket, e.At)
	}
	return e, nil
}

// waiting is how many events a receiver finds that looks once a millisecond, before
// the ring has to keep them.
const waiting = 2048

// Events yields events until ctx is done or the ring fails, and closes the
// channel then. After adoption it begins with those that no agent has read:
// look at At. One reader at a time. A slow receiver loses events, which
// Faults counts; malformed ones are skipped.
func (c *Collector) Events(ctx context.Context) (<-chan Event, error) {
	r, err := ringbuf.NewReader(c.maps[telemetryMapEvents])
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	out := make(chan Event, waiting)
	stop := context.AfterFunc(ctx, func() { r.Close() })
	go func() {
		defer close(out)
		defer r.Close()
		defer stop()
		var rec ringbuf.Record
		for {
			err := r.ReadInto(&rec)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			} else if err != nil {
				return
			}
			e, err := decodeEvent(rec.RawSample)
			if err != nil {
				continue
			}
			select {
			case out <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
