package walk_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// fresh is an oracle like a tracker that knows no connection. Once one was committed, it does
// not know what that tracker says.
type fresh struct {
	committed map[uint16]bool
	doubtful  bool
	bytes     uint64
}

func (o *fresh) Track(ask walk.Ask, p *walk.Packet) {
	o.doubtful = o.doubtful || o.committed[ask.Zone]
	o.committed[ask.Zone] = o.committed[ask.Zone] || ask.Commit
	walk.Answer{State: walk.New}.Fill(p)
	walk.Translate(ask.NAT, p)
}

func (o *fresh) Larger(n uint64) bool { return o.bytes > n }

func (o *fresh) Choose(what string, _ int, _ *walk.Packet) int {
	o.doubtful = o.doubtful || !strings.HasPrefix(what, "group") && !strings.Contains(what, "active_backup")
	return 0
}

// mostWait is how long a switch may take with a packet; only a busy machine has one take long.
const mostWait = 30 * time.Second

// wire are the ports of a switch with dummy interfaces, which write what leaves into files.
type wire struct {
	*aSwitch
	names *pipeline.Pipeline // to read packets with
}

func newWire(t *testing.T) *wire {
	s := newSwitch(t)
	// A flow of the datapath would be taken for one of the next pipeline.
	s.run("ovs-vsctl", "--db=unix:"+filepath.Join(s.dir, "db.sock"), "--timeout=20", "set", "Open_vSwitch", ".",
		"other_config:flow-limit=0")
	for i := 1; i <= ports; i++ {
		s.run("ovs-vsctl", "--db=unix:"+filepath.Join(s.dir, "db.sock"), "--timeout=20", "set", "Interface",
			fmt.Sprintf("p%d", i), fmt.Sprintf("options:tx_pcap=%s", filepath.Join(s.dir, fmt.Sprintf("p%d.pcap", i))))
	}
	return &wire{s, pipeline.New(nil)}
}

// frames are those that have left a port.
func (w *wire) frames(port int) (out [][]byte) {
	const head, record = 24, 16
	raw, _ := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("p%d.pcap", port)))
	for at := head; at+record <= len(raw); {
		n := int(binary.NativeEndian.Uint32(raw[at+8:]))
		if at+record+n > len(raw) {
			break
		}
		out = append(out, raw[at+record:at+record+n])
		at += record + n
	}
	return out
}

// compose is a frame of the packet that carries a number so many times, in hexadecimal.
func (w *wire) compose(packet string, number uint32, times int) string {
	w.t.Helper()
	text, _ := exec.CommandContext(w.t.Context(), "ovs-ofctl", "compose-packet", packet, // in_port differs, and it fails
		strings.Repeat(fmt.Sprintf("%08x", number), times)).Output()
	var frame strings.Builder
	for _, m := range dumped.FindAllStringSubmatch(string(text), -1) {
		frame.WriteString(strings.NewReplacer(" ", "", "-", "").Replace(m[1]))
	}
	if frame.Len() == 0 {
		w.t.Fatalf("compose %s: %s", packet, text)
	}
	return frame.String()
}

var dumped = regexp.MustCompile(`(?m)^[0-9a-f]{8} ((?:[ -][0-9a-f]{2}){1,16})`)

// left are the packets with the number that have left, by port, as flows. Those of which a
// part was sent are filled up: else nothing of IP is read.
func (w *wire) left(number uint32, size int) (out []string) {
	w.t.Helper()
	mark := binary.BigEndian.AppendUint32(nil, number)
	for port := 1; port <= ports; port++ {
		for _, f := range w.frames(port) {
			if bytes.Contains(f, mark) {
				whole := append(slices.Clip(f), make([]byte, max(0, size-len(f)))...) // what follows is another's
				out = append(out, fmt.Sprintf("%d %s", port, w.header(whole)))
			}
		}
	}
	return out
}

