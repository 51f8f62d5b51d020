package pipeline

import "strings"

// wrapped puts lines together of which one flow was made by a page or a message: else the
// last part of one, "actions=drop", would be a flow of its own that takes all packets.
type wrapped struct {
	text  string
	first int // line, 0 for none
	lines int
}

// mostWrapped is how many lines a flow may be wrapped into.
const mostWrapped = 64

// add takes one more line in. It returns those that are whole, with the numbers at which they
// begin.
func (w *wrapped) add(n int, line string) (out []rawLine) {
	s := bare(line)
	if w.first > 0 {
		if w.goesOn(s) {
			w.join(s)
			if !w.open() {
				out = w.flush()
			}
			return out
		}
		out = w.flush()
	}
	if *w = (wrapped{s, n, 1}); s != "" && w.open() {
		return out
	}
	*w = wrapped{}
	return append(out, rawLine{n, line})
}

type rawLine struct {
	n    int
	text string
}

// flush is what has not ended.
func (w *wrapped) flush() (out []rawLine) {
	if w.first > 0 {
		out = []rawLine{{w.first, strings.TrimSuffix(w.text, `\`)}}
	}
	*w = wrapped{}
	return out
}

// goesOn reports whether the line may be of the same flow.
func (w *wrapped) goesOn(s string) bool {
	if s == "" || heading(s) || w.lines >= mostWrapped || len(w.text)+len(s) > Longest {
		return false
	}
	if strings.HasSuffix(w.text, `\`) {
		return true
	}
	if strings.Contains(w.text, "action") && strings.Contains(s, "action") {
		return false
	}
	if nested(w.text) {
		return true
	}
	switch key, _, _ := strings.Cut(s, "="); key {
	case "cookie", "table", "table_id", "group_id":
		return false
	}
	return true
}

func (w *wrapped) join(s string) {
	between := " "
	if cut, ok := strings.CutSuffix(w.text, `\`); ok {
		w.text = strings.TrimSpace(cut)
	}
	if strings.HasSuffix(w.text, ",") || strings.HasSuffix(w.text, "(") {
		between = ""
	}
	w.text, w.lines = w.text+between+s, w.lines+1
}

// open reports whether more has to come: a flow that says nothing of actions, or in the midst
// of them.
func (w *wrapped) open() bool {
	s := w.text
	if strings.HasSuffix(s, `\`) {
		return true
	}
	if strings.Contains(s, "action") {
		return strings.HasSuffix(s, ",") || nested(s)
	}
	switch key, _, ok := strings.Cut(s, "="); key {
	case "cookie", "table", "table_id", "duration", "priority":
		return ok
	}
	return false
}

// nested reports whether a flow ends within parentheses of its actions.
func nested(s string) bool {
	_, list, _ := actionsOf(s)
	return strings.Count(list, "(") > strings.Count(list, ")")
}
