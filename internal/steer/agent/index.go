package agent

import "hash/maphash"

// index finds places in a list by their keys, which are in the list: an open hash table with
// linear probing (Knuth 1973, 6.4) of the places alone: Go's maps of as many keys as a cluster of
// 20,000 pods has take ten times as long to make and to collect.
type index[K comparable] struct {
	seed  maphash.Seed
	slots []slot
	key   func(at int32) K
}

// slot has a place, one more than it is as 0 is a free one, and a part of the key's hash: of
// nearly all other keys it is known by that alone that they are others.
type slot struct {
	hash uint32
	at   int32
}

// newIndex is an index for up to n keys, where key is that of a place.
func newIndex[K comparable](n int, key func(at int32) K) index[K] {
	size := 8
	for size < 2*n {
		size *= 2
	}
	return index[K]{seed: maphash.MakeSeed(), slots: make([]slot, size), key: key}
}

// add enters a place. Where its key is there already, that place stays, and is returned.
func (x index[K]) add(at int32) (other int32, known bool) {
	free, hash, other, known := x.probe(x.key(at))
	if !known {
		x.slots[free] = slot{hash, at + 1}
	}
	return other, known
}

// find is the place of a key.
func (x index[K]) find(k K) (at int32, ok bool) {
	if len(x.slots) == 0 {
		return 0, false
	}
	_, _, at, ok = x.probe(k)
	return at, ok
}

// probe is the slot of a key and the place in it, or the free slot where it would be.
func (x index[K]) probe(k K) (in int, hash uint32, at int32, ok bool) {
	h, mask := maphash.Comparable(x.seed, k), len(x.slots)-1
	hash = uint32(h >> 32)
	for in = int(h) & mask; x.slots[in].at != 0; in = (in + 1) & mask {
		if s := x.slots[in]; s.hash == hash && x.key(s.at-1) == k {
			return in, hash, s.at - 1, true
		}
	}
	return in, hash, 0, false
}
