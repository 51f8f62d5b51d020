package probe

import (
	"bytes"
	"slices"
	"time"

	"pathwise.dev/pathwise/stamp"
)

// Hold says for how long a Keyring accepts a key that was withdrawn.
type Hold struct {
	// Least: hosts may be given new keys so much later than this one. Kubernetes
	// takes up to two minutes to bring a changed secret to all nodes.
	Least time.Duration
	// Most: a host that has no new key by then is locked out.
	Most time.Duration
	// Grace is from when all have been told that a key is accepted no more to refusing it,
	// so that what is on its way still arrives, and for what they sign by it to be changed:
	// ten times as much, from the telling, where not all have been informed.
	Grace time.Duration
}

// DefaultHold is what agents work by.
func DefaultHold() Hold {
	return Hold{Least: 2 * time.Minute, Most: time.Hour, Grace: 10 * time.Second}
}

// Keyring is the keys that a host accepts, as they turn over. Those that it is
// given come first, in the order given. One that is given no more is kept until
// all peers have one that is: peers are told which keys are accepted, so that
// each is sent what is signed by a key that it has, in whatever order they are
// given it. Before a kept key is refused, peers are told.
type Keyring struct {
	hold    Hold
	entries []entry
	version uint64
	// informed is since when all peers have been informed of this version; zero if not yet.
	informed time.Time
}

// entry is a key. Left is when it was last given, zero for one that still is;
// retired is since when peers are told that it is accepted no more.
type entry struct {
	key           []byte
	id            stamp.KeyID
	left, retired time.Time
}

// NewKeyring is one without keys.
func NewKeyring(h Hold) *Keyring { return &Keyring{hold: h} }

// Give replaces the keys. It reports whether what is accepted, or told, changes. Where
// there is no room for all that are kept, those that are needed go last.
func (r *Keyring) Give(k stamp.Keys, now time.Time, needed ...stamp.KeyID) (bool, error) {
	next, err := entriesOf(k)
	if err != nil {
		return false, err
	}
	if r.same(next) {
		return false, nil
	}
	// Those that left just now come before those that left earlier.
	fresh := len(next)
	for _, e := range r.entries {
		switch {
		case slices.ContainsFunc(next, func(o entry) bool { return o.id == e.id }):
		case e.left.IsZero():
			e.left = now
			next = slices.Insert(next, fresh, e)
			fresh++
		default:
			next = append(next, e)
		}
	}
	for i := len(next) - 1; i >= 0 && len(next) > MostKeys; i-- {
		if !next[i].left.IsZero() && !slices.Contains(needed, next[i].id) {
			next = slices.Delete(next, i, i+1)
		}
	}
	r.entries = next[:min(len(next), MostKeys)]
	r.turn()
	return true, nil
}

// entriesOf are the keys, each once.
func entriesOf(k stamp.Keys) (out []entry, err error) {
	if err = k.Check(); err != nil {
		return nil, err
	}
	for _, key := range k.All() {
		if !slices.ContainsFunc(out, func(e entry) bool { return bytes.Equal(e.key, key) }) {
			out = append(out, entry{key: bytes.Clone(key), id: stamp.IDOf(key)})
		}
	}
	return out, nil
}

// Settled reports whether the keys are those given last, no other is kept, and all peers have been told: to give
// them once more, and to Tend, change nothing then, whatever is known of peers.
func (r *Keyring) Settled(k stamp.Keys) bool {
	given, err := entriesOf(k)
	kept, _ := r.Until()
	return err == nil && kept == 0 && !r.informed.IsZero() && r.same(given)
}

// turn begins another version, which nobody has been told of.
func (r *Keyring) turn() {
	r.version++
	r.informed = time.Time{}
}

// same reports whether the keys are those given last.
func (r *Keyring) same(given []entry) bool {
	last := slices.IndexFunc(r.entries, func(e entry) bool { return !e.left.IsZero() })
	if last < 0 {
		last = len(r.entries)
	}
	return slices.EqualFunc(r.entries[:last], given, func(a, b entry) bool { return bytes.Equal(a.key, b.key) })
}

// Keys lists all that are accepted.
func (r *Keyring) Keys() stamp.Keys {
	var k stamp.Keys
	for i, e := range r.entries {
		if i == 0 {
			k.Current = e.key
		} else {
			k.Previous = append(k.Previous, e.key)
		}
	}
	return k
}

// Version grows when what is accepted, or told, changes.
func (r *Keyring) Version() uint64 { return r.version }

// Offered lists the names of the keys that peers may use, the best first.
func (r *Keyring) Offered() []stamp.KeyID {
	var out []stamp.KeyID
	for _, e := range r.entries {
		if e.retired.IsZero() {
			out = append(out, e.id)
		}
	}
	return out
}

// Given reports whether the key with the name is one of those given last.
func (r *Keyring) Given(id stamp.KeyID) bool {
	return slices.ContainsFunc(r.entries, func(e entry) bool { return e.id == id && e.left.IsZero() })
}

// Until says how many keys are kept, and when the first of them is refused at the
// latest.
func (r *Keyring) Until() (kept int, at time.Time) {
	for _, e := range r.entries {
		if e.left.IsZero() {
			continue
		}
		if end := e.left.Add(r.hold.Most); kept == 0 || end.Before(at) {
			at = end
		}
		kept++
	}
	return kept, at
}

// Best is the name of the first key of ours that a peer has, of those it has told
// of; zero if there is none.
func (r *Keyring) Best(theirs []stamp.KeyID) stamp.KeyID {
	for _, e := range r.entries {
		if e.retired.IsZero() && slices.Contains(theirs, e.id) {
			return e.id
		}
	}
	return stamp.KeyID{}
}

// Key is the key with the name; nil if it is not accepted.
func (r *Keyring) Key(id stamp.KeyID) []byte {
	for _, e := range r.entries {
		if e.id == id {
			return e.key
		}
	}
	return nil
}

// Tend lets kept keys go: have says that every peer has a key that is given,
// informed that every peer has been informed of this version. It returns how many keys are
// refused from now on, and whether the version is another.
func (r *Keyring) Tend(now time.Time, have, informed bool) (dropped int, changed bool) {
	if informed && r.informed.IsZero() {
		r.informed = now
	}
	known := informed && now.Sub(r.informed) >= r.hold.Grace
	before := len(r.entries)
	r.entries = slices.DeleteFunc(r.entries, func(e entry) bool {
		return !e.retired.IsZero() && (known || now.Sub(e.retired) >= 10*r.hold.Grace)
	})
	dropped = before - len(r.entries)
	changed = dropped > 0
	for i := range r.entries {
		e := &r.entries[i]
		age := now.Sub(e.left)
		if !e.left.IsZero() && e.retired.IsZero() && (have && age >= r.hold.Least || age >= r.hold.Most) {
			e.retired, changed = now, true
		}
	}
	if changed {
		r.turn()
	}
	return dropped, changed
}
