// Package config reads YAML files strictly: every error names the file, line
// and key, and says what was expected. It knows no file's meaning; packages
// experiment, drill and lab say which keys there are, the first two by the tags of structs,
// from which a JSON Schema and a table of the keys are made too.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Error is a mistake in a file.
type Error struct {
	File string
	Line int
	// Key is the path of the key, such as "workloads[1].load.connections"; "" for the whole file.
	Key string
	Err error
}

func (e *Error) Error() string {
	where := fmt.Sprintf("%s:%d: ", e.File, e.Line)
	if e.Key != "" {
		where += e.Key + ": "
	}
	return where + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Value is one node of a file.
type Value struct {
	file, key string
	node      *yaml.Node
}

// maxSize bounds a file: a configuration is a page or two.
const maxSize = 1 << 20

// Parse reads the single document in r.
func Parse(file string, r io.Reader) (Value, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return Value{}, fmt.Errorf("read %s: %w", file, err)
	}
	if len(raw) > maxSize {
		return Value{}, &Error{file, 1, "", fmt.Errorf("file is larger than %d bytes", maxSize)}
	}
	var doc, next yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	if err := documents.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return Value{}, syntax(file, err)
	}
	switch err := documents.Decode(&next); {
	case err != nil && !errors.Is(err, io.EOF):
		return Value{}, syntax(file, err)
	case err == nil && !empty(next):
		return Value{}, &Error{file, next.Line, "", errors.New("a second document (after ---): expected one in a file")}
	}
	if len(doc.Content) == 0 {
		return Value{}, &Error{file, 1, "", errors.New("empty file: expected keys and values")}
	}
	return Value{file: file, node: doc.Content[0]}, nil
}

// empty reports whether a document holds nothing, as one after a last "---" does.
func empty(doc yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].Tag == "!!null"
}

