package uperf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setKind takes the type of a flowop.
func (f *Flowop) setKind(v string) error {
	f.Kind = Kind(strings.ToLower(v))
	known := []Kind{Connect, Accept, Read, Write, Disconnect, Think, Nop}
	if !slices.Contains(known, f.Kind) {
		return fmt.Errorf("not supported: expected one of %v", known)
	}
	return nil
}

// options takes what stands in a flowop's options, apart by space.
func (p *parser) options(f *Flowop, text string) error {
	seen := map[string]bool{}
	for _, word := range strings.Fields(joinRanges(text)) {
		key, value, has := strings.Cut(word, "=")
		key = strings.ToLower(key)
		if seen[key] {
			return fmt.Errorf("%s stands twice", key)
		}
		seen[key] = true
		var err error
		if key != "remotehost" { // which is the server's pod, whatever the file says
			value, err = p.value(value)
		}
		if err == nil {
			err = f.option(key, strings.ToLower(value), has)
		}
		if err != nil && has {
			return fmt.Errorf("%s=%s: %w", key, value, err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// joinRanges takes the spaces out of rand(1, 8k).
func joinRanges(text string) string {
	var b strings.Builder
	depth := 0
	for _, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth > 0 && (r == ' ' || r == '\t'):
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// option takes one option.
func (f *Flowop) option(key, value string, has bool) (err error) {
	switch {
	case !has && key == "tcp_nodelay":
		f.NoDelay = true
	case !has && key == "busy":
		f.Busy = true
	case !has && key == "idle":
	case !has:
		return errUnsupported
	case key == "size":
		f.Size, f.Max, err = size(value)
	case key == "count":
		f.Count, err = number(value, 1, maxIterations)
	case key == "conn":
		if f.Conn, err = strconv.Atoi(value); err != nil || f.Conn < 1 {
			err = errors.New("expected a number above 0")
		}
	case key == "wndsz":
		f.Window, err = number(value, 1, 1<<30)
	case key == "duration":
		f.Pause, err = span(value)
	case key == "protocol":
		if value != "tcp" {
			err = errors.New("not supported: expected tcp")
		}
	case key == "remotehost":
	default:
		err = errUnsupported
	}
	return err
}

var errUnsupported = errors.New("not supported")

// size reads a number of bytes or rand(LEAST,MOST).
func size(v string) (least, most int, err error) {
	inner, ok := strings.CutPrefix(v, "rand(")
	if !ok {
		least, err = number(v, 1, maxSize)
		return least, 0, err
	}
	inner, ok = strings.CutSuffix(inner, ")")
	low, high, comma := strings.Cut(inner, ",")
	if !ok || !comma {
		return 0, 0, errors.New("expected rand(LEAST,MOST)")
	}
	if least, err = number(low, 1, maxSize); err != nil {
		return 0, 0, err
	}
	if most, err = number(high, least, maxSize); err != nil {
		return 0, 0, err
	}
	return least, most, nil
}

// check returns an error for a flowop that lacks what its kind needs, or has
// what means nothing to it.
func (f Flowop) check() error {
	switch {
	case f.Kind == "":
		return wrong(f.Line, "<flowop>: expected a type")
	case f.moves() && f.Size == 0:
		return wrong(f.Line, "%s: expected a size", f.Kind)
	case !f.moves() && f.Size > 0:
		return wrong(f.Line, "%s has no size", f.Kind)
	case !f.moves() && f.Kind != Nop && f.Kind != Think && f.Count > 1:
		return wrong(f.Line, "%s cannot have a count", f.Kind)
	case f.Kind == Think && f.Pause == 0:
		return wrong(f.Line, "think: expected a duration")
	case f.Kind != Think && f.Pause > 0:
		return wrong(f.Line, "%s for a duration: not supported", f.Kind)
	case f.Kind == Think && f.Pause > maxPause:
		return wrong(f.Line, "think: expected a duration of at most %v", maxPause)
	}
	return nil
}
