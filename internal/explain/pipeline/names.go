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
}

// NewNames knows none.
func NewNames() *Names {
	return &Names{map[string]Port{}, map[string]Table{}, map[Port]string{}, map[Table]string{}}
}

// Port tells the number of a port's name.
func (n *Names) Port(name string, p Port) { n.ports[name] = p }

// Table tells the number of a table's name.
func (n *Names) Table(name string, t Table) { n.tables[name] = t }

// reserved ports by their names; a function, as nothing may change them.
func reserved() map[string]Port {
	return map[string]Port{"in_port": PortIn, "table": PortTable, "normal": PortNormal, "flood": PortFlood, "all": PortAll,
		"controller": PortController, "local": PortLocal, "any": PortNone, "none": PortNone, "unset": PortUnset}
}

func (p Port) reserved() string {
	switch p {
	case PortIn:
		return "IN_PORT"
	case PortTable:
		return "TABLE"
	case PortNormal:
		return "NORMAL"
	case PortFlood:
		return "FLOOD"
	case PortAll:
		return "ALL"
	case PortController:
		return "CONTROLLER"
	case PortLocal:
		return "LOCAL"
	case PortNone:
		return "ANY"
	case PortUnset:
		return "UNSET"
	}
	return ""
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
	if p, ok := reserved()[strings.ToLower(s)]; ok {
		return p, nil
	}
	name, err := unquote(s)
	if err != nil {
		return 0, err
	}
	p, ok := n.ports[name]
	if !ok {
		p = unnumbered + Port(len(n.ports))
		n.ports[name] = p
		n.portName[p] = name
	}
	return p, nil
}

// table reads a number or a name.
func (n *Names) table(s string) (Table, error) {
	if v, err := strconv.ParseUint(s, 0, 8); err == nil {
		return Table(v), nil
	} else if _, err := strconv.Atoi(s); err == nil {
		return 0, fmt.Errorf("table %s is out of range", s)
	}
	name, err := unquote(s)
	if err != nil {
		return 0, err
	}
	t, ok := n.tables[name]
	if !ok {
		t = Unnumbered + Table(len(n.tables))
		n.tables[name] = t
		n.tableName[t] = name
	}
	return t, nil
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
	if s := p.reserved(); s != "" {
		return s
	}
	if s, ok := n.portName[p]; ok {
		return quote(s)
	}
	return strconv.FormatUint(uint64(p), 10)
}

// FormatTable is how ovs-ofctl writes the table.
func (n *Names) FormatTable(t Table) string {
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
	_, isReserved := reserved()[strings.ToLower(s)]
	_, isNamed := n.ports[s]
	if _, err := strconv.ParseUint(s, 0, 32); err != nil && !isReserved && !isNamed && !strings.HasPrefix(s, `"`) {
		return 0, fmt.Errorf("%s: no such port", clip(s))
	}
	return n.port(s)
}
