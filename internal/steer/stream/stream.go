// Package stream sends live traffic and writes down its time line: what an
// application felt, millisecond by millisecond, while a drill switched its path,
// black-holed or rate-limited it. Each end of the traffic is a process that
// prints one Report when it ends; pure functions (Stall, Throughput, Series,
// Merge) read the answers out of reports.
//
// It is no benchmark and no workload of internal/measure/workload: it does not rank
// networks, knows nothing of labs, pods or paths, and makes no impairment.
package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pathwise.dev/pathwise/internal/sample"
)

// Kind is what the traffic is.
type Kind string

// Kinds of traffic.
const (
	// TCP is a bulk stream in one direction on each connection.
	TCP Kind = "tcp"
	// RR is request and response in a closed loop on each connection.
	RR Kind = "rr"
	// UDP is numbered datagrams at a fixed interval, one way or echoed.
	UDP Kind = "udp"
	// ICMP is echo requests at a fixed interval; the target's kernel answers.
	ICMP Kind = "icmp"
)

// Role is the end of the traffic that a report is of.
type Role string

// Roles.
const (
	ClientRole Role = "client"
	ServerRole Role = "server"
)

// Format is the version of the report's JSON.
const Format = 1

// Report is what one process saw. All times are of CLOCK_MONOTONIC, which the
// processes of one machine share, so that their time lines merge; Started also
// holds the wall clock.
type Report struct {
	Format int  `json:"format"`
	Kind   Kind `json:"kind"`
	Role   Role `json:"role"`
	// Started is when a client's traffic began, after it had connected, or when
	// a server listened.
	Started Moment `json:"started"`
	// Ended is when the traffic ended: a client's last operation or byte, or the
	// server's end.
	Ended time.Duration `json:"ended_ns"`
	// Unit is what Bins count.
	Unit Unit `json:"unit"`
	// Bins count what this end received: bytes of a stream, completed operations,
	// datagrams, echoes. An end that only sends counts what it sent.
	Bins Bins `json:"bins"`
	// Gaps are the times without any on one connection. In a client's RR report
	// they are the slow operations, from request to answer.
	Gaps   Gaps   `json:"gaps"`
	Counts Counts `json:"counts"`
	// Latency is the service time of operations, the round trip of echoes from
	// the intended sending time, or at a UDP server the one-way delay from that
	// time, which means something between processes of one machine only.
	// Datagrams arrive when the kernel has them (SO_TIMESTAMPNS), ICMP echoes
	// when they are read.
	Latency *sample.Histogram `json:"latency,omitempty"`
	// Lag is how much later than intended a UDP or ICMP client sent: what the
	// generator itself, and not the network, did to its traffic.
	Lag *sample.Histogram `json:"lag,omitempty"`
	// Spacing is by how much the gap between consecutive datagrams changed on the way.
	Spacing *Spacing `json:"spacing,omitempty"`
	Errors  Errors   `json:"errors"`
	// Details are facts about the run for a reader, such as the socket buffer got.
	Details map[string]string `json:"details,omitempty"`
}

// Unit is what bins count.
type Unit string

// Units.
const (
	Bytes      Unit = "bytes"
	Operations Unit = "operations"
	Packets    Unit = "packets"
)

// Moment is one time on both clocks.
type Moment struct {
	Wall      time.Time     `json:"wall"`
	Monotonic time.Duration `json:"monotonic_ns"`
}

// Counts are totals of the run.
type Counts struct {
	Connections Connections `json:"connections,omitzero"`
	// BytesSent and BytesReceived are a TCP stream's payload.
	BytesSent     int64 `json:"bytes_sent,omitempty"`
	BytesReceived int64 `json:"bytes_received,omitempty"`
	// Operations that RR completed.
	Operations int64 `json:"operations,omitempty"`
	// Corrupt is how many connections carried content that was not what was sent.
	Corrupt int64 `json:"corrupt,omitempty"`
	// Retransmissions are TCP segments that this end's kernel sent again
	// (TCP_INFO), where it tells.
	Retransmissions int64     `json:"retransmissions,omitempty"`
	Datagrams       Datagrams `json:"datagrams,omitzero"`
}

