package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Record is how finely a time line is written.
type Record struct {
	// Bin is the width of a bin.
	Bin time.Duration
	// Gap is the length above which a gap, or an operation, is listed.
	Gap time.Duration
}

// Defaults that suit drills of minutes.
const (
	DefaultBin = time.Millisecond
	DefaultGap = 2 * time.Millisecond
)

func (r Record) check() error {
	switch {
	case r.Bin < 10*time.Microsecond || r.Bin > time.Minute:
		return fmt.Errorf("bin %v: expected 10us to 1m", r.Bin)
	case r.Gap < 0:
		return fmt.Errorf("gap %v: expected 0 or more", r.Gap)
	}
	return nil
}

// Sizes is a range of message sizes in bytes, for example 200-1000. It is a
// flag's value.
type Sizes struct{ Min, Max int }

// String is the range as Set reads it.
func (s *Sizes) String() string {
	if s.Min == s.Max {
		return strconv.Itoa(s.Min)
	}
	return fmt.Sprintf("%d-%d", s.Min, s.Max)
}

// Set reads N or MIN-MAX.
func (s *Sizes) Set(text string) error {
	low, high, ranged := strings.Cut(text, "-")
	if !ranged {
		high = low
	}
	a, err := strconv.Atoi(low)
	b, highErr := strconv.Atoi(high)
	if err != nil || highErr != nil {
		return errors.New("expected BYTES or MIN-MAX")
	}
	*s = Sizes{a, b}
	return nil
}

// Type is what help calls the value.
func (s *Sizes) Type() string { return "bytes" }

// Server is the end that waits.
type Server struct {
	Kind Kind
	// Listen is the address and port; port 0 is any, which is then printed.
	Listen netip.AddrPort
	// MPTCP accepts MPTCP as well; else only plain TCP.
	MPTCP bool
	Record
}

// Check says what is wrong with the server's options.
func (s Server) Check() error {
	switch {
	case s.Kind != TCP && s.Kind != RR && s.Kind != UDP:
		return fmt.Errorf("kind %q: expected tcp, rr or udp", s.Kind)
	case !s.Listen.IsValid():
		return errors.New("listen: expected ADDRESS:PORT")
	case s.MPTCP && s.Kind == UDP:
		return errors.New("mptcp: not for udp")
	}
	return s.Record.check()
}

// Client is the end that decides what is sent. Fields that are not of its kind
// are not looked at.
type Client struct {
	Kind Kind
	// Target is the server's address and port; for ICMP the port is 0.
	Target netip.AddrPort
	// Bind is the own address to use; the zero value leaves it to the kernel.
	Bind netip.Addr
	// Duration of the traffic; 0 is until told to stop.
	Duration time.Duration
	// Patience is how long after its end answers, echoes and the other end's
	// close may take.
	Patience time.Duration
	Record

	// TCP and RR.

	Connections int
	MPTCP       bool

	// Reverse lets the server send the stream.
	Reverse bool
	// Rate of each connection's stream in bit/s; 0 is as fast as it goes. After
	// a stall the stream catches up.
	Rate int64
	// Size of a stream's write, of an RR answer, of a datagram or of an echo's
	// data, in bytes; 0 is the kind's default.
	Size int

	// Requests are the sizes of RR requests.
	Requests Sizes
	// Count is how many operations all connections do together; 0 is no limit.
	Count int64
	// Think is the time between an answer and the connection's next request.
	Think time.Duration
	// Work is what the client computes between an answer and the connection's next
	// request: time of its CPU, so that what disturbs the CPU prolongs it.
	Work time.Duration
	// Between, if set, is called between an answer and the connection's next
	// request, after the work.
	Between func() `json:"-"`

	// Interval between datagrams or echoes.
	Interval time.Duration
	// Echo lets the server send each datagram back.
	Echo bool
	// Busy waits for the next sending time without sleeping: exact, at the cost
	// of a CPU.
	Busy bool
}

// Bounds and defaults of an offer.
const (
	maxRate        = 1e12
	maxConnections = 4096
	bulkSize       = 128 << 10
	smallSize      = 64
	minInterval    = time.Microsecond
	maxDatagram    = 65487 // fits into IPv4 and IPv6, UDP and ICMP
)

