package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// Names are those of a bridge's ports and tables. Names that the input uses without
// saying their numbers get numbers that no switch has.
type Names struct {
	ports     map[string]Port
	tables    map[string]Table
	portName  map[Port]string
	tableName map[Table]string
	bridges   []string
}

// NewNames knows none.
func NewNames() *Names {
	return &Names{map[string]Port{}, map[string]Table{}, map[Port]string{}, map[Table]string{}, nil}
}

// Port tells the number of a port's name.
func (n *Names) Port(name string, p Port) { n.ports[name] = p }

// Table tells the number of a table's name.
func (n *Names) Table(name string, t Table) { n.tables[name] = t }

// reservedPort is a port that is no place of a switch, by its name.
type reservedPort struct {
	name string
	port Port
}

// reservedPorts lists them, as ovs-ofctl writes them; of two names for one port the first
// is written. It is a function, as nothing may change them.
func reservedPorts() [10]reservedPort {
	return [...]reservedPort{{"IN_PORT", PortIn}, {"TABLE", PortTable}, {"NORMAL", PortNormal}, {"FLOOD", PortFlood},
		{"ALL", PortAll}, {"CONTROLLER", PortController}, {"LOCAL", PortLocal}, {"ANY", PortNone}, {"NONE", PortNone},
		{"UNSET", PortUnset}}
}

// reserved is the port of that name, in letters of either case.
func reserved(name string) (Port, bool) {
	for _, r := range reservedPorts() {
		if strings.EqualFold(r.name, name) {
			return r.port, true
		}
	}
	return 0, false
}

// numbered is the number of a name. One that is not known gets first, or the next after it.
func numbered[N ~int | ~uint32](s string, known map[string]N, names map[N]string, first N) (N, error) {
	name, err := unquote(s)
	if err != nil {
		return 0, err
	}
	n, ok := known[name]
	if !ok {
		n = first + N(len(known))
		known[name], names[n] = n, name
	}
	return n, nil
}

// port reads a number or a name.
func (n *Names) port(s string) (Port, error) {
	if v, err := strconv.ParseUint(s, 0, 32); err == nil {
		switch {
		case v < 0x10000:
			return Port(v), nil
		case v >= 0xffffff00: // OpenFlow 1.1 and later
			return Port(v & 0xffff), nil
		}
		return 0, fmt.Errorf("port %s is out of range", s)
	}
	if p, ok := reserved(s); ok {
		return p, nil
	}
	return numbered(s, n.ports, n.portName, unnumbered)
}

// ReadPort reads a number or a name.
func (n *Names) ReadPort(s string) (Port, error) { return n.port(s) }

// table reads a number or a name.
func (n *Names) table(s string) (Table, error) {
	if v, err := strconv.ParseUint(s, 0, 8); err == nil {
		return Table(v), nil
	} else if _, err := strconv.Atoi(s); err == nil {
		return 0, fmt.Errorf("table %s is out of range", s)
	}
	return numbered(s, n.tables, n.tableName, Unnumbered)
}

// oneTable is a table that actions lead to by its name or number, of which 255 is none.
func (n *Names) oneTable(s string) (Table, error) {
	t, err := n.table(s)
	if err == nil && t == NoTable {
		err = fmt.Errorf("%s is no table", clip(s))
	}
	return t, err
}

// unquote takes a name as it is, or in double quotes.
func unquote(s string) (string, error) {
	if strings.HasPrefix(s, `"`) {
		out, err := strconv.Unquote(s)
		if err != nil {
			return "", fmt.Errorf("%s: no end of the quoted name", clip(s))
		}
		s = out
	}
	if s == "" || strings.ContainsAny(s, "\x00\n\r") {
		return "", fmt.Errorf("%q is no name", clip(s))
	}
	return s, nil
}

// FormatPort is how ovs-ofctl writes the port.
func (n *Names) FormatPort(p Port) string {
	p = p.own()
	for _, r := range reservedPorts() {
		if r.port == p {
			return r.name
		}
	}
	if s, ok := n.portName[p]; ok {
		return quote(s)
	}
	return strconv.FormatUint(uint64(p), 10)
}

// FormatTable is how ovs-ofctl writes the table.
func (n *Names) FormatTable(t Table) string {
	if b := t.bridge(); b > 0 {
		return n.bridge(b) + ":" + n.FormatTable(t.own())
	}
	if s, ok := n.tableName[t]; ok {
		return quote(s)
	}
	return strconv.Itoa(int(t))
}

// quote puts a name in double quotes unless it begins with a letter and holds only
// letters and digits.
func quote(s string) string {
	plain := s != ""
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			plain = false
		}
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// knownPort is a number, a reserved name or a name that was seen before: what an action may
// be that is only a port.
func (n *Names) knownPort(s string) (Port, error) {
	_, isReserved := reserved(s)
	_, isNamed := n.ports[s]
	if _, err := strconv.ParseUint(s, 0, 32); err != nil && !isReserved && !isNamed && !strings.HasPrefix(s, `"`) {
		return 0, fmt.Errorf("%s: no such port", clip(s))
	}
	return n.port(s)
}
