package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// subfield reads "NXM_NX_REG0[0..15]", "reg0[3]" or "reg0".
func (p *parser) subfield(s string) (Subfield, error) {
	name, in, bracket := strings.Cut(s, "[")
	f := p.Words.Field(strings.TrimSuffix(name, "_W"))
	if f == nil {
		return Subfield{}, fmt.Errorf("no field %q", clip(name))
	}
	out := Subfield{f, 0, f.Bits}
	if !bracket {
		return out, nil
	}
	in, ok := strings.CutSuffix(in, "]")
	if !ok {
		return out, fmt.Errorf("%s: expected [], [BIT] or [FIRST..LAST]", clip(s))
	}
	if in == "" {
		return out, nil
	}
	a, b, several := strings.Cut(in, "..")
	first, err := strconv.Atoi(a)
	last := first
	if err == nil && several {
		last, err = strconv.Atoi(b)
	}
	if err != nil || first < 0 || first > last || last >= f.Bits {
		return out, fmt.Errorf("%s: expected bits from 0 to %d", clip(s), f.Bits-1)
	}
	return Subfield{f, first, last - first + 1}, nil
}

// assignment reads kinds of the form "what->where".
func (p *parser) assignment(k Kind, v string) (a Action, err error) {
	a.Kind = k
	if k == WriteMeta {
		return p.writeMetadata(v)
	}
	from, to, ok := strings.Cut(v, "->")
	if !ok {
		return a, errors.New("expected an arrow (->) and where it goes")
	}
	from, to = strings.TrimSpace(from), strings.TrimSpace(to)
	if k == SetField {
		return p.setField(from, to)
	}
	if a.Dst, err = p.subfield(to); err != nil {
		return a, err
	}
	switch k {
	case Load:
		a.Value, err = number(from, a.Dst.Bits)
		a.Mask = ones(a.Dst.Bits)
	case CheckLarger:
		var n Value
		n, err = number(strings.TrimSuffix(from, ")"), 16)
		a.N = n.Lo
		if err == nil && a.Dst.Bits != 1 {
			err = errors.New("the answer goes into one bit")
		}
	case Move:
		a.Src, err = p.subfield(from)
		if err == nil && a.Src.Bits != a.Dst.Bits {
			err = fmt.Errorf("moves %d bits into %d", a.Src.Bits, a.Dst.Bits)
		}
	}
	return a, err
}

func (p *parser) writeMetadata(v string) (a Action, err error) {
	a.Kind = WriteMeta
	s, m, masked := strings.Cut(v, "/")
	a.Mask = ones(64)
	if masked {
		if a.Mask, err = number(m, 64); err != nil {
			return a, err
		}
	}
	a.Value, err = number(s, 64)
	f := p.Words.Field("metadata")
	a.Dst = Subfield{f, 0, 64}
	return a, err
}

func (p *parser) setField(from, to string) (a Action, err error) {
	a.Kind = SetField
	name := strings.TrimSuffix(to, "[]")
	f := p.Words.Field(name)
	if f == nil {
		return a, fmt.Errorf("no field %q", clip(to))
	}
	a.Dst = Subfield{f, 0, f.Bits}
	if f.Name == "vlan_vid" {
		from, m, masked := strings.Cut(from, "/")
		if a.Value, err = number(from, 13); err != nil {
			return a, err
		}
		a.Mask = ones(16)
		if masked {
			if a.Mask, err = number(m, 16); err != nil {
				return a, err
			}
		}
		return a, nil
	}
	a.Value, a.Mask, err = p.value(f, from)
	if !strings.Contains(from, "/") && a.Mask == ones(f.Bits) {
		a.Mask = f.stored()
	}
	return a, err
}
