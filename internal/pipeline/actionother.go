package pipeline

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// other reads the kinds that are written much as they are read.
func (p *parser) other(k Kind, v string) (a Action, ok bool, err error) {
	a = Action{Kind: k}
	switch k {
	case DecTTL:
		a.Text, err = decTTL(v)
	case Conjunction:
		a, err = conjunction(v)
	case NoteAction:
		a.Text, err = noteText(v)
	case FinTimeout:
		a.Text, err = ordered("fin_timeout", v, "idle_timeout", "hard_timeout")
	case Sample:
		a.Text, err = p.sample(v)
	case Multipath:
		a, err = p.multipath(v)
	case Bundle, BundleLoad:
		a, err = p.bundle(k, v)
	case Learn:
		a, err = p.learn(v)
	case Encap:
		a.Text, err = "encap("+v+")", balanced(v)
	case Decap:
		a.Text, err = "decap("+v+")", balanced(v)
	default:
		return a, false, nil
	}
	return a, true, err
}

func balanced(v string) error {
	if strings.Count(v, "(") != strings.Count(v, ")") {
		return errors.New("a parenthesis is missing")
	}
	return nil
}

func decTTL(v string) (string, error) {
	if v == "" {
		return "dec_ttl", nil
	}
	var ids []string
	for _, s := range strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := number(s, 16)
		if err != nil {
			return "", err
		}
		ids = append(ids, strconv.FormatUint(n.Lo, 10))
	}
	return "dec_ttl(" + strings.Join(ids, ",") + ")", nil
}

func conjunction(v string) (Action, error) {
	a := Action{Kind: Conjunction}
	id, of, ok := strings.Cut(v, ",")
	i, n, ok2 := strings.Cut(of, "/")
	if !ok || !ok2 {
		return a, errors.New("expected conjunction(ID,K/N)")
	}
	x, err := number(id, 32)
	if err != nil {
		return a, err
	}
	a.N = x.Lo
	if a.Clause, err = strconv.Atoi(strings.TrimSpace(i)); err != nil {
		return a, err
	}
	if a.Clauses, err = strconv.Atoi(strings.TrimSpace(n)); err != nil {
		return a, err
	}
	if a.Clauses < 2 || a.Clauses > 64 || a.Clause < 1 || a.Clause > a.Clauses {
		return a, errors.New("expected K/N with K from 1 to N, and N from 2 to 64")
	}
	return a, nil
}

// noteText pads the bytes as the action's encoding does.
func noteText(v string) (string, error) {
	s, err := dotted(v)
	if err != nil {
		return "", err
	}
	n := (len(s) + 1) / 3
	for ; n == 0 || (n+10)%8 != 0; n++ {
		if s != "" {
			s += "."
		}
		s += "00"
	}
	return "note:" + s, nil
}

// ordered writes numbers by key in the order of the keys, without those that are 0.
func ordered(name, v string, keys ...string) (string, error) {
	got := map[string]uint64{}
	for _, w := range pairs(v) {
		n, err := number(w.value, 32)
		if err != nil {
			return "", fmt.Errorf("%s: %w", clip(w.key), err)
		}
		got[w.key] = n.Lo
	}
	var out []string
	for _, k := range keys {
		if n := got[k]; n != 0 {
			out = append(out, fmt.Sprintf("%s=%d", k, n))
		}
		delete(got, k)
	}
	for k := range got {
		return "", fmt.Errorf("%s: expected some of %s", clip(k), strings.Join(keys, ", "))
	}
	return name + "(" + strings.Join(out, ",") + ")", nil
}

func (p *parser) sample(v string) (string, error) {
	got := map[string]uint64{}
	tail, side := "", ""
	for _, w := range pairs(v) {
		switch w.key {
		case "ingress", "egress":
			side = "," + w.key
		case "sampling_port":
			port, err := p.Names.port(w.value)
			if err != nil {
				return "", err
			}
			tail = ",sampling_port=" + p.Names.FormatPort(port)
		case "probability", "collector_set_id", "obs_domain_id", "obs_point_id":
			n, err := number(w.value, 32)
			if err != nil {
				return "", fmt.Errorf("%s: %w", w.key, err)
			}
			got[w.key] = n.Lo
		default:
			return "", fmt.Errorf("%s: no such key", clip(w.key))
		}
	}
	return fmt.Sprintf("sample(probability=%d,collector_set_id=%d,obs_domain_id=%d,obs_point_id=%d%s%s)", got["probability"],
		got["collector_set_id"], got["obs_domain_id"], got["obs_point_id"], tail, side), nil
}

func listed(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(", []", r) && r != '[' && r != ']' })
}

func (p *parser) multipath(v string) (Action, error) {
	a := Action{Kind: Multipath}
	parts := listed(v)
	if len(parts) != 6 {
		return a, errors.New("expected multipath(FIELDS, BASIS, ALGORITHM, LINKS, ARGUMENT, FIELD)")
	}
	var err error
	if a.Dst, err = p.subfield(parts[5]); err != nil {
		return a, err
	}
	nums := [3]uint64{}
	for i, at := range []int{1, 3, 4} {
		n, err := number(parts[at], 32)
		if err != nil {
			return a, err
		}
		nums[i] = n.Lo
	}
	a.N = nums[1]
	a.Text = fmt.Sprintf("multipath(%s,%d,%s,%d,%d,%s)", strings.ToLower(parts[0]), nums[0], strings.ToLower(parts[2]),
		nums[1], nums[2], a.Dst.text())
	return a, nil
}

