package agent

import (
	"cmp"
	"net"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/flow"
	"pathwise.dev/pathwise/internal/steer/kick"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/internal/topo"
)

// pair is a local pod's traffic with one remote pod. The local agent decides about the flows
// that the local pod has opened. Its parts are named by who writes them.
type pair struct {
	// What it is between is known as entries enters it.
	name   string
	local  *pod
	remote topo.Pod
	host   *remoteHost
	routes routes
	// notIn6 are the networks on which the pods' IPv6 packets are not steered, of a pair of
	// IPv4 of pods that have both.
	notIn6 []string
	// marks are the keys of the packets' tags.
	marks marks
	// joined is when the pair was entered.
	joined time.Time

	entry
	accord
	placement
	fitness
	doubts
	traffic
	lines lines // by index in routes
}

// entry is how a pair is in its pod's data plane: of entries and keeper.
type entry struct {
	// stale is when the data plane is to be told of its paths again, and hops are their next
	// hops, as last found.
	stale time.Time
	hops  map[int]net.HardwareAddr
	// withdrawn: its flows were taken home as it is about to be left. leaving: it is left as
	// soon as its pod's kernel is rid of what was made for it; parting: so it is, for want of
	// traffic, if none comes meanwhile.
	withdrawn, leaving, parting bool
}

// accord is what both ends of a pair have said to each other: of agreement, respondent and teller.
type accord struct {
	// opened: the remote data plane takes this pair's packets on every path, confirmed at that
	// time. openSentAt is when this end last sent the notice that asks for it, and openTries how often
	// it has since it was confirmed. taken: this data plane takes the pair's packets on every path.
	opened, openSentAt time.Time
	openTries          int
	taken              bool
	// unsettled: the remote agent has not confirmed the latest choice, of which it was told at noticed.
	unsettled bool
	noticed   time.Time
	// diverted is since when the remote agent has had flows on another path than was
	// said, and followedAt when it last said where they are.
	diverted, followedAt time.Time
	// takesDSCP: the other end's data plane takes packets of every DSCP. takesRows: it knows of rows.
	takesDSCP, takesRows bool
	// takesOpening: the other end lets flows begin on another network while the default one
	// fails. takesReturns: no filter of its host is stateful.
	takesOpening, takesReturns bool
	// peerLimited is the share of its TCP traffic that applications limit, as the other agent says of what
	// its end sends, 1 where it says nothing.
	peerLimited float64
	// triedLast is the number of what the other agent tried last.
	triedLast uint64
	// counts are of its flows of one way.
	counts counts
}

// placement is where the pair's flows are to be, and are: of judge, mover and waker.
type placement struct {
	weighed time.Time
	rows    decide.Rows
	// assigned is where the pair's own flows are to be, but for the buckets that make a detour.
	// bulk is where those of the second row are, where that is elsewhere.
	assigned, bulk decide.Assignment
	decision       [flow.Rows]decide.Decision
	// ranks are which buckets a part of a row is, nil for the first ones: they hold still while flows are apart.
	ranks *flow.Ranks
	// pinned is the network that a user has pinned the pair to; would is the latest move that
	// was decided and, in a dry run, not done.
	pinned, would string
	outcome       *outcome
	loss          decide.SwitchLoss
	// before is the traffic before the latest canary began, or flows were moved.
	before []decide.Interval
	// coming is a move that waits, nil if none does.
	coming *coming
	// comeback is what the other host is to have done before flows come back.
	comeback comeback
	// away is when flows were last not on the default network, and left when some last moved.
	away, left time.Time
	// waking are the buckets whose connections are to be woken, at wakeAt at the latest.
	waking dataplane.Set
	wakeAt time.Time
}

// fitness is what the pod's kernel is made fit for: of stacks.
type fitness struct {
	// direct is the path that the pod's route to the peer is to lead straight to, 0 for none;
	// carrying the one that has carried what the pair sends since carryingSince.
	direct, carrying int
	carryingSince    time.Time
	// fitted: it is fit for flows that the peer has opened.
	fitted bool
}

