package proof_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
	"pathwise.dev/pathwise/internal/pipeline/proof"
)

func read(t testing.TB, names *pipeline.Names, lines ...string) *pipeline.Pipeline {
	t.Helper()
	p := pipeline.New(names)
	if err := p.Read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	return p
}

func decide(t testing.TB, a, b string, strict bool) proof.Decision {
	t.Helper()
	names := pipeline.NewNames()
	return proof.Of(read(t, names, strings.Split(a, "\n")...), read(t, names, strings.Split(b, "\n")...),
		proof.Options{Strict: strict, Packets: 3000, Random: rand.New(rand.NewPCG(1, 1)), Doubt: true})
}

// TestOf holds the rules of docs/explanation/pipelines.md to be decided by.
func TestOf(t *testing.T) {
	const (
		e, d, u  = proof.Equal, proof.Different, proof.Undecided
		learning = "priority=9 actions=learn(table=1,priority=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:1->NXM_NX_REG0[]," +
			"output:NXM_OF_IN_PORT[]),resubmit(,2)"
		looking = learning + "\ntable=2 actions=resubmit(,1)\n"
		bucket  = "group_id=1,type=all,bucket=actions=output:2,bucket=actions=resubmit(,3)\ntable=3,ip actions=4"
		pushing = "group_id=1,type=all,bucket=actions=resubmit(,3)\ntable=3,ip actions=load:4->NXM_NX_REG0[],push:NXM_NX_REG0[]"
	)
	twice := strings.Replace(looking, "resubmit(,2)",
		"learn(table=1,priority=6,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),resubmit(,2)", 1)
	arps := strings.Replace(looking, "NXM_OF_ETH_DST[]", "eth_type=0x806,NXM_OF_ETH_DST[]", 1)
	for _, c := range []struct {
		why, a, b string
		want      proof.Verdict
	}{
		{"the same", "ip actions=output:2", "ip actions=output:2", e},
		{"another port", "ip actions=output:2", "ip actions=output:3", d},
		{"a dead flow less", "priority=9,ip actions=output:2\npriority=5,tcp actions=output:3",
			"priority=9,ip actions=output:2", e},
		{"a table folded", "ip actions=load:5->NXM_NX_REG0[],goto_table:1\ntable=1,reg0=5 actions=output:2",
			"ip actions=output:2", e},
		{"a port from a register", "ip actions=load:2->NXM_NX_REG0[],output:NXM_NX_REG0[]", "ip actions=output:2", e},
		{"registers that nobody reads", "ip actions=load:5->NXM_NX_REG0[],output:2", "ip actions=output:2", e},
		{"a header that leaves", "ip actions=load:5->NXM_NX_PKT_MARK[],output:2", "ip actions=output:2", d},
		{"split by a prefix", "ip,nw_dst=10.0.0.0/8 actions=output:2",
			"ip,nw_dst=10.0.0.0/9 actions=output:2\nip,nw_dst=10.128.0.0/9 actions=output:2", e},
		{"ct(commit),goto_table is not ct(commit,table)",
			"ip actions=ct(commit),goto_table:1\ntable=1,ct_state=+trk,ip actions=output:2\ntable=1,priority=1,ip actions=output:3",
			"ip actions=ct(commit,table=1)\ntable=1,ct_state=+trk,ip actions=output:2\ntable=1,priority=1,ip actions=output:3", d},
		{"a ct that nobody reads", "ip actions=ct(table=1)\ntable=1,ip actions=output:2", "ip actions=output:2", e},
		{"a ct past a match on ports of fragments",
			"ip actions=ct(table=1)\ntable=1,tcp,tp_dst=80 actions=goto_table:2\ntable=2,ct_state=+new,ip actions=output:2",
			"ip actions=goto_table:1\ntable=1,tcp,tp_dst=80 actions=ct(table=2)\ntable=2,ct_state=+new,ip actions=output:2", d},
		{"a ct past a match on addresses",
			"ip actions=ct(table=1)\ntable=1,ip,nw_dst=10.0.0.1 actions=goto_table:2\ntable=2,ct_state=+new,ip actions=output:2",
			"ip actions=goto_table:1\ntable=1,ip,nw_dst=10.0.0.1 actions=ct(table=2)\ntable=2,ct_state=+new,ip actions=output:2", e},
		{"another zone", "ip actions=ct(table=1,zone=1)\ntable=1,ct_state=+new,ip actions=output:2",
			"ip actions=ct(table=1,zone=2)\ntable=1,ct_state=+new,ip actions=output:2", d},
		{"a ct past a new header",
			"ip actions=mod_nw_dst:10.0.0.9,ct(table=1)\ntable=1,ct_state=+new,ip actions=output:2",
			"ip actions=ct(table=1)\ntable=1,ct_state=+new,ip actions=mod_nw_dst:10.0.0.9,output:2", d},
		{"a commit less", "ip actions=ct(commit),output:2", "ip actions=output:2", d},
		{"a mark more", "ip actions=ct(commit,exec(load:1->NXM_NX_CT_MARK[])),output:2", "ip actions=ct(commit),output:2", d},
		{"an exit in a copy", "ip actions=clone(exit),output:2", "ip actions=output:2", d},
		{"what is not understood, in both", "ip actions=frobnicate(1),output:2", "ip actions=frobnicate(1),output:2", e},
		{"what is not understood, in one", "ip actions=frobnicate(1),output:2", "ip actions=output:2", u},
		{"learning, alike", "actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),resubmit(,1)",
			"actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),resubmit(,1)", e},
		{"a table that is learnt, elsewhere",
			looking + "table=1,priority=1,ip actions=load:1->NXM_NX_REG1[]\ntable=1,priority=2,ip,nw_proto=6 actions=3",
			looking + "table=1,priority=1,ip actions=load:1->NXM_NX_REG1[]\ntable=1,priority=2,tcp actions=3", e},
		{"a flow that was learnt, in both",
			looking + "table=1,priority=7,ip actions=drop\ntable=1,priority=1,tcp actions=3",
			looking + "table=1,priority=7,ip actions=drop\ntable=1,priority=1,ip,nw_proto=6 actions=3", e},
		{"what a flow that was learnt hides, as long as it is there",
			looking + "table=1,priority=7,ip actions=drop\ntable=1,priority=1,ip actions=3",
			looking + "table=1,priority=7,ip actions=drop", u},
		{"what hides flows that are learnt, in one pipeline alone",
			looking + "table=1,priority=10,ip actions=drop", looking, u},
		{"a way past flows that are learnt, in one pipeline alone",
			looking + "table=1,priority=10,ip actions=goto_table:3", looking, u},
		{"what hides others than those that are learnt",
			arps + "table=1,priority=10,ip actions=drop", arps, e},
		{"what hides flows that are learnt, if a bit is so that differs",
			learning + "\ntable=2 actions=load:1->NXM_NX_REG1[],resubmit(,1)\ntable=1,priority=10,reg1=1 actions=drop",
			learning + "\ntable=2 actions=load:2->NXM_NX_REG1[],resubmit(,1)\ntable=1,priority=10,reg1=1 actions=drop", u},
		{"a part of a conjunction that hides flows that are learnt, in one pipeline alone",
			looking + "table=1,priority=10,conj_id=1 actions=drop\ntable=1,priority=10,ip actions=conjunction(1,1/2)\n" +
				"table=1,priority=10,in_port=1 actions=conjunction(1,2/2)",
			looking + "table=1,priority=10,conj_id=1 actions=drop\ntable=1,priority=10,ip actions=conjunction(1,1/2)\n" +
				"table=1,priority=10,in_port=2 actions=conjunction(1,2/2)", u},
		{"two kinds of flows that a flow learns",
			twice + "table=1,priority=7,ip actions=drop\ntable=1,priority=1,ip actions=3",
			twice + "table=1,priority=7,ip actions=drop", u},
		{"what a flow that may time out hides, as long as it is there",
			"priority=9,idle_timeout=5,ip actions=2\npriority=1,tcp actions=3",
			"priority=9,idle_timeout=5,ip actions=2", u},
		{"what one hides that may time out once a connection ends",
			"priority=9,ip actions=clone(fin_timeout(idle_timeout=5)),2\npriority=1,tcp actions=3",
			"priority=9,ip actions=clone(fin_timeout(idle_timeout=5)),2", u},
		{"a flow that may time out, in both", "priority=9,hard_timeout=5,ip actions=2\npriority=1,tcp actions=3",
			"priority=9,hard_timeout=5,ip actions=2\npriority=1,ip,nw_proto=6 actions=3", e},
		{"what a packet is hidden from by flows that it has had a switch learn itself", "ip actions=learn(table=1,NXM_OF_ETH_SRC[]," +
			"output:NXM_OF_IN_PORT[]),ct(table=1)\ntable=1,priority=1,ip actions=2", "ip actions=learn(table=1,NXM_OF_ETH_SRC[]," +
			"output:NXM_OF_IN_PORT[]),ct(table=1)\ntable=1,priority=1,ip actions=3", u},
		{"a flow that was learnt, in one", looking + "table=1,priority=7,ip,nw_dst=10.0.0.1 actions=drop",
			looking + "table=1,priority=7,ip,nw_src=10.0.0.1 actions=drop", u},
		{"a table that is learnt, reading what differs",
			learning + "\ntable=2 actions=load:1->NXM_OF_ETH_DST[],resubmit(,1)",
			learning + "\ntable=2 actions=resubmit(,1)", u},
		{"a table that is learnt, sending out what differs",
			learning + "\ntable=2 actions=load:1->NXM_NX_PKT_MARK[],resubmit(,1)",
			learning + "\ntable=2 actions=resubmit(,1)", u},
		{"a table that is learnt, writing what differs",
			learning + "\ntable=2 actions=load:1->NXM_NX_REG1[],resubmit(,1),output:NXM_NX_REG1[]",
			learning + "\ntable=2 actions=resubmit(,1),output:NXM_NX_REG1[]", d},
		{"a table that is learnt, in one",
			learning + "\ntable=2 actions=resubmit(,1)", learning + "\ntable=2 actions=drop", u},
		{"a write that not all packets take, of what differs",
			"ip actions=output:3\narp actions=load:1->NXM_OF_ARP_SPA[],move:NXM_NX_REG0[]->NXM_OF_IP_SRC[],output:2",
			"ip actions=output:3\narp actions=load:2->NXM_OF_ARP_SPA[],move:NXM_NX_REG0[]->NXM_OF_IP_SRC[],output:2", d},
		{"a bucket, and a push elsewhere", bucket + "\nip,nw_proto=6 actions=group:1\narp actions=push:NXM_NX_REG0[],pop:NXM_NX_REG1[],2",
			bucket + "\ntcp actions=group:1\narp actions=push:NXM_NX_REG0[],pop:NXM_NX_REG1[],2", e},
		{"a bucket that pushes", pushing + "\nip,nw_proto=6 actions=group:1,pop:NXM_NX_REG1[],output:NXM_NX_REG1[]",
			pushing + "\nip,nw_proto=6 actions=pop:NXM_NX_REG1[],group:1,output:NXM_NX_REG1[]", d},
		{"a table that is learnt", "actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),resubmit(,1)\ntable=1,ip actions=1",
			"actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),resubmit(,1)\ntable=1,tcp actions=1\ntable=1,priority=1,ip actions=1", u},
		{"flows of one priority that overlap, and neither does what the other pipeline does",
			"ip actions=output:2\nip,nw_dst=10.0.0.1 actions=output:1",
			"ip actions=output:2\npriority=40000,ip,nw_dst=10.0.0.1 actions=output:3", d},
		{"another bucket", bucket + "\nip actions=group:1",
			strings.Replace(bucket, "output:2", "output:5", 1) + "\nip actions=group:1", d},
		{"a bucket that does the same in another way", bucket + "\nip actions=group:1",
			strings.Replace(bucket, "output:2", "load:2->NXM_NX_REG7[],output:NXM_NX_REG7[]", 1) + "\nip actions=group:1", e},
		{"a bucket that leads elsewhere, where the same is done", bucket + "\nip actions=group:1\ntable=4,ip actions=4",
			strings.Replace(bucket, "resubmit(,3)", "resubmit(,4)", 1) + "\nip actions=group:1\ntable=4,ip actions=4", e},
		{"a group that chooses by other weights", "group_id=1,type=select,bucket=weight:1,actions=2,bucket=weight:2,actions=3\nip actions=group:1",
			"group_id=1,type=select,bucket=weight:2,actions=2,bucket=weight:1,actions=3\nip actions=group:1", u},
		{"a register that is read where a walk ends",
			"ip actions=write_actions(move:NXM_NX_REG1[]->NXM_OF_ETH_DST[0..31],output:4),load:1->NXM_NX_REG1[],goto_table:1\ntable=1 actions=drop",
			"ip actions=write_actions(move:NXM_NX_REG1[]->NXM_OF_ETH_DST[0..31],output:4),load:2->NXM_NX_REG1[],goto_table:1\ntable=1 actions=drop", d},
		{"a register that is written before it is read", "ip actions=load:1->NXM_NX_REG1[],resubmit(,1)\n" +
			"table=1,ip actions=move:NXM_NX_REG0[]->NXM_NX_REG1[],resubmit(,2)\ntable=2,ip,reg1=0 actions=output:2",
			"ip actions=load:2->NXM_NX_REG1[],resubmit(,1)\n" +
				"table=1,ip actions=move:NXM_NX_REG0[]->NXM_NX_REG1[],resubmit(,2)\ntable=2,ip,reg1=0 actions=output:2", e},
		{"a register of which some bits are read", "ip actions=load:1->NXM_NX_REG1[],resubmit(,1)\ntable=1,ip,reg1=0/2 actions=output:2",
			"ip actions=load:5->NXM_NX_REG1[],resubmit(,1)\ntable=1,ip,reg1=0/2 actions=output:2", e},
		{"a register that is written after a TTL that may run out",
			"ip actions=load:1->NXM_NX_REG1[],resubmit(,1),resubmit(,2)\n" +
				"table=1,ip actions=resubmit(,3),dec_ttl,load:0->NXM_NX_REG1[]\ntable=2,ip,reg1=1 actions=output:2\ntable=3 actions=drop",
			"ip actions=load:2->NXM_NX_REG1[],resubmit(,1),resubmit(,2)\n" +
				"table=1,ip actions=resubmit(,3),dec_ttl,load:0->NXM_NX_REG1[]\ntable=2,ip,reg1=1 actions=output:2\ntable=3 actions=drop", d},
		{"a register that is read after a table, wherever that was looked up",
			"ip actions=resubmit(,1),output:NXM_NX_REG1[]\narp actions=resubmit(,1)\ntable=1 actions=load:2->NXM_NX_REG1[]",
			"ip actions=resubmit(,1),output:NXM_NX_REG1[]\narp actions=resubmit(,1)\ntable=1 actions=load:3->NXM_NX_REG1[]", d},
		{"a register that is not read after a table, though before",
			"ip,reg1=0 actions=resubmit(,1),output:2\narp actions=resubmit(,1)\ntable=1 actions=load:2->NXM_NX_REG1[]",
			"ip,reg1=0 actions=resubmit(,1),output:2\narp actions=resubmit(,1)\ntable=1 actions=load:3->NXM_NX_REG1[]", e},
		{"a table that is entered by another port's number",
			"ip,in_port=1 actions=resubmit(7,1)\ntable=1,in_port=7 actions=output:2",
			"ip,in_port=1 actions=resubmit(7,1)\ntable=1,in_port=8 actions=output:2", d},
		{"a register that is moved before it is read", "ip actions=load:1->NXM_NX_REG1[],resubmit(,1)\n" +
			"table=1,ip actions=move:NXM_NX_REG1[0]->NXM_NX_REG2[7],resubmit(,2)\ntable=2,ip,reg2=0x80/0x80 actions=output:2",
			"ip actions=load:2->NXM_NX_REG1[],resubmit(,1)\n" +
				"table=1,ip actions=move:NXM_NX_REG1[0]->NXM_NX_REG2[7],resubmit(,2)\ntable=2,ip,reg2=0x80/0x80 actions=output:2", d},
		{"a register that is a zone", "ip actions=load:1->NXM_NX_REG1[],resubmit(,1)\n" +
			"table=1,ip actions=ct(commit,zone=NXM_NX_REG1[0..15]),output:2", "ip actions=load:2->NXM_NX_REG1[],resubmit(,1)\n" +
			"table=1,ip actions=ct(commit,zone=NXM_NX_REG1[0..15]),output:2", d},
		{"the order of outputs", "ip actions=output:2,output:3", "ip actions=output:3,output:2", d},
		{"a conjunction, another flow", "conj_id=1,ip actions=2\nip,in_port=1 actions=conjunction(1,1/2)\nip,nw_dst=10.0.0.1 actions=conjunction(1,2/2)",
			"conj_id=1,ip actions=3\nip,in_port=1 actions=conjunction(1,1/2)\nip,nw_dst=10.0.0.1 actions=conjunction(1,2/2)", d},
		{"a conjunction, elsewhere", "conj_id=1,ip actions=2\nip,in_port=1 actions=conjunction(1,1/2)\nip,nw_dst=10.0.0.1 actions=conjunction(1,2/2)\npriority=1,arp actions=3",
			"conj_id=1,ip actions=2\nip,in_port=1 actions=conjunction(1,1/2)\nip,nw_dst=10.0.0.1 actions=conjunction(1,2/2)\npriority=1,arp actions=goto_table:1\ntable=1 actions=3", e},
		{"flows of one priority, by what differs",
			"ip actions=load:1->NXM_NX_REG0[],resubmit(,1)\ntable=1,ip,reg0=1 actions=output:1\ntable=1,ip,reg0=2 actions=output:2",
			"ip actions=load:2->NXM_NX_REG0[],resubmit(,1)\ntable=1,ip,reg0=1 actions=output:1\ntable=1,ip,reg0=2 actions=output:2", d},
		{"flows of one priority that overlap, in both", "ip actions=output:2\nip,nw_dst=10.0.0.1 actions=output:1",
			"ip actions=output:2\nip,nw_dst=10.0.0.1 actions=output:1\narp,arp_op=7 actions=drop", e},
		{"flows of one priority that overlap, in one", "ip actions=output:2\nip,nw_dst=10.0.0.1 actions=output:1",
			"ip actions=output:2", d},
		{"a rival conjunction of which no flow wants to know",
			"conj_id=4,ip actions=8\nip,nw_dst=10.0.0.2 actions=conjunction(4,1/2),conjunction(3,1/2)\n" +
				"ip,in_port=2 actions=conjunction(4,2/2)\nip,nw_src=10.0.0.1 actions=conjunction(3,2/2)",
			"conj_id=4,ip actions=8\nip,nw_dst=10.0.0.2 actions=conjunction(4,1/2),conjunction(3,1/2)\n" +
				"ip,in_port=2 actions=conjunction(4,2/2)", u},
		{"learning from what does not differ", learning + "\npriority=10,ip actions=load:5->NXM_NX_REG3[],resubmit(,4)\n" +
			"table=4 actions=learn(table=1,priority=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),output:2",
			learning + "\npriority=10,ip actions=resubmit(,4)\n" +
				"table=4 actions=learn(table=1,priority=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),output:2", e},
		{"learning from what differs", "ip actions=load:5->NXM_NX_REG3[],learn(table=1,NXM_NX_REG4[]=NXM_NX_REG3[])",
			"ip actions=learn(table=1,NXM_NX_REG4[]=NXM_NX_REG3[])", d},
		{"a circle in one", "ip actions=resubmit(,1)\ntable=1,ip actions=output:2",
			"ip actions=resubmit(,1)\ntable=1,ip actions=output:2,resubmit(,0)", d},
		{"another zone's answer", "ip actions=ct(table=1,zone=700)\ntable=1,ip,ct_zone=700 actions=2",
			"ip actions=ct(table=1,zone=700)\ntable=1,ip,ct_zone=700 actions=3", d},
		{"a push more", "ip actions=push:NXM_NX_REG0[],pop:NXM_NX_REG1[],output:2", "ip actions=output:2", e},
	} {
		if got := decide(t, c.a, c.b, false); got.Verdict != c.want || got.Contradicted {
			t.Errorf("%s: %s, want %s: %+v", c.why, got.Verdict, c.want, got.Reasons)
		}
	}
}

