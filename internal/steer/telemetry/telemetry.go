// Package telemetry learns from the kernel how real TCP flows fare: round trips,
// retransmissions and timeouts of the connections of watched namespaces, per
// peer and bucket of the data plane (an eBPF program on a cgroup), and what
// their sockets say of themselves (INET_DIAG). A Ledger assigns what was read
// to the path that each bucket was on.
//
// It changes nothing, sends nothing and decides nothing. It sees TCP only, and
// of a connection that only receives it sees little but through Each:
// round trips and retransmissions are known to senders. Of a connection's round trips
// it takes the latest whenever it reads, so that connections pay for it by the reading
// and not by the packet; retransmissions and timeouts are all reported.
package telemetry

import (
	"net/netip"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

//go:generate go tool bpf2go -tags linux -target bpfel -go-package telemetry -type flow_key -type place_key -type flow_value -type settings -type socket_value -type event -type kind -type fault telemetry telemetry.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu

// Key is whose evidence it is: the flows of one namespace towards one remote
// address that share a bucket, and one end that has opened them.
type Key struct {
	Netns  uint64     // cookie, as Watch returned it
	Remote netip.Addr // IPv4 also where the socket is IPv6 with mapped addresses
	// Bucket is that of a flow that this end has opened, or of Theirs one that the remote
	// end has: whose choices say where the bucket is.
	Bucket uint8
	Theirs bool
}

// theirs is set in the bucket of the program's keys.
const theirs = flow.Buckets

// keyOf makes a key of what the program has.
func keyOf(netns uint64, remote [16]byte, bucket uint8) Key {
	return Key{Netns: netns, Remote: netip.AddrFrom16(remote).Unmap(), Bucket: bucket % theirs, Theirs: bucket >= theirs}
}

// Pair is the pair that k belongs to.
func (k Key) Pair() Pair { return Pair{Netns: k.Netns, Remote: k.Remote} }

// Pair is a watched namespace and one of its peers.
type Pair struct {
	Netns  uint64
	Remote netip.Addr
}

// Key is that of the flows in a bucket that this end has opened.
func (p Pair) Key(bucket uint8) Key { return Key{Netns: p.Netns, Remote: p.Remote, Bucket: bucket} }

// classes is how many octaves an RTT histogram has; the last one is open.
const classes = 32

// RTT is a distribution of those round trips that were sampled: the latest of each
// connection at each Read, if there was a new one. Hist[i] counts the ones of 2^i up
// to 2^(i+1) us; Hist[0] holds everything below 2 us.
type RTT struct {
	Count    uint64
	Sum      time.Duration
	Min, Max time.Duration
	Hist     [classes]uint64
}

// Mean is 0 where there is no sample.
func (r RTT) Mean() time.Duration {
	if r.Count == 0 {
		return 0
	}
	return r.Sum / time.Duration(r.Count)
}

// Quantile estimates a quantile (q from 0 to 1) from the histogram, evenly
// within an octave and never beyond Min and Max; 0 where there is no sample.
func (r RTT) Quantile(q float64) time.Duration {
	if r.Count == 0 {
		return 0
	}
	rank, seen := q*float64(r.Count), 0.0
	for i, n := range r.Hist {
		if n == 0 {
			continue
		}
		if next := seen + float64(n); next >= rank {
			low, high := uint64(1)<<i, uint64(2)<<i
			if i == 0 {
				low = 0
			}
			us := float64(low) + float64(high-low)*max(0, rank-seen)/float64(n)
			return min(max(time.Duration(us*1e3), r.Min), r.Max)
		}
		seen += float64(n)
	}
	return r.Max
}

// add merges o into r.
func (r *RTT) add(o RTT) {
	if o.Count == 0 {
		return
	}
	if r.Count == 0 {
		r.Min = o.Min
	}
	r.Min, r.Max = min(r.Min, o.Min), max(r.Max, o.Max)
	r.Count += o.Count
	r.Sum += o.Sum
	for i := range r.Hist {
		r.Hist[i] += o.Hist[i]
	}
}

// Figures are what happened in an interval, and how things stood at its end. What was
// not answered yet is in the figures of a later interval.
type Figures struct {
	RTT           RTT
	Retransmits   uint64 // segments, tail probes included
	TailProbes    uint64 // of them, sent before any timeout or recovery: the first sign of silence
	Timeouts      uint64 // retransmission timeouts
	Spurious      uint64 // retransmissions that the peer reported as needless (DSACK)
	Reordered     uint64 // reordering events
	BytesSent     uint64 // payload given to IP: again where it was lost, or the device had no room for it
	BytesAcked    uint64
	BytesReceived uint64
	SegmentsOut   uint64
	LastTimeout   time.Duration // CLOCK_MONOTONIC; 0: never
	LastActive    time.Duration // CLOCK_MONOTONIC
	SRTT          time.Duration // smoothed, of the socket that was read last, as all below
	Window        uint32        // congestion window, segments
	Lost          uint32        // segments held for lost
	DeliveryRate  uint64        // bytes a second, by the last rate sample; 0: none
	AppLimited    bool          // of the kept rate sample (tcp_rate_gen), not of now: what is unsent tells that
}

// add merges o, of the same or a later interval, into f.
func (f *Figures) add(o Figures) {
	f.RTT.add(o.RTT)
	f.Retransmits += o.Retransmits
	f.TailProbes += o.TailProbes
	f.Timeouts += o.Timeouts
	f.Spurious += o.Spurious
	f.Reordered += o.Reordered
	f.BytesSent += o.BytesSent
	f.BytesAcked += o.BytesAcked
	f.BytesReceived += o.BytesReceived
	f.SegmentsOut += o.SegmentsOut
	f.LastTimeout = max(f.LastTimeout, o.LastTimeout)
	if o.LastActive < f.LastActive {
		return
	}
	f.LastActive, f.SRTT, f.Window, f.Lost = o.LastActive, o.SRTT, o.Window, o.Lost
	f.DeliveryRate, f.AppLimited = o.DeliveryRate, o.AppLimited
}

// Flow is what happened to the flows of a key in a Reading's interval.
type Flow struct {
	Key
	Figures
}

// Reading is what happened between two moments of CLOCK_MONOTONIC. Flows that
// nothing was reported of are not in it.
type Reading struct {
	From, To time.Duration
	Flows    []Flow
}