// TestRealPackets: real packets through the real switch of generated pipelines, with its own
// tracker, leave by the ports that a walk says, with the header that it says.
func TestRealPackets(t *testing.T) {
	w := newWire(t)
	g := &generator{Rand: drawn.Random(t), groups: 4}
	groups := g.allGroups()
	w.ofctl("add-groups", groups)
	number, sent, learnt := uint32(0x5eed0000), 0, 0
	for range drawn.Number(t, "PATHWISE_REAL", 100) {
		g.kind()
		flows := g.pipeline()
		w.ofctl("replace-flows", flows)
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(strings.Join(append(flows, groups...), "\n"))); err != nil {
			t.Fatal(err)
		}
		in, packets := newSchool(p), 3
		if g.learning {
			packets = 10 // later ones meet what those before have had learnt
		}
		for range packets {
			number++
			packet := strings.ReplaceAll(g.packet(), ",tcp_flags=syn", "") // which carries no number
			if has(packet, "tcp", "tcp6") && !strings.Contains(packet, "tcp_flags") {
				packet += ",tcp_flags=ack" // to a tracker, no flags are invalid
			}
			if strings.Contains(packet, "frag") || has(packet, "arp", "mpls", "icmp6", "dl_type=0x88cc") ||
				strings.Contains(packet, "pkt_mark") || strings.Contains(packet, "tun_id") || strings.Contains(packet, "metadata") {
				continue // nor do these, or they have what no wire carries
			}
			times := 4
			if g.larger && g.chance(50) {
				times = 300 // more than the 1,000 bytes that flows ask for
			}
			if !w.arrives(in, packet, number, times) {
				t.Fatalf("pipeline:\n%s\n%s\npacket %s", strings.Join(groups, "\n"), strings.Join(flows, "\n"), packet)
			}
			sent++
		}
		learnt += in.learnt
		if g.learning && !in.held(t, w.aSwitch) {
			t.Fatalf("pipeline:\n%s\n%s", strings.Join(groups, "\n"), strings.Join(flows, "\n"))
		}
	}
	t.Logf("%d packets, %d flows learnt", sent, learnt)
}

var zoned = regexp.MustCompile(`zone=(\d+)`)

// again reports whether a zone in which the connection is committed is asked more than once: what it says then
// depends on which comes first.
func again(got *walk.Walk) bool {
	asked, committed := map[string]int{}, map[string]bool{}
	for _, e := range got.Events() {
		if e.Kind != walk.Lookup && e.Kind != walk.Commit {
			continue
		}
		zone := zoned.FindString(e.Text)
		asked[zone]++
		if committed[zone] = committed[zone] || e.Kind == walk.Commit; committed[zone] && asked[zone] > 1 {
			return true
		}
	}
	return false
}

// misplaced reports whether a switch may write into the wrong place, as ofproto/trace does not: it reads a packet
// again that it shows a controller, of two tags the first alone by default, and takes for the end of the tags what is
// not (dp_execute_userspace_action of lib/dpif-netdev.c and set_ethertype of lib/packets.c, Open vSwitch 3.1). A label
// is put there then, and an address over the one before.
func misplaced(got *walk.Walk, words *pipeline.Vocabulary) bool {
	labelled := func(e walk.Event) bool { return e.Packet.Labelled() }
	events := got.Events()
	for i, shown := range events {
		if shown.Kind != walk.Controller || !shown.Packet.TwoTags() {
			continue
		}
		rewritten := func(e walk.Event) bool {
			return slices.ContainsFunc(e.Packet.Changes(shown.Packet, words), func(t pipeline.Term) bool {
				return walk.Header(t.Base) && t.Base > pipeline.EthType
			})
		}
		if slices.ContainsFunc(events, labelled) || slices.ContainsFunc(events[i+1:], rewritten) {
			return true
		}
	}
	return false
}

// arrives sends a packet, and compares what leaves with a walk.
func (w *wire) arrives(p *school, packet string, number uint32, times int) bool {
	w.t.Helper()
	m, err := p.ReadPacket(packet)
	if err != nil {
		w.t.Fatal(err)
	}
	frame := w.compose(packet, number, times)
	o := &fresh{committed: map[uint16]bool{}, bytes: uint64(len(frame) / 2)}
	got := p.Follow(walk.NewPacket(m), o)
	const mostPasses = 5 // dpif-netdev drops what recirculates more often
	if o.doubtful || !got.Understood() || len(got.Undefined) > 0 || len(got.Passes) > mostPasses ||
		len(p.Learnt()) > 0 && slices.ContainsFunc(got.Passes, func(p *walk.Pass) bool { return p.Failed != "" }) {
		return true // it may have learnt before it failed
	}
	if again(got) || misplaced(got, p.Words) {
		return true
	}
	var want []string
	for _, e := range got.Events() {
		if strings.Contains(e.Text, "nat(") { // the datapath translates the original too, which no trace shows
			return true
		}
		port, _, _ := strings.Cut(strings.NewReplacer("output:", "", "output(port=", "").Replace(e.Text), ",")
		if n, err := strconv.Atoi(port); e.Kind == walk.Output && err == nil && n >= 1 && n <= ports {
			want = append(want, port+" "+outer(p.Pipeline.Pipeline, e.Packet))
		}
	}
	w.appctl("dpctl/flush-conntrack")
	in, _, _ := strings.Cut(strings.TrimPrefix(packet, "in_port="), ",")
	w.appctl("netdev-dummy/receive", "p"+in, frame)
	seen := w.arrived(number, len(frame)/2, len(want))
	slices.Sort(want)
	if !slices.Equal(seen, want) {
		w.t.Errorf("seen\n  %s\nwant\n  %s\nframe %s", strings.Join(seen, "\n  "), strings.Join(want, "\n  "), frame)
		return false
	}
	p.takes(got)
	return true
}

