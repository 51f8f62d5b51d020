package detect

import "time"

// Params are the figures of detection. Hosts and Pairs give those that agents use.
// They add up to less than TCP's shortest retransmission timeout, 200 ms.
//
// Tags say of each its unit, the range in which it makes sense, and why it is so.
type Params struct {
	// Silence is how long packets go out on a path, with none coming in, before it is
	// suspected.
	Silence time.Duration `unit:"s" range:"0.001 1" why:"above a loaded round trip, below a delayed ACK (40 ms)"`
	// Again is the least time between suspicions of a path that were unfounded.
	Again time.Duration `unit:"s" range:"0 1" why:"an idle application would be asked without end"`
	// Every is the distance of the first Burst rounds of probes, and Slow that of the others.
	Every time.Duration `unit:"s" range:"0.0005 0.1" why:"three in a row within 4 ms"`
	Burst int           `unit:"rounds" range:"3 1000" why:"what 32 ms have not told is worth less"`
	Slow  time.Duration `unit:"s" range:"0.0005 1" why:"a suspicion of seconds costs 50 probes a second"`
	// The other paths are asked from round OthersFrom on, and the hosts from round
	// HostsFrom on; 0 for never.
	OthersFrom int `unit:"rounds" range:"1 100" why:"a pair's witness need not know before the last echo that it takes"`
	HostsFrom  int `unit:"rounds" range:"0 100" why:"the first echo clears what was only a slow application"`
	// InARow is how many probes in a row must be overdue, each after Times what the path
	// usually takes, and DeadlineLeast at least.
	InARow int `unit:"probes" range:"1 16" why:"one or two are lost by noise, or a queue that overflows"`
	// Where probes are lost one by one, so many are taken as are lost in a row no more often than ByChance,
	// RowMost at most. One is lost alone if one that was sent no longer than Apart later was answered. Silence
	// that was found to mean nothing before takes Weak times InARow.
	ByChance      float64       `unit:"probability" range:"1e-9 0.1" why:"one-way flows are asked 50 times a second: twice an hour"`
	Apart         time.Duration `unit:"s" range:"0.01 5" why:"two regular probes; an outage is longer"`
	RowMost       int           `unit:"probes" range:"1 32" why:"26 ms more; a path that loses two of three is as good as failed"`
	Weak          int           `unit:"ratio" range:"1 8" why:"elsewhere silence is evidence too; takes 6 ms more"`
	Times         int           `unit:"ratio" range:"1 100" why:"a verdict some 8 ms after suspicion"`
	DeadlineLeast time.Duration `unit:"s" range:"0.0001 1" why:"what a busy kernel takes to answer"`
	// WorstMost bounds what the worst round trip may add to the deadline. What the path
	// usually takes now, as in a queue that others fill, is not bounded.
	WorstMost time.Duration `unit:"s" range:"0 1" why:"one busy moment must not make failures slow to find"`
	// Refills is how long a path to which traffic has come back after a Lull may fill its
	// queue again, and QueueMost bounds what that may take.
	Lull      time.Duration `unit:"s" range:"0 10" why:"by then probes have forgotten the queue"`
	Refills   time.Duration `unit:"s" range:"0 10" why:"by then probes know it again"`
	QueueMost time.Duration `unit:"s" range:"0 1" why:"deeper queues are a fault too"`
	// GapRate is how much lower than of late a path's rate may be when a judgement waits for the next packet
	// that it lets out, GapMost how long it waits at most, and of bulk that came to the path after a Lull no longer
	// than GapNew ago; where a pair alone is asked about, whose queue hosts may not share, GapAlone. Where bulk is in a
	// queue of its own, as its round trips show, one may take longer: GapOver times what that takes at the rate of late
	// is waited, but no longer than Times what a round trip takes, or PassingMost.
	GapRate  int           `unit:"ratio" range:"1 100" why:"what a network shares may change as much from one moment to the next"`
	GapMost  time.Duration `unit:"s" range:"0 1" why:"64 kB at 17 Mbit/s"`
	GapAlone time.Duration `unit:"s" range:"0 1" why:"64 kB at 6.5 Mbit/s; a connection asks sooner"`
	GapOver  float64       `unit:"ratio" range:"1 100" why:"rates that shapers keep to are steady"`
	GapNew   time.Duration `unit:"s" range:"0 10" why:"three of an agent's accounts, of which the first is a part of one"`
	// ConfirmWithin is how long the other level may take to know better.
	ConfirmWithin time.Duration `unit:"s" range:"0 1" why:"its probes or echoes are on their way"`
	// PassingMost is how long it may take while packets of others come over the path, or some of its probes pass.
	PassingMost time.Duration `unit:"s" range:"0 1" why:"TCP's shortest timeout, after which a connection is asked itself"`
	// AloneBy is how improbable it must be that a pair's probes are lost and the hosts' pass by chance, for its path
	// to fail alone.
	AloneBy float64 `unit:"probability" range:"1e-9 0.5" why:"three echoes and five probes: takes no longer than the echoes"`
	// ExpiresAfter ends a suspicion about which nothing was found out.
	ExpiresAfter time.Duration `unit:"s" range:"0.01 60" why:"a fault that is over must not be asked about for ever"`
	// AnswersInARow make a failed path usable again.
	AnswersInARow int `unit:"answers" range:"1 32" why:"a path that loses half would come back at every second"`
	// KnownFor is how long after an answer silence tells something.
	KnownFor time.Duration `unit:"s" range:"1 600" why:"three calm echoes; where they are refused all is silent"`
	// Deaf is how long nothing has come over a path on which a connection times out, before
	// that raises suspicion.
	Deaf time.Duration `unit:"s" range:"0.001 1" why:"a timer that is about to be disarmed may fire"`
	// AckWithin is how long after its timer has fired a connection may still be acknowledged on
	// its path, or AckTrips of its round trips, and TryFor how long that may take on another
	// one, or its timer, up to TryMost.
	// DetoursMost connections of a pair are tried at a time. One that no path gets through is
	// tried again after DetourAgain, and no path is blamed for DetourTrust times that. From
	// RefusesAt connections that a path was proven not to get through, the pair leaves it.
	AckWithin   time.Duration `unit:"s" range:"0.001 1" why:"a tail loss probe, and what the timer sends some 14 ms later, have had their time"`
	AckTrips    int           `unit:"ratio" range:"1 100" why:"a queue that fills makes timers fire: slow is not failed"`
	TryFor      time.Duration `unit:"s" range:"0.001 1" why:"a connection that is woken tries again within its shortest timer"`
	TryMost     time.Duration `unit:"s" range:"0.001 2" why:"the kernel's own shortest timer is 200 ms, doubled once"`
	DetoursMost int           `unit:"connections" range:"1 1000" why:"each asks the kernel every few milliseconds"`
	DetourTrust int           `unit:"ratio" range:"1 100" why:"as it ends, it passes wherever it happens to be"`
	DetourAgain time.Duration `unit:"s" range:"0.1 60" why:"a connection whose peer is dead would move for nothing"`
	RefusesAt   int           `unit:"connections" range:"1 1000" why:"one may be refused for its port, three hardly"`
	// AccidentsFor is the time constant with which it is forgotten that timers fired on a path
	// that got their connections through.
	AccidentsFor time.Duration `unit:"s" range:"0.1 600" why:"some twenty times a timer, as a path that is full goes on to be"`
	// FirstWindow is how many segments a connection sends that begins, those sent again included.
	// One that was not busy for Counted may not be counted among its pair's yet, nor those that
	// began with it.
	FirstWindow int           `unit:"segments" range:"1 1000" why:"RFC 6928 has it send 10 at once, and most may be lost twice"`
	Counted     time.Duration `unit:"s" range:"0 10" why:"agents count every 250 ms where that is quickly done"`
	// Datagrams of a flow that was answered RepliesKnown times miss their answers where RepliesTimes as many as
	// usual have gone without one, RepliesLeast at least, for RepliesFor; or where fewer go that wait RepliesTimes as
	// long as usual, RepliesLong at least. On another path such a flow waits RepliesIdle at most for its next datagram.
	RepliesKnown int           `unit:"answers" range:"1 1000" why:"what is usual is known by then"`
	RepliesTimes int           `unit:"ratio" range:"1 100" why:"a queue that fills, or a program that pauses"`
	RepliesLeast int           `unit:"datagrams" range:"1 200" why:"two or three are lost by noise"`
	RepliesFor   time.Duration `unit:"s" range:"0 10" why:"above a scheduler's pause; echoes find what fails for the pair sooner"`
	RepliesLong  time.Duration `unit:"s" range:"0 60" why:"counts of what is answered many times in between may grow four times in a row by chance"`
	RepliesIdle  time.Duration `unit:"s" range:"0 60" why:"QUIC's probes go twice as late each time (RFC 9002, section 6.2.1)"`
	// Datagrams of which each is a flow of its own, as queries of DNS are, miss their answers where RequestsLeast of
	// one port, which had answered RepliesKnown, wait RepliesTimes as long as usual, RequestsFor at least.
	RequestsLeast int           `unit:"datagrams" range:"1 100" why:"one is lost by chance"`
	RequestsFor   time.Duration `unit:"s" range:"0 10" why:"agents look every 50 ms, and a server may pause"`
	// A path that does not pass data is barred for the BarPart-th part of the time that it has not,
	// BarFirst at least and BarMost at most. That is forgotten once it has passed data for as long,
	// or for BarForgotten.
	BarPart      int           `unit:"ratio" range:"1 100" why:"found to be well again at most a quarter of the outage late"`
	BarFirst     time.Duration `unit:"s" range:"1 60" why:"to try costs a connection a timeout of 200 ms"`
	BarMost      time.Duration `unit:"s" range:"1 3600" why:"TCP's own longest timeout"`
	BarForgotten time.Duration `unit:"s" range:"1 3600" why:"a minute of use shows that it is another fault"`
	// Of a service that answered on no path nothing is asked for UnservedFirst, twice as long each time, up to
	// UnservedMost. From so many of a peer's on, UnservedServices, nothing is asked of others either.
	UnservedFirst    time.Duration `unit:"s" range:"0.1 60" why:"a server that restarts is there again by then"`
	UnservedMost     time.Duration `unit:"s" range:"1 3600" why:"what never answers costs two moves a minute"`
	UnservedServices int           `unit:"services" range:"1 65536" why:"somebody scans ports"`
}

