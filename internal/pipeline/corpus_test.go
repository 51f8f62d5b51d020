package pipeline

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// named are the names that the switch of testdata/flows.tsv knew.
func named() *Names {
	n := NewNames()
	n.Port("br0", PortLocal)
	for i := range 10 {
		n.Port(fmt.Sprintf("p%d", i+1), Port(i+1))
	}
	return n
}

// printed reads one flow and prints it.
func printed(t *testing.T, line string, v Version) string {
	t.Helper()
	p := New(named())
	p.ReadLine(1, line)
	if len(p.Flows) != 1 {
		t.Errorf("%s: %v", line, p.Lost)
		return ""
	}
	for _, n := range p.Flows[0].Notes {
		t.Errorf("%s: %s: %s", line, n.Text, n.Reason)
	}
	return p.Print(p.Flows[0], v)
}

// TestPrintsWhatTheSwitchPrints: a flow that is given to a switch comes out as
// ovs-ofctl dumps it, and what it dumped, in OpenFlow 1.0 and 1.5, comes out as it is.
func TestPrintsWhatTheSwitchPrints(t *testing.T) {
	f, err := os.Open("testdata/flows.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		c := strings.Split(in.Text(), "\t")
		if len(c) != 3 {
			continue
		}
		if got := printed(t, c[0], OpenFlow10); got != c[1] {
			t.Errorf("given   %s\nwant    %s\nprinted %s", c[0], c[1], got)
		}
		for _, dump := range c[1:] {
			if dump == "" {
				continue // of a flow that this version has no words for
			}
			if got := printed(t, dump, AsGiven); got != dump {
				t.Errorf("dump    %s\nprinted %s", dump, got)
			}
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestDumpsOfNetworks: what a switch printed of flows of networks that people run is
// understood whole, and printed as it came. Their dumps, with names of tables and ports, are.
func TestDumpsOfNetworks(t *testing.T) {
	files, err := filepath.Glob("testdata/dumps/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no dumps", err)
	}
	for _, name := range append(files, "testdata/networks.txt") {
		if strings.HasSuffix(name, "openshift.txt") {
			continue // it is as given
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || strings.HasPrefix(line, "group_id=") {
				continue
			}
			p := New(nil)
			p.ReadLine(1, line)
			if len(p.Flows) != 1 || !p.Flows[0].Understood() {
				t.Errorf("%s: %s: %v", name, line, p.Lost)
				continue
			}
			if got := p.Print(p.Flows[0], AsGiven); got != line {
				t.Errorf("%s:\n%s\nprinted\n%s", name, line, got)
			}
		}
	}
}
