package drill

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/network/catalogue"
)

// TestCongestion: pods have the congestion control that a file names, and one that there is not ends the drill with
// what may be named.
func TestCongestion(t *testing.T) {
	self := built(t)
	for name, want := range map[string]string{"reno": "", "nosuch": "tcp_allowed_congestion_control"} {
		s := &session{Config: Config{File: File{Networks: []string{"vxlan", "macvlan"}, Congestion: name},
			Prefix: "t-congest", Store: lab.Store{Root: t.TempDir()}, Self: self,
			Lab:  lab.Options{CNIPath: lab.DefaultCNIPath(self)},
			Find: catalogue.Find}, grounds: map[string]*ground{}}
		g, err := s.ground(t.Context(), s.pair(name))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, expected to name %s", name, err, want)
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want == "":
			is, err := g.lab.Run(t.Context(), g.pod("b").Netns, "cat", "/proc/sys/net/ipv4/tcp_congestion_control")
			if got := strings.TrimSpace(string(is)); err != nil || got != name || s.congestion != name {
				t.Errorf("%q and %q: %v, expected %s", got, s.congestion, err, name)
			}
		}
		if err := s.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestCongestionInTables: a table says where connections had another congestion control than is usual.
func TestCongestionInTables(t *testing.T) {
	f := File{Drills: []Entry{{Name: "forged", Drill: "forged", Options: Options{Repetitions: 1}}}}
	for control, want := range map[string]string{"": "", "bbr": "TCP's congestion control was bbr"} {
		s := Sample{Drill: "forged", Values: map[string]float64{}, Text: map[string]string{}}
		if control != "" {
			s.Text[textCongestion] = control
		}
		s.Error = "it failed" // so that there is a figure
		figures, err := Figures(f, []Sample{s})
		if err != nil || len(figures) == 0 {
			t.Fatalf("%v, %v", figures, err)
		}
		if note := figures[0].Note; strings.Contains(note, "congestion") != (want != "") || !strings.Contains(note, want) {
			t.Errorf("%q: %q, expected %q in it", control, note, want)
		}
	}
}
