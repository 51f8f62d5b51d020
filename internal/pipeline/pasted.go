package pipeline

import (
	"regexp"
	"slices"
	"strings"
)

// bare is a line without what terminals, pages and messages put around one when it is copied:
// colors, a number or a mark in front, cells of a table behind, and quotation marks around it, as of a
// program's list. No flow begins or ends so.
// A comment is cut as ovs-ofctl does (ds_get_preprocessed_line), but not in a name.
func bare(line string) string {
	s := line
	if strings.IndexByte(s, escape) >= 0 {
		s = colored().ReplaceAllString(s, "")
	}
	s = commanded(strings.TrimSpace(s))
	for cut := true; cut; {
		s, cut = unmarked(s)
	}
	s = inQuotes(s)
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

// inQuotes is what is in quotation marks, if all of a flow or a group is.
func inQuotes(s string) string {
	in, ok := strings.CutSuffix(strings.TrimRight(s, ",;"), s[:min(1, len(s))])
	if !ok || len(in) < 1 || !strings.ContainsAny(s[:1], "\"'`") || !strings.Contains(in, "action") {
		return s
	}
	return strings.TrimSpace(in[1:])
}

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
		ok = slices.Contains([]string{">", "-", "*", "|", "·", "•"}, mark)
	}
	if !ok {
		return s, false
	}
	return strings.TrimSpace(rest), true
}

// commanded is the flow or the group of a command line that adds it with ovs-ofctl.
func commanded(s string) string {
	_, rest, ok := strings.Cut(s, "ovs-ofctl ")
	if !ok {
		return s
	}
	seen, value := 0, false // the command, then the switch
	for rest != "" {
		word, after, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
		switch {
		case value:
			value = false
		case word == "-O" || word == "-F" || word == "-t":
			value = true
		case strings.HasPrefix(word, "-"):
		case seen == 0 && word != "add-flow" && word != "add-group":
			return s
		case seen == 2:
			return unquoted(strings.TrimSpace(rest))
		default:
			seen++
		}
		rest = after
	}
	return s
}

// unquoted is what a shell makes of a word that is quoted whole, with more behind it or not.
func unquoted(s string) string {
	for _, quote := range []string{`"`, "'"} {
		if in, ok := strings.CutPrefix(s, quote); ok {
			if word, _, ok := strings.Cut(in, quote); ok {
				return word
			}
		}
	}
	return s
}

// grouped is a group as "dump-groups" shows it, of a line of a bundle that adds one.
func grouped(s string) string {
	rest, ok := strings.CutPrefix(s, "group ")
	if !ok {
		return s
	}
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), "add "))
}

// prompted reports whether a line is a shell's prompt, with a command that is no flow or none.
func prompted(line string) bool {
	if strings.Contains(line, "action") {
		return false
	}
	return regexp.MustCompile(`^\s*(\[\S+@[^\]]*\]|[\w.-]+@[\w.-]+(:\S*)?|)\s*[$#](\s|$)`).MatchString(line)
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
