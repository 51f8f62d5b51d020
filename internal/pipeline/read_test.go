package pipeline

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline/drawn"
)

func read(t *testing.T, text string) *Pipeline {
	t.Helper()
	p := New(nil)
	if err := p.Read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEveryLineIsReadOrNamed: what is not understood is told with its line, and the rest
// of the line stays.
func TestEveryLineIsReadOrNamed(t *testing.T) {
	for _, c := range []struct{ line, lost, noted, printed string }{
		{line: "NXST_FLOW reply (xid=0x4):"},
		{line: "OFPST_FLOW reply (OF1.5) (xid=0x2):"},
		{line: " "},
		{line: "# a comment"},
		{line: "table=1,ip", lost: "no actions="},
		{line: "root@node-14:~# ovs-ofctl -O OpenFlow13 dump-flows br-int table=4"},
		{line: "$ ovs-ofctl dump-flows br0 && echo actions", lost: "no actions="},
		// As people paste them, and as lists for ovs-ofctl have them.
		{line: "  11. cookie=0x14, duration=5.8s, table=4, n_packets=0, n_bytes=0, ip actions=drop",
			printed: "cookie=0x14, table=4, ip actions=drop"},
		{line: "> - table=1, ip actions=output:2 | |", printed: "table=1, ip actions=output:2"},
		{line: "3: ip actions=drop", printed: "ip actions=drop"},
		{line: "· table=1, ip actions=drop", printed: "table=1, ip actions=drop"},
		{line: "\t\t`table=1, ip actions=output:\"a-b\"`,", printed: `table=1, ip actions=output:"a-b"`},
		{line: `in_port="a-b" actions=output:"b-c"`, printed: `in_port="a-b" actions=output:"b-c"`},
		{line: "[root@study-node1 ml2]#"},
		{line: "root@nova2:~# ip link show"},
		{line: "$ bin/trema dump_flows lsw2"},
		{line: "\x1b[33mtable=\x1b[m1, ip actions=\x1b[31mdrop\x1b[m", printed: "table=1, ip actions=drop"},
		{line: "ip,actions=drop # all of it", printed: "ip actions=drop"},
		{line: `in_port="a#b" actions=output:"c#d"#e`, printed: `in_port="a#b" actions=output:"c#d"`},
		{line: `sh ovs-ofctl add-flow -OOpenFlow13 s1 "table=5, dl_type=0x0800, actions=goto_table=10" | |`,
			printed: "table=5, ip actions=goto_table:10"},
		{line: "root@a:~# ovs-ofctl -O OpenFlow13 add-flow br0 'ip,in_port=1 actions=drop' # c", printed: "ip,in_port=1 actions=drop"},
		{line: "sudo ovs-ofctl add-flow br0 table=2,actions=NORMAL", printed: "table=2, actions=NORMAL"},
		{line: "ovs-ofctl add-group -O OpenFlow13 br0 group_id=1,type=all,bucket=output:2"},
		{line: "flow add table=1,ip actions=drop", printed: "table=1, ip actions=drop"},
		{line: "flow table=1,ip actions=drop", printed: "table=1, ip actions=drop"},
		{line: "flow delete table=1", lost: "a command to delete flows, not a flow"},
		{line: "group add group_id=1,type=all,bucket=actions=output:1"},
		{line: "group group_id=1,type=all,bucket=output:1"},
		{line: "delete table=1", lost: "a command to delete flows, not a flow"},
		{line: "add table=1,ip actions=drop", printed: "table=1, ip actions=drop"},
		{line: "table=0,ip,new_field=7,actions=output:1", noted: "no such field",
			printed: "ip,new_field=7 actions=output:1"},
		{line: "ip,actions=output:1,teleport(moon),output:2", noted: "no such action",
			printed: "ip actions=output:1,teleport(moon),output:2"},
		{line: "table=300,actions=drop", noted: "table: table 300 is out of range", printed: "table=300 actions=drop"},
		{line: "priority=-1,ip actions=drop", noted: "priority: -1: expected a number from 0 to 65535",
			printed: "ip,priority=-1 actions=drop"},
		{line: "priority=high,ip actions=drop", noted: "priority: not a number", printed: "ip,priority=high actions=drop"},
		{line: "nw_src=1.2.3,ip,actions=drop", noted: "ip_src: not an IPv4 address"},
		{line: "ip,nw_src=1.2.3.4/40,actions=drop", noted: "ip_src: prefix /40: expected 0 to 32"},
		{line: "ct_state=+born,actions=drop",
			noted: `ct_state: no flag "born": expected some of new, est, rel, rpl, inv, trk, snat, dnat`},
		{line: "actions=ct(force)", noted: "force goes with commit only"},
		{line: "actions=move:reg0[0..7]->reg1[0..3]", noted: "moves 8 bits into 4"},
		{line: "actions=load:1->reg0[0..32]", noted: "reg0[0..32]: expected bits from 0 to 31"},
		{line: "actions=conjunction(1,3/2)", noted: "expected K/N with K from 1 to N, and N from 2 to 64"},
		{line: "nw_src=10.0.0.1,actions=drop", printed: "actions=drop"}, // not IP: a switch ignores it
		{line: "table_id=3, ip actions=2", printed: "table=3, ip actions=output:2"},
		{line: " cookie=0x7, duration=1.5s, table=2, n_packets=3, n_bytes=4, n_offload_packets=1, n_offload_bytes=2," +
			" hard_age=9, priority=7,in_port=eth0 actions=output:\"a-b\"",
			printed: `cookie=0x7, table=2, priority=7,in_port=eth0 actions=output:"a-b"`},
		{line: "table=ingress, actions=goto_table:egress", printed: "table=ingress, actions=goto_table:egress"},
	} {
		p := read(t, c.line)
		if lost := len(p.Lost) > 0; lost != (c.lost != "") || lost && p.Lost[0].Reason != c.lost {
			t.Errorf("%s: lost %v, want %q", c.line, p.Lost, c.lost)
		}
		if len(p.Flows) == 0 {
			continue
		}
		f := p.Flows[0]
		if f.Understood() != (c.noted == "") || c.noted != "" && f.Notes[0].Reason != c.noted {
			t.Errorf("%s: notes %v, want %q", c.line, f.Notes, c.noted)
		}
		if got := p.Print(f, AsGiven); c.printed != "" && got != c.printed {
			t.Errorf("%s: printed %s, want %s", c.line, got, c.printed)
		}
	}
}

// TestWrapped: a flow that was wrapped is one, and no part of it is read as another.
func TestWrapped(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		lost int
	}{
		{"  cookie=0x0, duration=47.068s, table=19, n_packets=0, n_bytes=0,\n    idle_age=47, priority=110,icmp6,metadata=0x5," +
			"icmp_type=135,\n        icmp_code=0\n   actions=resubmit(,20)\ncookie=0x0, table=22, actions=drop",
			[]string{"table=19, priority=110,icmp6,metadata=0x5,icmp_type=135,icmp_code=0 actions=resubmit(,20)",
				"table=22, actions=drop"}, 0},
		{"table=1,ip,actions=ct(commit,\n  table=2,zone=3),\noutput:2\nip actions=drop",
			[]string{"table=1, ip actions=ct(commit,table=2,zone=3),output:2", "ip actions=drop"}, 0},
		{"table=4,tcp actions=learn(table=5, \\\n  NXM_OF_IP_DST[]), \\\n resubmit(,42)\n",
			[]string{"table=4, tcp actions=learn(table=5,NXM_OF_IP_DST[]),resubmit(,42)"}, 0},
		{"group_id=5,type=select,\\\nbucket=actions=output:1,\\\nbucket=actions=output:2\nactions=group:5",
			[]string{"actions=group:5"}, 0},
		{"cookie=0x1, table=3, priority=5,ip\ncookie=0x2, table=3, priority=6,ip actions=drop\ntable=9,ip",
			[]string{"cookie=0x2, table=3, priority=6,ip actions=drop"}, 2},
		{"ip actions=output:1,\ntable=1,ip actions=drop\n", []string{"ip actions=output:1", "table=1, ip actions=drop"}, 0},
		{"words that a page has\nactions=drop", []string{"actions=drop"}, 1},
	} {
		p := read(t, c.text)
		var got []string
		for _, f := range p.Flows {
			got = append(got, p.Print(f, AsGiven))
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") || len(p.Lost) != c.lost {
			t.Errorf("%q: %q, want %q; lost %v, want %d", c.text, got, c.want, p.Lost, c.lost)
		}
	}
}

