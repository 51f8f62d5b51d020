package lab

import (
	"testing"
	"time"
)

// TestTimeout: in a guest, whose processor may be a program, daemons get the time that
// virtual machines get, unless the caller says how much.
func TestTimeout(t *testing.T) {
	t.Setenv(GuestVariable, "")
	if got := (Options{}).fill().Timeout; got != 20*time.Second {
		t.Errorf("on the host %v", got)
	}
	t.Setenv(GuestVariable, "1")
	if got := (Options{}).fill().Timeout; got != GuestTimeout {
		t.Errorf("in a guest %v", got)
	}
	if got := (Options{Timeout: time.Second}).fill().Timeout; got != time.Second {
		t.Errorf("asked for a second, got %v", got)
	}
}
