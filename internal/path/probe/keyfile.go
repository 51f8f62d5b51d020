package probe

import (
	"bytes"
	"errors"
	"fmt"
)

// MostKeys bounds how many keys are accepted at once.
const MostKeys = 8

// ErrKeyFile is returned for bytes that hold no keys.
var ErrKeyFile = errors.New("no keys")

// ParseKeys reads what a key file holds: a key on each line, the current one
// first. Lines that are empty or begin with # are passed over. A key is its line,
// its end included, so that a file of one line is that key, byte for byte. So is
// a file that is no text, and one without the end of a line.
//
// Before is what the file held when it was last read, nil at first. Only by that
// can the first half of a key without end be told from a whole one.
func ParseKeys(raw, before []byte) (Keys, error) {
	if form := formOf(raw); form != ofLines {
		was := formOf(before)
		switch {
		case len(raw) < macSize:
			return Keys{}, fmt.Errorf("%d bytes: expected a key of %d or more: %w", len(raw), macSize, ErrKeyFile)
		case before == nil:
		case form == unended && was == ofLines:
			return Keys{}, fmt.Errorf("line 1 has no end, as if it were half-written: %w", ErrKeyFile)
		case form == was && len(raw) < len(before):
			return Keys{}, fmt.Errorf("%d bytes in place of %d, as if they were half-written: %w", len(raw), len(before), ErrKeyFile)
		}
		return Keys{Current: bytes.Clone(raw)}, nil
	}
	var all [][]byte
	n := 0
	for line := range bytes.Lines(raw) {
		n++
		switch {
		case line[len(line)-1] != '\n':
			return Keys{}, fmt.Errorf("line %d has no end, as if it were half-written: %w", n, ErrKeyFile)
		case len(bytes.TrimSpace(line)) == 0 || line[0] == '#':
			continue
		case len(line) < macSize:
			return Keys{}, fmt.Errorf("line %d has %d bytes: expected a key of %d or more: %w", n, len(line), macSize, ErrKeyFile)
		}
		if !holds(all, line) {
			all = append(all, bytes.Clone(line))
		}
	}
	switch {
	case len(all) == 0:
		return Keys{}, fmt.Errorf("%d lines without a key: %w", n, ErrKeyFile)
	case len(all) > MostKeys:
		return Keys{}, fmt.Errorf("%d keys: expected at most %d: %w", len(all), MostKeys, ErrKeyFile)
	}
	return Keys{Current: all[0], Previous: all[1:]}, nil
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
