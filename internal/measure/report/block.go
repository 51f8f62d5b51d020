package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// block is a piece of a page that text and Markdown both can show.
type block interface {
	text(p *printer)
	markdown(p *printer)
}

// printer is where blocks go; its writer keeps the first error.
type printer struct {
	*bufio.Writer
	opts Options
	// left are the heads of columns that were left out to fit.
	left []string
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// styled writes a line in an ANSI style where colour is wanted.
func (p *printer) styled(style, s string) {
	if p.opts.Color && s != "" {
		s = "\x1b[" + style + "m" + s + "\x1b[0m"
	}
	p.printf("%s\n", s)
}

// ANSI styles.
const (
	bold   = "1"
	dim    = "2"
	yellow = "33"
)

func writeText(w io.Writer, blocks []block, o Options) error {
	p := &printer{Writer: bufio.NewWriter(w), opts: o}
	for i, b := range blocks {
		if i > 0 {
			p.printf("\n")
		}
		b.text(p)
	}
	p.hint()
	return p.Flush()
}

// leave notes columns that were left out.
func (p *printer) leave(heads []string) {
	for _, h := range heads {
		if !slices.Contains(p.left, h) {
			p.left = append(p.left, h)
		}
	}
}

// hint says which columns were left out to fit the terminal, and how to see them.
func (p *printer) hint() {
	if len(p.left) == 0 || p.opts.Unhinted {
		return
	}
	const shown = 8
	text := fmt.Sprintf("%s shows every column; left out to fit %d: %s.", cmp.Or(p.opts.Wider, "-o "+Wide), p.opts.Width,
		listed(p.left, ", ", shown))
	p.printf("\n")
	for _, l := range wrap(text, p.opts.Width, 0) {
		p.styled(dim, l)
	}
}

func writeMarkdown(w io.Writer, blocks []block) error {
	p := &printer{Writer: bufio.NewWriter(w)}
	for i, b := range blocks {
		if i > 0 {
			p.printf("\n")
		}
		b.markdown(p)
	}
	return p.Flush()
}

// heading is a title; level counts from 1.
type heading struct {
	level int
	title string
}

func (h heading) text(p *printer) {
	for _, l := range wrap(h.title, p.opts.Width, 2) {
		p.styled(bold, l)
	}
}

func (h heading) markdown(p *printer) {
	p.printf("%s %s\n", strings.Repeat("#", h.level), escapeMarkdown(h.title))
}

// para is a paragraph.
type para string

func (t para) text(p *printer) {
	for _, l := range wrap(string(t), p.opts.Width, 0) {
		p.printf("%s\n", l)
	}
}

func (t para) markdown(p *printer) { p.printf("%s\n", escapeMarkdown(string(t))) }

// alert is a paragraph that must not be overlooked.
type alert string

func (t alert) text(p *printer) {
	for _, l := range wrap(string(t), p.opts.Width, 2) {
		p.styled(yellow, l)
	}
}

func (t alert) markdown(p *printer) { p.printf("> **%s**\n", escapeMarkdown(string(t))) }

// grid is a titled table with its footnotes.
type grid struct {
	title string
	table table
	notes footnotes
	// legend explains the table; it is below it.
	legend string
	// left are columns that were not made for want of room.
	left []string
}

func (g grid) text(p *printer) {
	if g.title != "" {
		heading{title: g.title}.text(p)
	}
	p.leave(g.left)
	g.table.write(p, nil)
	for i, n := range g.notes.texts {
		for _, l := range wrap(fmt.Sprintf("[%d] %s", i+1, n), p.opts.Width, 4) {
			p.styled(dim, l)
		}
	}
	for _, l := range wrap(g.legend, p.opts.Width, 0) {
		if l != "" {
			p.styled(dim, l)
		}
	}
}

// write writes the table with the notes below its rows, and notes which columns it has no
// room for.
func (t table) write(p *printer, notes [][]string) {
	width := p.opts.Width
	if p.opts.Whole {
		width = 0
	}
	t, left := t.fit(width)
	p.leave(left)
	for i, row := range t.lines() {
		for _, l := range row {
			if i == 0 {
				p.styled(dim, l)
				continue
			}
			p.printf("%s\n", l)
		}
		if i == 0 || i > len(notes) {
			continue
		}
		for _, n := range notes[i-1] {
			for _, l := range wrap(n, p.opts.Width-2, 2) {
				p.printf("  %s\n", l)
			}
		}
	}
}

func (g grid) markdown(p *printer) {
	if g.title != "" {
		heading{level: 3, title: g.title}.markdown(p)
		p.printf("\n")
	}
	t, _ := g.table.fit(0)
	for _, c := range t.cols {
		p.printf("| %s ", escapeMarkdown(c.head))
	}
	p.printf("|\n")
	for _, c := range t.cols {
		side := ":---"
		if c.right {
			side = "---:"
		}
		p.printf("|%s", side)
	}
	p.printf("|\n")
	for _, r := range t.rows {
		for _, cell := range r {
			p.printf("| %s ", escapeMarkdown(cell))
		}
		p.printf("|\n")
	}
	for i, n := range g.notes.texts {
		p.printf("\n[%d] %s\n", i+1, escapeMarkdown(n))
	}
	if g.legend != "" {
		p.printf("\n%s\n", escapeMarkdown(g.legend))
	}
}

// escapeMarkdown keeps text from becoming markup or breaking a table.
func escapeMarkdown(s string) string {
	s = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`, "`", "\\`", "\n", " ", "~",
		`\~`).Replace(s)
	return s
}
