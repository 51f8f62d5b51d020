package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPictures makes the README's pictures from the results next to them, as "pathwise report
// -o svg" does. With PATHWISE_PASTE=1 it writes them.
func TestPictures(t *testing.T) {
	for _, name := range []string{"ranking", "failover"} {
		dir, err := filepath.Abs("../../docs/pictures/" + name)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("pathwise", "report", dir, "-o", "svg")
		cmd.Stderr = os.Stderr
		got, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if os.Getenv("PATHWISE_PASTE") != "" {
			if err := os.WriteFile(dir+".svg", got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want, err := os.ReadFile(dir + ".svg"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.svg is not what its result makes (PATHWISE_PASTE=1 writes it): %v", name, err)
		}
	}
}
