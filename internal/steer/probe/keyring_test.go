package probe

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/stamp"
)

func ringKey(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 32) }

func ringKeys(n ...int) (k stamp.Keys) {
	for i, x := range n {
		if i == 0 {
			k.Current = ringKey(x)
		} else {
			k.Previous = append(k.Previous, ringKey(x))
		}
	}
	return k
}

// TestKeyring: what is accepted, and what is told, as keys come and go.
func TestKeyring(t *testing.T) {
	hold := Hold{Least: 2 * time.Minute, Most: time.Hour, Grace: 10 * time.Second}
	type step struct {
		at             time.Duration
		give           []int // nil: none
		have, informed bool
		accepted       string
		tells          string
	}
	const s, m = time.Second, time.Minute
	settled := 0
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"one key", []step{{0, []int{0}, true, true, "a", "a"}, {2 * time.Hour, nil, true, true, "a", "a"}}},
		{"all have the new one", []step{{0, []int{0}, true, true, "a", "a"}, {m, []int{1}, false, false, "ba", "ba"},
			{2 * m, nil, true, true, "ba", "ba"},
			{3 * m, nil, true, true, "ba", "b"}, {3*m + s, nil, true, true, "ba", "b"}, {3*m + 10*s, nil, true, true, "ba", "b"},
			{3*m + 11*s, nil, true, true, "b", "b"}}},
		{"all informed late", []step{{0, []int{0}, true, true, "a", "a"}, {0, []int{1}, true, true, "ba", "ba"},
			{2 * m, nil, true, false, "ba", "b"},
			{2*m + 15*s, nil, true, true, "ba", "b"}, {2*m + 24*s, nil, true, true, "ba", "b"},
			{2*m + 25*s, nil, true, true, "b", "b"}}},
		{"one never has it", []step{{0, []int{0}, true, true, "a", "a"}, {0, []int{1}, false, true, "ba", "ba"},
			{59 * m, nil, false, true, "ba", "ba"},
			{60 * m, nil, false, false, "ba", "b"}, {60 * m, nil, false, true, "ba", "b"},
			{60*m + 10*s, nil, false, true, "b", "b"}}},
		{"one never informed", []step{{0, []int{0}, true, true, "a", "a"}, {0, []int{1}, true, false, "ba", "ba"},
			{2 * m, nil, true, false, "ba", "b"},
			{2*m + 99*s, nil, true, false, "ba", "b"}, {2*m + 100*s, nil, true, false, "b", "b"}}},
		{"twice in a row", []step{{0, []int{0}, true, true, "a", "a"}, {m, []int{1}, false, true, "ba", "ba"},
			{2 * m, []int{2}, false, true, "cba", "cba"},
			{4 * m, nil, true, true, "cba", "c"}, {4*m + s, nil, true, true, "cba", "c"}, {5 * m, nil, true, true, "c", "c"}}},
		{"taken back", []step{{0, []int{0}, true, true, "a", "a"}, {m, []int{1}, false, true, "ba", "ba"},
			{2 * m, []int{0}, true, true, "ab", "ab"},
			{4 * m, nil, true, true, "ab", "a"}, {4*m + s, nil, true, true, "ab", "a"}, {5 * m, nil, true, true, "a", "a"}}},
		{"taken back while it is retired", []step{{0, []int{0}, true, true, "a", "a"}, {0, []int{1}, true, true, "ba", "ba"},
			{2 * m, nil, true, true, "ba", "b"},
			{2*m + s, []int{0, 1}, true, true, "ab", "ab"}, {3 * time.Hour, nil, true, true, "ab", "ab"}}},
		{"a list", []step{{0, []int{0, 1}, true, true, "ab", "ab"}, {m, []int{1, 0}, true, true, "ba", "ba"},
			{3 * time.Hour, nil, false, false, "ba", "ba"},
			{3 * time.Hour, []int{1}, true, true, "ba", "ba"}, {3*time.Hour + 2*m, nil, true, true, "ba", "b"}}},
		{"the same again", []step{{0, []int{0, 0}, true, true, "a", "a"}, {0, []int{0, 0}, true, true, "a", "a"}}},
		{"many", []step{{0, []int{0}, true, true, "a", "a"}, {0, []int{1}, false, true, "ba", "ba"},
			{0, []int{2, 3, 4, 5, 6, 7, 8}, false, true, "cdefghib", "cdefghib"}}},
	} {
		start := time.Unix(1000, 0)
		r := NewKeyring(hold)
		var said, took string
		var given []int
		for i, x := range tt.steps {
			now, version := start.Add(x.at), r.Version()
			if x.give != nil {
				if _, err := r.Give(ringKeys(x.give...), now); err != nil {
					t.Fatal(err)
				}
				given = x.give
			}
			r.Tend(now, x.have, x.informed)
			if k := ringKeys(given...); r.Settled(k) {
				settled++
				checkSettled(t, fmt.Sprintf("%s, step %d", tt.name, i), r, k, now)
			}
			accepted, tells := "", ""
			for _, k := range r.Keys().All() {
				accepted += string(k[0])
				if slices.Contains(r.Offered(), stamp.IDOf(k)) {
					tells += string(k[0])
				}
			}
			if accepted != x.accepted || tells != x.tells {
				t.Errorf("%s, step %d: accepts %s and tells %s, expected %s and %s", tt.name, i, accepted, tells, x.accepted,
					x.tells)
			}
			changes := accepted != took || tells != said
			if r.Version() == version && changes || r.Version() != version && !changes && x.give == nil {
				t.Errorf("%s, step %d: version %d after %d", tt.name, i, r.Version(), version)
			}
			took, said = accepted, tells
		}
	}
	if settled < 10 {
		t.Errorf("settled after %d steps", settled)
	}
}

