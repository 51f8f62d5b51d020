package walk_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// learn is an action by which packets of the match have the switch learn flows.
func (g *generator) learn(match string) string {
	is := func(words ...string) bool { return has(match, words...) }
	table := 1 + g.IntN(tables-1)
	out := []string{fmt.Sprintf("table=%d", table)}
	if g.chance(70) {
		out = append(out, fmt.Sprintf("priority=%d", g.number(5, 15, 20, 25, 30, 35, 90)))
	}
	for _, word := range []string{"idle_timeout=600", "hard_timeout=700", "fin_idle_timeout=50", "fin_hard_timeout=60",
		"send_flow_rem", "delete_learned"} {
		if g.chance(15) {
			out = append(out, word)
		}
	}
	if g.chance(40) {
		out = append(out, fmt.Sprintf("cookie=%#x", firstLearnt+16*table+g.IntN(3)))
		if g.chance(50) {
			out = append(out, fmt.Sprintf("limit=%d", 1+g.IntN(2)))
		}
	}
	out = append(out, g.one("NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]", "NXM_OF_ETH_SRC[]", "NXM_OF_IN_PORT[]",
		"NXM_NX_REG0[]=NXM_NX_REG1[]", "NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_SRC[]", "NXM_NX_REG2[0..7]=NXM_OF_ETH_SRC[0..7]",
		"NXM_NX_REG0[0..3]=0x1",
		"NXM_OF_ETH_DST[0..15]=NXM_NX_REG1[4..19]"))
	if is("ip", "tcp", "udp") && g.chance(60) {
		out = append(out, "eth_type=0x800",
			g.one("NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]", "NXM_OF_IP_SRC[]", "NXM_OF_IP_DST[0..7]=0x2"))
		if is("tcp") && g.chance(60) {
			out = append(out, "nw_proto=6",
				g.one("NXM_OF_TCP_DST[]=NXM_OF_TCP_SRC[]", "NXM_OF_TCP_DST[]", "NXM_OF_TCP_SRC[0..3]=0x8"))
		}
	}
	for range g.IntN(3) {
		r := g.reg()
		out = append(out, g.one("load:3->"+r+"[]", "load:NXM_OF_IN_PORT[]->"+r+"[0..15]",
			"load:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]", "load:"+r+"[]->NXM_NX_PKT_MARK[]", "load:1->"+r+"[4..7]",
			"load:NXM_OF_VLAN_TCI[]->"+r+"[0..15]"))
	}
	if g.chance(70) {
		out = append(out, g.one("output:NXM_OF_IN_PORT[]", "output:NXM_NX_REG0[0..15]", "output:NXM_NX_REG1[]",
			"output:NXM_NX_REG2[0..2]"))
	}
	text := "learn(" + strings.Join(out, ",") + ")"
	if g.chance(15) {
		return "clone(" + text + ",load:1->NXM_NX_REG0[])"
	}
	return text
}

// firstLearnt is a cookie that no flow has which was given to the switch.
const firstLearnt = 0x1000

// number is one of several numbers.
func (g *generator) number(of ...int) int { return of[g.IntN(len(of))] }

// school is a pipeline whose flows have a switch learn others, and those that it has.
type school struct {
	*walk.Pipeline
	flows []*pipeline.Flow
	// learnt counts flows that were.
	learnt int
}

func newSchool(p *pipeline.Pipeline) *school {
	s := &school{Pipeline: walk.Through(p)}
	for _, f := range p.Flows {
		s.take(f, 0)
	}
	s.learnt = 0
	return s
}

// takes has the switch have learnt what a packet had it learn.
func (s *school) takes(got *walk.Walk) {
	before := s.learnt
	for _, e := range got.Events() {
		if e.Kind == walk.Learn {
			s.take(e.Flow, e.Learned.Limit)
		}
	}
	if s.learnt > before {
		s.Pipeline = walk.Through(s.With(s.flows))
	}
}