// Hosts are the figures for a path between hosts.
func Hosts() Params {
	const ms = time.Millisecond
	return Params{Silence: 6 * ms, Again: 10 * ms, Every: 2 * ms, Burst: 16, Slow: 20 * ms,
		OthersFrom: 1, InARow: 3, ByChance: 1e-5, RowMost: 16, Apart: 250 * ms, Weak: 2,
		Times: 2, DeadlineLeast: 2 * ms, WorstMost: 5 * ms,
		Lull: 50 * ms, Refills: 500 * ms, QueueMost: 50 * ms,
		GapRate: 6, GapMost: 30 * ms, GapAlone: 80 * ms, GapOver: 1.5, GapNew: 300 * ms,
		ConfirmWithin: 40 * ms, PassingMost: 200 * ms, AloneBy: 0.02,
		ExpiresAfter: 5 * time.Second, AnswersInARow: 10, KnownFor: 15 * time.Second,
		Deaf:      15 * ms,
		AckWithin: 20 * ms, AckTrips: 3, TryFor: 100 * ms, TryMost: 500 * ms,
		DetoursMost: 16, DetourAgain: time.Second, DetourTrust: 3, RefusesAt: 3,
		AccidentsFor: 5 * time.Second, FirstWindow: 30, Counted: 500 * ms,
		RepliesKnown: 4, RepliesTimes: 4, RepliesLeast: 5, RepliesFor: 50 * ms,
		RepliesLong: 250 * ms, RepliesIdle: 10 * time.Second,
		RequestsLeast: 2, RequestsFor: 100 * ms,
		BarPart: 4, BarFirst: 5 * time.Second, BarMost: 2 * time.Minute, BarForgotten: time.Minute,
		UnservedFirst: 2 * time.Second, UnservedMost: time.Minute, UnservedServices: 64}
}

