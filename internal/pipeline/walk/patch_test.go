package walk_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/walk"
)

// patched adds bridge br1 with ports 1 to 3, and two patches between port 20 and 21 of either bridge.
func (s *aSwitch) patched() {
	s.t.Helper()
	args := []string{"--db=unix:" + filepath.Join(s.dir, "db.sock"), "--timeout=20",
		"add-br", "br1", "--", "set", "Bridge",
		"br1", "datapath_type=dummy", "fail_mode=secure", "protocols=[OpenFlow10,OpenFlow13,OpenFlow15]"}
	for i := 1; i <= 3; i++ {
		args = append(args, "--", "add-port", "br1", fmt.Sprintf("q%d", i), "--", "set", "Interface", fmt.Sprintf("q%d", i),
			"type=dummy", fmt.Sprintf("ofport_request=%d", i))
	}
	for i := range 2 {
		for b := range 2 {
			name := fmt.Sprintf("x%d-%d", b, i)
			args = append(args, "--", "add-port", fmt.Sprintf("br%d", b), name, "--", "set", "Interface", name, "type=patch",
				fmt.Sprintf("ofport_request=%d", 20+i), fmt.Sprintf("options:peer=x%d-%d", 1-b, i))
		}
	}
	s.run("ovs-vsctl", args...)
}

// replace gives a bridge its flows.
func (s *aSwitch) replace(bridge string, flows []string) {
	s.t.Helper()
	first := s.bridge
	s.bridge = bridge
	s.ofctl("replace-flows", flows)
	s.bridge = first
}

// crossing are flows of a bridge from which packets come to the other, and some back.
func crossing(g *rand.Rand) (out []string) {
	does := []string{"output:1", "output:2", "output:20", "output:21", "IN_PORT", "set_field:1->reg0", "set_field:2->reg1",
		"set_field:00:00:00:00:00:07->eth_dst", "set_field:00:00:00:00:00:08->eth_dst", "resubmit(,1)", "resubmit(,2)",
		"resubmit(3,2)", "clone(output:20,output:3)", "push:NXM_NX_REG0[]", "pop:NXM_NX_REG1[]", "set_field:5->metadata",
		"set_field:9->pkt_mark", "set_field:7->tun_id", "exit", "ct_clear",
		"load:1->NXM_OF_IN_PORT[]", "group:1"}
	wants := []string{"in_port=1", "in_port=20", "in_port=21", "reg0=1", "reg1=2", "reg0=0", "metadata=5", "pkt_mark=9",
		"tun_id=7",
		"dl_dst=00:00:00:00:00:07", "ip", "ct_state=-trk"}
	for table := range 3 {
		for priority := range 4 {
			f := fmt.Sprintf("table=%d,priority=%d", table, priority)
			if priority > 0 {
				f += "," + wants[g.IntN(len(wants))]
			}
			var list []string
			for range 1 + g.IntN(5) {
				a := does[g.IntN(len(does))]
				if strings.HasPrefix(a, "resubmit(") && table == 2 {
					a = "output:20"
				}
				if strings.HasPrefix(a, "load:1->NXM_OF_IN_PORT[]") && g.IntN(3) > 0 {
					a = "output:21"
				}
				list = append(list, a)
			}
			for _, instruction := range []string{"clear_actions", "write_actions(output:2)"} {
				if g.IntN(6) == 0 {
					list = append(list, instruction)
				}
			}
			out = append(out, f+" actions="+strings.Join(list, ","))
		}
	}
	return out
}

var shown = regexp.MustCompile(`(?m)^\s*(\S+) (\d+)/(?:(\d+)|none):`)

