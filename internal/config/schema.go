package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

// Schema is what an editor is told of a value: a JSON Schema.
type Schema = jsonschema.Schema

// draft is the JSON Schema draft that the language servers of editors know best. In it what is
// next to a $ref is not checked: only words for a reader are.
const draft = "http://json-schema.org/draft-07/schema#"

// Describe has f add to what an editor is told of every T what its tags cannot say.
func Describe[T any](r *Reader, f func(*Schema)) {
	if r.described == nil {
		r.described = map[reflect.Type]func(*Schema){}
	}
	r.described[reflect.TypeFor[T]()] = f
}

// Schema tells an editor what the Reader reads into a struct. Defaults is such a struct with
// what holds for keys that are not there.
func (r Reader) Schema(title string, defaults any) (*Schema, error) {
	d := describer{r, map[string]*Schema{}}
	v := reflect.ValueOf(defaults)
	root := d.object(v.Type(), nil)
	for _, f := range fields(v.Type(), nil) {
		_, encoded, err := written(v.FieldByIndex(f.index))
		if err != nil {
			return nil, fmt.Errorf("describe default of %s: %w", f.key, err)
		}
		root.Properties[f.key].Default = encoded
	}
	root.Schema, root.Title, root.Definitions = draft, title, d.named
	return root, nil
}

// describer makes a schema. Structs are described once each, by name.
type describer struct {
	Reader
	named map[string]*Schema
}

// value describes a value of the type. A list is one value, or several.
func (d describer) value(t reflect.Type, f field) *Schema {
	if k, ok := d.kind(t, f.is); ok {
		return k.Schema.CloneSchemas()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.value(t.Elem(), f)
	case reflect.Slice:
		least := 1
		list := &Schema{Type: "array", Items: d.value(t.Elem(), f), MinItems: &least}
		list.UniqueItems = t.Elem().Kind() != reflect.Struct && t.Elem().Comparable() && !f.repeats
		return &Schema{AnyOf: []*Schema{d.value(t.Elem(), f), list}}
	}
	return d.reference(t, f.without)
}

// reference describes a struct by its name.
func (d describer) reference(t reflect.Type, without []string) *Schema {
	name := strings.Join(append([]string{strings.ToLower(t.Name())}, without...), "-without-")
	if d.named[name] == nil {
		d.named[name] = &Schema{} // taken, should the struct hold itself
		*d.named[name] = *d.whole(t, without)
	}
	return &Schema{Ref: "#/definitions/" + name}
}

// whole describes a struct, or the value of it that may be there alone.
func (d describer) whole(t reflect.Type, without []string) *Schema {
	all := fields(t, without)
	i := slices.IndexFunc(all, func(f field) bool { return f.alone })
	if i < 0 {
		return d.object(t, without)
	}
	return &Schema{AnyOf: []*Schema{d.value(all[i].of, all[i]), d.object(t, without)}}
}

func (d describer) object(t reflect.Type, without []string) *Schema {
	out := &Schema{Type: "object", Properties: map[string]*Schema{}, AdditionalProperties: Nothing()}
	for _, f := range fields(t, without) {
		s := d.value(f.of, f)
		s.Description = f.doc
		if f.preset != "" {
			s.Description += "; default: " + f.preset
		}
		out.Properties[f.key] = s
		out.PropertyOrder = append(out.PropertyOrder, f.key)
		if f.needed {
			out.Required = append(out.Required, f.key)
		}
	}
	if describe := d.described[t]; describe != nil {
		describe(out)
	}
	return out
}

// Nothing is what no value is.
func Nothing() *Schema { return &Schema{Not: &Schema{}} }

// OneOf is a text that is one of the words or fits the pattern, if there is one. With no words
// it is any text.
func OneOf(words []string, pattern string) *Schema {
	if len(words) == 0 || pattern == "" {
		return anyText(words...)
	}
	return orText(anyText(words...), pattern)
}

// Defaults tells by key what a struct of options holds.
func Defaults(options any) (map[string]string, error) {
	out := map[string]string{}
	v := reflect.ValueOf(options)
	for _, f := range fields(v.Type(), nil) {
		text, _, err := written(v.FieldByIndex(f.index))
		if err != nil {
			return nil, fmt.Errorf("tell default of %s: %w", f.key, err)
		}
		out[f.key] = text
	}
	return out, nil
}

// written is a value as a file has it, and the same as JSON; both are empty for a zero one.
func written(v reflect.Value) (text string, encoded []byte, err error) {
	if v.IsZero() {
		return "", nil, nil
	}
	if x, ok := v.Interface().(float64); ok {
		text := strconv.FormatFloat(x, 'f', -1, 64)
		return text, []byte(text), nil
	}
	var node yaml.Node
	if err := node.Encode(v.Interface()); err != nil {
		return "", nil, err
	}
	if node.Kind == yaml.SequenceNode && len(node.Content) == 1 {
		node = *node.Content[0]
	}
	node.Style = yaml.FlowStyle
	raw, err := yaml.Marshal(&node)
	if err != nil {
		return "", nil, err
	}
	var plain any
	if err := node.Decode(&plain); err != nil {
		return "", nil, err
	}
	encoded, err = json.Marshal(plain)
	return strings.TrimSpace(string(raw)), encoded, err
}
