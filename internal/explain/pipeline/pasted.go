package pipeline

import (
	"regexp"
	"strings"
)

// bare is a line without what terminals, pages and messages put around one when it is copied:
// colors, a number or a mark in front, and cells of a table behind. No flow begins or ends so.
// A comment is cut as ovs-ofctl does (ds_get_preprocessed_line), but not in a name.
func bare(line string) string {
	s := line
	if strings.IndexByte(s, escape) >= 0 {
		s = colored().ReplaceAllString(s, "")
	}
	s = strings.TrimSpace(s)
	for cut := true; cut; {
		s, cut = unmarked(s)
	}
	named := false
	for i, c := range s {
		if c == '"' {
			named = !named
		}
		if c == '#' && !named {
			s = strings.TrimSpace(s[:i])
			break
		}
	}
	for strings.HasSuffix(s, " |") {
		s = strings.TrimSpace(strings.TrimSuffix(s, "|"))
	}
	return s
}

const escape = 0x1b

// colored are sequences of a terminal (ECMA-48, SGR and EL), as "ovs-ofctl --color" writes them.
func colored() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-9;]*[mK]") }

// unmarked takes one mark off a line's begin: "> ", "- ", "12. ", "12: ", "12) ".
func unmarked(s string) (rest string, cut bool) {
	mark, rest, ok := strings.Cut(s, " ")
	if !ok {
		return s, false
	}
	switch digits := strings.TrimLeft(mark, "0123456789"); digits {
	case ".", ":", ")":
		ok = len(mark) > 1
	default:
		ok = mark == ">" || mark == "-" || mark == "*" || mark == "|"
	}
	if !ok {
		return s, false
	}
	return strings.TrimSpace(rest), true
}

// grouped is a group as "dump-groups" shows it, of a line of a bundle that adds one.
func grouped(s string) string {
	rest, ok := strings.CutPrefix(s, "group ")
	if !ok {
		return s
	}
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), "add "))
}

// heading reports whether a line is one of those that are around flows: what ovs-ofctl writes,
// or the command line that asked for it.
func heading(s string) bool {
	for _, head := range []string{"NXST_FLOW", "OFPST_FLOW", "NXST_GROUP", "OFPST_GROUP", "OFPST_TABLE"} {
		if strings.HasPrefix(s, head) {
			return true
		}
	}
	_, asked, command := strings.Cut(s, "ovs-ofctl ")
	return command && (strings.Contains(asked, "dump-flows") || strings.Contains(asked, "dump-groups")) &&
		!strings.Contains(s, "action")
}