// TestPatchPorts: packets go through patch ports, to and fro, as in a real switch.
func TestPatchPorts(t *testing.T) {
	s := newSwitch(t)
	s.patched()
	g := drawn.Random(t)
	at := map[string]string{} // the datapath's port of one of a bridge
	for _, m := range shown.FindAllStringSubmatch(s.appctl("dpif/show"), -1) {
		bridge := ""
		if m[1][0] == 'q' {
			bridge = "br1:"
		}
		if m[3] != "" && m[1] != "br0:" {
			at[bridge+"output:"+m[2]] = m[3]
		}
	}
	for _, b := range []string{"br0", "br1"} {
		first := s.bridge
		s.bridge = b
		s.ofctl("add-groups", []string{"group_id=1,type=all,bucket=output:1,bucket=output:20"})
		s.bridge = first
	}
	crossed, n := 0, drawn.Number(t, "PATHWISE_PATCHED", 60)
	for range n {
		two := [2][]string{crossing(g), crossing(g)}
		names := pipeline.NewNames()
		var bridges []pipeline.Bridge
		for i, name := range []string{"br0", "br1"} {
			s.replace(name, two[i])
			p := pipeline.New(names)
			lines := append(slices.Clone(two[i]), "group_id=1,type=all,bucket=output:1,bucket=output:20")
			if err := p.Read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
				t.Fatal(err)
			}
			bridges = append(bridges, pipeline.Bridge{Name: name, Pipeline: p})
		}
		peers := map[pipeline.End]pipeline.End{}
		for _, port := range []pipeline.Port{20, 21} {
			peers[pipeline.End{Bridge: "br0", Port: port}] = pipeline.End{Bridge: "br1", Port: port}
			peers[pipeline.End{Bridge: "br1", Port: port}] = pipeline.End{Bridge: "br0", Port: port}
		}
		p, err := pipeline.Join(bridges, peers)
		if err != nil {
			t.Fatal(err)
		}
		packet := fmt.Sprintf("icmp,in_port=%d,nw_ttl=64,dl_dst=00:00:00:00:00:01", 1+g.IntN(3))
		m, err := p.ReadPacket(packet)
		if err != nil {
			t.Fatal(err)
		}
		got := walk.Through(p).Follow(walk.NewPacket(m), walk.Given{})
		if !got.Understood() || slices.ContainsFunc(got.Passes, func(p *walk.Pass) bool { return p.Failed != "" }) {
			continue // a limit
		}
		said := s.trace(packet)
		if has, want := left(got, at), datapath(said); !slices.Equal(has, want) {
			t.Fatalf("%s: %q, want %q: %.3000s\nbr0:\n%s\nbr1:\n%s", packet, has, want, said, strings.Join(two[0], "\n"),
				strings.Join(two[1], "\n"))
		}
		if strings.Contains(said, `bridge("br1")`) {
			crossed++
		}
	}
	if crossed < n/10 {
		t.Errorf("only %d of %d packets came to the other bridge", crossed, n)
	}
	t.Logf("%d of %d packets came to the other bridge", crossed, n)
}

// left is the datapath's ports that a packet leaves by, with its address.
func left(w *walk.Walk, at map[string]string) (out []string) {
	for _, e := range w.Events() {
		if port, ok := at[e.Text]; ok && e.Kind == walk.Output {
			out = append(out, port+" "+strconv.FormatUint(e.Packet.Get(pipeline.EthDst).Lo, 16))
		}
	}
	return out
}

var addressed = regexp.MustCompile(`set\(eth\([^)]*dst=([0-9a-f:]+)`)

// datapath is the same as ofproto/trace tells it.
func datapath(said string) (out []string) {
	_, actions, _ := strings.Cut(said, "Datapath actions: ")
	dst, depth, from := "1", 0, 0
	actions = strings.TrimSpace(actions)
	for i := 0; i <= len(actions); i++ {
		switch {
		case i < len(actions) && actions[i] == '(':
			depth++
		case i < len(actions) && actions[i] == ')':
			depth--
		case i == len(actions) || actions[i] == ',' && depth == 0:
			word := actions[from:i]
			from = i + 1
			if m := addressed.FindStringSubmatch(word); m != nil {
				n, _ := strconv.ParseUint(strings.ReplaceAll(m[1], ":", ""), 16, 64)
				dst = strconv.FormatUint(n, 16)
			} else if _, err := strconv.Atoi(word); err == nil {
				out = append(out, word+" "+dst)
			}
		}
	}
	return out
}
