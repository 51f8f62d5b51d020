package memory

import (
	"os"
	"os/exec"
	"testing"
)

// TestUnchanged: of a program's memory only what is its file's, and is never written, is given back: the rest would
// be lost. Without that the test itself would not go on.
func TestUnchanged(t *testing.T) {
	const maps = `00400000-01aac000 r-xp 00000000 00:5a 10305623                           /pathwise
Anonymous:             0 kB
Swap:                  0 kB
01aac000-0311f000 r--p 016ac000 00:5a 10305623                           /pathwise
Anonymous:             0 kB
Swap:                  0 kB
0311f000-0311f000 r--p 016ac000 00:5a 10305623                           /pathwise
Anonymous:             8 kB
Swap:                  0 kB
0311f000-03120000 r--p 016ac000 00:5a 10305623                           /pathwise
Anonymous:             0 kB
Swap:                  4 kB
03120000-0321a000 rw-p 02d1f000 00:5a 10305623                           /pathwise
Anonymous:             0 kB
Swap:                  0 kB
0321a000-03285000 rw-p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7f0000000000-7f0000001000 r--p 00000000 00:5a 1                          /pathwise.d/other
Anonymous:             0 kB
Swap:                  0 kB
`
	got := unchanged(maps, "/pathwise")
	if len(got) != 2 || got[0] != (mapping{0x400000, 0x1aac000}) || got[1] != (mapping{0x1aac000, 0x311f000}) {
		t.Errorf("%x", got)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if len(unchanged(string(own), exe)) == 0 {
		t.Errorf("nothing of %s is found in\n%s", exe, own)
	}
	if err := GiveBack(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

// TestGiveBackOfRelocated: a program that was built to run at any address goes on too.
func TestGiveBackOfRelocated(t *testing.T) {
	out, err := exec.Command("go", "test", "-buildmode=pie", "-count=1", "-run=^TestUnchanged$", ".").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
