package main

import (
	"bytes"
	"io"
	"reflect"
	"slices"
	"testing"

	"pathwise.dev/pathwise/experiments"
	"pathwise.dev/pathwise/internal/measure/application"
	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/experiment"
)

// exhibits are the figures and tables of the documents, read from them and
// written here by hand: a file that forgets one fails.
func exhibits() map[string][]string {
	return map[string][]string{
		"atici-boluk": {"fig-1", "fig-2", "table-1", "fig-3", "fig-4", "fig-5", "table-2", "table-3", "fig-6", "fig-7a",
			"fig-7b", "fig-7c", "fig-8",
			"fig-9a", "fig-9b", "fig-9c", "fig-9d", "fig-10a", "fig-10b", "fig-10c", "fig-11", "table-4", "table-5", "table-6",
			"fig-12", "fig-13", "fig-14", "table-7"},
		"busch-kammerer": {"fig-1", "fig-2", "fig-3", "fig-4", "fig-5", "fig-6", "fig-7", "fig-8", "fig-9", "fig-10",
			"fig-11", "fig-12", "fig-13"},
		"claassen": {"overlay-table", "veth", "macvlan", "ipvlan", "local-setup", "switched-setup", "tcp-local-1500",
			"tcp-local-9000",
			"udp-local-1500", "udp-local-9000", "tcp-10G-1500", "tcp-10G-9000", "udp-10G-1500", "udp-10G-9000"},
		"sun": {"vnf-infra", "testbed-1", "testbed-2", "scenarios", "bmp-local-tcp", "bmp-local-udp", "bmp-remote-tcp",
			"bmp-remote-udp", "bmp-vmp", "vmp-vmp",
			"mpi-scenario", "mpi-1", "mpi-2", "mpi-table"},
		"suo": {"vm-docker", "clouds", "single-host-modes", "multi-host-modes", "single-vm", "bridge-diagnosis", "multi-host",
			"cpu-table", "overlay-diagnosis",
			"packet-size", "vm-interplay", "scalability-bridge", "scalability-overlay", "startup-table", "hierarchy-table",
			"azure-table", "networking-performance"},
	}
}

func testEnv() env {
	return env{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }}
}

// TestPapersAreCovered: every figure and table of every document has claims, a
// counterpart or a reason, and every claim that is tested asks a question of the
// whole experiment and names networks that it has.
func TestPapersAreCovered(t *testing.T) {
	e := testEnv()
	total := 0
	for _, name := range experiments.Papers() {
		exp, err := e.readPaper(name)
		if err != nil {
			t.Fatal(err)
		}
		if exp.Name != name || exp.Quick == nil || !exp.SkipMissing {
			t.Errorf("%s: called %s, quick variant %t, missing skipped %t", name, exp.Name, exp.Quick != nil, exp.SkipMissing)
		}
		var has []string
		for _, x := range exp.Paper.Exhibits {
			has = append(has, x.ID)
		}
		if want := exhibits()[name]; !slices.Equal(has, want) {
			t.Errorf("%s: exhibits %v, want %v", name, has, want)
		}
		if err := exp.Paper.Check(exp.Claims); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, c := range exp.Claims {
			total++
			if c.Untested == "" && c.Test.Choice == nil {
				if err := exp.Asks(c); err != nil {
					t.Errorf("%s: claim %s: %v", name, c.ID, err)
				}
			}
			checkChoice(t, name, c)
		}
	}
	if len(experiments.Papers()) != len(exhibits()) || total < 80 {
		t.Errorf("%d documents, %d claims; want %d and 80 or more", len(experiments.Papers()), total, len(exhibits()))
	}
}

// checkChoice wants an application that the recommendation table has.
func checkChoice(t *testing.T, name string, c claim.Claim) {
	t.Helper()
	if w := c.Test.Choice; w != nil && !slices.ContainsFunc(application.Shipped(),
		func(a application.Application) bool { return a.Name == w.App }) {
		t.Errorf("%s: claim %s: no application %s", name, c.ID, w.App)
	}
}

// TestQuickPapersFitTheHour: what the quick variants promise, and what they run
// at the least, is less than an hour: the overrun of a budget and the reports fit in too.
func TestQuickPapersFitTheHour(t *testing.T) {
	var minutes float64
	for _, name := range experiments.Papers() {
		exp, err := testEnv().readPaper(name)
		if err != nil {
			t.Fatal(err)
		}
		quick, ok := exp.AsQuick()
		if !ok || quick.Quick != nil || quick.Name != name+"-quick" || len(quick.Claims) != len(exp.Claims) {
			t.Errorf("%s: quick variant %+v", name, quick.Name)
		}
		minutes += quick.Budget.Minutes()
	}
	if minutes > 55 { // what is begun then ends within the hour
		t.Errorf("the budgets of the quick variants are %.0f minutes together", minutes)
	}
}

// TestPapersSurviveTheirResult: a result keeps the experiment in full, so that
// what is read back has the same questions, claims and exhibits.
func TestPapersSurviveTheirResult(t *testing.T) {
	for _, name := range experiments.Papers() {
		exp, err := testEnv().readPaper(name)
		if err != nil {
			t.Fatal(err)
		}
		exp, _ = exp.AsQuick()
		var text bytes.Buffer
		if err := exp.Encode(&text, func(experiment.Network) string { return "" }); err != nil {
			t.Fatal(err)
		}
		back, err := experiment.Parse("experiment.yaml", &text, testEnv().catalogue())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(back.Paper, exp.Paper) || !reflect.DeepEqual(back.Claims, exp.Claims) ||
			!reflect.DeepEqual(back.Entries, exp.Entries) {
			t.Errorf("%s: what is read back differs", name)
		}
	}
}
