package telemetry

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// reading makes one in which each bucket had one retransmission.
func reading(from, to, srtt time.Duration, buckets ...uint8) Reading {
	r := Reading{From: from, To: to}
	for _, b := range buckets {
		r.Flows = append(r.Flows,
			Flow{Key: Key{Netns: 1, Remote: peer(), Bucket: b}, Figures: Figures{Retransmits: 1, SRTT: srtt, LastActive: to}})
	}
	return r
}

func peer() netip.Addr { return netip.MustParseAddr("10.0.0.2") }

// tally prints accounts as path/epoch=retransmissions, and -n for blanked ones.
func tally(accounts []Account) string {
	var out []string
	for _, a := range accounts {
		s := fmt.Sprintf("%d/%d=%d", a.Path, a.Epoch, a.Retransmits)
		if a.Blanked > 0 {
			s += fmt.Sprintf("-%d", a.Blanked)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

type step struct {
	bucket, path uint8
	at           time.Duration // a move, if not 0
	reading      Reading
	added        string
}

func moved(bucket, path uint8, at time.Duration) step {
	return step{bucket: bucket, path: path, at: at}
}
func fold(r Reading, added string) step { return step{reading: r, added: added} }

func TestLedger(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step
		total string
	}{
		{"without a move all is path 0's", []step{
			fold(reading(0, 100*ms, ms, 1, 2), "0/0=2"),
			fold(reading(100*ms, 200*ms, ms, 1), "0/0=1"),
		}, "0/0=3"},
		{"before and after a switch", []step{
			fold(reading(0, 100*ms, ms, 1), "0/0=1"),
			moved(1, 2, 100*ms),
			fold(reading(100*ms, 200*ms, ms, 1), "2/1=0-1"),
			fold(reading(200*ms, 300*ms, ms, 1), "2/1=1"),
		}, "0/0=1 2/1=1-1"},
		{"a reading that holds a switch belongs to neither path", []step{
			moved(1, 2, 150*ms),
			fold(reading(100*ms, 200*ms, ms, 1), "2/1=0-1"),
		}, "2/1=0-1"},
		{"a late reading of before the switch is the old path's", []step{
			moved(1, 2, 150*ms),
			fold(reading(0, 150*ms, ms, 1), "0/0=1"),
			fold(reading(150*ms, 155*ms, ms, 1), "2/1=0-1"),
			fold(reading(160*ms, 170*ms, ms, 1), "2/1=1"),
		}, "0/0=1 2/1=1-1"},
		{"the blank lasts at least 10 ms", []step{
			fold(reading(0, 100*ms, 50*time.Microsecond, 1), "0/0=1"),
			moved(1, 2, 100*ms),
			fold(reading(109*ms, 120*ms, 50*time.Microsecond, 1), "2/1=0-1"),
			fold(reading(120*ms, 130*ms, 50*time.Microsecond, 1), "2/1=1"),
		}, "0/0=1 2/1=1-1"},
		{"and two round trips of the slower path", []step{
			fold(reading(0, 100*ms, 40*ms, 1), "0/0=1"),
			moved(1, 2, 100*ms), // known: 40 ms on path 0
			fold(reading(179*ms, 190*ms, ms, 1), "2/1=0-1"),
			fold(reading(190*ms, 200*ms, ms, 1), "2/1=1"), // and 1 ms on path 2
			moved(1, 0, 200*ms),                           // back to the slow one
			fold(reading(279*ms, 290*ms, 40*ms, 1), "0/2=0-1"),
			fold(reading(290*ms, 300*ms, 40*ms, 1), "0/2=1"),
		}, "0/0=1 2/1=1-1 0/2=1-1"},
		{"a path found slow after the switch lengthens the blank", []step{
			moved(1, 2, 100*ms),
			fold(reading(100*ms, 105*ms, 60*ms, 1), "2/1=0-1"),
			fold(reading(210*ms, 230*ms, 60*ms, 1), "2/1=0-1"),
			fold(reading(230*ms, 240*ms, 60*ms, 1), "2/1=1"),
		}, "2/1=1-2"},
		{"but never beyond a second", []step{
			moved(1, 2, 100*ms),
			fold(reading(100*ms, 105*ms, 30*time.Second, 1), "2/1=0-1"),
			fold(reading(1101*ms, 1200*ms, 30*time.Second, 1), "2/1=1"),
		}, "2/1=1-1"},
		{"buckets that stay are not blanked", []step{
			moved(1, 2, 100*ms),
			fold(reading(100*ms, 105*ms, ms, 1, 2), "0/0=1 2/1=0-1"),
			fold(reading(120*ms, 130*ms, ms, 1, 2), "0/0=1 2/1=1"),
		}, "0/0=2 2/1=1-1"},
		{"moves at one moment are one epoch, at two moments two", []step{
			moved(1, 2, 100*ms), moved(2, 2, 100*ms), moved(3, 1, 100*ms), moved(4, 2, 101*ms),
			fold(reading(200*ms, 300*ms, ms, 1, 2, 3, 4, 5), "0/0=1 1/1=1 2/1=2 2/2=1"),
		}, "0/0=1 1/1=1 2/1=2 2/2=1"},
		{"a move to where it is changes nothing", []step{
			moved(1, 0, 50*ms), moved(1, 2, 100*ms), moved(1, 2, 195*ms),
			fold(reading(200*ms, 300*ms, ms, 1), "2/1=1"),
		}, "2/1=1"},
		{"there and back within a blank", []step{
			moved(1, 2, 100*ms), moved(1, 0, 103*ms),
			fold(reading(102*ms, 108*ms, ms, 1), "0/2=0-1"),
			fold(reading(111*ms, 112*ms, ms, 1), "0/2=0-1"),
			fold(reading(113*ms, 120*ms, ms, 1), "0/2=1"),
		}, "0/2=1-2"},
	} {
		var l Ledger
		for i, s := range c.steps {
			if s.at != 0 {
				l.Moved(Pair{1, peer()}.Key(s.bucket), s.path, s.at)
			} else if got := tally(l.Fold(s.reading)); got != s.added {
				t.Errorf("%s, step %d: %q, not %q", c.name, i, got, s.added)
			}
		}
		if got := tally(accountsOf(&l)); got != c.total {
			t.Errorf("%s: in all %q, not %q", c.name, got, c.total)
		}
	}
}

func TestLedgerWhere(t *testing.T) {
	var l Ledger
	k := Key{Netns: 1, Remote: peer(), Bucket: 3}
	if p, blanked := l.Where(k, 5); p != (Place{}) || blanked {
		t.Errorf("of an unknown pair: %v %v", p, blanked)
	}
	l.Moved(k, 1, 100*ms)
	l.Moved(k, 2, 200*ms)
	for _, c := range []struct {
		at      time.Duration
		want    Place
		blanked bool
	}{
		{99 * ms, Place{0, 0}, false}, {100 * ms, Place{1, 1}, true}, {109 * ms, Place{1, 1}, true},
		{110 * ms, Place{1, 1}, false},
		{199 * ms, Place{1, 1}, false}, {201 * ms, Place{2, 2}, true}, {time.Hour, Place{2, 2}, false},
	} {
		if got, blanked := l.Where(k, c.at); got != c.want || blanked != c.blanked {
			t.Errorf("at %v: %v %v", c.at, got, blanked)
		}
	}
	other := k
	other.Bucket = 4
	if p, _ := l.Where(other, time.Hour); p != (Place{}) {
		t.Errorf("a bucket that never moved is at %v", p)
	}
	l.Forget(k.Pair())
	if p, _ := l.Where(k, time.Hour); p != (Place{}) {
		t.Errorf("a forgotten pair is at %v", p)
	}
}

// TestLedgerIsBounded: what still holds a bucket stays, what closed long ago goes.
func TestLedgerIsBounded(t *testing.T) {
	var l Ledger
	p := Pair{1, peer()}
	l.Moved(p.Key(0), 9, 1)
	at := time.Second
	for i := range 10000 {
		l.Fold(reading(at, at+ms, ms, 0, 1))
		l.Moved(p.Key(1), uint8(1+i%2), at+ms)
		at += 100 * ms
	}
	accounts := accountsOf(&l)
	if len(accounts) > 2*maxAccounts+64+1 {
		t.Errorf("%d accounts", len(accounts))
	}
	if !slices.ContainsFunc(accounts,
		func(a Account) bool { return a.Path == 9 && a.Epoch == 1 && a.Retransmits == 10000 }) {
		t.Error("the account of a bucket that stayed is gone")
	}
	if n := len(l.pairs[p].moves[1]); n != maxMoves {
		t.Errorf("%d moves kept", n)
	}
}

func TestLedgerKeepsPairsApart(t *testing.T) {
	var l Ledger
	l.Moved(Pair{2, peer()}.Key(1), 3, 100*ms)
	r := reading(200*ms, 300*ms, ms, 1)
	second := r.Flows[0]
	second.Netns = 2
	r.Flows = append(r.Flows, second)
	got := l.Fold(r)
	if tally(got) != "0/0=1 3/1=1" || got[0].Netns != 1 || got[1].Netns != 2 || got[1].From != r.From ||
		got[1].To != r.To {
		t.Errorf("%+v", got)
	}
}

// accountsOf lists all that the ledger remembers, in order of pair, epoch and path.
func accountsOf(l *Ledger) (out []Account) {
	for _, b := range l.pairs {
		out = appendAccounts(out, b.accounts)
	}
	return sorted(out)
}
