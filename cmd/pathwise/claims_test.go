package main

import (
	"io"
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network/catalogue"
)

// TestNetworksHasThemAll: the experiment networks measures every network of the
// catalogue, and its claims speak of networks, workloads and metrics that there are.
func TestNetworksHasThemAll(t *testing.T) {
	e := env{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }}
	exp, err := readExperiment(e, benchFlags{experiment: "networks"})
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, n := range exp.Networks {
		has = append(has, n.Name)
	}
	for _, name := range catalogue.Names() {
		if !slices.Contains(has, name) {
			t.Errorf("experiments/networks.yaml lacks the network %s", name)
		}
	}
	if len(exp.Claims) < 20 || !exp.SkipMissing {
		t.Errorf("%d claims, missing skipped: %t", len(exp.Claims), exp.SkipMissing)
	}
	for _, c := range exp.Claims {
		if left, ok := c.Among(has); !ok || len(left.Subjects()) != len(c.Subjects()) {
			t.Errorf("claim %s speaks of networks that the experiment has not", c.ID)
		}
	}
}
