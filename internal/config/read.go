package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reader reads a file's values into structs by their tags, which also say how the yaml
// package writes them, and what Schema and Keys tell of them:
//
//	yaml:"KEY"      the key; a struct that is ",inline" adds its own keys
//	is:"KIND"       one of Kinds, or a range such as 1..128 or 100ms..1h
//	key:"needed"    the key must be there
//	key:"alone"     a value without keys is this one
//	key:"repeats"   a list may hold a value twice
//	without:"KEY"   a key that the struct has elsewhere, and not here
//	doc:"TEXT"      what it means
//	unit:"TEXT"     what a number counts, where the kind does not say
//	default:"TEXT"  what holds without the key, where no value says; of a struct that is
//	                inline, of all its keys
//
// Keys are read in the order of the struct, so that a kind may look at what was read before
// it. A slice is read from a list, or from one value.
type Reader struct {
	Kinds map[string]Kind
	hooks map[reflect.Type]hook
	// described adds to the schemas of structs.
	described map[reflect.Type]func(*Schema)
}

type hook func(v Value, dst any, read func() error) error

// Around has f called for every T: it sets defaults, calls read, and checks what was read.
func Around[T any](r *Reader, f func(v Value, dst *T, read func() error) error) {
	if r.hooks == nil {
		r.hooks = map[reflect.Type]hook{}
	}
	r.hooks[reflect.TypeFor[T]()] = func(v Value, dst any, read func() error) error { return f(v, dst.(*T), read) }
}

// Read reads v into the struct that dst points to.
func (r Reader) Read(v Value, dst any) error { return r.value(v, reflect.ValueOf(dst).Elem(), field{}) }

// field is a key of a struct.
type field struct {
	key, is                string
	doc, unit, preset      string
	index                  []int
	needed, alone, repeats bool
	without                []string
	of                     reflect.Type
}

// fields lists the keys of a struct, those that are inline in their place.
func fields(t reflect.Type, without []string) (out []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if strings.Contains(options, "inline") {
			for _, inner := range fields(f.Type, without) {
				inner.index = append([]int{i}, inner.index...)
				inner.preset = cmp.Or(f.Tag.Get("default"), inner.preset)
				out = append(out, inner)
			}
			continue
		}
		if key == "" || key == "-" || slices.Contains(without, key) {
			continue
		}
		how := f.Tag.Get("key")
		out = append(out, field{key: key, is: f.Tag.Get("is"), doc: f.Tag.Get("doc"), index: []int{i},
			unit: f.Tag.Get("unit"), preset: f.Tag.Get("default"),
			needed: strings.Contains(how, "needed"), alone: strings.Contains(how, "alone"),
			repeats: strings.Contains(how, "repeats"), without: strings.Fields(f.Tag.Get("without")), of: f.Type})
	}
	return out
}

// kind is what a value of the type is; ok is false for a struct, a list or a pointer, which
// are read part by part.
func (r Reader) kind(t reflect.Type, is string) (k Kind, ok bool) {
	low, high, ranged := strings.Cut(is, "..")
	k, named := r.Kinds[is]
	switch {
	case named && (k.Whole || t.Kind() != reflect.Slice && t.Kind() != reflect.Pointer):
		return k, true
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer || t.Kind() == reflect.Struct:
		return k, false
	case ranged && t == reflect.TypeFor[time.Duration]():
		return Duration(must(time.ParseDuration(low)), must(time.ParseDuration(high))), true
	case ranged:
		return Int(must(strconv.Atoi(low)), must(strconv.Atoi(high))), true
	case t.Kind() == reflect.Bool:
		return Bool(), true
	case t.Kind() == reflect.Float64:
		return Number(), true
	case t.Kind() == reflect.String && is == "":
		return Text(), true
	}
	panic(fmt.Sprintf("no kind %q for %v", is, t))
}

// must is for what tags say, which no file changes.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func (r Reader) value(v Value, dst reflect.Value, f field) error {
	if k, ok := r.kind(dst.Type(), f.is); ok {
		x, err := k.Read(v)
		if err == nil {
			dst.Set(reflect.ValueOf(x).Convert(dst.Type()))
		}
		return v.Wrap(err)
	}
	switch dst.Kind() {
	case reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		return r.value(v, dst.Elem(), f)
	case reflect.Slice:
		return r.list(v, dst, f)
	}
	read := func() error { return r.keys(v, dst, f) }
	if h := r.hooks[dst.Type()]; h != nil {
		return h(v, dst.Addr().Interface(), read)
	}
	return read()
}

func (r Reader) list(v Value, dst reflect.Value, f field) error {
	items, err := v.Items()
	if err != nil {
		return err
	}
	dst.SetZero()
	for _, item := range items {
		x := reflect.New(dst.Type().Elem()).Elem()
		if err := r.value(item, x, f); err != nil {
			return err
		}
		for i := range dst.Len() {
			if x.Kind() != reflect.Struct && x.Comparable() && !f.repeats && x.Equal(dst.Index(i)) {
				return item.Errorf("%v is given twice", x)
			}
		}
		dst.Set(reflect.Append(dst, x))
	}
	return nil
}

// keys reads a mapping, or the value that may be there alone.
func (r Reader) keys(v Value, dst reflect.Value, f field) error {
	all := fields(dst.Type(), f.without)
	if i := slices.IndexFunc(all, func(f field) bool { return f.alone }); i >= 0 && !v.IsMapping() {
		return r.value(v, dst.FieldByIndex(all[i].index), all[i])
	}
	known, found := map[string]Field{}, map[string]Value{}
	for _, f := range all {
		known[f.key] = func(v Value) error { found[f.key] = v; return nil }
	}
	if err := v.Fields(known); err != nil {
		return err
	}
	for _, f := range all {
		if _, ok := found[f.key]; f.needed && !ok {
			return v.Need(f.key)
		}
	}
	for _, f := range all {
		if child, ok := found[f.key]; ok {
			if err := r.value(child, dst.FieldByIndex(f.index), f); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keys lists the keys of a struct that a Reader reads.
func Keys[T any]() (out []string) {
	for _, f := range fields(reflect.TypeFor[T](), nil) {
		out = append(out, f.key)
	}
	return out
}
