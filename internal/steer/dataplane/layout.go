package dataplane

import (
	"strings"
	"time"
	"unsafe"
)

// Names and offsets of dataplane.h, as bpf2go reads them from the object. Where the
// lengths of arrays differ from those in C, this does not compile.
var (
	_ [MaxPaths]bpfPath = bpfPeer{}.Path
	_ [Buckets]uint8    = bpfChoices{}.Choice
)

// Parts of a byte of bpfChoices.
const (
	choicePath     = uint8(bpfChoiceCHOICE_PATH)
	choiceNotified = uint8(bpfChoiceCHOICE_NOTIFIED)
	choiceDiverted = uint8(bpfChoiceCHOICE_DIVERTED)
	choiceOpens    = uint8(bpfChoiceCHOICE_OPENS) // in the first alone, as is the next
	choiceTakes    = uint8(bpfChoiceCHOICE_TAKES)
)

// Sizes of entries of the arrays, and where they have what.
const (
	tallySize      = uint32(unsafe.Sizeof(bpfTally{}))
	tallyOpened    = uint32(unsafe.Offsetof(bpfTally{}.More)) // of what was sent: packets of flows opened here
	noticeSize     = uint32(unsafe.Sizeof(bpfNoticeNumbers{}))
	noticeReceived = uint32(unsafe.Offsetof(bpfNoticeNumbers{}.Received))
	leaseLenient   = uint32(unsafe.Offsetof(bpfLease{}.Lenient))
	addrSize       = uint32(unsafe.Sizeof(bpfAddr{}))
	missSlots      = uint32(1) << bpfLimitMISS_BITS
	synsInSet      = uint32(len(bpfSynSet{}.Syn))
	synSetSize     = uint32(unsafe.Sizeof(bpfSynSet{}))
	synSize        = uint32(unsafe.Sizeof(bpfSyn{}))
	synPeer        = uint32(unsafe.Offsetof(bpfSyn{}.Flow) + unsafe.Offsetof(bpfFlow{}.Peer))
)

// Roles of this end in a flow.
const (
	roleNone      = uint8(bpfRoleFLOW_NONE)
	roleOwnerNew  = uint8(bpfRoleFLOW_OWNER_NEW)
	roleOwner     = uint8(bpfRoleFLOW_OWNER)
	roleFollowNew = uint8(bpfRoleFLOW_FOLLOW_NEW)
	roleAnswered  = uint8(bpfRoleFLOW_ANSWERED)
	roleFollow    = uint8(bpfRoleFLOW_FOLLOW)
)

// How a flow ends, and whether one of datagrams goes on.
const (
	closedOut   = uint8(bpfClosedCLOSED_OUT)
	closedIn    = uint8(bpfClosedCLOSED_IN)
	closedReset = uint8(bpfClosedCLOSED_RESET)
	goesOn      = uint8(bpfClosedGOES_ON)
	surelyOn    = uint8(bpfClosedSURELY_GOES_ON)
)

// oneWay is in bpfFlowState.Claimed: nothing has come back of a flow that agents have admitted.
const oneWay = uint8(bpfClaimedONE_WAY)

// atOnce is how often an announcement is repeated at once (AT_ONCE).
const atOnce = 8

// seenUnit is the unit of the times in a flow's state.
const seenUnit = time.Duration(1 << bpfLimitSEEN_SHIFT)

// formerPins are maps of earlier versions of this layout that are used no more.
func formerPins() []string { return []string{"near", "near_rev", "slots", "slots_rev", "syns"} }

// pinOfMap is what a map is pinned as: without the prefix, as the directory says whose it
// is, and by the names that the first version of this layout gave. So all versions of one
// layout adopt each other's maps, and an upgrade or downgrade moves no flow.
func pinOfMap(name string) string {
	switch name {
	case bpfMapPwOwner:
		return "own"
	case bpfMapPwFollower:
		return "follow"
	case bpfMapPwNotices:
		return "order"
	case bpfMapPwFlowCount:
		return "held"
	case bpfMapPwCandidates:
		return "elsewhere"
	case bpfMapPwMisses:
		return "wanted"
	case bpfMapPwFlowCache:
		return "recent"
	case bpfMapPwSyns:
		return "begun" // not as formerPins had them
	}
	return strings.TrimPrefix(name, "pw_")
}
