package limit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/lab/netns"
)

// queueKey names a queueing discipline or class.
type queueKey struct {
	space          int
	dev            int
	handle, parent uint32
	kind           string
}

// queue is what one has counted so far.
type queue struct {
	rate, each  float64 // bit/s, of all and of each flow
	bytes       uint64
	packets     uint32
	over, drops uint32
	backlog     uint32
}

// readQueues reads all that hold packets back, and says when.
func (w *Watch) readQueues() (map[queueKey]queue, map[policerKey]policer, time.Time) {
	queues, policers := map[queueKey]queue{}, map[policerKey]policer{}
	begin := time.Now()
	for i, s := range w.spaces {
		if err := readSpace(i, s, queues, policers); err != nil {
			w.unread("queues of "+s.Name, err)
		}
	}
	return queues, policers, begin.Add(time.Since(begin) / 2)
}

func readSpace(i int, s Namespace, queues map[queueKey]queue, policers map[policerKey]policer) error {
	list, err := s.Links.QdiscList(nil)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("list queueing disciplines: %w", err)
	}
	filtered := false
	for _, q := range list {
		filtered = filtered || slices.Contains([]string{"ingress", "clsact", "htb", "hfsc", "prio", "drr"}, q.Type())
		a := q.Attrs()
		classful := q.Type() == "htb" || q.Type() == "hfsc"
		if !classful {
			if a.Statistics != nil {
				one := statistics(netlink.ClassStatistics(*a.Statistics))
				one.rate, one.each = rateOf(q)
				queues[queueKey{i, a.LinkIndex, a.Handle, a.Parent, q.Type()}] = one
			}
			continue
		}
		if err := readClasses(i, s, q, queues); err != nil {
			return err
		}
	}
	if filtered {
		return readPolicers(i, s, policers)
	}
	return nil
}

// readClasses reads those of a discipline whose classes have the rates. Classes did
// not count overlimits before Linux 4.20: then the discipline's own are theirs.
func readClasses(i int, s Namespace, q netlink.Qdisc, queues map[queueKey]queue) error {
	a := q.Attrs()
	classes, err := s.Links.ClassList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: a.LinkIndex}}, 0)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("list classes: %w", err)
	}
	for _, c := range classes {
		b := c.Attrs()
		if b.Statistics == nil || b.Handle>>16 != a.Handle>>16 {
			continue
		}
		one := statistics(*b.Statistics)
		switch c := c.(type) {
		case *netlink.HtbClass:
			one.rate = 8 * float64(c.Ceil)
		case *netlink.HfscClass:
			_, _, m2 := c.Usc.Attrs()
			one.rate = float64(m2)
		}
		if a.Statistics != nil {
			one.over = max(one.over, a.Statistics.Queue.Overlimits)
		}
		queues[queueKey{i, b.LinkIndex, b.Handle, b.Parent, q.Type()}] = one
	}
	return nil
}

func statistics(s netlink.ClassStatistics) queue {
	var q queue
	if s.Basic != nil {
		q.bytes, q.packets = s.Basic.Bytes, s.Basic.Packets
	}
	if s.Queue != nil {
		q.over, q.drops, q.backlog = s.Queue.Overlimits, s.Queue.Drops, s.Queue.Backlog
	}
	return q
}

// rateOf is what a discipline lets through at most, of all and of each flow, in bit/s; 0
// where it has no rate or the library does not know it.
func rateOf(q netlink.Qdisc) (all, each float64) {
	switch q := q.(type) {
	case *netlink.Tbf:
		return 8 * float64(q.Rate), 0
	case *netlink.Netem:
		return 8 * float64(q.Rate64), 0
	case *netlink.Fq:
		if q.FlowMaxRate < math.MaxUint32 {
			return 0, 8 * float64(q.FlowMaxRate)
		}
	}
	return 0, 0
}

// changed is what queues counted since the window began: of those that have a rate,
// held packets back or dropped some.
func (w *Watch) changed(now map[queueKey]queue) (out []explain.Queue) {
	for key, z := range now {
		a := w.queues[key] // none before: it was made meanwhile
		q := explain.Queue{Kind: key.kind, Handle: netlink.HandleStr(key.handle), Place: w.spaces[key.space].Place,
			Rate: z.rate, FlowRate: z.each, Seconds: w.ended.Sub(w.began).Seconds(), Bytes: z.bytes - a.bytes,
			Packets: uint64(z.packets - a.packets), Over: uint64(z.over - a.over), Dropped: uint64(z.drops - a.drops),
			Backlog: uint64(z.backlog)}
		if q.Packets == 0 && q.Dropped == 0 || q.Rate+q.FlowRate == 0 && q.Over == 0 && q.Dropped == 0 {
			continue
		}
		q.Dev = fmt.Sprintf("device %d", key.dev)
		if link, err := w.spaces[key.space].Links.LinkByIndex(key.dev); err == nil {
			q.Dev = link.Attrs().Name
		}
		out = append(out, q)
	}
	slices.SortFunc(out, byBytes)
	return out[:min(len(out), mostQueues)]
}

// mostQueues are kept of a trial, those with most bytes.
const mostQueues = 256