// syntax moves the line that the YAML library put into its message to the front.
func syntax(file string, err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^(?:unmarshal errors:\s*)?line (\d+): `).FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits, by the expression
		msg = msg[len(m[0]):]
	}
	return &Error{file, line, "", fmt.Errorf("not YAML: %s", msg)}
}

// JSONError places an error of encoding/json in the file that raw was read from.
func JSONError(file string, raw []byte, err error) error {
	offset := int64(0)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	line := 1 + bytes.Count(raw[:min(offset, int64(len(raw)))], []byte("\n"))
	return &Error{file, line, "", err}
}

// Errorf is an error at this value.
func (v Value) Errorf(format string, args ...any) error {
	return &Error{v.file, v.node.Line, v.key, fmt.Errorf(format, args...)}
}

// Wrap is err at this value; errors that have a place keep it.
func (v Value) Wrap(err error) error {
	var placed *Error
	if err == nil || errors.As(err, &placed) {
		return err
	}
	return &Error{v.file, v.node.Line, v.key, err}
}

// Field reads one key of a mapping.
type Field func(Value) error

// Fields reads a mapping. Each key must be in known and stand once; those in
// required must stand.
func (v Value) Fields(known map[string]Field, required ...string) error {
	if v.node.Kind != yaml.MappingNode {
		return v.Errorf("expected keys and values, found %s", v.describe())
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		name := v.node.Content[i]
		child := Value{v.file, join(v.key, name.Value), v.node.Content[i+1]}
		read, ok := known[name.Value]
		if !ok {
			return (Value{v.file, child.key, name}).Errorf("unknown key%s", suggest(name.Value, known))
		}
		if seen[name.Value] {
			return (Value{v.file, child.key, name}).Errorf("key is given twice")
		}
		seen[name.Value] = true
		if err := child.Wrap(read(child)); err != nil {
			return err
		}
	}
	return v.Need(required...)
}

// Need returns an error for the first of the keys that is not there.
func (v Value) Need(keys ...string) error {
	for _, name := range keys {
		if !v.Has(name) && v.IsMapping() {
			return (Value{v.file, join(v.key, name), v.node}).Errorf("missing key")
		}
	}
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// suggest names the keys that there are, and the one that was probably meant.
func suggest(got string, known map[string]Field) string {
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	if best := Nearest(got, names); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ": expected one of " + strings.Join(names, ", ")
}

// Items returns the elements of a list; a single value is a list of one.
func (v Value) Items() ([]Value, error) {
	switch v.node.Kind {
	case yaml.SequenceNode:
		var out []Value
		for i, n := range v.node.Content {
			out = append(out, Value{v.file, fmt.Sprintf("%s[%d]", v.key, i), n})
		}
		if len(out) == 0 {
			return nil, v.Errorf("empty list: expected at least one value")
		}
		return out, nil
	case yaml.ScalarNode, yaml.MappingNode:
		return []Value{v}, nil
	default:
		return nil, v.Errorf("expected a value or a list, found %s", v.describe())
	}
}

// IsMapping reports whether the value holds keys and values.
func (v Value) IsMapping() bool { return v.node.Kind == yaml.MappingNode }

// Has reports whether the value is a mapping with the key.
func (v Value) Has(key string) bool {
	_, ok := v.child(key)
	return ok
}

// Key is the value of a mapping's key, or the mapping itself if it has no such key.
func (v Value) Key(key string) Value {
	child, _ := v.child(key)
	return child
}

func (v Value) child(key string) (Value, bool) {
	for i := 0; v.IsMapping() && i+1 < len(v.node.Content); i += 2 {
		if v.node.Content[i].Value == key {
			return Value{v.file, join(v.key, key), v.node.Content[i+1]}, true
		}
	}
	return v, false
}

// Text reads a string.
func (v Value) Text() (string, error) {
	if v.node.Kind != yaml.ScalarNode || v.node.Tag == "!!null" {
		return "", v.Errorf("expected a text, found %s", v.describe())
	}
	return v.node.Value, nil
}

// Int reads a whole number in [low, high].
func (v Value) Int(low, high int) (int, error) {
	n, err := strconv.Atoi(v.scalar())
	if err != nil || n < low || n > high {
		return 0, v.Errorf("%s: expected a whole number from %d to %d", v.describe(), low, high)
	}
	return n, nil
}

// Size reads a count with an optional binary suffix k or m, as iperf3's -l takes it.
func (v Value) Size(low, high int) (int, error) {
	n, err := scaled(v.scalar(), map[string]float64{"k": 1 << 10, "m": 1 << 20})
	if err != nil || n != float64(int(n)) || int(n) < low || int(n) > high {
		return 0, v.Errorf("%s: expected a size in bytes from %d to %d, such as 64 or 16k", v.describe(), low, high)
	}
	return int(n), nil
}

// Rate reads a number above 0 with an optional decimal suffix k, M or G, as iperf3's -b takes it.
func (v Value) Rate(high float64) (float64, error) {
	n, err := scaled(v.scalar(), map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9})
	if err != nil || !(n > 0) || n > high {
		return 0, v.Errorf("%s: expected a rate above 0 and at most %g, such as 200M", v.describe(), high)
	}
	return n, nil
}

func scaled(text string, suffixes map[string]float64) (float64, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	factor := 1.0
	for suffix, f := range suffixes {
		if cut, ok := strings.CutSuffix(lower, suffix); ok {
			lower, factor = cut, f
		}
	}
	n, err := strconv.ParseFloat(lower, 64)
	return n * factor, err
}

// Duration reads a time such as 500ms, 2s or 5m, in [low, high].
func (v Value) Duration(low, high time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v.scalar())
	if err != nil || d < low || d > high {
		return 0, v.Errorf("%s: expected a duration from %v to %v", v.describe(), low, high)
	}
	return d, nil
}

// Percent reads "5%" as 0.05, in (0, 1].
func (v Value) Percent() (float64, error) {
	text, ok := strings.CutSuffix(v.scalar(), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if !ok || err != nil || !(n > 0) || n > 100 {
		return 0, v.Errorf("%s: expected a share above 0%% and at most 100%%, such as 5%%", v.describe())
	}
	return n / 100, nil
}

// Number reads a finite number.
func (v Value) Number() (float64, error) {
	n, err := strconv.ParseFloat(v.scalar(), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, v.Errorf("%s: expected a number", v.describe())
	}
	return n, nil
}

// Bool reads true or false.
func (v Value) Bool() (bool, error) {
	s := v.scalar()
	if s != "true" && s != "false" {
		return false, v.Errorf("%s: expected true or false", v.describe())
	}
	return s == "true", nil
}

func (v Value) scalar() string {
	if v.node.Kind != yaml.ScalarNode {
		return ""
	}
	return strings.TrimSpace(v.node.Value)
}

func (v Value) describe() string {
	switch v.node.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which is not supported"
	default:
		if v.node.Tag == "!!null" {
			return "nothing"
		}
		const most = 60
		text := v.node.Value
		if len(text) > most {
			text = text[:most] + "..."
		}
		return strconv.Quote(text)
	}
}

// Write writes a value as YAML by its tags.
func Write(w io.Writer, x any) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(x); err != nil {
		return err
	}
	return enc.Close()
}
