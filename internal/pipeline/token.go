package pipeline

import "strings"

// pair is a key and what follows it: "nw_src=10.0.0.1", "ct(commit)", "drop".
type pair struct {
	key, value string
	// end is where the next pair begins in the text.
	text string
}

const blank = ", \t\r\n"

// next takes the first pair off a text, as Open vSwitch does (ofputil_parse_key_value of
// lib/ofp-parse.c). A value in parentheses may be followed by an arrow.
func next(s string) (p pair, rest string, ok bool) {
	s = strings.TrimLeft(s, blank)
	if s == "" {
		return p, "", false
	}
	n := strings.IndexAny(s, ":=("+blank)
	if n < 0 {
		return pair{key: s, text: s}, "", true
	}
	p.key = s[:n]
	delim := s[n]
	rest = s[n+1:]
	ends := blank
	switch delim {
	case ':', '=':
	case '(':
		ends = ")"
	default:
		p.text = p.key
		return p, rest, true
	}
	l := reach(rest, ends)
	if delim == '(' && strings.HasPrefix(rest[l:], ")->") {
		l += reach(rest[l:], blank)
	}
	p.value = rest[:l]
	p.text = s[:n+1+l]
	if l < len(rest) {
		if rest[l] == ')' {
			p.text += ")"
		}
		l++
	}
	return p, rest[l:], true
}

// reach is how far a value goes: to one of the ends that is in no parentheses.
func reach(s, ends string) int {
	level := 0
	for i := range len(s) {
		switch c := s[i]; {
		case level == 0 && strings.IndexByte(ends, c) >= 0:
			return i
		case c == '(':
			level++
		case c == ')' && level > 0:
			level--
		}
	}
	return len(s)
}

// pairs lists all of a text.
func pairs(s string) (out []pair) {
	for {
		p, rest, ok := next(s)
		if !ok {
			return out
		}
		out = append(out, p)
		s = rest
	}
}

// clip shortens a text that goes into a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}