// TestStrict: a question about a packet that is dropped counts where that is asked for.
func TestStrict(t *testing.T) {
	const a, b = "ip actions=ct(table=1)\ntable=1,ip actions=drop", "ip actions=drop"
	if got := decide(t, a, b, false).Verdict; got != proof.Equal {
		t.Errorf("forwarding: %s", got)
	}
	if got := decide(t, a, b, true).Verdict; got != proof.Different {
		t.Errorf("strict: %s", got)
	}
}

// maker makes small pipelines.
type maker struct{ *rand.Rand }

func (g maker) one(of ...string) string { return of[g.IntN(len(of))] }

func (g maker) action(t int) string {
	next := fmt.Sprint(t + 1)
	return g.one("load:"+g.one("0", "1", "2")+"->NXM_NX_REG"+g.one("0", "1")+"[]", "move:NXM_NX_REG0[]->NXM_NX_REG1[]",
		"load:1->NXM_NX_REG0[0]", "output:2", "output:3", "mod_nw_dst:10.0.0.2", "mod_nw_src:10.0.0.3",
		"load:5->NXM_NX_PKT_MARK[]",
		"ct(commit)", "ct(commit,zone=1)", "ct(table="+next+")", "ct(commit,table="+next+")", "ct_clear",
		"resubmit(,"+next+")",
		"clone(load:2->NXM_NX_REG0[],resubmit(,"+next+"))", "clone(ct_clear,resubmit(,"+next+"))",
		"load:2->NXM_NX_REG0[0..1]", "output:NXM_NX_REG0[]", "push:NXM_NX_REG0[]", "pop:NXM_NX_REG1[]",
		"load:0->NXM_OF_IN_PORT[]", "dec_ttl", "set_tunnel:5", "write_actions(output:4)",
		"write_actions(move:NXM_NX_REG1[]->NXM_OF_ETH_DST[0..31],output:4)", "clear_actions",
		"ct(table="+next+",zone=1)", "resubmit(3,"+next+")", "move:NXM_OF_IP_DST[]->NXM_NX_REG1[]", "group:1")
}