func byBytes(a, b explain.Queue) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Dev, b.Dev), cmp.Compare(a.Handle, b.Handle))
}

// policerKey names an action of tc.
type policerKey struct {
	space int
	index uint32
}

// policer is what one has counted so far.
type policer struct {
	rate                 float64
	packets, over, drops uint32
}

// payload is a netlink payload.
type payload []byte

func (p payload) Len() int          { return len(p) }
func (p payload) Serialize() []byte { return p }

// readPolicers lists the namespace's actions of kind police, whatever filter they
// belong to (RTM_GETACTION, linux/rtnetlink.h). A kernel without them lists none.
func readPolicers(i int, s Namespace, policers map[policerKey]policer) error {
	return netns.Do(s.Name, func() error {
		req := nl.NewNetlinkRequest(unix.RTM_GETACTION, unix.NLM_F_DUMP)
		req.AddData(payload(make([]byte, tcaMessage)))
		tab := nl.NewRtAttr(nl.TCA_ACT_TAB, nil)
		tab.AddRtAttr(1, nil).AddRtAttr(nl.TCA_ACT_KIND, nl.ZeroTerminated("police"))
		req.AddData(tab)
		messages, err := req.Execute(unix.NETLINK_ROUTE, 0)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list policers: %w", err)
		}
		for _, m := range messages {
			found, err := parsePolicers(m)
			if err != nil {
				return err
			}
			for index, p := range found {
				policers[policerKey{i, index}] = p
			}
		}
		return nil
	})
}

// tcaMessage is the size of struct tcamsg; of struct tc_police, the offset of its rate
// (struct tc_ratespec, of which the last 4 bytes are the rate in bytes a second).
const (
	tcaMessage = 4
	policeRate = 20 + 8
)

// ErrAction means bytes that describe no actions.
var ErrAction = errors.New("malformed list of actions")

// parsePolicers reads a struct tcamsg and its attributes.
func parsePolicers(m []byte) (map[uint32]policer, error) {
	if len(m) < tcaMessage {
		return nil, fmt.Errorf("%w: %d bytes", ErrAction, len(m))
	}
	out := map[uint32]policer{}
	err := attributes(m[tcaMessage:], func(kind uint16, tab []byte) error {
		if kind != nl.TCA_ACT_TAB {
			return nil
		}
		return attributes(tab, func(_ uint16, action []byte) error {
			index, p, ok, err := parsePolicer(action)
			if ok {
				out[index] = p
			}
			return err
		})
	})
	return out, err
}

// parsePolicer reads one action; ok where it is a policer.
func parsePolicer(b []byte) (index uint32, p policer, ok bool, err error) {
	err = attributes(b, func(kind uint16, body []byte) error {
		switch kind {
		case nl.TCA_ACT_KIND:
			ok = string(body) == "police\x00"
		case nl.TCA_ACT_OPTIONS:
			return attributes(body, func(kind uint16, body []byte) error {
				switch {
				case kind == nl.TCA_POLICE_TBF && len(body) >= policeRate+4:
					index = binary.NativeEndian.Uint32(body)
					p.rate = max(p.rate, 8*float64(binary.NativeEndian.Uint32(body[policeRate:])))
				case kind == policeRate64 && len(body) >= 8:
					p.rate = 8 * float64(binary.NativeEndian.Uint64(body))
				}
				return nil
			})
		case nl.TCA_ACT_STATS:
			return attributes(body, func(kind uint16, body []byte) error {
				switch {
				case kind == nl.TCA_STATS_BASIC && len(body) >= 12:
					p.packets = binary.NativeEndian.Uint32(body[8:])
				case kind == nl.TCA_STATS_QUEUE && len(body) >= 20: // qlen, backlog, drops, requeues, overlimits
					p.drops, p.over = binary.NativeEndian.Uint32(body[8:]), binary.NativeEndian.Uint32(body[16:])
				}
				return nil
			})
		}
		return nil
	})
	return index, p, ok, err
}

// policeRate64 is TCA_POLICE_RATE64 of linux/pkt_cls.h, Linux 5.2.
const policeRate64 = 8

// attributeType is NLA_TYPE_MASK of linux/netlink.h.
const attributeType = 0x3fff

// attributes reads struct rtattr after struct rtattr. The library's parser panics
// where the last one is not padded.
func attributes(b []byte, see func(kind uint16, body []byte) error) error {
	for len(b) >= unix.SizeofRtAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return fmt.Errorf("%w: attribute of %d bytes in %d", ErrAction, size, len(b))
		}
		if err := see(binary.NativeEndian.Uint16(b[2:])&attributeType, b[unix.SizeofRtAttr:size]); err != nil {
			return err
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return nil
}

// policed is what policers counted since the window began.
func (w *Watch) policed(now map[policerKey]policer) (out []explain.Policer) {
	for key, z := range now {
		a := w.policers[key]
		p := explain.Policer{Index: key.index, Place: w.spaces[key.space].Place, Rate: z.rate,
			Packets: uint64(z.packets - a.packets), Over: uint64(z.over - a.over), Dropped: uint64(z.drops - a.drops)}
		if p.Packets > 0 {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b explain.Policer) int { return cmp.Compare(b.Dropped, a.Dropped) })
	return out
}
