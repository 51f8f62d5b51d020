package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/flow"
)

// Notices travel between agents as a TLV of an experimental type (RFC 8972
// section 6) in authenticated STAMP test packets: what authenticates probes
// authenticates them, and the reflected packet acknowledges.
const noticeType = 240

// kind of a notice.
type kind uint8

const (
	// noticeOpen asks whether the other data plane knows the pair of pods, and
	// makes it take their packets on every path.
	noticeOpen kind = 1 + iota
	// noticeMoved says where the flows are that the sender's pod has opened, under a
	// number that only grows. It alone moves the flows' other direction: no packet of a
	// pod does.
	noticeMoved
	// noticeFailed says that nothing arrives over a network.
	noticeFailed
	// noticeMute says that of a pair of pods alone.
	noticeMute
	// noticeUnpassed says that of some buckets of a pair's flows, and where they get through.
	noticeUnpassed
	// noticeReturn asks whether the receiver's host has forgotten what the pair's flows have left behind.
	noticeReturn
	// noticeOneWay asks to admit a flow of datagrams that the sender's pod sends and nobody answers,
	// by its ports, and how much of the pair has come over a network.
	noticeOneWay
	// noticeTried says that a connection in some buckets of a pair's flows is tried where choices says, as it does not
	// get through on a network. Its number is when that began, on the sender's clock in nanoseconds.
	noticeTried
)

// status is the answer.
type status uint8

const (
	statusNone status = iota // as sent; or the other agent did not understand
	statusDone
	statusUnknown // no such pod here, or not with that peer
	// statusStale: something newer is known, under the number in the answer.
	statusStale
	// statusDiverted: done as said before, but flows have left a path that failed since.
	statusDiverted
	// statusLooking: it is being done.
	statusLooking
)

// noChoice represents a bucket of which nothing is said.
const noChoice = 0xff

// notice is one message.
type notice struct {
	kind   kind
	status status
	// network is the number of the network that failed, is mute, does not pass some flows, or is
	// counted.
	network uint8
	// from is the pod on the sender's host, to the one on the receiver's.
	from, to podID
	// names tells whether both number the networks alike.
	names uint32
	// number orders what was said of a pair's choices; of others, see each.
	number uint64
	// choices: each bucket's network number; noChoice for none.
	choices [dataplane.Buckets]uint8
}

const (
	noticeVersion = 2
	noticeSize    = 4 + 16 + 16 + 4 + 8 + dataplane.Buckets
)

// errNotice is returned for bytes that are no notice of this version.
var errNotice = errors.New("no notice of this version")

func (n notice) encode() []byte {
	b := make([]byte, 0, noticeSize)
	b = append(b, noticeVersion, byte(n.kind), byte(n.status), n.network)
	b = append(b, n.from[:]...)
	b = append(b, n.to[:]...)
	b = binary.BigEndian.AppendUint32(b, n.names)
	b = binary.BigEndian.AppendUint64(b, n.number)
	return append(b, n.choices[:]...)
}

func decodeNotice(b []byte) (n notice, err error) {
	if len(b) != noticeSize || b[0] != noticeVersion || kind(b[1]) < noticeOpen || kind(b[1]) > noticeTried ||
		status(b[2]) > statusLooking {
		return n, fmt.Errorf("decode notice of %d octets: %w", len(b), errNotice)
	}
	n = notice{kind: kind(b[1]), status: status(b[2]), network: b[3],
		from: podID(b[4:20]), to: podID(b[20:36]), names: binary.BigEndian.Uint32(b[36:40]),
		number: binary.BigEndian.Uint64(b[40:48])}
	copy(n.choices[:], b[48:])
	return n, nil
}

// teller says to other agents what they are to know of pairs' flows.
type teller struct {
	*journal
	members *members
	wires   *wires
}

// about begins a notice about a pair.
func (t *teller) about(p *pair, what kind) notice {
	return notice{kind: what, from: idBy(p.localUID()), to: idOf(p.remote), names: t.members.dialect()}
}

// tellFirst tells it over the path that the pair's own flows are on, as that will do nearly always;
// over all where that one fails.
func (t *teller) tellFirst(p *pair, n notice) {
	if hp := p.host.paths[p.on().Network]; hp != nil && !hp.Down() {
		t.wires.tellOver(hp, n)
	} else {
		t.wires.tell(p.host, n, "")
	}
}

// announce tells where the pair's own flows are.
func (t *teller) announce(p *pair) {
	choices, err := p.local.plane.Choices(p.remote.UID)
	number, numberErr := p.local.plane.Number(p.remote.UID)
	if err != nil || numberErr != nil {
		return
	}
	n := t.about(p, noticeMoved)
	n.number = number
	for b, c := range choices {
		n.choices[b] = noChoice
		if i := p.routes.at(c.Path); i >= 0 {
			n.choices[b] = t.number(p.routes[i].Network)
		}
	}
	p.noticed = t.cfg.Now()
	t.wires.tell(p.host, n, "")
}

// remind is how often the other agent is told again where flows are that are not on
// the default network, or were lately: whatever happened to what was said, both ends
// agree again within that time.
const remind, lately = 500 * time.Millisecond, 10 * time.Second

// settle repeats an announcement until it is confirmed, and then now and then.
func (t *teller) settle(p *pair, now time.Time) {
	if p.assignments() != p.routes.home() {
		p.away = now
	}
	if p.unsettled && now.Sub(p.noticed) >= epoch || now.Sub(p.away) < lately && now.Sub(p.noticed) >= remind {
		t.announce(p)
	}
}

// tellDetour tells the agent that decides about the flow's bucket that it does not pass, or where that is tried.
func (t *teller) tellDetour(p *pair, q *inquiry, what kind) {
	// While both rows go by one path, which of them the flow is in is not known here (learn_row in dataplane/row.h).
	in := func(bucket uint8) bool { return bucket%flow.Width == q.bucket%flow.Width }
	t.tellOff(p, what, p.routes.at(q.From), p.routes.at(q.On), in)
}

// tellAllOff says that the pair's path from does not get its connections through, and that path to does.
func (t *teller) tellAllOff(p *pair, from, to int) {
	t.tellOff(p, noticeUnpassed, from, to, func(uint8) bool { return true })
}

// tellOff says that some buckets of a pair's flows do not get through on its path from, and where they do or are tried.
func (t *teller) tellOff(p *pair, what kind, from, to int, in func(bucket uint8) bool) {
	n := t.about(p, what)
	n.number = uint64(t.cfg.Now().UnixNano())
	n.network = t.number(p.routes[from].Network)
	for b := range n.choices {
		if n.choices[b] = noChoice; in(uint8(b)) {
			n.choices[b] = t.number(p.routes[to].Network)
		}
	}
	t.wires.tell(p.host, n, "")
}

// mute says that nothing of the pair arrives over path i.
func (t *teller) mute(p *pair, i int) {
	n := t.about(p, noticeMute)
	n.network = t.number(p.routes[i].Network)
	t.wires.tell(p.host, n, "")
}

// failed says that nothing arrives over a path, over the others.
func (t *teller) failed(hp *hostPath) {
	t.wires.tell(hp.host, notice{kind: noticeFailed, from: t.wires.self, to: hp.host.pod, network: t.number(hp.network),
		names: t.members.dialect()}, hp.network)
}

// number is a network's in notices.
func (t *teller) number(network string) uint8 { return uint8(slices.Index(t.members.names, network)) }
