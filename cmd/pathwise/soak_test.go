//go:build soak

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestSoakScripts runs the scripts that take too long for make test; make soak does.
func TestSoakScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/soak", Setup: setup(binDir(t))})
}
