package dataplane

import (
	"fmt"
)

// Said is on which paths another end says that its flows are, by bucket; Unsaid of those of which it says nothing.
type Said [Buckets]int8

// Unsaid is what Said has of a bucket of which nothing is said.
const Unsaid = -1

// Nothing says nothing of any bucket.
func Nothing() (s Said) {
	for b := range s {
		s[b] = Unsaid
	}
	return s
}

// Tells is what another end would say of these choices.
func Tells(choices [Buckets]Choice) (s Said) {
	for b, c := range choices {
		s[b] = int8(c.Path)
	}
	return s
}

// Follow enters what the peer's agent said about the flows that the peer has opened,
// under a number that only grows: what is older than what is known changes nothing, and
// what is as old leaves alone what was diverted. It returns the number that is known now.
func (p *Plane) Follow(uid string, number uint64, said Said) (uint64, error) {
	id, ok := p.ids[uid]
	if !ok {
		return 0, fmt.Errorf("follow %s: %w", uid, errUnknown)
	}
	known := get64(p.mem.notices, id*noticeSize+noticeReceived)
	if number < known {
		return known, nil
	}
	row := row64(p.mem.follower, id)
	for b, path := range said {
		if path < Unsaid || path >= MaxPaths {
			return known, fmt.Errorf("follow %s: bucket %d, path %d: out of range", uid, b, path)
		}
		if path != Unsaid && (number > known || row[b]&choiceDiverted == 0) {
			row[b] = uint8(path) | choiceNotified
		}
	}
	write(p.mem.follower, id*Buckets, row[:])
	put64(p.mem.notices, id*noticeSize+noticeReceived, number)
	return number, nil
}

// Divert moves the flows that the peer has opened away from a path that has
// failed, until the peer's agent says something newer. It returns how many buckets
// that were.
func (p *Plane) Divert(uid string, from, to int) (n int, err error) {
	return p.DivertSome(uid, All, from, to)
}

// DivertSome does so in the buckets of a set.
func (p *Plane) DivertSome(uid string, set Set, from, to int) (n int, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return 0, fmt.Errorf("divert %s: %w", uid, errUnknown)
	}
	if to < 0 || to >= MaxPaths {
		return 0, fmt.Errorf("divert %s: path %d: expected 0 to %d", uid, to, MaxPaths-1)
	}
	row := row64(p.mem.follower, id)
	for b, c := range row {
		if set>>b&1 == 1 && int(c&choicePath) == from {
			row[b] = uint8(to) | c&choiceNotified | choiceDiverted
			n++
		}
	}
	if n > 0 {
		write(p.mem.follower, id*Buckets, row[:])
	}
	return n, nil
}

// Unfollow puts the flows that the peer has opened on the default network, until its
// agent says something, if only again. It returns how many buckets that were.
func (p *Plane) Unfollow(uid string) (n int, err error) {
	id, ok := p.ids[uid]
	if !ok {
		return 0, fmt.Errorf("unfollow %s: %w", uid, errUnknown)
	}
	row := row64(p.mem.follower, id)
	for _, c := range row {
		if c&choicePath != 0 {
			n++
		}
	}
	if n > 0 {
		write(p.mem.follower, id*Buckets, make([]byte, Buckets))
	}
	return n, nil
}