// checkSettled: of what is settled nothing changes, however late it is and whatever is known of peers.
func checkSettled(t *testing.T, what string, r *Keyring, k stamp.Keys, now time.Time) {
	t.Helper()
	for _, all := range []bool{false, true} {
		changed, err := r.Give(k, now)
		if dropped, turned := r.Tend(now.Add(3*time.Hour), all, all); changed || turned || dropped > 0 || err != nil {
			t.Errorf("%s: it is not settled: %v", what, err)
		}
	}
}

// TestKeyringNeeded: a ring that is full lets go of what nobody speaks by, the oldest first.
func TestKeyringNeeded(t *testing.T) {
	r, start := NewKeyring(DefaultHold()), time.Unix(1000, 0)
	for i := range 12 {
		needed := []stamp.KeyID{stamp.IDOf(ringKey(0)), stamp.IDOf(ringKey(2))}
		if _, err := r.Give(ringKeys(i), start.Add(time.Duration(i)*time.Second), needed...); err != nil {
			t.Fatal(err)
		}
	}
	accepted := ""
	for _, k := range r.Keys().All() {
		accepted += string(k[0])
	}
	if accepted != "lkjihgca" {
		t.Errorf("accepts %s", accepted)
	}
}

func TestKeyringBest(t *testing.T) {
	r := NewKeyring(DefaultHold())
	if _, err := r.Give(stamp.Keys{Current: []byte("short")}, time.Unix(0, 0)); err == nil {
		t.Error("a short key was taken")
	}
	if _, err := r.Give(ringKeys(2, 1), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if changed, err := r.Give(ringKeys(2, 1, 2), time.Unix(1, 0)); changed || err != nil || r.Version() != 1 {
		t.Errorf("the same keys again: %v, %v", changed, err)
	}
	id := func(i int) stamp.KeyID { return stamp.IDOf(ringKey(i)) }
	for _, tt := range []struct {
		theirs []stamp.KeyID
		want   stamp.KeyID
	}{{nil, stamp.KeyID{}}, {[]stamp.KeyID{id(0)}, stamp.KeyID{}}, {[]stamp.KeyID{id(0), id(1)}, id(1)},
		{[]stamp.KeyID{id(1), id(2)}, id(2)}} {
		if got := r.Best(tt.theirs); got != tt.want {
			t.Errorf("of %x: %x, expected %x", tt.theirs, got, tt.want)
		}
	}
	if !bytes.Equal(r.Key(id(1)), ringKey(1)) || r.Key(id(0)) != nil || !r.Given(id(1)) || r.Given(id(0)) {
		t.Error("keys by name")
	}
}

func TestParseKeys(t *testing.T) {
	const k1, k2 = "0123456789abcdef0123456789abcdef", "a passphrase of words"
	bin := "\x00\x01\xff\n0123456789abcdef"
	for _, tt := range []struct {
		name, raw, before string
		want              []string
	}{
		{"a line", k1 + "\n", "", []string{k1 + "\n"}},
		{"lines", k1 + "\n" + k2 + "\n", "", []string{k1 + "\n", k2 + "\n"}},
		{"comments and empty lines", "# ours\n\n" + k1 + "\n  \n" + k2 + "\n", "", []string{k1 + "\n", k2 + "\n"}},
		{"one twice", k1 + "\n" + k1 + "\n", "", []string{k1 + "\n"}},
		{"one line cut", k1 + "\n" + k2, "", nil},
		{"short line", k1 + "\nshort\n", "", nil},
		{"no key", "# none\n", "", nil},
		{"empty", "", "", nil},
		{"too many", strings.Repeat("#\n", 20) + manyKeys(MostKeys+1), "", nil},
		{"as many as may be", manyKeys(MostKeys), "", strings.SplitAfter(strings.TrimSuffix(manyKeys(MostKeys), "\n"), "\n")},
		{"bytes", bin, "", []string{bin}},
		{"bytes, few", "\x00123456789abcde", "", nil},
		{"bytes that took the place of more", bin, bin + "more", nil},
		{"bytes that took the place of fewer", bin + "more", bin, []string{bin + "more"}},
		{"bytes that took the place of a line", bin, k1 + k1 + "\n", []string{bin}},
		{"no end", k1, "", []string{k1}},
		{"no end, in place of lines", k1, k1 + "\n", nil},
		{"no end, in place of more", k2, k1, nil},
		{"a line in place of more", k2 + "\n", k1 + "\n", []string{k2 + "\n"}},
		{"a line in place of bytes", k2 + "\n", bin + bin, []string{k2 + "\n"}},
	} {
		var before []byte
		if tt.before != "" {
			before = []byte(tt.before)
		}
		k, err := ParseKeys([]byte(tt.raw), before)
		var got []string
		for _, x := range k.All() {
			got = append(got, string(x))
		}
		if len(got) > 0 && len(tt.want) == len(got) {
			got[len(got)-1] = strings.TrimSuffix(got[len(got)-1], "\n")
			tt.want[len(got)-1] = strings.TrimSuffix(tt.want[len(got)-1], "\n")
		}
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}

func manyKeys(n int) (out string) {
	for i := range n {
		out += string(ringKey(i)) + "\n"
	}
	return out
}

// FuzzKeyFile: whatever a file holds, no key is short, and no beginning of a file
// of lines makes a key that the file does not have.
func FuzzKeyFile(f *testing.F) {
	f.Add([]byte(manyKeys(3)), []byte(manyKeys(2)))
	f.Add([]byte("# a\n\n0123456789abcdef\r\n"), []byte("0123456789abcdef"))
	f.Add([]byte{0, 1, 2}, []byte(nil))
	f.Fuzz(func(t *testing.T, raw, before []byte) {
		k, err := ParseKeys(raw, before)
		if err != nil {
			if len(k.All()) > 0 {
				t.Error("keys with an error")
			}
			return
		}
		all := k.All()
		if len(all) == 0 || len(all) > MostKeys {
			t.Fatalf("%d keys", len(all))
		}
		if err := k.Check(); err != nil {
			t.Error(err)
		}
		for _, x := range all {
			if !bytes.Contains(raw, x) {
				t.Errorf("%q is not in the file", x)
			}
		}
		if formOf(raw) != ofLines {
			return
		}
		for n := range raw {
			part, err := ParseKeys(raw[:n], raw)
			if err != nil {
				continue
			}
			for _, x := range part.All() {
				if !slices.ContainsFunc(all, func(y []byte) bool { return bytes.Equal(x, y) }) {
					t.Errorf("cut to %d octets: %q", n, x)
				}
			}
		}
	})
}
