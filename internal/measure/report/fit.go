package report

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Widths that a column of text is not broken below: as long as there are columns that can be
// done without, and as long as others can give way.
const (
	easyText  = 24
	leastText = 10
	mostWord  = 24
	leastCell = 4
)

// fit returns the table in at most width runes a line, and the heads of the columns that it
// left out for that: the least needed ones. Of the others heads and texts are broken at spaces;
// a figure is never cut, as a shortened number is a wrong one. Columns without any content
// are left out of every table.
func (t table) fit(width int) (out table, left []string) {
	t = t.without(func(i int) bool {
		optional := t.cols[i].drop > 0 || t.cols[i].head == "notes"
		return optional && !slices.ContainsFunc(t.rows, func(r []string) bool { return r[i] != "" })
	})
	if width <= 0 || total(t.natural()) <= width {
		return t, nil
	}
	text := easyText
	for {
		worst := t.optional()
		if worst < 0 {
			text = leastText
			worst = t.lastFigure()
		}
		if total(t.floors(text)) <= width || worst < 0 {
			break
		}
		left = append(left, t.cols[worst].head)
		t = t.without(func(i int) bool { return i == worst })
	}
	t.limits = t.share(width)
	return t, left
}

// total is the width of a line of columns so wide.
func total(widths []int) int {
	sum := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// optional is the column that goes first, the one with the highest drop; -1 for none.
func (t table) optional() int {
	worst := -1
	for i, c := range t.cols {
		if c.drop > 0 && (worst < 0 || c.drop > t.cols[worst].drop) {
			worst = i
		}
	}
	return worst
}

// lastFigure is the last figure behind the first two columns, which goes where all are
// needed and there is no room; -1 for none.
func (t table) lastFigure() int {
	last := -1
	for i, c := range t.cols {
		if c.right && i > 1 {
			last = i
		}
	}
	return last
}

// natural are the widths of the columns with nothing broken.
func (t table) natural() []int {
	out := make([]int, len(t.cols))
	for i, c := range t.cols {
		out[i] = max(utf8.RuneCountInString(c.head), t.content(i))
	}
	return out
}

// content is the width of a column's cells.
func (t table) content(i int) (w int) {
	for _, r := range t.rows {
		w = max(w, utf8.RuneCountInString(r[i]))
	}
	return w
}

// unlessEmpty leaves out the column with a head where none of its cells has any content.
func (t table) unlessEmpty(head string) table {
	return t.without(func(i int) bool { return t.cols[i].head == head && t.content(i) == 0 })
}

// floors are the least widths of the columns: figures are whole, heads broken, and texts to a
// width if their words are no longer.
func (t table) floors(text int) []int {
	out := make([]int, len(t.cols))
	for i, c := range t.cols {
		head := longestWord(c.head)
		if c.right {
			out[i] = max(head, t.content(i))
			continue
		}
		word := 0
		for _, r := range t.rows {
			word = max(word, longestWord(r[i]))
		}
		out[i] = max(head, min(word, mostWord), min(t.content(i), text))
	}
	return out
}

func longestWord(s string) (n int) {
	for _, w := range strings.Fields(s) {
		n = max(n, utf8.RuneCountInString(w))
	}
	return n
}

// share gives the columns their widths: each its floor, and of the rest the ones that
// want least first.
func (t table) share(width int) []int {
	limits, natural := t.floors(leastText), t.natural()
	for over := total(limits) - width; over > 0; over = total(limits) - width {
		widest := -1
		for i, c := range t.cols {
			if !c.right && limits[i] > leastCell && (widest < 0 || limits[i] > limits[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return limits
		}
		limits[widest] = max(limits[widest]-over, leastCell)
	}
	slack := width - total(limits)
	order := make([]int, len(limits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(natural[a]-limits[a], natural[b]-limits[b]) })
	for n, i := range order {
		more := min(natural[i]-limits[i], slack/(len(order)-n))
		limits[i] += max(more, 0)
		slack -= max(more, 0)
	}
	return limits
}

// breakCell breaks a cell into lines of at most limit runes: at spaces, and a word that is
// longer where a list or a name has a joint. The first column's further lines are indented,
// as they would pass for rows.
func breakCell(s string, limit int, first bool) []string {
	if utf8.RuneCountInString(s) <= limit || limit <= 0 {
		return []string{s}
	}
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))]
	further := indent
	if first {
		further += "  "
	}
	if len(further) > limit/2 {
		indent, further = "", ""
	}
	var out []string
	cur, empty := indent, true
	for _, word := range strings.Fields(s) {
		if !empty && utf8.RuneCountInString(cur)+1+utf8.RuneCountInString(word) > limit {
			out, cur, empty = append(out, cur), further, true
		}
		if !empty {
			cur += " "
		}
		for room := limit - utf8.RuneCountInString(cur); utf8.RuneCountInString(word) > room; room = limit - len(further) {
			head := joint([]rune(word), room)
			out, cur, word = append(out, cur+head), further, word[len(head):]
		}
		cur, empty = cur+word, false
	}
	return append(out, cur)
}

// joint is as much of a word as there is room for, up to its last joint there.
func joint(word []rune, room int) string {
	for n := room; n > room/2; n-- {
		if strings.ContainsRune(",;/=:-", word[n-1]) {
			return string(word[:n])
		}
	}
	return string(word[:room])
}
