package openshift_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network/openshift"
	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/bundle"
	"pathwise.dev/pathwise/internal/pipeline/proof"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
)

// shortening is what a host's bridge can do without, and the way back.
type shortening struct {
	bridge bundle.Bridge
	before *pipeline.Pipeline
	result reduction.Result
	file   string
}

// shorten looks at the bridge of a host.
func shorten(t *testing.T, l *lab.Lab, host string) shortening {
	t.Helper()
	s := shortening{bridge: bundle.Bridge("unix:" + filepath.Join(l.Dir(), "ovs-"+host, "sdn-br0.mgmt")),
		before: pipeline.New(nil), file: filepath.Join(t.TempDir(), host+".revert")}
	if err := s.bridge.Read(t.Context(), s.before); err != nil {
		t.Fatal(err)
	}
	s.result = reduction.Of(s.before, reduction.Options{Packets: 300, Seed: 1})
	if len(s.result.Apply) == 0 {
		t.Fatalf("host %s: nothing to change: %+v", host, s.result)
	}
	return s
}

func (s shortening) apply(t *testing.T) {
	t.Helper()
	if err := s.bridge.Apply(t.Context(), s.before, s.result, s.file); err != nil {
		t.Fatal(err)
	}
}

func (s shortening) revert(t *testing.T) {
	t.Helper()
	if done, err := s.bridge.Revert(t.Context(), s.file); err != nil || !done {
		t.Fatalf("reverted: %v, %v", done, err)
	}
}

// sorted lists the first host's rules in an order that does not depend on when they came.
func sorted(t *testing.T, l *lab.Lab) []string {
	t.Helper()
	return slices.Sorted(strings.Lines(rules(t, l)))
}

// TestApply: a real switch is shortened and changed back, after which its rules are those of
// before. What others change meanwhile is not written over.
func TestApply(t *testing.T) {
	l := up(t, "t-sdn-apply", openshift.Whole)
	before := sorted(t, l)
	s := shorten(t, l, "h1")
	red, near := pod(t, l, "red1"), pod(t, l, "red2")
	port := portOf(t, rules(t, l), red)
	recirculated := func() int { return strings.Count(traced(t, l, port, red, near), "recirc(0x") }
	most := recirculated()

	s.apply(t)
	if after := sorted(t, l); slices.Equal(after, before) {
		t.Errorf("nothing changed: %q", after)
	}
	if n := recirculated(); n >= most {
		t.Errorf("a packet is recirculated %d times, and %d times before", n, most)
	}
	if err := s.bridge.Apply(t.Context(), s.before, s.result, s.file); err == nil ||
		!strings.Contains(err.Error(), "is there already") {
		t.Errorf("applied twice: %v", err)
	}
	s.revert(t)
	if after := sorted(t, l); !slices.Equal(after, before) {
		t.Errorf("after the way back: %q, want %q", after, before)
	}
	if done, err := s.bridge.Revert(t.Context(), s.file); done || err != nil {
		t.Errorf("reverted twice: %v, %v", done, err)
	}

	ask(t, l, "ovs-ofctl", "-OOpenFlow14", "add-flow", string(s.bridge), "table=30,priority=7,udp actions=drop")
	other := sorted(t, l)
	fresh := filepath.Join(t.TempDir(), "fresh")
	err := s.bridge.Apply(t.Context(), s.before, s.result, fresh)
	if err == nil || !strings.Contains(err.Error(), "there is table=30, priority=7,udp actions=drop") {
		t.Errorf("applied to flows that had changed: %v", err)
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("a way back from nothing was written")
	}
	if after := sorted(t, l); !slices.Equal(after, other) {
		t.Errorf("after a refusal: %q, want %q", after, other)
	}
}

// TestShortened: the network openshift-shortened has what comes out of the whole pipeline
// with the host's pods, and does the same.
func TestShortened(t *testing.T) {
	l := up(t, "t-sdn-short", openshift.Shortened)
	flows := rules(t, l)
	whole, have := readRules(t, hostRules(t, l, openshift.Whole, flows)), readRules(t, flows)
	short := reduction.Of(whole, reduction.Options{Packets: 300, Seed: 3})
	if lines := reduction.Changes(short.Pipeline, have); len(lines) > 0 || len(short.Apply) == 0 {
		t.Errorf("the lab's pipeline is not what comes out of the whole: %q", lines)
	}
	d := proof.Of(whole, have, proof.Options{Packets: 20000, Random: rand.New(rand.NewPCG(1, 1))})
	if d.Verdict != proof.Equal {
		t.Errorf("%s: %+v", d.Verdict, d.Reasons)
	}
}
