package uperf

import (
	"strings"
	"testing"
)

// TestFilled: a filled profile says without an environment what the file said in it.
func TestFilled(t *testing.T) {
	env := map[string]string{"proto": "udp", "conn": "3", "SIZE": "64", "odd": `1" x="`}
	get := func(n string) string { return env[n] }
	none := func(string) string { return "" }
	file := `<profile name="x"><group nthreads=$CONN><transaction iterations=1>
		<flowop type=connect options="remotehost=$h protocol=$proto"/></transaction>
		<transaction duration=1s><flowop type=write options="size=$SIZE"/></transaction></group></profile>`
	want, err := Parse("p.xml", strings.NewReader(file), get)
	if err != nil {
		t.Fatal(err)
	}
	filled := string(Filled([]byte(file), get))
	got, err := Parse("p.xml", strings.NewReader(filled), none)
	if err != nil || got.Strands() != 3 || got.Strands() != want.Strands() || !got.byDatagrams() {
		t.Errorf("%v, %+v:\n%s", err, got, filled)
	}
	if !strings.Contains(filled, "remotehost=$h ") || strings.Count(filled, "$") != 1 {
		t.Errorf("filled:\n%s", filled)
	}
	if got := string(Filled([]byte("a=$odd"), get)); got != "a=$odd" {
		t.Errorf("a value that is markup: %s", got)
	}
}