// doubts are about flows that may not get through where they are: of inquirer, opener and listener.
type doubts struct {
	// opening is where flows begin while the default network fails.
	opening    opening
	handshakes handshakes
	// requests are those to ports of the peer, and trial is whether they are answered elsewhere, nil if none is asked.
	requests map[uint16]*detect.Requests
	trial    *trial
	// inquiries are the connections of which is asked whether they get through.
	inquiries map[ports]*inquiry
	detours   detours
	// nowhere is when a connection last got through on no path, and excused are those that got
	// through elsewhere since, and returned.
	nowhere time.Time
	excused map[ports]bool
	// stuck are connections that wait for a doubled timeout, nil if there were none.
	stuck *kick.Stalled
	// repeats are what connections have sent again lately.
	repeats repeats
	// translated are ports of connections that the pod may hand to others, and translates is whether it does.
	translated translations
	translates bool
	// doubted is when it is to be asked whether the pair's connections begin.
	doubted time.Time
}

// traffic is what was counted of the pair: as it is looked at, with each evidence, and by counter.
type traffic struct {
	// active is when packets last went or came, and resumed when some came after a lull.
	active, resumed time.Time
	// own is when the local pod last sent packets of flows that it opened, and answered when it last sent others.
	own, answered             time.Time
	ownBefore, answeredBefore uint64
	// bytes are a ring of intervals, the latest of which ended at accounted.
	bytes     [ringLength]decide.Interval
	nBytes    int
	accounted time.Time
	gaps      gaps // by all that arrived
	full      bool // its bulk was of full packets when there last was some
	// heads are its connections as they are counted. They are the counter's own, which sees them without the lock.
	heads headcount
	// conns is the number of those with traffic as last counted, and places how many have each place of a row.
	conns  int
	places [flow.Rows][flow.Width]int
	// classes are its own connections of each row's class, as last counted.
	classes [flow.Rows]classCount
	// others is when bulk that the peer has opened last carried something.
	others time.Time
	// limited is the share of its TCP traffic that applications limit, and sending that of what this end sends.
	limited, sending share
	// fresh is when bulk began to come in, after there had been none, and came when it last did.
	fresh, came time.Time
}

// ringLength of intervals kept about a pair's traffic: three seconds.
const ringLength = 30

// line is a pair's traffic on one path. Its echoes are those that judge it.
type line struct {
	detect.Path
	// echoedAt is when the latest echo went, and calm how many packets had come over the
	// path when one last did in calm.
	echoedAt       time.Time
	calm           uint64
	sent, received dataplane.Tally // as last read
	counted        counted
	used           time.Time // packets went or came
	gaps           gaps      // by what arrived over this path alone
	attended       bool      // it is among those that the agent polls
	silence        detect.Silence
	tx, rx         float64 // bytes per second, over the last evidence
	// unacked is what TCP gave the path since the last evidence less what was
	// acknowledged: what is on its way more than before, and what was lost.
	unacked int64
	goodput float64 // bytes per second that arrived, both ways
	figures telemetry.Figures
	// reportedAt is when telemetry last reported of its connections.
	reportedAt time.Time
	retrans    float64
	rtos       int
	bar        detect.Bar
	// accidents are those of the pair's connections on the path.
	accidents detect.Accidents
	// refusals are those that it was proven not to get through.
	refusals detect.Refusals
	// rows is what was read last of the connections of each row, and after these of each that the peer has opened: they
	// go by its choices.
	rows [2 * flow.Rows]rowReading
}

// counted is what a line had carried at the last evidence.
type counted struct{ sent, received dataplane.Tally }

// sends reports whether the pair has sent anything over the path in the last epoch, or since.
func (ln *line) sends() bool { return ln.tx > 0 || ln.sent != ln.counted.sent }

// lines are a pair's traffic by its paths.
type lines []line

func newLines(n int, params *detect.Params) lines {
	out := make(lines, n)
	for i := range out {
		out[i].Path = detect.New(params)
	}
	return out
}

// suspected reports whether one of the paths is.
func (ls lines) suspected() bool {
	return slices.ContainsFunc(ls, func(ln line) bool { return ln.Suspected() })
}

// usesTCP reports whether telemetry reported of a connection lately.
func (ls lines) usesTCP(now time.Time) bool {
	return slices.ContainsFunc(ls, func(ln line) bool { return now.Sub(ln.reportedAt) < quiet })
}

// telemetryPair is how package telemetry names it.
func (p *pair) telemetryPair() telemetry.Pair {
	return telemetry.Pair{Netns: p.local.cookie, Remote: p.routes[0].Remote.Addr}
}

