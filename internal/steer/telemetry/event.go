package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
)

// Kind is what an Event tells.
type Kind uint8

// The kinds. A Retransmit is in recovery or after a timeout, a TailProbe had no acknowledgment for about two
// round trips (RFC 8985 section 7), at most one of each a millisecond and flow. A Timeout had none until the
// retransmission timer fired (RFC 6298). Delivered tells of a connection that had to send something again that
// its peer has all of it, its FIN included: a moment later there may be no socket to ask.
const (
	Retransmit = Kind(telemetryKindKIND_RETRANSMIT)
	TailProbe  = Kind(telemetryKindKIND_TAIL_PROBE)
	Timeout    = Kind(telemetryKindKIND_TIMEOUT)
	Delivered  = Kind(telemetryKindKIND_DELIVERED)
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
	case Delivered:
		return "delivered"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Event is a sign of trouble, or of its end, told as it happens; Read has the totals.
type Event struct {
	Key
	Kind       Kind
	At         time.Duration // CLOCK_MONOTONIC
	Count      uint32        // of a Timeout: how many in a row, this one included; of what is sent again: segments
	Unacked    uint32        // first sequence number that is not acknowledged (snd_una)
	Next       uint32        // first that was not sent yet (snd_nxt)
	Acked      uint64        // bytes that were acknowledged, since the connection began
	LocalPort  uint16
	RemotePort uint16
}

const eventSize = int(unsafe.Sizeof(telemetryEvent{}))

// ErrRecord means bytes that are no event of this program.
var ErrRecord = errors.New("malformed event")

// decodeEvent reads what the program has written; the ring is pinned, so that its records may
// be those of another version.
func decodeEvent(b []byte) (Event, error) {
	if len(b) != eventSize {
		return Event{}, fmt.Errorf("%w: %d bytes, not %d", ErrRecord, len(b), eventSize)
	}
	var raw telemetryEvent
	if _, err := binary.Decode(b, binary.NativeEndian, &raw); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	e := Event{
		Key:  keyOf(raw.Netns, raw.Remote, raw.Bucket),
		Kind: Kind(raw.Kind), At: time.Duration(raw.At), Count: raw.Count, Unacked: raw.SndUna,
		Next: raw.SndNxt, Acked: raw.BytesAcked, LocalPort: raw.LocalPort, RemotePort: raw.RemotePort,
	}
	if e.Kind < Retransmit || e.Kind > Delivered || raw.Bucket >= 2*theirs || e.At < 0 {
		return Event{}, fmt.Errorf("%w: %s of bucket %d at %d", ErrRecord, e.Kind, raw.Bucket, e.At)
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
	r, err := ringbuf.NewReader(c.maps[telemetryMapPwTcpEvents])
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