// Connections are counted by how they ended. None is ever opened again.
type Connections struct {
	Opened int64 `json:"opened"`
	// Closed by both ends in good order.
	Closed int64 `json:"closed"`
	// Lost ones died; Errors has the reasons.
	Lost int64 `json:"lost"`
	// Open ones lived when the run ended, or did not confirm its end in time.
	Open int64 `json:"open"`
}

func (c *Connections) add(o Connections) {
	c.Opened += o.Opened
	c.Closed += o.Closed
	c.Lost += o.Lost
	c.Open += o.Open
}

// add adds another report's counts.
func (c *Counts) add(o Counts) {
	c.Connections.add(o.Connections)
	c.BytesSent += o.BytesSent
	c.BytesReceived += o.BytesReceived
	c.Operations += o.Operations
	c.Corrupt += o.Corrupt
	c.Retransmissions += o.Retransmissions
	c.Datagrams.add(o.Datagrams)
}

// Errors are what went wrong.
type Errors struct {
	// Reasons counts by reason.
	Reasons map[string]int64 `json:"reasons,omitempty"`
	// Events are the first maxEvents of them, with their times.
	Events []Event `json:"events,omitempty"`
}

// Event is one thing that went wrong.
type Event struct {
	At     time.Duration `json:"at_ns"`
	Conn   int           `json:"conn"`
	Reason string        `json:"reason"`
}

// maxEvents bounds what an error in a loop adds to the report.
const maxEvents = 1000

func (e *Errors) add(ev Event) {
	if e.Reasons == nil {
		e.Reasons = map[string]int64{}
	}
	e.count(ev.Reason, 1)
	if len(e.Events) < maxEvents {
		e.Events = append(e.Events, ev)
	}
}

// maxReasons bounds what strangers' greetings, whose numbers are in the reason, can
// make a server remember. What comes later is counted as others.
const maxReasons, others = 100, "others"

func (e *Errors) count(reason string, n int64) {
	if _, known := e.Reasons[reason]; !known && len(e.Reasons) >= maxReasons {
		reason = others
	}
	e.Reasons[reason] += n
}

func (e *Errors) merge(o Errors) {
	if e.Reasons == nil && o.Reasons != nil {
		e.Reasons = map[string]int64{}
	}
	for reason, n := range o.Reasons {
		e.count(reason, n)
	}
	e.Events = append(e.Events, o.Events...)
	e.Events = e.Events[:min(len(e.Events), maxEvents)]
}

// Parse reads what a client or a server printed: lines that are no JSON, such
// as a server's "listening ADDR", and then one report.
func Parse(out []byte) (Report, error) {
	var r Report
	at := bytes.IndexByte(out, '{')
	if at < 0 {
		return r, errors.New("read report: there is none")
	}
	dec := json.NewDecoder(bytes.NewReader(out[at:]))
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("read report: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("read report: something follows it")
	}
	if err := r.valid(); err != nil {
		return r, fmt.Errorf("read report: %w", err)
	}
	return r, nil
}

// valid refuses what the pure functions cannot work on.
func (r *Report) valid() error {
	switch {
	case r.Format != Format:
		return fmt.Errorf("format %d, expected %d", r.Format, Format)
	case r.Kind != TCP && r.Kind != RR && r.Kind != UDP && r.Kind != ICMP:
		return fmt.Errorf("unknown kind %q", r.Kind)
	case r.Bins.Width <= 0:
		return fmt.Errorf("bins of width %v", r.Bins.Width)
	case r.Ended < r.Started.Monotonic:
		return errors.New("the end is before the start")
	}
	for _, g := range r.Gaps.List {
		if g.To < g.From {
			return fmt.Errorf("a gap from %v to %v", g.From, g.To)
		}
	}
	return nil
}

// write prints the report as one line of JSON.
func (r *Report) write(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
