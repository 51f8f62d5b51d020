package walk_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// tracker is an oracle that keeps connections of UDP as a switch's tracker does: by zone, and by the ends in the
// direction of the packet that began it.
type tracker struct {
	known map[uint16]map[string]*connection
}

// connection is one; it is new to both until it was answered.
type connection struct {
	mark, label uint64
	answered    bool
}

// ends are a packet's addresses and ports, and those of an answer to it.
func ends(p *walk.Packet) (own, answer string) {
	src := fmt.Sprintf("%d.%d", p.Get(pipeline.NWSrc).Lo, p.Get(pipeline.TPSrc).Lo)
	dst := fmt.Sprintf("%d.%d", p.Get(pipeline.NWDst).Lo, p.Get(pipeline.TPDst).Lo)
	return src + " " + dst, dst + " " + src
}

func (k *tracker) find(zone uint16, p *walk.Packet) (c *connection, state uint64) {
	own, answer := ends(p)
	if c = k.known[zone][answer]; c != nil {
		c.answered = true
		return c, walk.Established | walk.Reply
	}
	if c = k.known[zone][own]; c != nil && c.answered {
		return c, walk.Established
	} else if c != nil {
		return c, walk.New
	}
	return nil, walk.New
}

func (k *tracker) Track(ask walk.Ask, p *walk.Packet) {
	c, state := k.find(ask.Zone, p)
	a := walk.Answer{State: state}
	if c != nil {
		a.Mark, a.Label = c.mark, pipeline.Value{Lo: c.label}
	}
	a.Fill(p)
}

func (*tracker) Larger(uint64) bool                   { return false }
func (*tracker) Choose(string, int, *walk.Packet) int { return 0 }

var committed = regexp.MustCompile(`zone=(\d+)(?:,mark=(0x[0-9a-f]+|\d+)(?:/(0x[0-9a-f]+))?)?` +
	`(?:,label=(0x[0-9a-f]+|\d+)(?:/(0x[0-9a-f]+))?)?`)

// learn keeps what a walk commits.
func (k *tracker) learn(w *walk.Walk) error {
	number := func(s string) (n uint64) {
		fmt.Sscan(s, &n)
		return n
	}
	set := func(to *uint64, value, mask string) {
		m := number(mask)
		if mask == "" {
			m = ^uint64(0)
		}
		*to = *to&^m | number(value)&m
	}
	for _, e := range w.Events() {
		if e.Kind != walk.Commit {
			continue
		}
		m := committed.FindStringSubmatch(e.Text)
		if m == nil {
			return fmt.Errorf("a commit that is not understood: %s", e.Text)
		}
		zone := uint16(number(m[1]))
		c, _ := k.find(zone, e.Packet)
		if c == nil {
			c = &connection{}
			if k.known[zone] == nil {
				k.known[zone] = map[string]*connection{}
			}
			own, _ := ends(e.Packet)
			k.known[zone][own] = c
		}
		if m[2] != "" {
			set(&c.mark, m[2], m[3])
		}
		if m[4] != "" {
			set(&c.label, m[4], m[5])
		}
	}
	return nil
}

// list is each connection's zone, mark and label.
func (k *tracker) list() (out []string) {
	for zone, all := range k.known {
		for _, c := range all {
			out = append(out, fmt.Sprintf("zone=%d mark=%d labels=%#x", zone, c.mark, c.label))
		}
	}
	slices.Sort(out)
	return out
}

var dumpedConnection = regexp.MustCompile(`(?m)^udp,orig=\(.*?\),reply=\(.*?\)(?:,zone=(\d+))?(?:,mark=(\d+))?` +
	`(?:,labels=(0x[0-9a-f]+))?`)

// connections are those that the switch's tracker knows, as list has them.
func (w *wire) connections() (out []string) {
	or := func(s, none string) string {
		if s == "" {
			return none
		}
		return s
	}
	for _, m := range dumpedConnection.FindAllStringSubmatch(w.appctl("dpctl/dump-conntrack"), -1) {
		out = append(out, fmt.Sprintf("zone=%s mark=%s labels=%s", or(m[1], "0"), or(m[2], "0"), or(m[3], "0x0")))
	}
	slices.Sort(out)
	return out
}