func (p *parser) bundle(k Kind, v string) (Action, error) {
	a := Action{Kind: k}
	head, members, ok := cutAny(v, "members", "slaves")
	if !ok {
		return a, errors.New("expected members")
	}
	parts := listed(head)
	want := map[Kind]int{Bundle: 4, BundleLoad: 5}[k]
	if len(parts) != want {
		return a, fmt.Errorf("expected %d arguments before the members", want)
	}
	basis, err := number(parts[1], 16)
	if err != nil {
		return a, err
	}
	a.Text = fmt.Sprintf("%s(%s,%d,%s,ofport,", k, strings.ToLower(parts[0]), basis.Lo, strings.ToLower(parts[2]))
	if k == BundleLoad {
		if a.Dst, err = p.subfield(parts[4]); err != nil {
			return a, err
		}
		a.Text += a.Dst.text() + ","
	}
	var names []string
	for _, s := range strings.FieldsFunc(members, func(r rune) bool { return strings.ContainsRune(":, []", r) }) {
		port, err := p.Names.port(s)
		if err != nil {
			return a, err
		}
		a.Ports = append(a.Ports, port)
		names = append(names, p.Names.FormatPort(port))
	}
	a.Text += "members:" + strings.Join(names, ",") + ")"
	return a, nil
}

func cutAny(s string, seps ...string) (before, after string, ok bool) {
	for _, sep := range seps {
		if before, after, ok = strings.Cut(s, sep); ok {
			return before, after, true
		}
	}
	return s, "", false
}

func (p *parser) ct(v string, depth int) (Action, error) {
	a := Action{Kind: CT, Track: &Track{Table: NoTable}}
	t := a.Track
	for _, w := range pairs(v) {
		var err error
		switch w.key {
		case "commit":
			t.Commit = true
		case "force":
			t.Force = true
		case "table":
			t.Table, err = p.Names.oneTable(w.value)
		case "zone":
			var n Value
			if n, err = number(w.value, 16); err == nil {
				t.Zone = uint16(n.Lo)
			} else {
				t.From, err = p.subfield(w.value)
			}
		case "alg":
			t.ALG = w.value
		case "nat":
			t.NAT, err = natText(w.value)
		case "exec":
			a.Nested = p.actions(w.value, depth+1)
		default:
			err = errors.New("no such argument of ct")
		}
		if err != nil {
			return a, fmt.Errorf("%s: %w", clip(w.key), err)
		}
	}
	if t.Force && !t.Commit {
		return a, errors.New("force goes with commit only")
	}
	return a, nil
}

// natText is the canonical text of nat(...).
func natText(v string) (string, error) {
	var side, addr string
	flags := map[string]bool{}
	for _, w := range pairs(v) {
		switch w.key {
		case "src", "dst":
			side = w.key
			if w.value != "" {
				r, err := natRange(w.value)
				if err != nil {
					return "", err
				}
				if addr = "=" + r; r == "0.0.0.0" {
					addr = "" // Open vSwitch cannot tell it from none
				}
			}
		case "persistent", "hash", "random":
			flags[w.key] = true
		default:
			return "", fmt.Errorf("%s: expected src, dst, persistent, hash or random", clip(w.key))
		}
	}
	if side == "" {
		if len(flags) > 0 {
			return "", errors.New("persistent, hash and random go with src or dst only")
		}
		return "nat", nil
	}
	out := "nat(" + side + addr
	for _, f := range []string{"persistent", "hash", "random"} {
		if flags[f] && addr != "" {
			out += "," + f
		}
	}
	return out + ")", nil
}

// natRange reads "10.0.0.1-10.0.0.9:80-90", or addresses of IPv6, in brackets with ports.
func natRange(s string) (string, error) {
	addrs, ports := s, ""
	if i := strings.LastIndexByte(s, ']'); i >= 0 {
		addrs = s[:i+1]
		ports, _ = strings.CutPrefix(s[i+1:], ":")
	} else if strings.Count(s, ":") == 1 {
		addrs, ports, _ = strings.Cut(s, ":")
	}
	first, last, several := strings.Cut(addrs, "-")
	min, err := netip.ParseAddr(strings.Trim(first, "[]"))
	if err != nil {
		return "", fmt.Errorf("%s: not an address", clip(first))
	}
	max := min
	if several {
		if max, err = netip.ParseAddr(strings.Trim(last, "[]")); err != nil {
			return "", fmt.Errorf("%s: not an address", clip(last))
		}
	}
	show := func(a netip.Addr) string {
		if a.Is6() && ports != "" {
			return "[" + a.String() + "]"
		}
		return a.String()
	}
	out := show(min)
	if max != min {
		out += "-" + show(max)
	}
	if ports != "" {
		a, b, several := strings.Cut(ports, "-")
		if _, err := number(a, 16); err != nil {
			return "", fmt.Errorf("port %s: %w", clip(a), err)
		}
		out += ":" + a
		if several && b != a {
			if _, err := number(b, 16); err != nil {
				return "", fmt.Errorf("port %s: %w", clip(b), err)
			}
			out += "-" + b
		}
	}
	return out, nil
}
