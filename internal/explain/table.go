package explain

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed stages.txt
var stagesText string

// Stage is a part of a packet's way through the machine, by its name in the table.
type Stage string

// Stages that are not the table's, or that other code must know by name.
const (
	// Generator is the load generators' own time in user mode.
	Generator Stage = "generator"
	// Datapath is user-space datapaths: their daemons' time in user mode, and
	// the devices and sockets below them.
	Datapath Stage = "datapath"
	// Unattributed is time in kernel functions that the table does not know.
	Unattributed  Stage = "unattributed"
	Idle          Stage = "idle"
	Sampling      Stage = "sampler"
	Copy          Stage = "copy"
	Bridging      Stage = "bridge"
	Netfilter     Stage = "netfilter"
	Crypto        Stage = "crypto"
	Encapsulation Stage = "encapsulation"
	Decapsulation Stage = "decapsulation"
)

// how an entry of the table matches.
type how byte

const (
	anywhere how = 0   // the first from the leaf on
	asLeaf   how = '=' // only as the leaf itself
	above    how = '^' // before what is nearer the leaf
	boundary how = '|' // as asLeaf, and ends the search
	helper   how = '~' // as if it were not there
)

type entry struct {
	stage Stage
	how   how
	// A pattern is the beginning and the end of a name.
	begin, end string
	order      int
}

// Table says which kernel function belongs to which stage.
type Table struct {
	stages []Stage
	docs   map[Stage]string
	exact  map[string]entry
	globs  []entry
	// known are names looked up before.
	known map[string]entry
}

// DefaultTable is the table of the package, stages.txt.
func DefaultTable() (*Table, error) { return ParseTable("stages.txt", stagesText) }

// ParseTable reads a table; name is used in errors. The format is explained at
// the beginning of stages.txt.
func ParseTable(name, text string) (*Table, error) {
	t := &Table{docs: map[Stage]string{}, exact: map[string]entry{}, known: map[string]entry{}}
	var stage Stage
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == '[':
			title, doc, ok := strings.Cut(line[1:], "] ")
			if !ok || title == "" {
				return nil, fmt.Errorf("%s:%d: expected [stage] and what it is, got %q", name, n, line)
			}
			stage = Stage(title)
			t.stages = append(t.stages, stage)
			t.docs[stage] = doc
			continue
		case stage == "" && line[0] != byte(helper):
			return nil, fmt.Errorf("%s:%d: expected a [stage] before the first function", name, n)
		}
		if err := t.add(stage, line, n); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return t, nil
}

func (t *Table) add(stage Stage, line string, n int) error {
	e := entry{stage: stage, order: n}
	if strings.ContainsRune("=^|~", rune(line[0])) {
		e.how, line = how(line[0]), line[1:]
	}
	begin, end, glob := strings.Cut(line, "*")
	if line == "" || strings.ContainsAny(line, " \t") || strings.Contains(end, "*") {
		return fmt.Errorf("expected the name of a function, with one * at most, got %q", line)
	}
	e.begin, e.end = begin, end
	if glob {
		t.globs = append(t.globs, e)
		return nil
	}
	if old, ok := t.exact[line]; ok {
		return fmt.Errorf("%s is in line %d already", line, old.order)
	}
	t.exact[line] = e
	return nil
}

// Stages lists the stages in the table's order, then those that are not its.
func (t *Table) Stages() []Stage {
	return append(append([]Stage{Generator}, t.stages...), Unattributed)
}

// Doc says what a stage is.
func (t *Table) Doc(s Stage) string {
	switch s {
	case Generator:
		return "the load generators' own time in user mode"
	case Unattributed:
		return "functions of the kernel that the table does not know"
	}
	return t.docs[s]
}

// plain cuts off what the compiler appends to a function's name.
func plain(name string) string {
	if i := strings.IndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// find returns the entry that name matches best.
func (t *Table) find(name string) (entry, bool) {
	name = plain(name)
	if e, ok := t.known[name]; ok {
		return e, e.order > 0
	}
	best, ok := t.exact[name]
	if !ok {
		length := -1
		for _, e := range t.globs {
			l := len(e.begin) + len(e.end)
			if l > length && len(name) >= l && strings.HasPrefix(name, e.begin) && strings.HasSuffix(name, e.end) {
				best, length = e, l
			}
		}
	}
	t.known[name] = best
	return best, best.order > 0
}

// Kernel attributes a stack of kernel functions, root first, to a stage.
func (t *Table) Kernel(frames []string) Stage {
	found := Unattributed
	leaf := true // nothing but helpers is nearer the leaf
	for i := len(frames) - 1; i >= 0; i-- {
		e, ok := t.find(frames[i])
		switch {
		case !ok:
			leaf = false
			continue
		case e.how == helper:
			continue
		case e.how == above:
			return e.stage
		case found == Unattributed && (e.how == anywhere || leaf):
			found = e.stage
		}
		if e.how == boundary {
			break
		}
		leaf = false
	}
	return found
}