// Pairs are the figures for a path between two pods.
func Pairs() Params {
	p := Hosts()
	p.OthersFrom, p.HostsFrom, p.ConfirmWithin, p.ExpiresAfter = p.InARow, 2, 4*time.Millisecond, time.Second
	return p
}

// atOnce is what a sender hands over at once (GSO), in bytes: a shaper lets it out as one packet.
const atOnce = 64 << 10

// full is the least mean size in bytes of packets most of which are full; the least MTU of IPv6 is 1280 (RFC 8200).
const full = 1000

// Full reports whether packets of that mean size in bytes are full ones, of which a sender hands over many at once.
func Full(size float64) bool { return size >= full }

// GapOf is for how long nothing may come over a path that passes, of traffic in packets of that mean size in
// bytes and of that rate in bytes per second. Packets are counted as they are on the wire, so that the mean does not
// tell how many a sender handed over at once; but who sends full ones may have.
func (p *Params) GapOf(size, rate float64) time.Duration {
	if Full(size) {
		size = atOnce
	}
	if rate <= 0 {
		return 0
	}
	return min(time.Duration(float64(p.GapRate)*size/rate*float64(time.Second)), p.GapMost)
}

// GapQueued is the same of traffic that may be in a queue of its own, of which one hand-over waits there up to that
// limit (GapLimit).
func (p *Params) GapQueued(size, rate float64, limit time.Duration) time.Duration {
	if !Full(size) || rate <= 0 {
		return 0
	}
	return min(time.Duration(p.GapOver*atOnce/rate*float64(time.Second)), limit)
}

// GapLimit is how long what is handed over at once may wait in a queue of its own, as connections take so long for a
// round trip there; 0 if no connection tells, as of datagrams. They do not tell of a queue that fills yet.
func (p *Params) GapLimit(trip time.Duration, fills bool) time.Duration {
	limit := min(time.Duration(p.Times)*trip, p.PassingMost)
	if fills {
		limit = max(limit, p.GapAlone)
	}
	return limit
}

// deadline is when a probe counts as overdue on a path with that round trip.
func (p *Params) deadline(usual time.Duration) time.Duration {
	return max(p.DeadlineLeast, time.Duration(p.Times)*usual)
}