// header is that of a frame, as the switch reads it.
func (w *wire) header(frame []byte) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "ovs-ofctl", "parse-packet")
	cmd.Stdin = bytes.NewReader(frame)
	text, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("parse-packet: %v", err)
	}
	var kept []string
	flow, _, _ := strings.Cut(string(text), " ") // and its checksum
	for _, f := range split(strings.TrimSpace(flow)) {
		if k, _, _ := strings.Cut(f, "="); !strings.HasSuffix(k, "1") && k != "in_port" && k != "mpls_lse2" {
			kept = append(kept, f)
		}
	}
	m, err := w.names.ReadPacket(strings.Join(kept, ","))
	if err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	return outer(w.names, walk.NewPacket(m))
}

// outer is a packet's own header without inner tags and labels.
func outer(p *pipeline.Pipeline, packet *walk.Packet) string {
	packet = packet.Bare()
	var m pipeline.Match
	for _, t := range packet.Terms(p.Words) {
		if walk.Header(t.Base) && t.Base != pipeline.NWFrag && t.Base != pipeline.TCPFlags {
			m = append(m, t)
		}
	}
	return p.PrintTerms(m)
}

// TestTwoTags: a packet with two tags, one that comes so and one in the pass after it was tracked, is one of IP
// no more to a switch that was not told otherwise, though ofproto/trace says that it is; to one whose
// vlan-limit is 2 it is.
func TestTwoTags(t *testing.T) {
	w := newWire(t)
	const packet = "in_port=1,dl_src=00:00:00:00:00:01,dl_dst=00:00:00:00:00:02,dl_vlan=5,tcp,nw_src=10.0.0.1," +
		"nw_dst=10.0.0.2,nw_ttl=9,tp_src=1000,tp_dst=80,tcp_flags=ack"
	inTable := func(t int) []string {
		return []string{fmt.Sprintf("table=%d,priority=3,ip actions=output:2", t),
			fmt.Sprintf("table=%d,priority=2,dl_vlan=6,dl_type=0x8100 actions=output:3", t),
			fmt.Sprintf("table=%d,priority=2,dl_vlan=0,dl_type=0x8100 actions=output:3", t)}
	}
	number := uint32(0x5eed0000)
	for _, limit := range []int{1, 2} {
		if limit > 1 {
			w.run("ovs-vsctl", "--db=unix:"+filepath.Join(w.dir, "db.sock"), "--timeout=20", "set", "Open_vSwitch", ".",
				fmt.Sprintf("other_config:vlan-limit=%d", limit))
		}
		for _, comes := range []bool{true, false} {
			number++
			flows, frame := inTable(0), w.compose(packet, number, 4)
			if comes {
				const macs = 24 // two addresses, in hexadecimal
				frame = frame[:macs] + "81000006" + frame[macs:]
			} else {
				flows = append(inTable(1), "tcp actions=push_vlan:0x8100,ct(table=1)")
			}
			w.ofctl("replace-flows", flows)
			if trace := w.trace(packet); !comes && !strings.HasSuffix(strings.TrimSpace(trace), "actions: 2") {
				t.Errorf("a trace says else:\n%s", trace)
			}
			w.appctl("netdev-dummy/receive", "p1", frame)
			want := 4 - limit
			for deadline := time.Now().Add(mostWait); len(w.left(number, 0)) == 0 && time.Now().Before(deadline); {
				time.Sleep(2 * time.Millisecond)
			}
			if got := w.left(number, 0); len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprint(want)) {
				t.Errorf("vlan-limit %d, came so %v: it has left by %v, want %d", limit, comes, got, want)
			}
		}
	}
}
