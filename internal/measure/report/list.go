package report

import (
	"bufio"
	"io"
	"strings"
)

// List is a table that is no result: the networks, the workloads, a plan. It is fitted to the
// terminal as a result's tables are.
type List struct {
	table table
	notes [][]string
}

// Head is a column of a List.
type Head struct {
	Name string
	// Right aligns figures.
	Right bool
	// Drop orders the columns that a narrow terminal can do without: the highest goes
	// first, 0 always stays.
	Drop int
}

// NewList makes a list with columns.
func NewList(heads ...Head) *List {
	l := &List{}
	for _, h := range heads {
		l.table.cols = append(l.table.cols, column{h.Name, h.Right, h.Drop})
	}
	return l
}

// Named are columns of text that always stay.
func Named(names ...string) (out []Head) {
	for _, n := range names {
		out = append(out, Head{Name: n})
	}
	return out
}

// Numbered are columns of figures that always stay.
func Numbered(names ...string) (out []Head) {
	for _, n := range names {
		out = append(out, Head{Name: n, Right: true})
	}
	return out
}

// Add adds a row; cells that are not given are empty.
func (l *List) Add(cells ...string) {
	l.table.add(append(cells, make([]string, len(l.table.cols)-len(cells))...)...)
	l.notes = append(l.notes, nil)
}

// Note adds a line below the last row.
func (l *List) Note(text string) {
	last := len(l.notes) - 1
	l.notes[last] = append(l.notes[last], text)
}

// Write writes the list as text.
func (l *List) Write(w io.Writer, o Options) error {
	p := &printer{Writer: bufio.NewWriter(w), opts: o}
	l.table.write(p, l.notes)
	p.hint()
	return p.Flush()
}

// Lines writes text, each of whose lines is broken at the terminal's width; what follows
// of an indented one is indented more.
func Lines(w io.Writer, text string, o Options) error {
	p := &printer{Writer: bufio.NewWriter(w), opts: o}
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.TrimLeft(line, " ")
		indent, more := line[:len(line)-len(words)], 0
		if indent != "" {
			more = 2
		}
		for _, l := range wrap(words, max(o.Width-len(indent), 0), more) {
			p.printf("%s%s\n", indent, l)
		}
	}
	return p.Flush()
}
