package uperf

import (
	"strings"
	"unicode"
)

// markup walks the tags of a profile as uperf's own parser does (its parse.c), which
// is no parser of XML: quotes around values may be left out, ends of elements too,
// and an end of what is not open is passed over.
type markup struct {
	text string
	at   int
	line int
}

// tag is one tag.
type tag struct {
	name string
	// end is a tag </name>, empty one that ends itself.
	end, empty bool
	attributes []attribute
	line       int
}

// attribute of a tag.
type attribute struct {
	key, value string
	// line at which the value begins.
	line int
}

func newMarkup(text string) *markup { return &markup{text: text, line: 1} }

// skip goes on n bytes.
func (m *markup) skip(n int) {
	m.line += strings.Count(m.text[m.at:m.at+n], "\n")
	m.at += n
}

func (m *markup) rest() string { return m.text[m.at:] }

func (m *markup) begins(with string) bool { return strings.HasPrefix(m.rest(), with) }

// blank passes over space.
func (m *markup) blank() {
	m.skip(len(m.rest()) - len(strings.TrimLeftFunc(m.rest(), unicode.IsSpace)))
}

// past goes on behind the next end.
func (m *markup) past(what, end string) error {
	i := strings.Index(m.rest(), end)
	if i < 0 {
		return wrong(m.line, "%s: expected %s", what, end)
	}
	m.skip(i + len(end))
	return nil
}

// next returns the next tag, and none at the end. Text between tags is an error,
// which says what was expected in its place.
func (m *markup) next(expected string) (t tag, more bool, err error) {
	for {
		m.blank()
		switch {
		case m.rest() == "":
			return tag{}, false, nil
		case m.begins("<!--"):
			err = m.past("comment", "-->")
		case m.begins("<?"):
			err = m.past("<?", "?>")
		case m.begins("<!"):
			err = m.past("<!", ">")
		case !m.begins("<"):
			text, _, _ := strings.Cut(m.rest(), "<")
			return tag{}, false, wrong(m.line, "text %.20q: expected %s", strings.TrimSpace(text), expected)
		default:
			t, err = m.tag()
			return t, err == nil, err
		}
		if err != nil {
			return tag{}, false, err
		}
	}
}

// tag reads a tag, at whose < it is.
func (m *markup) tag() (tag, error) {
	t := tag{line: m.line}
	m.skip(1)
	m.blank()
	if t.end = m.begins("/"); t.end {
		m.skip(1)
		m.blank()
	}
	t.name = m.word("=")
	for {
		m.blank()
		switch {
		case m.begins("/>"):
			m.skip(2)
			t.empty = true
			return t, nil
		case m.begins(">"):
			m.skip(1)
			return t, nil
		case m.rest() == "" || m.begins("<"):
			return t, wrong(t.line, "<%s: expected > at its end", t.name)
		}
		a, err := m.attribute(t.name)
		if err != nil {
			return t, err
		}
		t.attributes = append(t.attributes, a)
	}
}

// word reads up to a space, the end of the tag, or one of what else ends it.
func (m *markup) word(ends string) string {
	end := strings.IndexFunc(m.rest(), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("<>"+ends, r)
	})
	if end < 0 {
		end = len(m.rest())
	}
	w := m.rest()[:end]
	if m.rest()[end:] != "" && m.rest()[end] == '>' { // />
		w = strings.TrimSuffix(w, "/")
	}
	m.skip(len(w))
	return w
}

// attribute reads KEY=VALUE, with quotes around the value or without.
func (m *markup) attribute(of string) (attribute, error) {
	a := attribute{key: m.word("="), line: m.line}
	m.blank()
	if a.key == "" || !m.begins("=") {
		return a, wrong(a.line, "<%s %.20s: expected %.20s=VALUE", of, a.key, a.key)
	}
	m.skip(1)
	m.blank()
	a.line = m.line
	if !m.begins(`"`) && !m.begins("'") {
		a.value = m.word("")
		return a, nil
	}
	quote := m.rest()[:1]
	m.skip(1)
	value, _, closed := strings.Cut(m.rest(), quote)
	if !closed {
		return a, wrong(a.line, "<%s %s=: expected %s at the end of the value", of, a.key, quote)
	}
	a.value = value
	m.skip(len(value) + 1)
	return a, nil
}