func (g maker) flow(t int) string {
	match := g.one("ip", "ip,reg0=1", "ip,reg0=0", "ip,reg1=0/1", "tcp,tp_dst=80", "ip,nw_dst=10.0.0.2",
		"ip,nw_dst=10.0.0.0/30",
		"ip,in_port=1", "ip,ct_state=+trk", "ip,ct_state=+new+trk", "ip,ct_state=+est+trk", "ip,ct_state=-trk",
		"ip,nw_src=10.0.0.3",
		"ip,pkt_mark=5", "ip,reg1=0xa000002", "ip,in_port=3", "ip,reg0=1/1", "ip,reg0=0/1", "ip,reg0=2/2",
		"ip,ct_state=-new+trk", "ip,ct_state=+inv+trk", "tcp,tp_dst=80/0xfffe", "ip,nw_frag=no", "ip,ct_label=1/1")
	var list []string
	for range 1 + g.IntN(3) {
		list = append(list, g.action(t))
	}
	if t < 3 && g.IntN(2) == 0 {
		list = append(list, fmt.Sprintf("goto_table:%d", t+1))
	}
	priority := 1 + g.IntN(200)
	if g.IntN(2) == 0 { // often that of another
		priority = 1 + g.IntN(3)
	}
	return fmt.Sprintf("table=%d,priority=%d,%s,actions=%s", t, priority, match, strings.Join(list, ","))
}

