package uperf

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits of profiles.
const (
	maxStrands    = 1000
	maxIterations = 1 << 30
	maxSize       = 64 << 20
	maxProfile    = 1 << 20
	maxPause      = patience // or a strand could not end in time
)

// Parse reads a profile in uperf's XML; file stands in errors, getenv looks up
// its $variables. As in uperf, letters of values count as small ones, a number
// may end in k, m or g for powers of 1024, and a time is in seconds or ends in s,
// ms, us or ns. What is not supported is an error that names the line.
func Parse(file string, r io.Reader, getenv func(string) string) (Profile, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return Profile{}, fmt.Errorf("read profile: %w", err)
	}
	if len(raw) > maxProfile {
		return Profile{}, fmt.Errorf("%s: longer than %d bytes", file, maxProfile)
	}
	p := &parser{dec: xml.NewDecoder(strings.NewReader(string(raw))), getenv: getenv}
	err = p.document()
	if err == nil {
		err = p.out.Check()
	}
	var at *lineError
	var syntax *xml.SyntaxError
	switch {
	case err == nil:
		return p.out, nil
	case errors.As(err, &at):
		return Profile{}, fmt.Errorf("%s:%d: %s", file, at.line, at.text)
	case errors.As(err, &syntax):
		return Profile{}, fmt.Errorf("%s:%d: %s", file, syntax.Line, syntax.Msg)
	default:
		return Profile{}, fmt.Errorf("%s: %w", file, err)
	}
}

// parser walks the XML.
type parser struct {
	dec    *xml.Decoder
	getenv func(string) string
	out    Profile
}

// line is where the decoder is.
func (p *parser) line() int {
	line, _ := p.dec.InputPos()
	return line
}

// document reads <profile> and nothing beside it.
func (p *parser) document() error {
	seen := false
	for {
		start, err := p.next("profile")
		if errors.Is(err, io.EOF) && seen {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return wrong(p.line(), "expected <profile>")
		}
		if err != nil {
			return err
		}
		if seen {
			return wrong(p.line(), "a second <profile>")
		}
		seen = true
		if err := p.profile(start); err != nil {
			return err
		}
	}
}

// next returns the next element, which must be of that name; io.EOF at the end
// of the parent or of the document.
func (p *parser) next(name string) (xml.StartElement, error) {
	for {
		tok, err := p.dec.Token()
		if err != nil {
			return xml.StartElement{}, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if tok.Name.Local != name {
				return tok, wrong(p.line(), "<%s>: expected <%s>", tok.Name.Local, name)
			}
			return tok, nil
		case xml.EndElement:
			return xml.StartElement{}, io.EOF
		case xml.CharData:
			if text := strings.TrimSpace(string(tok)); text != "" {
				return xml.StartElement{}, wrong(p.line(), "text %.20q: expected <%s>", text, name)
			}
		}
	}
}

// attributes calls the setter of each attribute with its value, variables replaced.
func (p *parser) attributes(e xml.StartElement, set map[string]func(string) error) error {
	for _, a := range e.Attr {
		fn, ok := set[a.Name.Local]
		if !ok {
			return wrong(p.line(), "<%s %s=...>: not supported", e.Name.Local, a.Name.Local)
		}
		value, err := p.value(strings.TrimSpace(a.Value))
		if err == nil {
			err = fn(value)
		}
		if err != nil {
			return wrong(p.line(), "%s=%q: %v", a.Name.Local, value, err)
		}
	}
	return nil
}

// value replaces a value that is a variable.
func (p *parser) value(v string) (string, error) {
	name, ok := strings.CutPrefix(v, "$")
	if !ok {
		return v, nil
	}
	if set := p.getenv(name); set != "" {
		return set, nil
	}
	return v, fmt.Errorf("the environment variable %s is not set", name)
}

func (p *parser) profile(e xml.StartElement) error {
	err := p.attributes(e, map[string]func(string) error{
		"name": func(v string) error { p.out.Name = v; return nil },
	})
	if err != nil {
		return err
	}
	return p.children("group", func(e xml.StartElement) error {
		g := Group{Line: p.line()}
		given := 0
		strands := func(v string) (err error) { given++; g.Strands, err = number(v, 1, maxStrands); return err }
		if err := p.attributes(e, map[string]func(string) error{"nthreads": strands, "nprocs": strands}); err != nil {
			return err
		}
		if given != 1 {
			return wrong(g.Line, "<group>: expected one of nthreads and nprocs")
		}
		err := p.children("transaction", func(e xml.StartElement) error { return p.transaction(e, &g) })
		p.out.Groups = append(p.out.Groups, g)
		return err
	})
}

// children calls each with every child element, which must be of that name.
func (p *parser) children(name string, each func(xml.StartElement) error) error {
	for {
		e, err := p.next(name)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(e); err != nil {
			return err
		}
	}
}

func (p *parser) transaction(e xml.StartElement, g *Group) error {
	t := Transaction{Iterations: 1, Line: p.line()}
	err := p.attributes(e, map[string]func(string) error{
		"iterations": func(v string) (err error) { t.Iterations, err = number(v, 1, maxIterations); return err },
		"duration":   func(v string) (err error) { t.Duration, err = span(v); return err },
	})
	if err != nil {
		return err
	}
	err = p.children("flowop", func(e xml.StartElement) error {
		f := Flowop{Count: 1, Line: p.line()}
		err := p.attributes(e, map[string]func(string) error{
			"type":    func(v string) error { return f.setKind(v) },
			"options": func(v string) error { return p.options(&f, v) },
		})
		if err != nil {
			return err
		}
		t.Flowops = append(t.Flowops, f)
		if _, err := p.next("nothing in a flowop"); !errors.Is(err, io.EOF) {
			return err
		}
		return f.check()
	})
	g.Transactions = append(g.Transactions, t)
	return err
}

// number reads an integer with a binary suffix.
func number(v string, low, high int) (int, error) {
	v = strings.ToLower(v)
	digits, shift := v, 0
	if i := strings.IndexAny(v, "bkmg"); i >= 0 && i == len(v)-1 {
		digits, shift = v[:i], 10*strings.IndexByte("bkmg", v[i])
	}
	n, err := strconv.ParseFloat(digits, 64)
	n *= float64(int(1) << shift)
	if err != nil || !(n >= float64(low) && n <= float64(high)) || n != math.Trunc(n) {
		return 0, fmt.Errorf("expected a number from %d to %d, which may end in k, m or g", low, high)
	}
	return int(n), nil
}

// span reads a time.
func span(v string) (time.Duration, error) {
	v = strings.ToLower(v)
	if digits := strings.TrimRight(v, "0123456789."); digits == "" && v != "" {
		v += "s"
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 || d > 24*time.Hour {
		return 0, errors.New("expected a time such as 30s, 5ms or 100us")
	}
	return d, nil
}