// TestNoTable: 255 is the number of no table: a flow that is given with it is put into the first, as a switch
// does, an action that leads there leads nowhere.
func TestNoTable(t *testing.T) {
	if p := read(t, "table=255,ip actions=drop"); p.Print(p.Flows[0], AsGiven) != "ip actions=drop" {
		t.Errorf("%q", p.Print(p.Flows[0], AsGiven))
	}
	for _, action := range []string{"goto_table:255", "ct(table=0xff)", "learn(table=255,eth_type=0x800)",
		"resubmit(,255)"} {
		if f := read(t, "ip actions="+action).Flows[0]; f.Understood() {
			t.Errorf("%s: understood", action)
		}
	}
	if p := read(t, "actions=resubmit(1,255)"); p.Print(p.Flows[0], AsGiven) != "actions=resubmit:1" {
		t.Errorf("%q", p.Print(p.Flows[0], AsGiven))
	}
}

func TestCounters(t *testing.T) {
	p := read(t, "n_packets=3, n_bytes=4, ip actions=drop\nip actions=drop")
	if f := p.Flows[0]; !f.Counted || f.Packets != 3 || f.Bytes != 4 || p.Flows[1].Counted {
		t.Errorf("%+v", f)
	}
}

func TestGroups(t *testing.T) {
	p := read(t, "group_id=7,type=select,bucket=weight:3,actions=output:1,bucket=actions=ct(commit),output:2")
	if len(p.Groups) != 1 || p.Groups[0].ID != 7 || p.Groups[0].Type != "select" || len(p.Groups[0].Buckets) != 2 {
		t.Fatalf("%+v", p.Groups)
	}
	b := p.Groups[0].Buckets
	if b[0].Weight != 3 || b[1].Weight != 1 || p.PrintActions(b[1].Actions) != "ct(commit),output:2" {
		t.Errorf("%+v", b)
	}
}

