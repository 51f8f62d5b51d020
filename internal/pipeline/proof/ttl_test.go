package proof_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/proof"
)

// TestDecremented: dec_ttl leaves no packet the highest TTL, which is known through copies, trackers and tables
// until it is written again; and where the TTL runs out the rest of the list is not carried out.
func TestDecremented(t *testing.T) {
	const hop = "ipv6,in_port=1 actions=dec_ttl,"
	const odd = "table=9,icmp6,nw_ttl=255,icmp_type=135 actions=output:"
	for _, c := range []struct {
		lines string
		want  proof.Verdict
	}{
		{hop + "resubmit(,9)", proof.Equal},
		{hop + "clone(set_field:7->reg1,resubmit(,9)),output:3", proof.Equal},
		{hop + "clone(output:3),resubmit(,9)", proof.Equal},
		{hop + "ct_clear,resubmit(,9)", proof.Equal},
		{hop + "ct(table=9,zone=3,nat)", proof.Equal},
		{hop + "ct(commit,zone=3),resubmit(,9)", proof.Equal},
		{hop + "clone(ct_clear,resubmit(,5))\ntable=5 actions=push:NXM_NX_REG1[],set_field:3->reg0,pop:NXM_NX_REG1[]," +
			"resubmit(,9)", proof.Equal},
		{hop + "mod_nw_ttl:255,resubmit(,9)", proof.Undecided},
		{hop + "resubmit(,9)\nipv6,in_port=2 actions=resubmit(,9)", proof.Undecided},
		{"ipv6,in_port=1 actions=resubmit(,5),resubmit(,9)\ntable=5,tcp6 actions=dec_ttl", proof.Undecided},
		{"ip actions=resubmit(,1),resubmit(,2)\ntable=1 actions=resubmit(,5),dec_ttl,set_field:1->reg0\n" +
			"table=5 actions=output:4\ntable=2,reg0=0 actions=output:2", proof.Undecided},
	} {
		names := pipeline.NewNames()
		lines := strings.Split(c.lines, "\n")
		a := append(append([]string{}, lines...), odd+"2")
		b := append(append([]string{}, lines...), odd+"5")
		if strings.Contains(c.lines, "table=2") {
			a = lines
			b = strings.Split(strings.ReplaceAll(c.lines, "actions=output:2", "actions=output:3"), "\n")
		}
		d := proof.Of(read(t, names, a...), read(t, names, b...), proof.Options{})
		if d.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.lines, d.Verdict, c.want, d.Reasons)
		}
	}
}

// TestUntold: where the TTL runs out, and no controller is told, no more is seen than that the list ends.
func TestUntold(t *testing.T) {
	const on = "\ntable=1,ip actions=dec_ttl(),output:2\ntable=2,ip actions="
	for _, c := range []struct {
		a, b string
		want proof.Verdict
	}{
		{"ip,nw_ttl=1 actions=resubmit(,1)", "ip,nw_ttl=1 actions=drop", proof.Equal},
		{"ip,nw_ttl=0 actions=resubmit(,1),output:3", "ip,nw_ttl=0 actions=output:3", proof.Equal},
		{"ip,nw_ttl=2 actions=resubmit(,1)", "ip,nw_ttl=2 actions=drop", proof.Undecided},
		{"ip actions=resubmit(,1)", "ip actions=drop", proof.Undecided},
		{"ip actions=dec_ttl()", "ip actions=drop", proof.Equal},
		{"ip actions=dec_ttl(),output:3", "ip actions=output:3", proof.Undecided},
		{"ip actions=dec_ttl", "ip actions=drop", proof.Undecided},
		{"ip,nw_ttl=1 actions=dec_ttl", "ip,nw_ttl=1 actions=drop", proof.Undecided},
		{"ip actions=clone(dec_ttl()),output:3", "ip actions=output:3", proof.Equal},
		{"ip,nw_ttl=1 actions=set_field:5->tun_id,dec_ttl(),output:3", "ip,nw_ttl=1 actions=dec_ttl(),output:3", proof.Equal},
		{"ip,nw_ttl=9 actions=set_field:5->tun_id,dec_ttl(),output:3", "ip,nw_ttl=9 actions=dec_ttl(),output:3",
			proof.Undecided},
	} {
		for range 2 {
			names := pipeline.NewNames()
			d := proof.Of(read(t, names, strings.Split(c.a+on+"drop", "\n")...),
				read(t, names, strings.Split(c.b+on+"drop", "\n")...), proof.Options{})
			if d.Verdict != c.want {
				t.Errorf("%s and %s: %s, want %s: %+v", c.a, c.b, d.Verdict, c.want, d.Reasons)
			}
			c.a, c.b = c.b, c.a
		}
	}
}

// TestUsualTTL: a packet that two pipelines tell apart has the TTL that hosts send, unless that is what they tell
// it by.
func TestUsualTTL(t *testing.T) {
	const ttl = 64
	for seed := range uint64(20) {
		for match, usual := range map[string]bool{"ip": true, "ip,nw_ttl=7": false, "tcp6,tp_dst=80": true} {
			names := pipeline.NewNames()
			d := proof.Of(read(t, names, match+" actions=dec_ttl,output:2"), read(t, names, match+" actions=dec_ttl,output:3"),
				proof.Options{Packets: 200, Random: rand.New(rand.NewPCG(seed, seed))})
			if d.Witness == nil {
				t.Fatalf("%s: %s", match, d.Verdict)
			}
			if got := d.Witness.Packet.Get(pipeline.NWTTL).Lo; (got == ttl) != usual {
				t.Errorf("%s, seed %d: TTL %d", match, seed, got)
			}
		}
	}
}
