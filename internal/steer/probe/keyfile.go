package probe

import (
	"bytes"
	"fmt"

	"pathwise.dev/pathwise/stamp"
)

// MostKeys bounds how many keys are accepted at once.
const MostKeys = 8

// ParseKeys reads what a key file holds: a key on each line, the current one
// first. Lines that are empty or begin with # are passed over. A key is its line,
// its end included, so that a file of one line is that key, byte for byte. So is
// a file that is no text, and one without the end of a line.
//
// Before is what the file held when it was last read, nil at first. Only by that
// can the first half of a key without end be told from a whole one. An error says
// what the file does: its name is to come before.
func ParseKeys(raw, before []byte) (stamp.Keys, error) {
	if len(raw) < stamp.MinKey {
		return stamp.Keys{}, fmt.Errorf("holds %d bytes: expected a key of %d or more", len(raw), stamp.MinKey)
	}
	if form := formOf(raw); form != ofLines {
		was := formOf(before)
		switch {
		case before == nil:
		case form == unended && was == ofLines:
			return stamp.Keys{}, fmt.Errorf("holds %d bytes and no end of a line: it seems half-written", len(raw))
		case form == was && len(raw) < len(before):
			return stamp.Keys{}, fmt.Errorf("holds %d bytes in place of %d: it seems half-written", len(raw), len(before))
		}
		return stamp.Keys{Current: bytes.Clone(raw)}, nil
	}
	var all [][]byte
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		switch {
		case line[len(line)-1] != '\n':
			return stamp.Keys{}, fmt.Errorf("ends within line %d: it seems half-written", n)
		case len(bytes.TrimSpace(line)) == 0 || line[0] == '#':
			continue
		case len(line) < stamp.MinKey:
			return stamp.Keys{}, fmt.Errorf("has %d bytes in line %d: expected a key of %d or more", len(line), n, stamp.MinKey)
		}
		if !holds(all, line) {
			all = append(all, bytes.Clone(line))
		}
	}
	switch {
	case len(all) == 0:
		return stamp.Keys{}, fmt.Errorf("has %d lines, and none with a key", n)
	case len(all) > MostKeys:
		return stamp.Keys{}, fmt.Errorf("has %d keys: expected at most %d", len(all), MostKeys)
	}
	return stamp.Keys{Current: all[0], Previous: all[1:]}, nil
}

// form is how keys are written down.
type form uint8

const (
	unended form = iota // text without the end of a line: one key
	ofLines             // text: a key on each line
	opaque              // bytes of any kind: one key
)

func formOf(raw []byte) form {
	f := unended
	for _, b := range raw {
		switch {
		case b == '\n':
			f = ofLines
		case b != '\t' && b != '\r' && (b < ' ' || b > '~'):
			return opaque
		}
	}
	return f
}

func holds(all [][]byte, key []byte) bool {
	for _, k := range all {
		if bytes.Equal(k, key) {
			return true
		}
	}
	return false
}
