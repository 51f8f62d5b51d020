package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// learn reads the action that adds flows. Table is where they go, Dst the bit that
// says whether one was added, if there is one.
func (p *parser) learn(v string) (Action, error) {
	a := Action{Kind: Learn, Table: 1, Learned: &Learned{Priority: DefaultPriority}}
	head := map[string]string{}
	var specs []string
	for _, w := range pairs(v) {
		if err := p.learnWord(&a, w, head, &specs); err != nil {
			return a, fmt.Errorf("%s: %w", clip(w.text), err)
		}
	}
	out := []string{"table=" + p.Names.FormatTable(a.Table)}
	for _, k := range []string{"idle_timeout", "hard_timeout", "fin_idle_timeout", "fin_hard_timeout", "priority",
		"send_flow_rem", "delete_learned", "cookie", "limit", "result_dst"} {
		if head[k] != "" {
			out = append(out, head[k])
		}
	}
	a.Learned.Model.Priority = a.Learned.Priority
	a.Text = "learn(" + strings.Join(append(out, specs...), ",") + ")"
	return a, nil
}

func (p *parser) learnWord(a *Action, w pair, head map[string]string, specs *[]string) (err error) {
	switch w.key {
	case "table":
		a.Table, err = p.Names.oneTable(w.value)
		return err
	case "idle_timeout", "hard_timeout", "fin_idle_timeout", "fin_hard_timeout", "priority", "limit":
		n, err := number(w.value, 32)
		if err != nil {
			return err
		}
		head[w.key] = fmt.Sprintf("%s=%d", w.key, n.Lo)
		a.Learned.set(w.key, int(n.Lo))
		if n.Lo == 0 && w.key != "priority" || w.key == "priority" && n.Lo == DefaultPriority {
			head[w.key] = ""
		}
		return nil
	case "cookie":
		n, err := number(w.value, 64)
		if err == nil && n.Lo != 0 {
			head["cookie"] = "cookie=" + n.hex()
		}
		a.Learned.Model.Cookie = n.Lo
		return err
	case "send_flow_rem", "delete_learned":
		if head[w.key] = w.key; w.key == "send_flow_rem" {
			a.Learned.Model.Flags = []string{w.key}
		}
		return nil
	case "result_dst":
		a.Dst, err = p.subfield(w.value)
		if err == nil {
			head[w.key] = "result_dst=" + a.Dst.text()
		}
		return err
	}
	s, err := p.learnSpec(a.Learned, w)
	*specs = append(*specs, s)
	return err
}

// set takes one number of a learn action.
func (l *Learned) set(key string, n int) {
	switch m := &l.Model; key {
	case "priority":
		l.Priority = n
	case "limit":
		l.Limit = n
	case "idle_timeout":
		m.IdleTimeout = n
	case "hard_timeout":
		m.HardTimeout = n
	case "fin_idle_timeout":
		l.FinIdle = n
	case "fin_hard_timeout":
		l.FinHard = n
	}
}

// learnSpec is what a learned flow matches, loads or outputs.
func (p *parser) learnSpec(l *Learned, w pair) (string, error) {
	switch w.key {
	case "output":
		f, err := p.subfield(w.value)
		l.Does, l.From = append(l.Does, LearnedAction{Output, f}), append(l.From, f)
		l.Specs = append(l.Specs, LearnSpec{Kind: Output, Src: f})
		return "output:" + f.orText(), err
	case "load":
		from, to, ok := strings.Cut(w.value, "->")
		if !ok {
			return "", errors.New("expected an arrow (->)")
		}
		dst, err := p.subfield(to)
		if err != nil {
			return "", err
		}
		l.Does = append(l.Does, LearnedAction{Load, dst})
		if src, err := p.subfield(from); err == nil {
			l.From = append(l.From, src)
			l.Specs = append(l.Specs, LearnSpec{Kind: Load, Src: src, Dst: dst})
			return "load:" + src.text() + "->" + dst.text(), nil
		}
		n, err := number(from, dst.Bits)
		l.Specs = append(l.Specs, LearnSpec{Kind: Load, Dst: dst, Value: n})
		return "load:" + n.hex() + "->" + dst.text(), err
	}
	dst, err := p.subfield(w.key)
	if err != nil {
		return "", err
	}
	l.Match = append(l.Match, dst)
	if w.value == "" {
		l.From = append(l.From, dst)
		l.Specs = append(l.Specs, LearnSpec{Src: dst, Dst: dst})
		return dst.text(), nil
	}
	if src, err := p.subfield(w.value); err == nil {
		l.From = append(l.From, src)
		l.Specs = append(l.Specs, LearnSpec{Src: src, Dst: dst})
		if src == dst {
			return dst.text(), nil
		}
		return dst.text() + "=" + src.text(), nil
	}
	if !dst.whole() {
		n, err := number(w.value, dst.Bits)
		l.want(dst, n, ones(dst.Bits))
		l.Specs = append(l.Specs, LearnSpec{Dst: dst, Value: n})
		return dst.text() + "=" + n.hex(), err
	}
	val, mask, err := p.value(dst.Field, w.value)
	if err != nil {
		return "", err
	}
	l.want(dst, val, mask)
	l.Specs = append(l.Specs, LearnSpec{Dst: dst, Value: val})
	var b printer
	b.Pipeline = p.Pipeline
	b.fieldValue(dst.Field, val, ones(128))
	return dst.Field.Name + "=" + b.String(), nil
}

// want notes a value that learned flows match.
func (l *Learned) want(s Subfield, v, mask Value) {
	mask = mask.Left(s.Shift()).And(s.Mask())
	if s.Field.Base != VLAN && l.Wants.Get(s.Field.Base).Mask.And(mask).IsZero() {
		l.Wants = l.Wants.With(s.Field.Base, v.Left(s.Shift()).And(mask), mask)
	}
}

// text is how Open vSwitch writes the bits.
func (s Subfield) text() string {
	switch {
	case s.whole():
		return s.Field.Header + "[]"
	case s.Bits == 1:
		return s.Field.Header + "[" + strconv.Itoa(s.Start) + "]"
	}
	return fmt.Sprintf("%s[%d..%d]", s.Field.Header, s.Start, s.Start+s.Bits-1)
}

func (s Subfield) orText() string {
	if s.Field == nil {
		return ""
	}
	return s.text()
}
