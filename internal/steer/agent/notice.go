package agent

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pathwise.dev/pathwise/internal/steer/dataplane"
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
)

// noChoice represents a bucket of which nothing is said.
const noChoice = 0xff

// notice is one message.
type notice struct {
	kind   kind
	status status
	// network is the number of the network that failed, is mute, or does not pass some flows.
	network uint8
	// from is the pod on the sender's host, to the one on the receiver's.
	from, to podID
	// names tells whether both number the networks alike.
	names uint32
	// number orders what was said of a pair's choices.
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
	if len(b) != noticeSize || b[0] != noticeVersion || kind(b[1]) < noticeOpen || kind(b[1]) > noticeUnpassed ||
		status(b[2]) > statusDiverted {
		return n, fmt.Errorf("decode notice of %d octets: %w", len(b), errNotice)
	}
	n = notice{kind: kind(b[1]), status: status(b[2]), network: b[3],
		from: podID(b[4:20]), to: podID(b[20:36]), names: binary.BigEndian.Uint32(b[36:40]),
		number: binary.BigEndian.Uint64(b[40:48])}
	copy(n.choices[:], b[48:])
	return n, nil
}
