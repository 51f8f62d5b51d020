package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/stamp"
)

// Agents tell each other which keys they accept, by a TLV of a type of their own,
// until that is confirmed: so each is sent what is signed by a key that it has,
// and a key turns over without a probe lost, in whatever order the hosts are given it.
const keysType = 241

const (
	keysVersion = 1
	keysSize    = 4 + 8 + 16 + 8*probe.MostKeys
)

// keyList is one message. The answer is of the other's keys, with the version of
// what it answers.
type keyList struct {
	version uint64
	from    podID
	ids     []stamp.KeyID
}

// errKeyList is returned for bytes that are no list of keys of this version.
var errKeyList = errors.New("no list of keys of this version")

func (l keyList) encode() []byte {
	b := make([]byte, 0, keysSize)
	b = append(b, keysVersion, byte(len(l.ids)), 0, 0)
	b = binary.BigEndian.AppendUint64(b, l.version)
	b = append(b, l.from[:]...)
	for _, id := range l.ids {
		b = append(b, id[:]...)
	}
	return append(b, make([]byte, keysSize-len(b))...)
}

func decodeKeyList(b []byte) (l keyList, err error) {
	if len(b) != keysSize || b[0] != keysVersion || b[1] == 0 || b[1] > probe.MostKeys {
		return l, fmt.Errorf("decode list of keys of %d octets: %w", len(b), errKeyList)
	}
	l = keyList{version: binary.BigEndian.Uint64(b[4:]), from: podID(b[12:28])}
	for i := range int(b[1]) {
		l.ids = append(l.ids, stamp.KeyID(b[28+8*i:]))
	}
	return l, nil
}

// peerKeys is what is known of another host's keys.
type peerKeys struct {
	// has lists those that it accepts, as it has said, or else the one that it answered by.
	has  []stamp.KeyID
	says bool
	// confirmed is the version of ours that it has confirmed, and knows since when it has
	// known that this host has a key.
	confirmed uint64
	knows     map[stamp.KeyID]time.Time
	// spoke is when it last answered or said anything. unanswered probes went to it since, the first
	// at unansweredSince.
	spoke, unansweredSince time.Time
	unanswered             int
}

// ring is the keys that this host accepts, and what follows from those that others have.
type ring struct {
	*probe.Keyring
	hold probe.Hold
}

// turnover has keys be replaced on all hosts, in whatever order they are given them.
type turnover struct {
	*journal
	members *members
	ring    *ring
	wires   *wires
	offered stamp.Keys // as last read
	due     bool       // for a look at the next turn
}

// rekey takes the keys that were offered last, and lets those that were withdrawn go once
// they are needed no more. It is done before anybody is informed.
func (to *turnover) rekey(now time.Time) {
	to.due = false
	if to.ring.Settled(to.offered) { // as in nearly all turns: there may be thousands of hosts to look at
		return
	}
	changed, err := to.ring.Give(to.offered, now, to.ring.needed(to.members.remote)...)
	if err != nil {
		to.warn("the keys stay as they are: %v", err)
	}
	kept, until := to.ring.Until()
	if changed {
		e := Event{Kind: EventKey, Reason: fmt.Sprintf("the current key is %x", to.ring.Offered()[0])}
		if kept > 0 {
			e.Reason += fmt.Sprintf("; until all agents have it, and no later than %s, %d withdrawn ones are accepted",
				until.Format(time.RFC3339), kept)
		}
		to.note(e)
	}
	have, informed := to.ring.spread(to.members.remote, now)
	dropped, turned := to.ring.Tend(now, have, informed)
	if dropped > 0 {
		to.note(Event{Kind: EventKey, Reason: fmt.Sprintf("%d withdrawn keys are refused from now on", dropped)})
	}
	if changed || turned {
		to.wires.setKeys()
		to.probeSoon(now)
	}
	for _, h := range to.ring.locked(to.members.remote, now) {
		to.warnOf("behind "+h,
			"%s has no key of this host's file, only one that was withdrawn: without it the agents are strangers from %s on", h, until.Format(time.RFC3339))
	}
}