// on is the path that the pair's own flows are on, but for a canary, and for bulk that has a
// path of its own.
func (p *pair) on() route.Route { return p.at(p.assigned) }

// assignments are those of the rows.
func (p *pair) assignments() [flow.Rows]decide.Assignment {
	return [flow.Rows]decide.Assignment{p.assigned, cmp.Or(p.bulk, p.assigned)}
}

// setAssignments has rows that are alike be one.
func (p *pair) setAssignments(as [flow.Rows]decide.Assignment) {
	p.assigned, p.bulk = as[0], as[1]
	if as[0] == as[1] {
		p.bulk = decide.Assignment{}
	}
}

// together is an assignment of both rows.
func together(as decide.Assignment) [flow.Rows]decide.Assignment {
	return [flow.Rows]decide.Assignment{as, as}
}

// home is the assignment to the default network.
func (rs routes) home() [flow.Rows]decide.Assignment {
	return together(decide.Assignment{Active: rs[0].Network})
}

// failed reports whether the path with that index is known to carry nothing.
func (p *pair) failed(index int) bool {
	i := p.routes.at(index)
	if i < 0 || p.lines[i].Down() {
		return true
	}
	hp := p.host.paths[p.routes[i].Network]
	return hp != nil && hp.Down()
}

// uses reports whether a row of the pair's own flows is on the path with that index, be it
// with others that the flows share, but for a canary.
func (p *pair) uses(index int) bool {
	return slices.ContainsFunc(p.used(), func(i int) bool { return p.routes[i].Index == index })
}

// used are the places of the paths that the pair's own flows are on, but for canaries.
func (p *pair) used() (out []int) {
	for _, as := range p.assignments() {
		out = append(out, max(p.routes.on(as.Active), 0))
		for _, one := range as.With {
			if i := p.routes.on(one.Network); i >= 0 {
				out = append(out, i)
			}
		}
	}
	return out
}

// at is the path of most of an assignment's flows.
func (p *pair) at(as decide.Assignment) route.Route {
	return p.routes[max(p.routes.on(as.Active), 0)]
}

// found is where the maps have most of the pair's own flows, by row: what a predecessor
// left.
func (p *pair) found() (out [flow.Rows]decide.Assignment, err error) {
	var votes [flow.Rows][dataplane.MaxPaths]int
	choices, err := p.local.plane.Choices(p.remote.UID)
	for b, c := range choices {
		votes[flow.RowOf(uint8(b))][c.Path%dataplane.MaxPaths]++
	}
	for row := range out {
		best := p.routes[0]
		for _, r := range p.routes {
			if votes[row][r.Index] > votes[row][best.Index] {
				best = r
			}
		}
		out[row].Active = best.Network
	}
	return out, err
}

// flows are where the pair's own flows are, and those that the peer has opened.
func (p *pair) flows() (own, followed [dataplane.Buckets]dataplane.Choice, err error) {
	if own, err = p.local.plane.Choices(p.remote.UID); err == nil {
		followed, err = p.local.plane.Followed(p.remote.UID)
	}
	return own, followed, err
}

// routes are the paths of a pair. The first one is its default network's.
type routes []route.Route

// on is the place of the path on a network, -1 if there is none.
func (rs routes) on(network string) int {
	return slices.IndexFunc(rs, func(r route.Route) bool { return r.Network == network })
}

// at is the place of the path with an index, -1 if it is gone.
func (rs routes) at(index int) int {
	return slices.IndexFunc(rs, func(r route.Route) bool { return r.Index == index })
}

// byNetwork finds the path on a network.
func (rs routes) byNetwork(network string) (route.Route, bool) {
	if i := rs.on(network); i >= 0 {
		return rs[i], true
	}
	return route.Route{}, false
}

// dev is the local pod's interface on a path but the default network's.
func (rs routes) dev(index int) string {
	if i := rs.at(index); i > 0 {
		return rs[i].Local.Dev
	}
	return ""
}

// pathBy is the index of the path by an interface of the local pod, 0 for "".
func (rs routes) pathBy(dev string) int {
	if i := slices.IndexFunc(rs, func(r route.Route) bool { return r.Local.Dev == dev }); i > 0 {
		return rs[i].Index
	}
	return 0
}