// take adds a flow, or puts it in the place of one with its match and priority, unless there are as many with its
// cookie as there may be.
func (s *school) take(f *pipeline.Flow, limit int) {
	same, like := -1, 0
	for i, o := range s.flows {
		if o.Table != f.Table {
			continue
		}
		if o.Priority == f.Priority && slices.Equal(o.Match, f.Match) {
			same = i
		}
		if o.Cookie == f.Cookie {
			like++
		}
	}
	switch {
	case limit > 0 && like >= limit: // though one of them may be this one
		return
	case same >= 0:
		s.flows[same] = f.InPlaceOf(s.flows[same])
	default:
		s.flows = append(s.flows, f)
	}
	s.learnt++
}

// lesson is a flow as ofproto/trace says that it is learnt.
func lesson(p *pipeline.Pipeline, f *pipeline.Flow) string {
	match := &pipeline.Flow{Priority: pipeline.DefaultPriority, Match: f.Match}
	out := fmt.Sprintf("table=%d %s priority=%d", f.Table, p.PrintMatch(match), f.Priority)
	if f.Cookie != 0 {
		out += fmt.Sprintf(" cookie=%#x", f.Cookie)
	}
	if f.IdleTimeout > 0 {
		out += fmt.Sprintf(" idle=%d", f.IdleTimeout)
	}
	if f.HardTimeout > 0 {
		out += fmt.Sprintf(" hard=%d", f.HardTimeout)
	}
	for _, flag := range f.Flags {
		out += " " + flag
	}
	return out + " actions=" + p.PrintActions(f.Actions)
}

// unsure reports whether it is not known which flows take a packet, or a switch may have learnt before it met a limit.
func unsure(walks map[bool]*walk.Walk) bool {
	for _, w := range walks {
		if len(w.Undefined) > 0 || w.Passes[0].Failed != "" {
			return true
		}
	}
	return false
}

// traced is the trace of the packet, which is tracked so many times.
func (c check) traced(times int) string {
	args := []string{c.packet}
	for _, s := range c.states[:times] {
		args = append(args, "--ct-next", s)
	}
	if c.school != nil {
		args = append(args, "-generate") // a packet, of which a trace has the switch learn
	}
	return c.s.trace(args...)
}

// lessons compares what is learnt in a pass.
func (c check) lessons(p *walk.Pass, want []string) error {
	var got []string
	for _, s := range p.Steps {
		if s.Event != nil && s.Event.Kind == walk.Learn {
			got = append(got, lesson(c.w.Pipeline, s.Event.Flow))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("learnt\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return nil
}

// held compares the flows of a switch with what they ought to be, soon.
func (s *school) held(t *testing.T, by *aSwitch) bool {
	t.Helper()
	for deadline := time.Now().Add(mostWait); ; time.Sleep(5 * time.Millisecond) {
		less, more := s.differ(t, by)
		if len(less)+len(more) == 0 {
			return true
		}
		if time.Now().After(deadline) {
			t.Errorf("flows that the switch has not:\n%s\nflows that it has:\n%s", strings.Join(less, "\n"),
				strings.Join(more, "\n"))
			return false
		}
	}
}

// differ are flows that a switch has not but ought to have, and those that it has and ought not to have.
func (s *school) differ(t *testing.T, by *aSwitch) (less, more []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ovs-ofctl", "-O", "OpenFlow15", "--no-stats", "dump-flows",
		"unix:"+filepath.Join(by.dir, by.bridge+".mgmt"))
	cmd.Env = by.env()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(string(text))); err != nil {
		t.Fatal(err)
	}
	lines := func(flows []*pipeline.Flow) (out []string) {
		for _, f := range flows {
			if f.Cookie > 0 && f.Cookie < firstLearnt { // as it was given
				out = append(out, fmt.Sprint(f.Table, f.Priority, f.Cookie))
				continue
			}
			one := *f
			one.Actions = nil
			text := lesson(p, &one)
			for _, a := range f.Actions {
				switch {
				case a.Kind == pipeline.Load || a.Kind == pipeline.SetField:
					at := a.Dst.Shift()
					text += fmt.Sprint(a.Dst.Field.Base, a.Value.Left(at), a.Mask.Left(at))
				default:
					text += p.PrintActions([]pipeline.Action{a})
				}
			}
			out = append(out, text)
		}
		slices.Sort(out)
		return out
	}
	ought, has := lines(s.flows), lines(p.Flows)
	without := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(l string) bool { return slices.Contains(b, l) })
	}
	return without(ought, has), without(has, ought)
}
