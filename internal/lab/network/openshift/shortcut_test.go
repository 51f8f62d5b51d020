package openshift_test

import (
	"fmt"
	"slices"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network/openshift"
)

// TestShortcuts wants packets to pass the tables that Busch and Kammerer (2021,
// section 5.2) leave to each of their pipelines, and tenants to be kept apart where
// the document cuts nothing that does so: by the whole pipeline, by shortcut #1,
// which it calls functionally similar, and without connection tracking.
func TestShortcuts(t *testing.T) {
	near := map[openshift.Pipeline][]string{
		openshift.Shortcut1:          {"0", "20", "21", "30", "70", "80"},
		openshift.Shortcut2:          {"0", "21", "30", "70", "80"},
		openshift.Shortcut3:          {"0", "70", "80"},
		openshift.Untracked:          {"0", "20", "21", "30", "70", "80"},
		openshift.Shortcut3Untracked: {"0", "70", "80"},
	}
	far := map[openshift.Pipeline][]string{
		openshift.Shortcut1:          {"0", "20", "21", "30", "90"},
		openshift.Shortcut2:          {"0", "21", "30", "90"},
		openshift.Shortcut3:          {"0", "90"},
		openshift.Untracked:          {"0", "20", "21", "30", "90"},
		openshift.Shortcut3Untracked: {"0", "90"},
	}
	for _, p := range []openshift.Pipeline{openshift.Shortcut1, openshift.Shortcut2, openshift.Shortcut3,
		openshift.Untracked, openshift.Shortcut3Untracked} {
		t.Run(openshift.New(p, tenants).Info().Name, func(t *testing.T) {
			l := up(t, fmt.Sprintf("t-sdn-cut%d", p), p)
			red, port := pod(t, l, "red1"), portOf(t, rules(t, l), pod(t, l, "red1"))
			for to, want := range map[string][]string{"red2": near[p], "red3": far[p]} {
				if got := tables(traced(t, l, port, red, pod(t, l, to)), "sdn-br0"); !slices.Equal(got, want) {
					t.Errorf("a packet to %s passes tables %v, want %v", to, got, want)
				}
			}
			for _, c := range []struct {
				to      string
				reaches bool
			}{{"red2", true}, {"red3", true}, {"blue1", !p.Isolates()}, {"blue3", !p.Isolates()}} {
				wait := "-W2"
				if !c.reaches {
					wait = "-W0.4"
				}
				_, err := l.Exec(t.Context(), red, "ping", "-c1", wait, pod(t, l, c.to).Addr().String())
				if (err == nil) != c.reaches {
					t.Errorf("red1 reaches %s: %v, want %v (%v)", c.to, err == nil, c.reaches, err)
				}
			}
		})
	}
}