// pair is two pipelines of which the second is the first with some flows changed.
func (g maker) pair() (a, b []string) {
	for t := range 4 {
		for range 1 + g.IntN(4) {
			a = append(a, g.flow(t))
		}
	}
	b = append(b, a...)
	for range 1 + g.IntN(2) {
		i := g.IntN(len(b))
		head, list, _ := strings.Cut(b[i], "actions=")
		actions := strings.Split(list, ",")
		switch g.IntN(5) {
		case 0: // without a flow
			b = append(b[:i:i], b[i+1:]...)
		case 1: // another flow
			b[i] = g.flow(g.IntN(4))
		case 2: // one more action
			b[i] = head + "actions=" + g.action(int(head[6]-'0')) + "," + list
		case 3: // two actions in the other order
			if n := len(actions); n > 1 && !strings.ContainsAny(list, "(") {
				actions[0], actions[1] = actions[1], actions[0]
			}
			b[i] = head + "actions=" + strings.Join(actions, ",")
		default: // a flow cut in two
			b[i] = strings.Replace(b[i], "ip,", "ip,nw_ttl=64,", 1)
			b = append(b, strings.Replace(a[g.IntN(len(a))], "ip,", "ip,nw_tos=0,", 1))
		}
		if len(b) == 0 {
			return a, a
		}
	}
	return a, b
}

