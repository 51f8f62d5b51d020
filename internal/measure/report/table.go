package report

import (
	"strings"
	"unicode/utf8"
)

// table is a small grid of strings.
type table struct {
	cols []column
	rows [][]string
	// limits are the columns' widths where their cells have to be broken; nil for none.
	limits []int
}

type column struct {
	head  string
	right bool
	// drop orders the columns that a narrow terminal can do without: the
	// highest goes first, 0 always stays.
	drop int
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// gap separates the columns of a text table.
const gap = "  "

// without leaves out the columns for which skip says so.
func (t table) without(skip func(i int) bool) table {
	pick := func(from []string) (to []string) {
		for i, s := range from {
			if !skip(i) {
				to = append(to, s)
			}
		}
		return to
	}
	var out table
	for i, c := range t.cols {
		if !skip(i) {
			out.cols = append(out.cols, c)
		}
	}
	for _, r := range t.rows {
		out.rows = append(out.rows, pick(r))
	}
	return out
}

// lines are the rows for a terminal, the header first; a row has several lines where its
// cells are broken.
func (t table) lines() (out [][]string) {
	names := make([]string, len(t.cols))
	for i, c := range t.cols {
		names[i] = c.head
	}
	rows := [][][]string{t.broken(names)}
	for _, r := range t.rows {
		rows = append(rows, t.broken(r))
	}
	widths := make([]int, len(t.cols))
	for _, r := range rows {
		for i, cell := range r {
			for _, l := range cell {
				widths[i] = max(widths[i], utf8.RuneCountInString(l))
			}
		}
	}
	for _, r := range rows {
		high := 0
		for _, cell := range r {
			high = max(high, len(cell))
		}
		lines := make([]string, high)
		for n := range lines {
			lines[n] = t.line(r, n, widths)
		}
		out = append(out, lines)
	}
	return out
}

// broken are a row's cells in the lines that its columns' limits allow.
func (t table) broken(row []string) [][]string {
	out := make([][]string, len(row))
	for i, cell := range row {
		out[i] = []string{cell}
		if t.limits != nil {
			out[i] = breakCell(cell, t.limits[i], i == 0)
		}
	}
	return out
}

// line is the n-th line of a row.
func (t table) line(row [][]string, n int, widths []int) string {
	var out strings.Builder
	for i, cell := range row {
		s := ""
		if n < len(cell) {
			s = cell[n]
		}
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
		if t.cols[i].right {
			s, pad = pad+s, ""
		}
		out.WriteString(s + pad + gap)
	}
	return strings.TrimRight(out.String(), " ")
}

// wrap breaks s at spaces into lines of at most width runes, the following
// ones indented; 0 does not break.
func wrap(s string, width, indent int) []string {
	if width <= 0 {
		return []string{s}
	}
	var out []string
	var cur string
	for _, word := range strings.Fields(s) {
		if cur != "" && utf8.RuneCountInString(cur)+1+utf8.RuneCountInString(word) > width {
			out = append(out, cur)
			cur = strings.Repeat(" ", indent) + word
			continue
		}
		if cur != "" {
			cur += " "
		}
		cur += word
	}
	return append(out, cur)
}

func ellipsis(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}
