package pipeline

import "strings"

// dumps tells one dump of flows from several, such as those of two bridges: each begins with what ovs-ofctl
// writes, or with its command line. Dumps of one bridge's tables one by one are one.
type dumps struct {
	n      int
	bridge string
	// more says that the reply is of several messages, asked that the last line was a command line.
	more, asked bool
	// of is which dump had flows of a table first.
	of map[Table]int
	// other says that the bridge is another than before.
	other bool
}

// head notes a line that is around flows.
func (d *dumps) head(line string) {
	if _, command, ok := strings.Cut(line, "dump-flows"); ok {
		words := strings.Fields(command)
		for len(words) > 0 && strings.HasPrefix(words[0], "-") {
			words = words[1:]
		}
		if len(words) > 0 {
			d.other = d.other || d.bridge != "" && d.bridge != words[0]
			d.bridge = words[0]
		}
		d.n, d.asked, d.more = d.n+1, true, false
		return
	}
	if !strings.Contains(line, "_FLOW") {
		return
	}
	if !d.more && !d.asked {
		d.n++
	}
	d.asked, d.more = false, strings.Contains(line, "[more]")
}

// again reports whether a flow of a table is of another bridge, or of a second dump of that table.
func (d *dumps) again(t Table) bool {
	if d.of == nil {
		d.of = map[Table]int{}
	}
	if first, known := d.of[t]; known {
		return d.other || d.n > first
	}
	d.of[t] = d.n
	return d.other
}
