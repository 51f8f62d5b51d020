package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestAgentWithoutNamespaces: without the mount of the node's namespaces an agent does not wait for ever
// for its own pod's, and names what is missing.
func TestAgentWithoutNamespaces(t *testing.T) {
	dir := t.TempDir()
	if err := hasNamespaces(dir); err != nil {
		t.Error(err)
	}
	none := filepath.Join(dir, "netns")
	if err := hasNamespaces(none); err == nil || !strings.Contains(err.Error(), none+" is not there") {
		t.Errorf("%v", err)
	}
}