// TestNeverEqualByMistake: of generated pipelines and changes to them, none is said to be
// equal that a packet tells apart.
func TestNeverEqualByMistake(t *testing.T) {
	g := maker{drawn.Random(t)}
	verdicts := map[proof.Verdict]int{}
	for range drawn.Number(t, "PATHWISE_PAIRS", 300) {
		la, lb := g.pair()
		const group = "group_id=1,type=all,bucket=actions=output:2,bucket=actions=load:1->NXM_NX_REG0[],resubmit(,3)"
		other := group
		if g.IntN(3) == 0 { // often with another bucket
			other = strings.Replace(group, g.one("output:2", "load:1", "resubmit(,3)"),
				g.one("output:3", "load:0", "resubmit(,2)"), 1)
		}
		names := pipeline.NewNames()
		a, b := read(t, names, append(la, group)...), read(t, names, append(lb, other)...)
		d := proof.Of(a, b, proof.Options{})
		verdicts[d.Verdict]++
		if d.Verdict == proof.Equal {
			d = proof.Of(a, b, proof.Options{Packets: 12000, Random: g.Rand})
		}
		if w := d.Witness; w != nil {
			t.Errorf("said to be equal, but %s %v is not\nA\n%s\nB\n%s", a.PrintTerms(w.Packet.Terms(a.Words)), w.Answers,
				strings.Join(la, "\n"), strings.Join(lb, "\n"))
			return
		}
	}
	t.Log(verdicts)
}