// needed are the keys by which this host and others send: one that is given many new keys
// in a row must not let go of the only one that another host has.
func (r ring) needed(hosts map[string]*remoteHost) (out []stamp.KeyID) {
	for _, h := range hosts {
		for _, id := range []stamp.KeyID{r.Best(h.keys.has), r.sentBy(&h.keys)} {
			if id != (stamp.KeyID{}) && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// probeSoon has the hosts that have spoken lately informed of this version by their next probe,
// now: paths whose flows the other agent decides about are probed once in some seconds.
func (to *turnover) probeSoon(now time.Time) {
	for _, h := range to.members.remote {
		for _, hp := range h.paths {
			if now.Sub(h.keys.spoke) >= warmFor || hp.Down() || hp.next.Before(now) {
				continue
			}
			if hp.next = now; (hp.sent+1)%fullEvery == 0 {
				hp.sent++ // one of full size has no room for it
			}
			break
		}
	}
}

// behind reports whether a host that has spoken lately has none of the keys of
// this host's file.
func (r ring) behind(k *peerKeys, now time.Time) bool {
	return now.Sub(k.spoke) < warmFor && !slices.ContainsFunc(k.has, r.Given)
}

// spread reports whether all hosts that have spoken lately have a key of this
// host's file, and whether they have been informed of this version of the ring.
func (r ring) spread(hosts map[string]*remoteHost, now time.Time) (have, informed bool) {
	have, informed = true, true
	for _, h := range hosts {
		have = have && !r.behind(&h.keys, now)
		informed = informed &&
			(now.Sub(h.keys.spoke) >= warmFor || h.keys.confirmed == r.Version() || !h.keys.says)
	}
	return have, informed
}

// locked names the hosts that will be locked out when the withdrawn keys go, where they
// have had time to be given new ones.
func (r ring) locked(hosts map[string]*remoteHost, now time.Time) (out []string) {
	kept, until := r.Until()
	if kept == 0 || until.Sub(now) > r.hold.Most-r.hold.Least {
		return nil
	}
	for _, h := range hosts {
		if r.behind(&h.keys, now) {
			out = append(out, h.name)
		}
	}
	return out
}

// signBy names the key to sign with what goes to a host: the first of ours that it
// has. Where that is not known, or nothing is answered, they are tried in turn.
func (r ring) signBy(k *peerKeys, now time.Time) stamp.KeyID {
	best, offered := r.best(k), r.Offered()
	lost := k.unanswered >= 4 && now.Sub(k.unansweredSince) >= 500*time.Millisecond
	if len(offered) < 2 || !lost && (len(k.has) > 0 || k.unanswered == 0) {
		return best
	}
	return offered[(slices.Index(offered, best)+k.unanswered)%len(offered)]
}

// best names the key that both hosts have, as far as is known, or else the current one:
// for what is derived of it. Keys lists all that the other host may use; Version
// tells when that changed.
func (r ring) best(k *peerKeys) stamp.KeyID {
	if best := r.Best(k.has); best != (stamp.KeyID{}) {
		return best
	}
	return r.Offered()[0]
}

// listed adds the list of our keys to what a probe of ours carries, if the host is to be
// informed of it.
func (r ring) listed(k *peerKeys, ours podID, tlvs []stamp.TLV) []stamp.TLV {
	if k.confirmed == r.Version() {
		return tlvs
	}
	l := keyList{version: r.Version(), from: ours, ids: r.Offered()}
	return append(slices.Clip(tlvs), stamp.TLV{Type: keysType, Value: l.encode()})
}

// probed notes that a probe goes to the host.
func (k *peerKeys) probed(now time.Time) {
	if k.unanswered == 0 {
		k.unansweredSince = now
	}
	k.unanswered++
}

// handleKeys takes a host's list, on a reflector's goroutine, and answers with ours.
func (to *turnover) handleKeys(value []byte) []byte {
	l, err := decodeKeyList(value)
	if err != nil {
		return nil
	}
	to.members.Lock()
	defer to.members.Unlock()
	for _, h := range to.members.remote {
		if h.pod == l.from {
			to.has(h, l.ids)
			h.keys.says, h.keys.spoke = true, to.cfg.Now()
		}
	}
	return keyList{version: l.version, from: to.wires.self, ids: to.ring.Offered()}.encode()
}

// keyed takes what an answer tells of its host's keys.
func (to *turnover) keyed(h *remoteHost, r stamp.Reply) {
	k := &h.keys
	k.spoke, k.unanswered = to.cfg.Now(), 0
	for _, t := range r.TLVs {
		if t.Type != keysType {
			continue
		}
		if l, err := decodeKeyList(t.Value); err == nil && l.from == h.pod {
			to.has(h, l.ids)
			k.says, k.confirmed = true, l.version
			if l.version == to.ring.Version() {
				k.learn(to.ring.Offered(), k.spoke)
			}
			return
		}
	}
	if !k.says {
		to.has(h, []stamp.KeyID{r.Key})
	}
}

// learn notes that the host knows that this one has the keys, and no others.
func (k *peerKeys) learn(ids []stamp.KeyID, now time.Time) {
	knew := k.knows
	k.knows = make(map[stamp.KeyID]time.Time, len(ids))
	for _, id := range ids {
		if since, ok := knew[id]; ok {
			k.knows[id] = since
		} else {
			k.knows[id] = now
		}
	}
}

// has notes which keys a host accepts. The marks that packets to it bear change at the
// next turn: it may be about to refuse those of another key.
func (to *turnover) has(h *remoteHost, ids []stamp.KeyID) {
	if !slices.Equal(h.keys.has, ids) {
		h.keys.has, to.due = ids, true
	}
}

// marks are the cluster's keys of which those of a pair's tags are derived: the first
// is for what is sent, all for what comes.
type marks []stamp.KeyID

// heeded is how long after it has learnt of a key another host's data planes accept what is
// sent by it, at the latest: it looks at its next turn, or the one after.
const heeded = 2 * idleTick

// sendBy is the key for what is sent to the host: the first of ours that it has, of those
// that it knows this host has. Data planes accept few keys at a time, of which it chooses
// that one once it knows of it; where that is not known yet, the best one has to do.
func (r ring) sendBy(k *peerKeys, now time.Time) stamp.KeyID {
	for _, id := range r.Offered() {
		since, known := k.knows[id]
		if known && now.Sub(since) >= heeded && slices.Contains(k.has, id) {
			return id
		}
	}
	return r.best(k)
}

// sentBy is the key by which the host sends by the same rule, once it knows all that this
// one does; zero if it has none of ours.
func (r ring) sentBy(k *peerKeys) stamp.KeyID {
	offered := r.Offered()
	i := slices.IndexFunc(k.has, func(id stamp.KeyID) bool { return slices.Contains(offered, id) })
	if i < 0 {
		return stamp.KeyID{}
	}
	return k.has[i]
}

// marks are those of a pair with a pod on the host: what is sent by, from here and from
// there. What was accepted stays so as long as there is room, as it was sent by until a
// moment ago.
func (r ring) marks(k *peerKeys, was marks, now time.Time) marks {
	out := append(append(marks{r.sendBy(k, now), r.sentBy(k)}, was...), r.Offered()...)
	seen := marks{}
	for _, id := range out {
		if r.Key(id) != nil && !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	return seen[:min(len(seen), len(dataplane.Keys{}.Accept))]
}

// tags derives the keys of a pair's tags on a network.
func (r ring) tags(p *pair, network string) (k dataplane.Keys) {
	for i := range k.Accept {
		id := p.marks[min(i, len(p.marks)-1)]
		k.Accept[i] = dataplane.DeriveKey(r.Key(id), p.localUID(), p.remote.UID, network)
	}
	k.Send = k.Accept[0]
	return k
}

// mark is the DSCP that probes carry: steered packets' own.
const mark = int(dataplane.Mark)
