package main

import (
	"os"
	"strings"
	"testing"
)

// TestUnchanged: of a program's memory only what is its file's, and is never written, is given back: the rest would
// be lost. Without that the test itself would not go on.
func TestUnchanged(t *testing.T) {
	const maps = `00400000-01aac000 r-xp 00000000 00:5a 10305623                           /pathwise
01aac000-0311f000 r--p 016ac000 00:5a 10305623                           /pathwise
0311f000-0321a000 rw-p 02d1f000 00:5a 10305623                           /pathwise
0321a000-03285000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r--p 00000000 00:5a 1                          /pathwise.d/other
7ffc6e698000-7ffc6e6b9000 rw-p 00000000 00:00 0                          [stack]
`
	got := unchanged(maps, "/pathwise")
	if len(got) != 2 || got[0] != (mapping{0x400000, 0x1aac000}) || got[1] != (mapping{0x1aac000, 0x311f000}) {
		t.Errorf("%x", got)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if len(unchanged(string(own), exe)) == 0 {
		t.Errorf("nothing of %s is found in\n%s", exe, own)
	}
	before := strings.Repeat("kept", 1000)
	if err := giveBack(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if before != strings.Repeat("kept", 1000) {
		t.Error("what was kept is lost")
	}
}
