package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Section is what a reader is told of the keys of one struct.
type Section struct {
	// Path is the key that holds it, such as "workloads.load"; "" for the file itself.
	Path string
	Keys []Key
}

// Key is what a reader is told of one key.
type Key struct {
	Name string
	// Type is a value in words; "" where it has keys alone. Of is the path of the section
	// with its keys.
	Type, Of string
	// Many: a list of them does too.
	Many bool
	// Unit of a number; Default holds where the key is not there.
	Unit, Default string
	Needed        bool
	Meaning       string
}

// Keys tells of the keys that the Reader reads into a struct, a section for each struct in
// it. Defaults is as Schema has it.
func (r Reader) Keys(defaults any) ([]Section, error) {
	l := lister{Reader: r, paths: map[string]string{}}
	l.section(reflect.ValueOf(defaults), nil, "")
	return l.out, l.err
}

// lister lists structs once each; paths says where.
type lister struct {
	Reader
	paths map[string]string
	out   []Section
	err   error
}

func (l *lister) section(v reflect.Value, without []string, path string) {
	at := len(l.out)
	l.out = append(l.out, Section{Path: path})
	var keys []Key
	for _, f := range fields(v.Type(), without) {
		child := v.FieldByIndex(f.index)
		k := l.typed(child, f, strings.TrimPrefix(path+"."+f.key, "."))
		k.Name, k.Needed, k.Meaning, k.Default = f.key, f.needed, f.doc, f.preset
		text, _, err := written(child)
		if l.err = errors.Join(l.err, err); text != "" {
			k.Default = "`" + text + "`"
		}
		if f.unit != "" {
			k.Unit = f.unit
		}
		keys = append(keys, k)
	}
	l.out[at].Keys = keys
}

// typed is a key as far as its type says what it is.
func (l *lister) typed(v reflect.Value, f field, path string) Key {
	if k, ok := l.kind(v.Type(), f.is); ok {
		return Key{Type: k.Says, Unit: k.Unit}
	}
	if kind := v.Kind(); kind == reflect.Pointer || kind == reflect.Slice {
		k := l.typed(reflect.Zero(v.Type().Elem()), f, path)
		k.Many = kind == reflect.Slice
		return k
	}
	name := fmt.Sprint(v.Type(), f.without)
	if l.paths[name] == "" {
		l.paths[name] = path
		l.section(v, f.without, path)
	}
	k := Key{Of: l.paths[name]}
	all := fields(v.Type(), f.without)
	if i := slices.IndexFunc(all, func(f field) bool { return f.alone }); i >= 0 {
		alone := l.typed(v.FieldByIndex(all[i].index), all[i], path)
		k.Type, k.Unit = alone.Type, alone.Unit
	}
	return k
}

// Says is what may be written as the key's value; of shows where its keys are.
func (k Key) Says(of func(path string) string) string {
	var all []string
	if k.Type != "" {
		all = append(all, k.Type)
	}
	if k.Of != "" {
		all = append(all, "keys of "+of(k.Of))
	}
	out := strings.Join(all, ", or ")
	if k.Many {
		out += "; or a list"
	}
	return out
}

// Markdown writes sections as tables with links between them, below a heading for the file.
func Markdown(w io.Writer, title string, sections []Section) error {
	var b strings.Builder
	link := func(path string) string { return "[" + path + "](#" + strings.ReplaceAll(path, ".", "") + ")" }
	for _, s := range sections {
		if s.Path == "" {
			fmt.Fprintf(&b, "## %s\n", title)
		} else {
			fmt.Fprintf(&b, "\n### %s\n", s.Path)
		}
		b.WriteString("\n| key | value | unit | default | meaning |\n|---|---|---|---|---|\n")
		for _, k := range s.Keys {
			preset := k.Default
			if k.Needed {
				preset = "**required**"
			}
			cells := []string{"`" + k.Name + "`", k.Says(link), k.Unit, preset, k.Meaning}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	_, err := io.WriteString(w, regexp.MustCompile(` +\|`).ReplaceAllString(b.String(), " |"))
	return err
}
