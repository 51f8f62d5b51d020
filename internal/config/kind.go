package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is a sort of value: how it is read, and what is told of it.
type Kind struct {
	Read func(Value) (any, error)
	// Says is what is expected, in words, and Schema the same for an editor.
	Says   string
	Schema *Schema
	// Unit of what is read, where it is always the same.
	Unit string
	// Whole: Read takes the whole list, where the field is a slice.
	Whole bool
}

// NewKind is a kind that read reads.
func NewKind[T any](read func(Value) (T, error), says string, schema *Schema) Kind {
	return Kind{Read: func(v Value) (any, error) { return read(v) }, Says: says, Schema: schema}
}

// Parsed is a kind of text that parse understands; words are all that there are, or none if
// they cannot be listed.
func Parsed[T any](parse func(string) (T, error), says string, words ...string) Kind {
	return NewKind(func(v Value) (out T, err error) {
		s, err := v.Text()
		if err != nil {
			return out, err
		}
		out, err = parse(s)
		return out, v.Wrap(err)
	}, says, anyText(words...))
}

// Word is a kind of text that is one of the words.
func Word(words ...string) Kind {
	says := Either(words...)
	return Parsed(func(s string) (string, error) {
		for _, w := range words {
			if s == w {
				return s, nil
			}
		}
		if len(words) == 2 {
			return s, fmt.Errorf("%q: expected %s", s, says)
		}
		return s, fmt.Errorf("%q: expected one of %s", s, strings.Join(words, ", "))
	}, says, words...)
}

// Either lists words of which one is expected.
func Either(words ...string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Name is a kind of text that can be part of a file's name.
func Name() Kind { return Named(func(string) error { return nil }) }

// Named is a kind of name that check takes too.
func Named(check func(name string) error) Kind {
	k := Parsed(func(s string) (string, error) {
		if err := CheckName(s); err != nil {
			return s, err
		}
		return s, check(s)
	}, aName)
	k.Schema.Pattern = fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9._-]{0,%d}$`, maxName-1)
	return k
}

// maxName is the length of the longest name, aName what is said of one.
const (
	maxName = 64
	aName   = "a name of letters, digits, dots, hyphens and underscores"
)

// CheckName returns an error for a text that cannot be part of a file's name.
func CheckName(s string) error {
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' }
	other := func(r rune) bool { return !letter(r) && !strings.ContainsRune("._-", r) }
	if s == "" || len(s) > maxName || !letter(rune(s[0])) || strings.ContainsFunc(s, other) {
		return fmt.Errorf("%q: expected %s", s, aName)
	}
	return nil
}

// Text is a kind of any text.
func Text() Kind { return NewKind(Value.Text, "a text", anyText()) }

// Prose is a text of sentences, which may go over several lines.
func Prose() Kind {
	return Parsed(func(s string) (string, error) { return strings.Join(strings.Fields(s), " "), nil }, "a text")
}

// anyText takes numbers and booleans too, as the file's words are read before YAML gives them a type.
func anyText(words ...string) *Schema {
	s := &Schema{Types: []string{"string", "number", "boolean"}}
	if len(words) > 0 {
		s = &Schema{}
	}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
		if n, err := strconv.Atoi(w); err == nil {
			s.Enum = append(s.Enum, n)
		}
	}
	return s
}

// orText is what an editor is told of a value that may also be a text of the pattern.
func orText(other *Schema, pattern string) *Schema {
	return &Schema{AnyOf: []*Schema{other, {Type: "string", Pattern: pattern}}}
}

// OrWord is what an editor is told of a kind that may also be the word.
func OrWord(k Kind, word string) *Schema {
	return &Schema{AnyOf: []*Schema{{Enum: []any{word}}, k.Schema}}
}

// ListOrMap is what an editor is told of one of the words, a list of them, or values by word.
func ListOrMap(words []string, value *Schema) *Schema {
	least := 1
	return &Schema{AnyOf: []*Schema{anyText(words...),
		{Type: "array", Items: anyText(words...), MinItems: &least, UniqueItems: true},
		{Type: "object", PropertyNames: anyText(words...), AdditionalProperties: value, MinProperties: &least}}}
}

// Int is a whole number in [low, high].
func Int(low, high int) Kind {
	return NewKind(func(v Value) (int, error) { return v.Int(low, high) },
		fmt.Sprintf("a whole number from %d to %d", low, high), within("integer", float64(low), float64(high)))
}

// within is a range of numbers.
func within(kind string, low, high float64) *Schema {
	return &Schema{Type: kind, Minimum: &low, Maximum: &high}
}

// Size is Value.Size, in [low, high].
func Size(low, high int) Kind {
	k := NewKind(func(v Value) (int, error) { return v.Size(low, high) },
		fmt.Sprintf("a size from %d to %d, such as 64 or 16k", low, high),
		orText(within("integer", float64(low), float64(high)), `^ *[0-9.]+[kKmM]? *$`))
	k.Unit = "bytes; k, M"
	return k
}

// Rate is Value.Rate, at most high.
func Rate(high float64) Kind {
	zero := 0.0
	return NewKind(func(v Value) (float64, error) { return v.Rate(high) }, "a rate above 0, such as 200M",
		orText(&Schema{Type: "number", ExclusiveMinimum: &zero, Maximum: &high}, `^ *[0-9.eE+-]+[kKmMgG]? *$`))
}

// Duration is Value.Duration, in [low, high].
func Duration(low, high time.Duration) Kind {
	s := &Schema{Type: "string", Pattern: `^ *[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+ *$`}
	if low <= 0 {
		s = orText(within("number", 0, 0), s.Pattern)
	}
	k := NewKind(func(v Value) (time.Duration, error) { return v.Duration(low, high) },
		fmt.Sprintf("a duration from %s to %s", short(low), short(high)), s)
	k.Unit = "us, ms, s, m, h"
	return k
}

// short is a duration without the zeros behind its last unit.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Percent is Value.Percent.
func Percent() Kind {
	k := NewKind(Value.Percent, "a share, such as 5%", &Schema{Type: "string", Pattern: `^ *[0-9.eE+-]+ *% *$`})
	k.Unit = "%"
	return k
}

// Number is a finite number.
func Number() Kind { return NewKind(Value.Number, "a number", &Schema{Type: "number"}) }

// Bool is true or false.
func Bool() Kind { return NewKind(Value.Bool, "true or false", &Schema{Type: "boolean"}) }
