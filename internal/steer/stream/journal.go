package stream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/sample"
)

// journal becomes a process's report. Connections write their own time lines
// and hand them in when they end, so that they share no lock under way.
type journal struct {
	clock clock
	bin   time.Duration
	floor time.Duration

	mu     sync.Mutex // of what follows
	report Report
	mptcp  int
}

func newJournal(kind Kind, role Role, unit Unit, rec Record) (*journal, error) {
	c, err := newClock()
	if err != nil {
		return nil, err
	}
	j := &journal{clock: c, bin: rec.Bin, floor: rec.Gap}
	j.report = Report{Format: Format, Kind: kind, Role: role, Unit: unit, Bins: Bins{Width: rec.Bin},
		Gaps: Gaps{Floor: rec.Gap}}
	j.start()
	return j, nil
}

// start makes now the beginning of the traffic.
func (j *journal) start() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.Started = j.clock.moment()
	j.report.Ended = j.report.Started.Monotonic
}

// line begins the time line of one connection.
func (j *journal) line(conn int) *line {
	return &line{clock: j.clock, conn: conn, last: j.clock.now(),
		Report: Report{Bins: Bins{Width: j.bin}, Gaps: Gaps{Floor: j.floor}}}
}

// handIn adds a time line that has ended.
func (j *journal) handIn(l *line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// The widths are equal, or doubled by folding, so they add up.
	if err := j.report.absorb(l.Report); err != nil {
		j.report.Errors.add(Event{l.last, l.conn, err.Error()})
	}
}

// wrong notes an error that is no connection's.
func (j *journal) wrong(conn int, reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.Errors.add(Event{j.clock.now(), conn, reason})
}

func (j *journal) detail(key, value string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.report.Details == nil {
		j.report.Details = map[string]string{}
	}
	j.report.Details[key] = value
}

// opened counts a connection, and whether it really is MPTCP: a listener, a
// firewall or the kernel can make it plain TCP.
func (j *journal) opened(conn *net.TCPConn, mptcp bool) {
	multi, err := conn.MultipathTCP()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.Counts.Connections.Opened++
	if err == nil && multi {
		j.mptcp++
	}
	if mptcp || j.mptcp > 0 {
		if j.report.Details == nil {
			j.report.Details = map[string]string{}
		}
		j.report.Details["mptcp"] = fmt.Sprintf("%d of %d connections", j.mptcp, j.report.Counts.Connections.Opened)
	}
}

// finish writes the report. A client's ended when the last connection did, a
// server's ends now.
func (j *journal) finish(w io.Writer) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.report.Role == ServerRole {
		j.report.Ended = j.clock.now()
	}
	j.report.Gaps.sort()
	return j.report.write(w)
}

// line is the time line of one connection: the part of a report that is its own.
type line struct {
	Report
	clock clock
	conn  int
	last  time.Duration
}

// mark notes that n units came at the time now.
func (l *line) mark(now time.Duration, n int64) {
	l.Bins.add(now, n)
	if now > l.last {
		l.Gaps.add(Gap{From: l.last, To: now, Conn: l.conn})
		l.last = now
	}
}

// operation notes one that ran from start to end.
func (l *line) operation(start, end time.Duration) {
	l.Bins.add(end, 1)
	l.Counts.Operations++
	l.Latency.Record(end - start)
	l.Gaps.add(Gap{From: start, To: end, Conn: l.conn})
	l.last = end
}

// end closes the time line: since the last mark nothing came, and if open,
// something was still to come.
func (l *line) end(open bool) { l.endAt(l.clock.now(), open) }

// endAt is end at a time that may be over.
func (l *line) endAt(at time.Duration, open bool) {
	l.Ended = max(at, l.last)
	if l.Ended > l.last {
		l.Gaps.add(Gap{From: l.last, To: l.Ended, Conn: l.conn, Open: open})
	}
}

// ending is how a connection ended.
type ending int

const (
	closed ending = iota
	open
	lost
)

// settle counts the connection's ending and its reason.
func (l *line) settle(e ending, reason string) {
	c := &l.Counts.Connections
	switch e {
	case closed:
		c.Closed++
	case open:
		c.Open++
	case lost:
		c.Lost++
	}
	if reason != "" {
		l.Errors.add(Event{l.clock.now(), l.conn, reason})
	}
}

// errCorrupt: what came is not what was sent.
var errCorrupt = errors.New("content differs from what was sent")

// reason is an error without the addresses and ports of this connection, so
// that equal ones count together.
func reason(doing string, err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		err = errno
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = os.ErrDeadlineExceeded
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = errors.New("closed by the other end")
	}
	return doing + ": " + err.Error()
}

// retransmissions asks the kernel how many segments it has sent again on conn.
// MPTCP sockets may not tell.
func retransmissions(conn *net.TCPConn) int64 {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	n := int64(0)
	// Without an answer the count stays 0, as documented.
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Total_retrans)
		}
	})
	return n
}

// latencies gives the line a histogram.
func (l *line) latencies() *line {
	l.Latency = sample.NewHistogram()
	return l
}
