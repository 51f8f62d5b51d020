package stamp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// MeasureOptions are how [Measure] probes.
type MeasureOptions struct {
	// Count is how many probes are sent; 10 by default.
	Count int
	// Interval is the time from one probe to the next; 100 ms by default.
	Interval time.Duration
	// Sender is how they are sent. OnReply, OnLost and Polled are Measure's own.
	Sender SenderConfig
	// Probe is each of them.
	Probe SendOptions
}

// Measurement is what became of the probes of one [Measure].
type Measurement struct {
	Sent    int
	Replies []Reply // in the order in which they came; not those that came after their deadline
	Lost    []Lost
}

// Loss says where probes were lost, as far as a stateful reflector's numbers tell (RFC
// 8762, section 4.3): on the way to it, on the way back, or not known, which are those
// after the last that was answered. A stateless reflector seems to lose nothing forward.
func (m Measurement) Loss() (forward, backward, unknown int) {
	if len(m.Replies) == 0 {
		return 0, 0, len(m.Lost)
	}
	last, reflected := uint32(0), uint32(0)
	for _, r := range m.Replies {
		last, reflected = max(last, r.Seq), max(reflected, r.ReflectorSeq)
	}
	for _, l := range m.Lost {
		if l.Seq > last {
			unknown++
		}
	}
	forward = min(max(int(last)-int(reflected), 0), len(m.Lost)-unknown)
	return forward, len(m.Lost) - unknown - forward, unknown
}

// Measure sends probes to a reflector from conn, which it does not close, and waits for
// each one's reply or loss. Nothing else may read conn meanwhile. An error comes with
// what was measured before: it is that of NewSender, Send or Run, or the cause of ctx.
func Measure(ctx context.Context, conn *net.UDPConn, to netip.AddrPort, o MeasureOptions) (Measurement, error) {
	if o.Count <= 0 {
		o.Count = 10
	}
	if o.Interval <= 0 {
		o.Interval = 100 * time.Millisecond
	}
	var m Measurement
	settled := make(chan struct{}, o.Count)
	o.Sender.Polled = false
	o.Sender.OnReply = func(r Reply) {
		if !r.Late {
			m.Replies = append(m.Replies, r)
			settled <- struct{}{}
		}
	}
	o.Sender.OnLost = func(l Lost) {
		m.Lost = append(m.Lost, l)
		settled <- struct{}{}
	}
	s, err := NewSender(conn, o.Sender)
	if err != nil {
		return m, err
	}
	ctx, broken := context.WithCancelCause(ctx)
	run, stop := context.WithCancel(ctx)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		broken(s.Run(run)) // nil where it was stopped
	}()
	sent, err := s.series(ctx, to, o)
	for i := 0; err == nil && i < sent; i++ {
		select {
		case <-settled:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	stop()
	<-ran
	m.Sent = sent
	if err != nil {
		return m, fmt.Errorf("measure to %s: %w", to, err)
	}
	return m, nil
}

// series sends the probes of a Measure, and says how many.
func (s *Sender) series(ctx context.Context, to netip.AddrPort, o MeasureOptions) (int, error) {
	pace := time.NewTicker(o.Interval)
	defer pace.Stop()
	for n := range o.Count {
		if _, err := s.Send(to, o.Probe); err != nil {
			return n, err
		}
		if n+1 == o.Count {
			break
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return n + 1, context.Cause(ctx)
		}
	}
	return o.Count, nil
}