// tracking draws a pipeline that has each zone asked once, and looks packets up as of their connection's original
// direction.
func (g *generator) tracking() []string {
	exec := func() string {
		return g.one("", ",exec(load:2->NXM_NX_CT_MARK[])", ",exec(load:1->NXM_NX_CT_MARK[3])",
			",exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[])", ",exec(set_field:0x1/0x3->ct_label)",
			",exec(set_field:2->ct_mark,load:3->NXM_NX_CT_LABEL[4..7])",
			",exec(move:NXM_OF_IN_PORT[0..7]->NXM_NX_CT_LABEL[8..15])")
	}
	zones := []string{"", ",zone=1", ",zone=NXM_NX_REG0[0..15]"}
	g.Shuffle(len(zones), func(i, j int) { zones[i], zones[j] = zones[j], zones[i] })
	out := []string{
		fmt.Sprintf("table=0,ip actions=load:%d->NXM_NX_REG0[],ct(commit,table=1%s%s)", 5+g.IntN(3), zones[0], exec()),
		"table=1,priority=1,ip,ct_state=+trk-inv actions=resubmit(,2,ct),resubmit(,3),resubmit(,2)",
		fmt.Sprintf("table=3,priority=5,ip,%s actions=output:7,ct(commit%s%s)", g.one("ct_mark=2", "ct_mark=0/0x8",
			"ct_label=1/1", "ct_state=+est", "ct_state=+trk-inv,ct_nw_src=10.0.0.1"), zones[2], exec()),
		"table=3,priority=1,ip,ct_state=+trk-inv actions=resubmit(,2,ct),output:8"}
	if g.chance(75) {
		track := g.one("ct(table=3"+zones[1]+")", "ct(commit,table=3"+zones[1]+exec()+")")
		out = append(out, fmt.Sprintf("table=1,priority=2,ip,ct_state=+trk-inv%s actions=resubmit(,2,ct),%s",
			g.one("+new", "+est", "+rpl", "-rpl"), track))
	}
	for i := range 4 {
		out = append(out, fmt.Sprintf("table=2,priority=%d,%s actions=output:%d", 10-i, g.one("udp,nw_src=10.0.0.1",
			"udp,nw_dst=10.0.0.1", "udp,tp_src=1000", "udp,tp_dst=1000", "udp,tp_src=53,nw_dst=10.0.0.2",
			"ip,nw_src=10.0.0.2", "udp,nw_src=10.0.0.1,tp_dst=53"), 3+i))
	}
	return out
}

// TestOriginalDirection: what a switch's tracker answers to packets of both directions, what it keeps of connections,
// and which flows take packets that are looked up as of their connection's original direction, are as a walk says.
func TestOriginalDirection(t *testing.T) {
	w := newWire(t)
	g := &generator{Rand: drawn.Random(t)}
	number := uint32(0x5eed0000)
	met := map[string]int{}
	for range drawn.Number(t, "PATHWISE_TRACKED", 60) {
		flows := g.tracking()
		w.ofctl("replace-flows", flows)
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(strings.Join(flows, "\n"))); err != nil {
			t.Fatal(err)
		}
		through, k := walk.Through(p), &tracker{map[uint16]map[string]*connection{}}
		w.appctl("dpctl/flush-conntrack")
		for range 5 {
			number++
			a, b, in := "10.0.0.1", "10.0.0.2", "1"
			src, dst := "1000", "53"
			if g.chance(50) {
				a, b, src, dst, in = b, a, dst, src, "2"
			}
			packet := fmt.Sprintf("in_port=%s,dl_src=00:00:00:00:00:01,dl_dst=00:00:00:00:00:08,udp,nw_src=%s,nw_dst=%s"+
				",nw_ttl=64,udp_src=%s,udp_dst=%s", in, a, b, src, dst)
			m, err := p.ReadPacket(packet)
			if err != nil {
				t.Fatal(err)
			}
			got := through.Follow(walk.NewPacket(m), k)
			if !got.Understood() {
				t.Fatalf("not understood: %v\n%s", got.Unknown, strings.Join(flows, "\n"))
			}
			var want []string
			for _, e := range got.Events() {
				if e.Kind == walk.Output {
					want = append(want, strings.TrimPrefix(e.Text, "output:")+" "+outer(p, e.Packet))
				}
			}
			if err := k.learn(got); err != nil {
				t.Fatal(err)
			}
			frame := w.compose(packet, number, 4)
			w.appctl("netdev-dummy/receive", "p"+in, frame)
			seen := w.arrived(number, len(frame)/2, len(want))
			slices.Sort(want)
			met["packets"]++
			met["outputs"] += len(want)
			if kept := w.connections(); !slices.Equal(seen, want) || !slices.Equal(kept, k.list()) {
				t.Fatalf("packet %s\nseen %s\nwant %s\nkept %q\nwant %q\nof\n%s", packet, strings.Join(seen, "\n     "),
					strings.Join(want, "\n     "), kept, k.list(), strings.Join(flows, "\n"))
			}
		}
	}
	t.Logf("met: %v", met)
}

// arrived are the packets with a number that have left once so many have.
func (w *wire) arrived(number uint32, size, n int) (seen []string) {
	w.t.Helper()
	const tags = 16 // of VLAN and MPLS
	for deadline := time.Now().Add(mostWait); ; time.Sleep(2 * time.Millisecond) {
		if seen = w.left(number, size+tags); len(seen) >= n || time.Now().After(deadline) {
			slices.Sort(seen) // ports' files say nothing of the order among them
			return seen
		}
	}
}
