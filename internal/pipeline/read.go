package pipeline

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Longest is how many bytes a line may have.
const Longest = 1 << 20

// most is how many notes are kept: input that is something else altogether has as many
// as lines.
const most = 1000

// parser reads one line.
type parser struct {
	*Pipeline
	line  int
	notes []Note
}

func (p *parser) note(text string, err error) {
	p.notes = append(p.notes, Note{p.line, clip(text), err.Error()})
}

// New is a pipeline without flows.
func New(names *Names) *Pipeline {
	if names == nil {
		names = NewNames()
	}
	return &Pipeline{Names: names, Words: NewVocabulary(), byID: map[uint32]*Group{}}
}

// Read adds the flows and groups of a dump, or of a list for ovs-ofctl add-flows. Lines that
// are not understood are kept as such; an error is one of reading.
func (p *Pipeline) Read(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var w wrapped
	for n := 1; ; n++ {
		line, cut, err := readLine(in)
		if cut {
			p.lose(Note{n, clip(line), fmt.Sprintf("the line has over %d bytes", Longest)})
		} else {
			p.readAll(w.add(n, line))
		}
		if errors.Is(err, io.EOF) {
			p.readAll(w.flush())
			return nil
		}
		if err != nil {
			return fmt.Errorf("read flows: %w", err)
		}
	}
}

func (p *Pipeline) readAll(lines []rawLine) {
	for _, l := range lines {
		p.ReadLine(l.n, l.text)
	}
}

// readLine reads up to the line's end, and keeps no more than the longest.
func readLine(in *bufio.Reader) (line string, cut bool, err error) {
	var b strings.Builder
	for {
		part, err := in.ReadSlice('\n')
		if b.Len()+len(part) > Longest {
			cut = true
		} else {
			b.Write(part)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(b.String(), "\r\n"), cut, err
		}
	}
}

func (p *Pipeline) lose(n Note) {
	if len(p.Lost) < most {
		p.Lost = append(p.Lost, n)
	}
}

// ReadLine adds one line, by its number in the input.
func (p *Pipeline) ReadLine(n int, line string) {
	s := bare(line)
	if s == "" {
		return
	}
	if heading(s) || heading(line) { // a root's prompt has the sign of a comment
		p.dumps.head(line)
		return
	}
	if prompted(line) {
		return
	}
	q := parser{Pipeline: p, line: n}
	if s = grouped(s); strings.HasPrefix(s, "group_id=") {
		g := q.group(s)
		p.Groups = append(p.Groups, g)
		if p.byID[g.ID] == nil {
			p.byID[g.ID] = g
		}
		for _, note := range q.notes {
			p.lose(note)
		}
		return
	}
	f, err := q.flow(s)
	if err != nil {
		p.lose(Note{n, clip(s), err.Error()})
		return
	}
	p.Flows = append(p.Flows, f)
	if p.dumps.again(f.Table) && p.Second == 0 {
		p.Second = n
	}
}

// flow reads one flow.
func (p *parser) flow(s string) (*Flow, error) {
	for _, command := range []string{"flow ", "add ", "add,"} { // of a bundle
		s = strings.TrimSpace(strings.TrimPrefix(s, command))
	}
	for _, command := range []string{"delete", "modify"} {
		if strings.HasPrefix(s, command) {
			return nil, fmt.Errorf("a command to %s flows, not a flow", command)
		}
	}
	head, list, ok := actionsOf(s)
	if !ok {
		return nil, errors.New("no actions=")
	}
	f := &Flow{Line: p.line, Priority: DefaultPriority}
	for {
		w, rest, ok := next(head)
		if !ok {
			break
		}
		head = rest
		err := p.attribute(f, w)
		if errors.Is(err, errNoAttribute) {
			err = p.condition(&f.Match, w)
		}
		if err != nil {
			f.Carried = append(f.Carried, w.text)
			p.note(w.text, err)
		}
	}
	normalize(&f.Match)
	f.Actions = p.actions(list, 0)
	f.Notes = p.notes
	return f, nil
}

// actionsOf cuts a flow at the first "action", as Open vSwitch does.
func actionsOf(s string) (head, list string, ok bool) {
	i := strings.Index(s, "action")
	if i < 0 {
		return "", "", false
	}
	eq := strings.IndexByte(s[i:], '=')
	if eq < 0 {
		return "", "", false
	}
	return s[:i], s[i+eq+1:], true
}

var errNoAttribute = errors.New("part of the match")

// attribute reads what is of a flow but not of its match.
func (p *parser) attribute(f *Flow, w pair) (err error) {
	small := func(into *int) error {
		n, err := number(w.value, 16)
		switch {
		case err != nil:
		case strings.HasPrefix(w.value, "-"): // of a value to load it would be the bits
			err = fmt.Errorf("%s: expected a number from 0 to 65535", w.value)
		default:
			*into = int(n.Lo)
		}
		return err
	}
	switch w.key {
	case "table", "table_id":
		if f.Table, err = p.Names.table(w.value); f.Table == NoTable { // a switch that is to choose takes the first
			f.Table = 0
		}
	case "priority", "pri":
		err = small(&f.Priority)
	case "idle_timeout":
		err = small(&f.IdleTimeout)
	case "hard_timeout":
		err = small(&f.HardTimeout)
	case "importance":
		err = small(&f.Importance)
	case "cookie":
		var n Value
		n, err = number(w.value, 64)
		f.Cookie = n.Lo
	case "n_packets", "n_bytes":
		n, nerr := strconv.ParseUint(w.value, 10, 64)
		err = nerr
		f.Counted = true
		if w.key == "n_packets" {
			f.Packets = n
		} else {
			f.Bytes = n
		}
	case "send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts":
		f.Flags = append(f.Flags, w.key)
	case "duration", "idle_age", "hard_age", "n_offload_packets", "n_offload_bytes", "no_readonly_table",
		"allow_hidden_fields":
	default:
		return errNoAttribute
	}
	if err != nil {
		return fmt.Errorf("%s: %w", w.key, err)
	}
	return nil
}

// group reads a line of ovs-ofctl dump-groups, or of add-groups.
func (p *parser) group(s string) *Group {
	g := &Group{Line: p.line, Text: s, Type: "all"}
	parts := strings.Split(s, "bucket=")
	g.Head = strings.Trim(parts[0], ", ")
	for _, w := range pairs(parts[0]) {
		switch w.key {
		case "group_id":
			n, err := number(w.value, 32)
			if err != nil {
				p.note(w.text, err)
			}
			g.ID = uint32(n.Lo)
		case "type":
			g.Type = w.value
		}
	}
	for _, part := range parts[1:] {
		b := Bucket{Weight: 1}
		head, list, ok := actionsOf(part)
		if !ok {
			head, list = "", part
		}
		b.Head = strings.Trim(head, ", ")
		for _, w := range pairs(head) {
			if w.key == "weight" {
				b.Weight, _ = strconv.Atoi(w.value)
			}
		}
		b.Actions = p.actions(list, 1)
		g.Buckets = append(g.Buckets, b)
	}
	return g
}