// TestBounds: input that is not what it should be costs no more memory than its lines.
func TestBounds(t *testing.T) {
	p := read(t, strings.Repeat("x", 10<<20)+"\nactions=drop\n")
	if len(p.Lost) != 1 || len(p.Flows) != 1 || !strings.Contains(p.Lost[0].Reason, "the line has over 1048576 bytes") {
		t.Errorf("%v, %d flows", p.Lost, len(p.Flows))
	}
	deep := strings.Repeat("clone(", 1000) + "output:1" + strings.Repeat(")", 1000)
	if f := read(t, "actions="+deep).Flows[0]; f.Understood() || f.Notes[0].Reason != errDeep.Error() {
		t.Errorf("%v", f.Notes)
	}
	if p := read(t, strings.Repeat("nonsense\n", 100*most)); len(p.Lost) != most {
		t.Errorf("%d notes", len(p.Lost))
	}
}

// FuzzRead: nothing makes the parser fail, and what it prints reads as the same again.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"table=1,priority=7,tcp,nw_src=10.0.0.0/8,tp_dst=0x10/0xf0,actions=load:0x1->NXM_NX_REG0[3..7],resubmit(,2)",
		"ct_state=+trk-new,ct_label=0x1/0xff,ip actions=ct(commit,zone=NXM_NX_REG1[0..15],nat(src=10.0.0.1-10.0.0.9:1-9),exec(set_field:1->ct_mark))",
		"reg0[0..3]=5,ipv6,ipv6_dst=::1,actions=set_field:fe80::/64->ipv6_src,clone(write_actions(group:1)),learn(table=3,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0x5->NXM_NX_REG0[])",
		"group_id=1,type=all,bucket=actions=1",
		"group_id=1,type=all,bucket=group:2,bucket=group:1\ngroup_id=2,bucket=resubmit(,0),group:1\nactions=group:1",
		"group_id=3,type=select,selection_method=hash,fields(ip_src),bucket=weight:5,actions=ct(commit,nat(dst=1.2.3.4:5))",
		"group_id=4,type=ff,bucket=watch_port:1,actions=output:1,bucket=bucket_id:7,watch_group:3,actions=group:3",
		"vlan_vid=0x1005/0x1fff,actions=bundle(eth_src,50,active_backup,ofport,members:1,2),check_pkt_larger(9)->reg0[0]",
		"in_port=\"a b\",tcp_flags=+syn-ack,tcp actions=note:1.2,sample(probability=1),fin_timeout(idle_timeout=1)",
	} {
		f.Add(s)
	}
	drawn.Seeds(f)
	f.Fuzz(func(t *testing.T, s string) {
		p := New(nil)
		if err := p.Read(strings.NewReader(s)); err != nil {
			t.Fatal(err)
		}
		for _, flow := range p.Flows {
			once := p.Print(flow, AsGiven)
			p.Print(flow, OpenFlow10)
			if !flow.Understood() || strings.Contains(once, `"`) {
				continue
			}
			q := New(nil)
			q.ReadLine(1, once)
			if len(q.Flows) != 1 {
				t.Fatalf("%q is printed as %q, which reads as %v", s, once, q.Lost)
			}
			if twice := q.Print(q.Flows[0], AsGiven); twice != once {
				t.Fatalf("%q is printed as %q, and that as %q", s, once, twice)
			}
		}
	})
}
