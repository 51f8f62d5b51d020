package uperf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of profiles.
const (
	maxStrands    = 4096
	maxIterations = 1 << 30
	maxSize       = 64 << 20
	maxWindow     = maxSize
	// maxDatagram is what UDP over IPv4 carries.
	maxDatagram = 65507
	maxProfile  = 1 << 20
	maxPause    = patience // or a strand could not end in time
	// maxPlan is what one argument of a program holds, but for the rest of the plan
	// (MAX_ARG_STRLEN of linux/binfmts.h).
	maxPlan = 120 << 10
)

// Parse reads a profile of uperf's; file names it in errors, getenv looks up
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
	p := &parser{markup: newMarkup(string(raw)), getenv: getenv}
	if err = p.document(); err == nil {
		err = p.finish()
	}
	var at *lineError
	switch {
	case err == nil:
		return p.out, nil
	case errors.As(err, &at):
		return Profile{}, fmt.Errorf("%s:%d: %s", file, at.line, at.text)
	default:
		return Profile{}, fmt.Errorf("%s: %w", file, err)
	}
}

// finish drops transactions that are done no time, resolves what depends on
// others, and checks the whole.
func (p *parser) finish() error {
	for i := range p.out.Groups {
		g := &p.out.Groups[i]
		g.Transactions = slices.DeleteFunc(g.Transactions,
			func(t Transaction) bool { return t.Iterations == 0 && t.Duration == 0 })
		if err := g.resolve(); err != nil {
			return err
		}
	}
	if err := p.out.Check(); err != nil {
		return err
	}
	return p.out.fits()
}

// fits returns an error for a profile that is too long to be told a generator.
func (p Profile) fits() error {
	plan, err := json.Marshal(p)
	if err == nil && len(plan) > maxPlan {
		return fmt.Errorf("a plan of %d bytes: expected at most %d", len(plan), maxPlan)
	}
	return err
}

// level is how deep in the profile the parser is.
type level int

// Levels, and the elements that they hold.
const (
	outside level = iota
	inProfile
	inGroup
	inTransaction
	inFlowop
)

// holds is the element that is expected at a level; none in a flowop.
func (l level) holds() string {
	return [...]string{"profile", "group", "transaction", "flowop", ""}[l]
}

// parser builds the profile.
type parser struct {
	*markup
	getenv func(string) string
	level  level
	seen   bool
	out    Profile
}

// expected is what may come next.
func (p *parser) expected() string {
	switch {
	case p.level == inFlowop:
		return "</flowop>"
	case p.level == outside && p.seen:
		return "nothing after </profile>"
	}
	return "<" + p.level.holds() + ">"
}

// document reads <profile> and nothing but it.
func (p *parser) document() error {
	for {
		t, more, err := p.next(p.expected())
		switch {
		case err != nil:
			return err
		case more:
			if err := p.take(t); err != nil {
				return err
			}
		case !p.seen:
			return wrong(p.line, "expected <profile>")
		case p.level != outside:
			return wrong(p.line, "the file ends in a <%s>: expected </%[1]s>", (p.level - 1).holds())
		default:
			return nil
		}
	}
}

// take takes one tag. One that begins an element ends its neighbours that are
// still open, as in uperf: the profiles that benchmark-operator writes lack the
// end of a transaction.
func (p *parser) take(t tag) error {
	kind := outside
	for kind < inFlowop && kind.holds() != strings.ToLower(t.name) {
		kind++
	}
	switch {
	case kind == inFlowop:
		return wrong(t.line, "<%s>: expected %s", t.name, p.expected())
	case t.end:
		p.level = min(p.level, kind)
		return nil
	case kind == outside && p.seen:
		return wrong(t.line, "a second <profile>")
	case kind > p.level:
		return wrong(t.line, "<%s>: expected %s", t.name, p.expected())
	}
	p.seen = true
	p.level = kind + 1
	if t.empty {
		p.level = kind
	}
	return [...]func(tag) error{p.profile, p.group, p.transaction, p.flowop}[kind](t)
}

// attributes calls the setter of each attribute with its value, variables replaced.
func (p *parser) attributes(t tag, set map[string]func(string) error) error {
	for _, a := range t.attributes {
		fn, ok := set[strings.ToLower(a.key)]
		if !ok {
			return wrong(a.line, "<%s %s=...>: not supported", t.name, a.key)
		}
		value, err := p.value(strings.TrimSpace(a.value))
		if err == nil {
			err = fn(value)
		}
		if err != nil {
			return wrong(a.line, "%s=%q: %v", a.key, value, err)
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
	if set := lookup(name, p.getenv); set != "" {
		return set, nil
	}
	return v, fmt.Errorf("the environment variable %s is not set", name)
}

func (p *parser) profile(t tag) error {
	return p.attributes(t, map[string]func(string) error{
		"name": func(v string) error { p.out.Name = v; return nil },
	})
}

// named passes over a name: those of groups and below say nothing here.
func named(string) error { return nil }

func (p *parser) group(t tag) error {
	g := Group{Line: t.line}
	given := 0
	strands := func(v string) (err error) { given++; g.Strands, err = number(v, 1, maxStrands); return err }
	err := p.attributes(t, map[string]func(string) error{"nthreads": strands, "nprocs": strands, "name": named})
	if err != nil {
		return err
	}
	if given != 1 {
		return wrong(g.Line, "<group>: expected one of nthreads and nprocs")
	}
	p.out.Groups = append(p.out.Groups, g)
	return nil
}

func (p *parser) transaction(t tag) error {
	x := Transaction{Iterations: 1, Line: t.line}
	err := p.attributes(t, map[string]func(string) error{
		"iterations": func(v string) (err error) { x.Iterations, err = number(v, 0, maxIterations); return err },
		"duration":   func(v string) (err error) { x.Duration, err = span(v); return err },
		"rate":       func(v string) (err error) { x.Rate, err = number(v, 1, maxIterations); return err },
		"name":       named,
	})
	if err != nil {
		return err
	}
	if x.Rate > 0 && x.Duration == 0 {
		return wrong(t.line, "rate=%d in a transaction without a duration, where uperf passes over it: expected a duration", x.Rate)
	}
	g := &p.out.Groups[len(p.out.Groups)-1]
	g.Transactions = append(g.Transactions, x)
	return nil
}

func (p *parser) flowop(t tag) error {
	f := Flowop{Count: 1, Line: t.line}
	for _, a := range t.attributes {
		var err error
		switch strings.ToLower(a.key) {
		case "options":
			err = p.options(&f, a)
		default: // before options or after
			err = p.attributes(tag{name: t.name, attributes: []attribute{a}},
				map[string]func(string) error{"type": f.setKind, "name": named})
		}
		if err != nil {
			return err
		}
	}
	f.settle()
	if err := f.check(); err != nil {
		return err
	}
	g := &p.out.Groups[len(p.out.Groups)-1]
	x := &g.Transactions[len(g.Transactions)-1]
	x.Flowops = append(x.Flowops, f)
	return nil
}
