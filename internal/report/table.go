package report

import (
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// table is a small grid of strings.
type table struct {
	cols []column
	rows [][]string
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

// widths of the columns in runes.
func (t table) widths() []int {
	out := make([]int, len(t.cols))
	for i, c := range t.cols {
		out[i] = utf8.RuneCountInString(c.head)
		for _, r := range t.rows {
			out[i] = max(out[i], utf8.RuneCountInString(r[i]))
		}
	}
	return out
}

// fit returns the table in at most width runes a line: columns without any
// content and those least needed are left out, then the longest cells are cut.
// It does not go below one rune a column.
func (t table) fit(width int) table {
	t = t.without(func(i int) bool {
		optional := t.cols[i].drop > 0 || t.cols[i].head == "notes"
		return optional && !slices.ContainsFunc(t.rows, func(r []string) bool { return r[i] != "" })
	})
	if width <= 0 {
		return t
	}
	for t.width() > width {
		worst := slices.MaxFunc(t.cols, func(a, b column) int { return a.drop - b.drop })
		if worst.drop == 0 {
			break
		}
		t = t.without(func(i int) bool { return t.cols[i] == worst })
	}
	return t.cut(width)
}

func (t table) width() int {
	sum := len(gap) * (len(t.cols) - 1)
	for _, w := range t.widths() {
		sum += w
	}
	return sum
}

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

// cut shortens the widest left-aligned column until the table fits. Figures
// are never cut: a shortened number is a wrong one.
func (t table) cut(width int) table {
	over := t.width() - width
	for over > 0 {
		ws, widest := t.widths(), -1
		for i, c := range t.cols {
			if !c.right && (widest < 0 || ws[i] > ws[widest]) {
				widest = i
			}
		}
		if widest < 0 || ws[widest] <= 4 {
			return t
		}
		limit := max(ws[widest]-over, 4)
		t.cols = slices.Clone(t.cols)
		t.cols[widest].head = ellipsis(t.cols[widest].head, limit)
		rows := make([][]string, len(t.rows))
		for i, r := range t.rows {
			rows[i] = slices.Clone(r)
			rows[i][widest] = ellipsis(r[widest], limit)
		}
		t.rows = rows
		over = t.width() - width
	}
	return t
}

func ellipsis(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// lines are the table's lines for a terminal, the header first.
func (t table) lines() []string {
	var out strings.Builder
	tw := tabwriter.NewWriter(&out, 0, 0, len(gap), ' ', 0)
	ws := t.widths()
	line := func(cells []string) {
		for i, s := range cells {
			if t.cols[i].right {
				s = strings.Repeat(" ", ws[i]-utf8.RuneCountInString(s)) + s
			}
			if i < len(cells)-1 {
				s += "\t"
			}
			// A strings.Builder does not fail.
			_, _ = tw.Write([]byte(s))
		}
		_, _ = tw.Write([]byte("\n"))
	}
	heads := make([]string, len(t.cols))
	for i, c := range t.cols {
		heads[i] = c.head
	}
	line(heads)
	for _, r := range t.rows {
		line(r)
	}
	_ = tw.Flush()
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
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
