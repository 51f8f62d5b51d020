package main

import (
	"errors"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := parse([]string{"--mtu", "8920", "--config", "a.conf", "wg0"}, io.Discard)
	if want := (options{device: "wg0", config: "a.conf", mtu: 8920}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	var usage strings.Builder
	if _, err := parse([]string{"-h"}, &usage); !errors.Is(err, flag.ErrHelp) ||
		!strings.Contains(usage.String(), "-config file") {
		t.Errorf("-h: got %v and %q", err, usage.String())
	}
	for _, bad := range [][]string{{"--nonesuch"}, {"wg0"}, {"--config", "a.conf"}, {"--config", "a.conf", "wg0", "wg1"},
		{"-mtu=big"}} {
		if _, err := parse(bad, io.Discard); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got error %v, want one line", bad, err)
		}
	}
}

// TestRunWithoutConfiguration ends before it makes a device.
func TestRunWithoutConfiguration(t *testing.T) {
	err := run(t.Context(), options{device: "pw-none", config: filepath.Join(t.TempDir(), "absent"), mtu: 1420})
	if err == nil || !strings.Contains(err.Error(), "open configuration") {
		t.Errorf("got %v", err)
	}
}