// FuzzOf: nothing makes a decision fail, and a pipeline is never different from itself.
func FuzzOf(f *testing.F) {
	f.Add("ip actions=ct(table=0)\nactions=group:1\ngroup_id=1,type=all,bucket=group:1,bucket=resubmit(,0)", "actions=group:1")
	f.Add("actions=resubmit(,0),resubmit(,1)\ntable=1 actions=clone(ct(table=0,nat(src=10.0.0.1:5)),exit)", "udp6 actions=drop")
	f.Add("table=1 actions=group:1\nactions=resubmit(,1)\ngroup_id=1,type=all,bucket=group:1,bucket=output:NXM_NX_REG0[]",
		"table=1 actions=2\nactions=resubmit(,1)\ngroup_id=1,type=all,bucket=group:1")
	f.Add("conj_id=1 actions=2\nip actions=conjunction(1,1/2)\nactions=write_actions(group:3),pop_vlan", "frob=1 actions=frob(2)")
	f.Add("actions=push:NXM_NX_REG0[],resubmit(3,1)\ntable=1,reg0=1 actions=pop:NXM_OF_VLAN_TCI[],output:NXM_NX_REG0[]",
		"actions=move:NXM_NX_REG0[]->NXM_NX_REG1[],check_pkt_larger(5)->NXM_NX_REG0[0],resubmit(,1)")
	f.Fuzz(func(t *testing.T, x, y string) {
		names := pipeline.NewNames()
		a, b := pipeline.New(names), pipeline.New(names)
		for p, text := range map[*pipeline.Pipeline]string{a: x, b: y} {
			if err := p.Read(strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
			if len(p.Flows) == 0 {
				return
			}
		}
		o := proof.Options{Packets: 40, Random: rand.New(rand.NewPCG(1, 1)), Doubt: true}
		if d := proof.Of(a, b, o); d.Contradicted {
			t.Errorf("said to be equal, but %s %v is not", a.PrintTerms(d.Witness.Packet.Terms(a.Words)), d.Witness.Answers)
		}
		if d := proof.Of(a, a, o); d.Verdict == proof.Different {
			t.Errorf("different from itself: %s", a.PrintTerms(d.Witness.Packet.Terms(a.Words)))
		}
	})
}

// TestOVN: of changes to each flow of a pipeline like those of OVN, with zones in
// registers, a conjunction, a flood and a stack, none is said to be equal that a packet
// tells apart, and few are undecided.
func TestOVN(t *testing.T) {
	text, err := os.ReadFile("testdata/ovn.txt")
	if err != nil {
		t.Fatal(err)
	}
	rules := strings.Split(strings.TrimSpace(string(text)), "\n")
	if d := decide(t, string(text), string(text), true); d.Verdict != proof.Equal {
		t.Fatalf("itself: %s %+v", d.Verdict, d.Reasons)
	}
	verdicts := map[proof.Verdict]int{}
	for i, r := range rules {
		for _, c := range [][2]string{{r, ""}, {"resubmit(,1", "resubmit(,2"}, {"ct(commit,", "ct("},
			{"load:0x1->NXM_NX_REG1", "load:0x5->NXM_NX_REG1"},
			{"ip,", "tcp,"}, {"output:2", "output:7"},
			{"priority=100,", "priority=10,"}, {"+new", "+est"}, {"0x2/0x2", "0x4/0x4"},
			{"10.0.0.0/24", "10.0.0.0/25"}, {"10.0.0.1", "10.0.0.5"}, {"resubmit(,6", "ct_clear,resubmit(,6"},
			{"resubmit(,", "load:9->NXM_NX_REG5[],resubmit(,"}, {"metadata=0x1 ", "metadata=0x1,in_port=1 "}} {
			changed := strings.Replace(r, c[0], c[1], 1)
			if changed == r {
				continue
			}
			other := append(append(append([]string{}, rules[:i]...), changed), rules[i+1:]...)
			d := decide(t, string(text), strings.Join(other, "\n"), false)
			verdicts[d.Verdict]++
			if d.Contradicted {
				t.Errorf("said to be equal: %s for %s: %v %v", changed, r, d.Witness.Answers, d.Witness.Packet)
			}
			if d.Verdict == proof.Undecided {
				t.Logf("undecided: %s for %s: %+v", changed, r, d.Reasons[0])
			}
		}
	}
	t.Log(verdicts)
	if n := verdicts[proof.Undecided]; n*20 > verdicts[proof.Equal]+verdicts[proof.Different]+n {
		t.Errorf("%d of %v undecided: more than 5 %%", n, verdicts)
	}
}
