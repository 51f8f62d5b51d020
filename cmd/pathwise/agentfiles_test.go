package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAgentFilesAreNoLinks: an agent neither makes nor writes to what a link in its directory
// leads to.
func TestAgentFilesAreNoLinks(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"there": filepath.Join(dir, "precious"),
		"not there": filepath.Join(dir, "new")} {
		if name == "there" {
			if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(dir, "agent-h1.lock")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if unlock, err := lockFile(link); err == nil {
			unlock()
			t.Errorf("%s: a link was locked", name)
		}
		if f, err := openOwn(link, os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
			f.Close()
			t.Errorf("%s: a link was opened", name)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Errorf("a file was made: %v", err)
	}
	unlock, err := lockFile(filepath.Join(dir, "agent-h2.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if again, err := lockFile(filepath.Join(dir, "agent-h2.lock")); err == nil {
		again()
		t.Error("locked twice")
	}
}
