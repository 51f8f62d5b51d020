package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// nesting is how deep actions may be in each other, as in Open vSwitch.
const nesting = 64

var errDeep = errors.New("actions are nested too deeply")

// actions reads a list; what is not understood stays as Unknown and is noted.
func (p *parser) actions(s string, depth int) []Action {
	if depth > nesting {
		p.note(s, errDeep)
		return []Action{{Kind: Unknown, Text: s}}
	}
	var out []Action
	for {
		w, rest, ok := next(s)
		if !ok {
			return out
		}
		s = rest
		if strings.EqualFold(w.key, "drop") {
			continue
		}
		a, err := p.action(w, depth)
		if err != nil {
			p.note(w.text, err)
			a = Action{Kind: Unknown, Text: w.text}
		}
		out = append(out, a)
	}
}

// action reads one.
func (p *parser) action(w pair, depth int) (Action, error) {
	key, v := strings.ToLower(w.key), w.value
	if kind, bits, ok := plainNumber(key); ok {
		n, err := number(v, bits)
		a := Action{Kind: kind, N: n.Lo}
		if kind == "mod_nw_ecn" || kind == "mod_nw_ttl" {
			f := p.Words.Field(strings.TrimPrefix(string(kind), "mod_"))
			a.Dst = Subfield{f, 0, f.Bits}
		}
		return a, err
	}
	switch Kind(key) {
	case PopVLAN, StripVLAN, PopQueue, Exit, ClearActions, CTClear, DecMPLSTTL, "dec_nsh_ttl",
		"debug_recirc", "debug_slow":
		return Action{Kind: Kind(key)}, nil
	case Clone, WriteActions:
		return Action{Kind: Kind(key), Nested: p.actions(v, depth+1)}, nil
	case Output, "output_reg":
		return p.output(v)
	case Controller:
		return p.controller(v)
	case Enqueue:
		return p.enqueue(v)
	case Resubmit:
		return p.resubmit(v)
	case Goto:
		t, err := p.Names.oneTable(v)
		return Action{Kind: Goto, Table: t}, err
	case CT:
		return p.ct(v, depth)
	case NAT:
		text, err := natText(v)
		return Action{Kind: NAT, Text: text}, err
	case Load, SetField, Move, CheckLarger, WriteMeta:
		return p.assignment(Kind(key), v)
	case Push, Pop:
		f, err := p.subfield(v)
		return Action{Kind: Kind(key), Dst: f}, err
	case DeleteField:
		f := p.Words.Field(v)
		if f == nil {
			return Action{}, fmt.Errorf("no field %q", clip(v))
		}
		return Action{Kind: DeleteField, Dst: Subfield{f, 0, f.Bits}}, nil
	case "mod_dl_src", "mod_dl_dst", "mod_nw_src", "mod_nw_dst":
		return modAddress(Kind(key), v)
	}
	if a, ok, err := p.other(Kind(key), v); ok {
		if a.Kind == DecTTL && strings.HasSuffix(w.text, "()") { // as a switch prints one that tells no controller
			a.Text += "()"
		}
		return a, err
	}
	port, err := p.Names.knownPort(w.key)
	if err != nil || w.value != "" {
		return Action{}, errors.New("no such action")
	}
	if port == PortController {
		return Action{Kind: Controller, N: 0xffff}, nil
	}
	return Action{Kind: Output, Port: port}, nil
}

// plainNumber is the actions whose argument is one number, and its bits.
func plainNumber(key string) (Kind, int, bool) {
	switch key {
	case "group", "set_queue", "meter":
		return Kind(key), 32, true
	case "mod_vlan_vid", "set_vlan_vid":
		return Kind(key), 12, true
	case "mod_vlan_pcp", "set_vlan_pcp", "set_mpls_tc":
		return Kind(key), 3, true
	case "push_vlan", "push_mpls", "pop_mpls", "mod_tp_src", "mod_tp_dst":
		return Kind(key), 16, true
	case "mod_nw_tos", "mod_nw_ttl", "set_mpls_ttl":
		return Kind(key), 8, true
	case "set_nw_ttl":
		return "mod_nw_ttl", 8, true
	case "mod_nw_ecn":
		return Kind(key), 2, true
	case "set_mpls_label":
		return Kind(key), 20, true
	case "set_tunnel", "set_tunnel64":
		return Kind(key), 64, true
	}
	return "", 0, false
}

func modAddress(k Kind, v string) (Action, error) {
	read := mac
	if strings.Contains(string(k), "nw") {
		read = func(s string) (Value, error) { return ip(s, 32) }
	}
	x, err := read(v)
	return Action{Kind: k, N: x.Lo}, err
}

