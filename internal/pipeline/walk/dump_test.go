package walk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/walk"
	"pathwise.dev/pathwise/internal/pipeline/witness"
)

// TestDumpsAgreeWithOpenVSwitch: with pipelines that people run in a real ovs-vswitchd, packets
// that are made to reach their flows fare as a walk says.
func TestDumpsAgreeWithOpenVSwitch(t *testing.T) {
	random := drawn.Random(t)
	cookie := regexp.MustCompile(`cookie=0x[0-9a-f]+, ?`)
	for _, name := range []string{"ovn", "openshift"} {
		text, err := os.ReadFile("../testdata/dumps/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		var flows, groups []string
		for i, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			switch {
			case strings.HasPrefix(l, "group_id"):
				groups = append(groups, l)
			case !strings.HasPrefix(l, "#"):
				flows = append(flows, fmt.Sprintf("cookie=%#x,%s", i+1, cookie.ReplaceAllString(l, "")))
			}
		}
		s := newSwitch(t)
		if name == "ovn" { // as ovn-controller has its bridge
			s.run("ovs-ofctl", "add-tlv-map", "unix:"+filepath.Join(s.dir, "br0.mgmt"),
				"{class=0x102,type=0x80,len=4}->tun_metadata0")
		}
		s.ofctl("add-groups", groups)
		s.ofctl("replace-flows", flows)
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(strings.Join(append(flows, groups...), "\n"))); err != nil {
			t.Fatal(err)
		}
		w, met := walk.Through(p), map[string]int{}
		maker := witness.New(w, random)
		maker.Deliver()
		for range drawn.Number(t, "PATHWISE_DUMPED", 100) {
			made := maker.Make()
			c := check{t: t, s: s, w: w, packet: p.PrintPacket(made.Packet), met: met}
			for _, a := range made.Answers {
				c.states = append(c.states, strings.ReplaceAll(walk.Answer{State: a.State}.String(), "|", ","))
			}
			for range mostStates {
				c.states = append(c.states, "trk,new")
			}
			c.taken(name)
		}
		t.Logf("%s: met: %v", name, met)
	}
}

// taken compares the flows that take a packet, pass by pass. Where a group chooses by a hash of the
// datapath's the trace has passes of its own for that, and which bucket it takes is not known.
func (c check) taken(name string) {
	c.t.Helper()
	walked := c.follow(&choices{})
	for _, e := range walked.Events() {
		if e.Kind == walk.Choice {
			c.met["choices"]++
			return
		}
	}
	if !walked.Understood() || len(walked.Undefined) > 0 {
		c.met["not followed"]++
		return
	}
	args := []string{c.packet}
	for _, s := range c.states[:len(walked.Passes)-1] {
		args = append(args, "--ct-next", s)
	}
	text := c.s.trace(args...)
	var want, got []uint64
	for line := range strings.Lines(text) {
		if n, ok := cookieOf(line); ok {
			want = append(want, n)
		}
	}
	for _, p := range walked.Passes {
		c.met["passes"]++
		for _, s := range p.Steps {
			if s.Lookup && s.Flow != nil {
				got = append(got, s.Flow.Cookie)
			}
		}
	}
	c.met["flows"] += len(got)
	if !slices.Equal(got, want) {
		c.t.Fatalf("%s: %s %v: flows of lines\n%v, want\n%v\n%s", name, c.packet, args[1:], got, want, text)
	}
}
