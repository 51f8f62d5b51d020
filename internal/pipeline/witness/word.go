package witness

import (
	"pathwise.dev/pathwise/internal/pipeline"
)

// word is a base's bits, and what they have in common, so that most is decided for all of them
// at once.
type word struct {
	// bits from the lowest.
	bits [128]ref
	// fixed are those that are 0 or 1, value which of these are 1.
	fixed, value pipeline.Value
	// base is where all others are from, at the same places as here; mixed if there is no such.
	base int
}

const mixed = -1

// sum says what the bits have in common.
func (w *word) sum() {
	w.fixed, w.value, w.base = pipeline.Value{}, pipeline.Value{}, 0
	from := mixed
	for i, r := range w.bits {
		switch {
		case r >= first:
			base := int(r-first) / 128
			if int(r-first)%128 != i || from != mixed && from != base {
				w.base = mixed
			}
			from = base
		case i < 64:
			w.fixed.Lo |= 1 << i
			w.value.Lo |= uint64(r) << i
		default:
			w.fixed.Hi |= 1 << (i - 64)
			w.value.Hi |= uint64(r) << (i - 64)
		}
	}
	if w.base != mixed {
		w.base = max(from, 0)
	}
}

// words are a packet's, nil for a base that is as it came.
type words struct {
	at [pipeline.Bases]*word
	// shared says that others hold it too: it is copied before it is written to.
	shared bool
}

// lent is the packet for one more to hold.
func (p *words) lent() *words {
	p.shared = true
	return p
}
