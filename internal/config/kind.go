package config

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Kind is a sort of value: how it is read, and what is told of it.
type Kind struct {
	Read func(Value) (any, error)
	// Says is what is expected, in words, and Schema the same for an editor.
	Says   string
	Schema *jsonschema.Schema
	// Whole: Read takes the whole list, where the field is a slice.
	Whole bool
}

// NewKind is a kind that read reads.
func NewKind[T any](read func(Value) (T, error), says string, schema *jsonschema.Schema) Kind {
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
	says := strings.Join(words, ", ")
	if i := strings.LastIndex(says, ", "); i >= 0 && len(words) == 2 {
		says = words[0] + " or " + words[1]
	}
	return Parsed(func(s string) (string, error) {
		for _, w := range words {
			if s == w {
				return s, nil
			}
		}
		if len(words) == 2 {
			return s, fmt.Errorf("%q: expected %s", s, says)
		}
		return s, fmt.Errorf("%q: expected one of %s", s, says)
	}, says, words...)
}

// Name is a kind of text that can be part of a file's name.
func Name() Kind {
	const pattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`
	k := Parsed(func(s string) (string, error) {
		if !regexp.MustCompile(pattern).MatchString(s) {
			return s, fmt.Errorf("%q: expected a name of letters, digits, dots, hyphens and underscores", s)
		}
		return s, nil
	}, "a name of letters, digits, dots, hyphens and underscores")
	k.Schema.Pattern = pattern
	return k
}

// Text is a kind of any text.
func Text() Kind { return NewKind(Value.Text, "a text", anyText()) }

// Prose is a text of sentences, which may go over several lines.
func Prose() Kind {
	return Parsed(func(s string) (string, error) { return strings.Join(strings.Fields(s), " "), nil }, "a text")
}

// anyText takes numbers and booleans too, as the file's words are read before YAML gives them a type.
func anyText(words ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Types: []string{"string", "number", "boolean"}}
	if len(words) > 0 {
		s = &jsonschema.Schema{}
	}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

// OrWord is what an editor is told of a kind that may also be the word.
func OrWord(k Kind, word string) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Enum: []any{word}}, k.Schema}}
}

// ListOrMap is what an editor is told of one value, a list of them, or values by key.
func ListOrMap(one, byKey Kind) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{one.Schema, {Type: "array", Items: one.Schema},
		{Type: "object", AdditionalProperties: byKey.Schema}}}
}

// Int is a whole number in [low, high].
func Int(low, high int) Kind {
	least, most := float64(low), float64(high)
	return NewKind(func(v Value) (int, error) { return v.Int(low, high) },
		fmt.Sprintf("a whole number from %d to %d", low, high),
		&jsonschema.Schema{Type: "integer", Minimum: &least, Maximum: &most})
}

// written is a number, or a text of the pattern.
func written(pattern string) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "number"}, {Type: "string", Pattern: pattern}}}
}

// Size is Value.Size, in [low, high].
func Size(low, high int) Kind {
	return NewKind(func(v Value) (int, error) { return v.Size(low, high) },
		fmt.Sprintf("a size in bytes from %d to %d, such as 64 or 16k", low, high), written(`^ *[0-9.]+[kKmM]? *$`))
}

// Rate is Value.Rate, at most high.
func Rate(high float64) Kind {
	return NewKind(func(v Value) (float64, error) { return v.Rate(high) }, "a rate above 0, such as 200M",
		written(`^ *[0-9.eE+-]+[kKmMgG]? *$`))
}

// Duration is Value.Duration, in [low, high].
func Duration(low, high time.Duration) Kind {
	s := &jsonschema.Schema{Type: "string", Pattern: `^ *[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+ *$`}
	if low <= 0 {
		s = written(s.Pattern)
		zero := 0.0
		s.AnyOf[0].Minimum, s.AnyOf[0].Maximum = &zero, &zero
	}
	return NewKind(func(v Value) (time.Duration, error) { return v.Duration(low, high) },
		fmt.Sprintf("a duration from %v to %v", low, high), s)
}

// Percent is Value.Percent.
func Percent() Kind {
	return NewKind(Value.Percent, "a share, such as 5%",
		&jsonschema.Schema{Type: "string", Pattern: `^ *[0-9.eE+-]+ *% *$`})
}

// Number is a finite number.
func Number() Kind { return NewKind(Value.Number, "a number", &jsonschema.Schema{Type: "number"}) }

// Bool is true or false.
func Bool() Kind {
	return NewKind(Value.Bool, "true or false", &jsonschema.Schema{Type: "boolean"})
}