func (p *parser) output(v string) (Action, error) {
	if strings.Contains(v, "port") && strings.Contains(v, "max_len") {
		a := Action{Kind: OutputTrunc}
		for _, w := range pairs(v) {
			var err error
			switch w.key {
			case "port":
				a.Port, err = p.Names.port(w.value)
			case "max_len":
				var n Value
				n, err = number(w.value, 32)
				a.N = n.Lo
			default:
				err = fmt.Errorf("%s: expected port or max_len", clip(w.key))
			}
			if err != nil {
				return a, err
			}
		}
		return a, nil
	}
	port, err := p.Names.knownPort(v)
	if err != nil {
		if f, err := p.subfield(v); err == nil {
			return Action{Kind: Output, Src: f, Port: PortNone}, nil
		}
		port, err = p.Names.port(v)
	}
	if port == PortController {
		return Action{Kind: Controller, N: 0xffff}, err
	}
	return Action{Kind: Output, Port: port}, err
}

// controller keeps what is not the default as text.
func (p *parser) controller(v string) (Action, error) {
	a := Action{Kind: Controller, N: 0xffff}
	if v == "" {
		return a, nil
	}
	if n, err := strconv.ParseUint(v, 10, 16); err == nil {
		a.N = n
		return a, nil
	}
	parts := map[string]string{}
	plain := true
	for _, w := range pairs(v) {
		switch w.key {
		case "max_len", "id", "meter_id":
			n, err := number(w.value, 32)
			if err != nil {
				return a, fmt.Errorf("%s: %w", w.key, err)
			}
			if w.key == "max_len" {
				a.N = n.Lo
			}
			if w.key != "id" || n.Lo != 0 {
				parts[w.key] = fmt.Sprintf("%s=%d", w.key, n.Lo)
			}
			plain = plain && (w.key == "max_len" || w.key == "id" && n.Lo == 0)
		case "reason":
			if w.value != "action" {
				parts["reason"], plain = "reason="+w.value, false
			}
		case "userdata":
			hex, err := dotted(w.value)
			if err != nil {
				return a, err
			}
			if hex != "" {
				parts["userdata"], plain = "userdata="+hex, false
			}
		case "pause":
			parts["pause"], plain = "pause", false
		default:
			return a, fmt.Errorf("%s: expected reason, max_len, id, userdata, pause or meter_id", clip(w.key))
		}
	}
	if plain {
		return a, nil
	}
	if a.N == 0xffff {
		delete(parts, "max_len")
	}
	var out []string
	for _, k := range []string{"reason", "max_len", "id", "userdata", "pause", "meter_id"} {
		if parts[k] != "" {
			out = append(out, parts[k])
		}
	}
	a.Text = "controller(" + strings.Join(out, ",") + ")"
	return a, nil
}

// dotted reads bytes in hexadecimal with or without dots and writes them with dots.
func dotted(s string) (string, error) {
	var digits []byte
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.' || c == ' ':
		case strings.IndexByte("0123456789abcdefABCDEF", c) >= 0:
			digits = append(digits, c)
		default:
			return "", errors.New("expected bytes in hexadecimal")
		}
	}
	if len(digits)%2 != 0 {
		return "", errors.New("expected two digits for each byte")
	}
	var out []string
	for i := 0; i < len(digits); i += 2 {
		out = append(out, strings.ToLower(string(digits[i:i+2])))
	}
	return strings.Join(out, "."), nil
}

func (p *parser) enqueue(v string) (Action, error) {
	port, queue, ok := strings.Cut(v, ":")
	if !ok {
		port, queue, ok = strings.Cut(v, ",")
	}
	if !ok {
		port, queue, ok = strings.Cut(v, "q")
	}
	if !ok {
		return Action{}, errors.New("expected enqueue:PORT:QUEUE")
	}
	pt, err := p.Names.port(strings.TrimSpace(port))
	if err != nil {
		return Action{}, err
	}
	n, err := number(strings.TrimPrefix(strings.TrimSpace(queue), "q"), 32)
	return Action{Kind: Enqueue, Port: pt, N: n.Lo}, err
}

func (p *parser) resubmit(v string) (a Action, err error) {
	a = Action{Kind: Resubmit, Port: PortIn, Table: NoTable}
	parts := strings.Split(v, ",")
	if s := strings.TrimSpace(parts[0]); s != "" {
		if a.Port, err = p.Names.port(s); err != nil {
			return a, err
		}
	}
	if len(parts) > 1 && strings.TrimSpace(parts[1]) != "" {
		if a.Table, err = p.Names.table(strings.TrimSpace(parts[1])); err != nil {
			return a, err
		}
	}
	if len(parts) > 2 {
		if strings.TrimSpace(parts[2]) != "ct" || len(parts) > 3 {
			return a, errors.New("expected resubmit(PORT,TABLE,ct)")
		}
		a.Original = true
	}
	if a.Port == PortIn && a.Table == NoTable {
		return a, errors.New("names neither a port nor a table")
	}
	return a, nil
}
