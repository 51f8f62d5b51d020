package depth_test

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/depth"
	"pathwise.dev/pathwise/internal/pipeline/drawn"
)

func of(t *testing.T, flows string) depth.Report {
	t.Helper()
	p := pipeline.New(nil)
	if err := p.Read(strings.NewReader(flows)); err != nil {
		t.Fatal(err)
	}
	return depth.Of(p, 500, rand.New(rand.NewPCG(1, 1)))
}

// TestClasses: packets are made for each way through, also where it takes a value that
// was loaded, moved or pushed before, and an answer of the tracker.
func TestClasses(t *testing.T) {
	r := of(t, `table=0,in_port=1,ip actions=move:NXM_OF_IP_DST[0..15]->NXM_NX_REG0[0..15],push:NXM_NX_REG0[],ct(table=1,zone=5)
table=1,ct_state=+est+trk,ip,reg0=0x1234 actions=pop:NXM_NX_REG1[],ct(commit,table=2,zone=6)
table=1,ct_state=+new+trk,ip actions=CONTROLLER:128
table=2,reg1=0x1234,ip,nw_src=10.0.0.7 actions=set_field:198.18.0.1->tun_dst,output:9
table=2,priority=1,ip actions=output:2`)
	got := map[string]int{}
	for _, c := range r.Classes {
		got[c.Name] = c.Passes
	}
	for name, passes := range map[string]int{"a port to a tunnel": 3, "a port to a port": 3,
		"a port to the controller": 2} {
		if got[name] != passes {
			t.Errorf("%s: %d passes, want %d: %+v", name, got[name], passes, r.Classes)
		}
	}
	if r.Reached != r.Flows {
		t.Errorf("%d of %d flows reached", r.Reached, r.Flows)
	}
}

// TestDelivered: packets between pods, and such to a service that are delivered, are made for
// pipelines that people run: what each costs is told. OVN's zones are in registers, and it
// finds a service in a group, as Antrea does.
func TestDelivered(t *testing.T) {
	for _, c := range []struct {
		dump, class string
		passes      int
	}{
		{"ovn", "a port to a port", 3}, {"ovn", "a port to a service, on to a port", 4},
		{"antrea", "a port to a service, on to a port", 5}, {"antrea", "a port to a service, on to a tunnel", 5},
	} {
		text, err := os.ReadFile("../testdata/dumps/" + c.dump + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		r, packets := of(t, string(text)), map[int]int{}
		for _, k := range r.Classes {
			if k.Name == c.class {
				packets[k.Passes] += k.Packets
			}
		}
		if packets[c.passes] < 5 {
			t.Errorf("%s, %s: packets by passes %v, want some with %d: %+v", c.dump, c.class, packets, c.passes, r.Classes)
		}
	}
}

// TestMean: what counters say is exact.
func TestMean(t *testing.T) {
	r := of(t, `n_packets=100, n_bytes=0, table=0,priority=9,ct_state=-trk,ip actions=ct(table=0)
n_packets=100, n_bytes=0, table=0,priority=5,ip actions=goto_table:1
n_packets=20, n_bytes=0, table=0,priority=1 actions=drop
n_packets=40, n_bytes=0, table=1,tcp actions=ct(commit,table=2)
n_packets=40, n_bytes=0, table=2 actions=output:2`)
	m := r.Mean
	if m == nil || m.Packets != 120 || math.Abs(m.Passes-(1+140.0/120)) > 1e-9 || math.Abs(m.Lookups-300.0/120) > 1e-9 ||
		math.Abs(m.Commits-40.0/120) > 1e-9 {
		t.Errorf("%+v", m)
	}
	if of(t, "actions=drop").Mean != nil {
		t.Error("a mean without counters")
	}
}

// TestSkipped: no more packets are made than can be followed.
func TestSkipped(t *testing.T) {
	p := pipeline.New(nil)
	text := "actions=" + strings.Repeat("resubmit(,1),", 4000) +
		"\ntable=1 actions=" + strings.Repeat("load:1->NXM_NX_REG0[],", 900)
	if err := p.Read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	r := depth.Of(p, 20, rand.New(rand.NewPCG(1, 1)))
	if r.Made == 0 || r.Skipped == 0 || r.Made+r.Skipped != 20 || r.NotUnderstood != r.Made {
		t.Errorf("%d made, %d not, %d not understood", r.Made, r.Skipped, r.NotUnderstood)
	}
}

// FuzzOf: nothing that can be read makes it fail.
func FuzzOf(f *testing.F) {
	f.Add("ip actions=ct(table=0,nat(dst=10.0.0.1))\nactions=group:1\ngroup_id=1,type=all,bucket=group:1,bucket=resubmit(,0)")
	f.Add("n_packets=5,n_bytes=1,table=1,ip actions=push:NXM_NX_REG0[],output:2\nactions=ct(table=1,zone=NXM_NX_REG0[0..15])")
	f.Add("ip actions=ct(table=0,nat(dst=10.0.0.1))\nactions=group:1") // a service that nobody reaches, in 64 passes
	drawn.Seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		p := pipeline.New(nil)
		if err := p.Read(strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		r := depth.Of(p, 20, rand.New(rand.NewPCG(1, 1)))
		packets := r.NotUnderstood
		for _, c := range r.Classes {
			packets += c.Packets
		}
		if packets != r.Made || r.Made+r.Skipped != 20 {
			t.Errorf("%d packets in classes, %d made, %d not", packets, r.Made, r.Skipped)
		}
	})
}

// TestLimits: a pipeline that meets a limit is told.
func TestLimits(t *testing.T) {
	r := of(t, "table=0,ip actions=resubmit(,0)\ntable=0,priority=1 actions=output:2")
	if len(r.Limits.Failed) != 1 || r.Limits.Failed[0] != "over 64 resubmits in each other" || r.Limits.Nested != 64 {
		t.Errorf("%+v", r.Limits)
	}
}
