package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/capability"
)

// TestMissingCapabilities: without each of an agent's capabilities it names it, and says what it
// is for or ends.
func TestMissingCapabilities(t *testing.T) {
	all := agentCapabilities()
	if less, err := missing(all); len(less) > 0 || err != nil {
		t.Errorf("with all: %v, %v", less, err)
	}
	for number, want := range map[int]struct {
		name string
		ends bool
	}{unix.CAP_SYS_ADMIN: {"CAP_SYS_ADMIN", true}, unix.CAP_NET_ADMIN: {"CAP_NET_ADMIN", true},
		unix.CAP_NET_BIND_SERVICE: {"CAP_NET_BIND_SERVICE", true}, unix.CAP_NET_RAW: {"CAP_NET_RAW", false},
		unix.CAP_SYS_NICE: {"CAP_SYS_NICE", false}} {
		less, err := missing(all &^ capability.Of(number))
		said := strings.Join(less, " ")
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, want.name) || (err != nil) != want.ends {
			t.Errorf("without %s: %v, %v", want.name, less, err)
		}
	}
}