// Check says what is wrong with the client's options.
func (c Client) Check() error {
	switch {
	case !c.Target.IsValid():
		return errors.New("target: expected an address")
	case c.Kind != ICMP && c.Target.Port() == 0:
		return errors.New("target: expected ADDRESS:PORT")
	case c.Bind.IsValid() && c.Bind.Unmap().Is4() != c.Target.Addr().Unmap().Is4():
		return fmt.Errorf("bind %v: not of the target's family", c.Bind)
	case c.Duration < 0 || c.Patience < 0 || c.Think < 0 || c.Work < 0 || c.Count < 0:
		return errors.New("duration, patience, think, work, count: expected 0 or more")
	}
	if err := c.Record.check(); err != nil {
		return err
	}
	switch c.Kind {
	case TCP, RR:
		return c.checkTCP()
	case UDP, ICMP:
		return c.checkTrain()
	default:
		return fmt.Errorf("kind %q: expected tcp, rr, udp or icmp", c.Kind)
	}
}

func (c Client) checkTCP() error {
	switch {
	case c.Connections < 1 || c.Connections > maxConnections:
		return fmt.Errorf("connections %d: expected 1 to %d", c.Connections, maxConnections)
	case c.Size < 0 || c.Size > maxMessage:
		return fmt.Errorf("size %d: expected 1 to %d", c.Size, maxMessage)
	case c.Kind == TCP && (c.Rate < 0 || c.Rate > maxRate):
		return fmt.Errorf("rate %d: expected 0 to %.0f", c.Rate, float64(maxRate))
	case c.Kind == RR && (c.Requests.Min < 1 || c.Requests.Min > c.Requests.Max || c.Requests.Max > maxMessage):
		return fmt.Errorf("request %s: expected 1 to %d bytes, the smaller first", c.Requests.String(), maxMessage)
	}
	return nil
}

func (c Client) checkTrain() error {
	switch {
	case c.Interval < minInterval || c.Interval > time.Minute:
		return fmt.Errorf("interval %v: expected %v to 1m", c.Interval, minInterval)
	case c.Size != 0 && c.Size < packetSize || c.Size > maxDatagram:
		return fmt.Errorf("size %d: expected %d to %d", c.Size, packetSize, maxDatagram)
	}
	return nil
}

// size is the effective one. A paced stream writes what a millisecond carries,
// so that its time line is as fine as its bins.
func (c Client) size() int {
	switch {
	case c.Size > 0:
		return c.Size
	case c.Kind == TCP && c.Rate > 0:
		return int(min(max(c.Rate/8/1000, 1), bulkSize))
	case c.Kind == TCP:
		return bulkSize
	default:
		return smallSize
	}
}

// Run sends the client's traffic and then writes its report to w, also when ctx
// ends first. What happens to connections under way is in the report and no
// error; that the traffic could not begin is one.
func Run(ctx context.Context, w io.Writer, c Client) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("start %s client: %w", c.Kind, err)
	}
	c.Target = netip.AddrPortFrom(c.Target.Addr().Unmap(), c.Target.Port())
	unit := map[Kind]Unit{TCP: Bytes, RR: Operations, UDP: Packets, ICMP: Packets}[c.Kind]
	j, err := newJournal(c.Kind, ClientRole, unit, c.Record)
	if err != nil {
		return fmt.Errorf("start %s client: %w", c.Kind, err)
	}
	switch c.Kind {
	case TCP, RR:
		err = c.connections(ctx, j)
	case UDP:
		err = c.datagrams(ctx, j)
	case ICMP:
		err = c.echoes(ctx, j)
	}
	if err != nil {
		return fmt.Errorf("start %s client: %w", c.Kind, err)
	}
	return j.finish(w)
}

// Serve prints "listening ADDRESS:PORT", answers clients until ctx ends, and
// then writes its report to w.
func Serve(ctx context.Context, w io.Writer, s Server) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("start %s server: %w", s.Kind, err)
	}
	s.Listen = netip.AddrPortFrom(s.Listen.Addr().Unmap(), s.Listen.Port())
	unit := map[Kind]Unit{TCP: Bytes, RR: Operations, UDP: Packets}[s.Kind]
	j, err := newJournal(s.Kind, ServerRole, unit, s.Record)
	if err != nil {
		return fmt.Errorf("start %s server: %w", s.Kind, err)
	}
	if s.Kind == UDP {
		err = s.collect(ctx, w, j)
	} else {
		err = s.accept(ctx, w, j)
	}
	if err != nil {
		return fmt.Errorf("run %s server: %w", s.Kind, err)
	}
	return j.finish(w)
}
