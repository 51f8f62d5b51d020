package telemetry

import (
	"cmp"
	"slices"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// Evidence of soon after a switch mixes two paths: acknowledgments of the
// old one, and reordering that looks like loss. It is left out for two round
// trips and at least minBlank; round trips inflated beyond sense by a failure
// do not make it longer than maxBlank.
const (
	minBlank = 10 * time.Millisecond
	maxBlank = time.Second
)

// Bounds of what a Ledger remembers.
const (
	maxMoves    = 8  // per bucket
	maxAccounts = 64 // per pair, beyond those that still hold a bucket
)

// Place is where a bucket is: a path, since an epoch of its pair. Epochs count
// the moments at which buckets of the pair were moved; 0 is before the first.
type Place struct {
	Path  uint8
	Epoch uint32
}

// Account is what flows of a pair met at a place: those of a row that this end has opened, or of
// Theirs those that the remote end has.
type Account struct {
	Pair
	Place
	Row      flow.Row
	Theirs   bool
	From, To time.Duration // the readings that it covers
	Figures
	Blanked int // flow readings left out because a switch was too near
}

// Ledger assigns readings to the paths that the buckets were on. It is pure:
// the same calls give the same accounts. The zero value is empty and ready;
// it is not safe for concurrent use.
type Ledger struct {
	pairs map[Pair]*book
}

// book is a pair's history and accounts.
type book struct {
	epoch    uint32
	moved    time.Duration
	srtt     map[uint8]time.Duration // by path, as read last
	moves    [2 * theirs][]move      // oldest first, by the program's buckets
	accounts map[rowPlace]*Account
}

// rowPlace is where a row's buckets are, or some of them, of what one end has opened.
type rowPlace struct {
	Place
	row    flow.Row
	theirs bool
}

// bucket is the program's.
func (k Key) bucket() uint8 {
	if k.Theirs {
		return k.Bucket%theirs + theirs
	}
	return k.Bucket % theirs
}

// move is one switch of one bucket.
type move struct {
	at, until time.Duration // evidence between them is blanked
	from, to  Place
}

func (l *Ledger) book(p Pair) *book {
	if l.pairs == nil {
		l.pairs = map[Pair]*book{}
	}
	b := l.pairs[p]
	if b == nil {
		b = &book{srtt: map[uint8]time.Duration{}, accounts: map[rowPlace]*Account{}}
		l.pairs[p] = b
	}
	return b
}

// Moved notes that a bucket of a pair went to path at that moment; of each bucket at must not
// go backwards. Buckets moved at the same moment share an epoch; moving one to
// where it is changes nothing. A bucket never moved is on path 0. Call Fold
// with a fresh Reading just before a switch to lose the least.
func (l *Ledger) Moved(k Key, path uint8, at time.Duration) {
	b, bucket := l.book(k.Pair()), k.bucket()
	from := b.place(bucket)
	if from.Path == path {
		return
	}
	if b.epoch == 0 || at != b.moved {
		b.epoch++
		b.moved = at
	}
	m := move{at: at, from: from, to: Place{Path: path, Epoch: b.epoch}}
	m.until = at + blank(max(b.srtt[from.Path], b.srtt[path]))
	b.moves[bucket] = append(b.moves[bucket], m)
	if n := len(b.moves[bucket]); n > maxMoves {
		b.moves[bucket] = slices.Delete(b.moves[bucket], 0, n-maxMoves)
	}
}

func blank(srtt time.Duration) time.Duration { return min(max(2*srtt, minBlank), maxBlank) }

// place is where a bucket is now.
func (b *book) place(bucket uint8) Place {
	if n := len(b.moves[bucket]); n > 0 {
		return b.moves[bucket][n-1].to
	}
	return Place{}
}

// Where tells on which path a bucket was at a moment, and whether a switch was
// too near for evidence of that moment to tell the paths apart.
func (l *Ledger) Where(k Key, at time.Duration) (where Place, blanked bool) {
	b := l.pairs[k.Pair()]
	if b == nil {
		return Place{}, false
	}
	return b.where(k.bucket(), at, at)
}

// where is the place at the end of an interval, and whether a switch or its
// blank lies in it.
func (b *book) where(bucket uint8, from, to time.Duration) (where Place, blanked bool) {
	for i, m := range b.moves[bucket] {
		if i == 0 {
			where = m.from
		}
		if m.at > to || m.at == to && from < to { // what led up to a switch is the old path's
			break
		}
		where = m.to
		blanked = blanked || from < m.until
	}
	return where, blanked
}

// Fold assigns a reading, and returns what it added: per pair, place and row, in
// order. Readings must be folded in the order they were made.
func (l *Ledger) Fold(r Reading) []Account {
	added := map[Pair]map[rowPlace]*Account{}
	for _, f := range r.Flows {
		p, b := f.Pair(), l.book(f.Pair())
		place, blanked := b.assign(f, r)
		where := rowPlace{place, flow.RowOf(f.Bucket), f.Theirs}
		if added[p] == nil {
			added[p] = map[rowPlace]*Account{}
		}
		for _, accounts := range []map[rowPlace]*Account{b.accounts, added[p]} {
			a := accounts[where]
			if a == nil {
				a = &Account{Pair: p, Place: place, Row: where.row, Theirs: where.theirs, From: r.From}
				accounts[where] = a
			}
			a.To = r.To
			if blanked {
				a.Blanked++
			} else {
				a.add(f.Figures)
			}
		}
		b.prune()
	}
	var out []Account
	for _, accounts := range added {
		out = appendAccounts(out, accounts)
	}
	return sorted(out)
}

// assign finds the place of a flow's reading. One that shows longer round trips
// than were known at the switch lengthens the blank.
func (b *book) assign(f Flow, r Reading) (where Place, blanked bool) {
	bucket := f.bucket()
	for i := range b.moves[bucket] {
		m := &b.moves[bucket][i]
		if m.at < r.To && r.From < m.until {
			m.until = max(m.until, m.at+blank(f.SRTT))
		}
	}
	where, blanked = b.where(bucket, r.From, r.To)
	if !blanked && f.SRTT > 0 {
		b.srtt[where.Path] = f.SRTT
	}
	return where, blanked
}

// prune forgets the accounts closed longest ago, where there are too many.
func (b *book) prune() {
	if len(b.accounts) <= len(b.moves)+maxAccounts {
		return
	}
	held := map[rowPlace]bool{}
	for i := range b.moves {
		held[rowPlace{b.place(uint8(i)), flow.RowOf(uint8(i)), i >= theirs}] = true
	}
	var closed []rowPlace
	for p := range b.accounts {
		if !held[p] {
			closed = append(closed, p)
		}
	}
	slices.SortFunc(closed, func(x, y rowPlace) int { return cmp.Compare(x.Epoch, y.Epoch) })
	for _, p := range closed[:max(0, len(closed)-maxAccounts)] {
		delete(b.accounts, p)
	}
}

// Forget drops a pair, as when its pod is gone.
func (l *Ledger) Forget(p Pair) { delete(l.pairs, p) }

func appendAccounts(out []Account, accounts map[rowPlace]*Account) []Account {
	for _, a := range accounts {
		out = append(out, *a)
	}
	return out
}

// end orders accounts by who has opened the flows.
func end(a Account) int {
	if a.Theirs {
		return 1
	}
	return 0
}

func sorted(accounts []Account) []Account {
	slices.SortFunc(accounts, func(a, b Account) int {
		return cmp.Or(cmp.Compare(a.Netns, b.Netns), a.Remote.Compare(b.Remote),
			cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Row, b.Row),
			cmp.Compare(end(a), end(b)))
	})
	return accounts
}
