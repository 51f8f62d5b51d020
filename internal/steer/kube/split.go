package kube

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/util/json"
)

// What an API server writes of a node is for the most part who has written which field, and pods that are as
// they were. So its JSON is parted, and those parts alone are decoded that are new.

// errKind says that JSON is of another kind than is expected there.
var errKind = errors.New("JSON of another kind than expected")

// cursor is a place in JSON.
type cursor struct{ *jsontext.Decoder }

func newCursor(from io.Reader) cursor {
	return cursor{jsontext.NewDecoder(from, jsontext.AllowInvalidUTF8(true))}
}

func cursorOf(b []byte) cursor { return newCursor(bytes.NewBuffer(b)) }

// keep is the value that comes next, also once more is read: what ReadValue returns is good until then.
func (c cursor) keep() ([]byte, error) {
	value, err := c.ReadValue()
	return bytes.Clone(value), err
}

// into decodes the value that comes next.
func (c cursor) into(to any) error {
	value, err := c.ReadValue()
	if err == nil {
		err = json.Unmarshal(value, to)
	}
	return err
}

// each has what is between two brackets be taken, one after the other.
func (c cursor) each(open jsontext.Kind, take func() error) error {
	if t, err := c.ReadToken(); err != nil {
		return err
	} else if t.Kind() != open {
		return errKind
	}
	for {
		switch c.PeekKind() {
		case '}', ']', 0: // 0 is an error, which reading tells
			_, err := c.ReadToken()
			return err
		}
		if err := take(); err != nil {
			return err
		}
	}
}

// members has the value of each member of an object be taken.
func (c cursor) members(take func(key string) error) error {
	return c.each('{', func() error {
		key, err := c.ReadToken()
		if err != nil {
			return err
		}
		return take(key.String())
	})
}

// elements has each element of a list be taken; null is an empty one.
func (c cursor) elements(take func() error) error {
	if c.PeekKind() == 'n' {
		return c.SkipValue()
	}
	return c.each('[', take)
}
