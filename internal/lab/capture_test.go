package lab

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCapture: a program that prints for ever is cut off, and holds no memory beyond
// the bound.
func TestCapture(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "yes")
	out := &capture{most: 1 << 20}
	cmd.Stdout = out
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
		t.Errorf("it ended with %v, want that its pipe was closed", err)
	}
	if out.err() == nil || !strings.Contains(out.err().Error(), "more than 1048576 bytes") || len(out.kept) > out.most {
		t.Errorf("%d bytes kept, %v", len(out.kept), out.err())
	}
	out = &capture{most: 10}
	if n, err := out.Write([]byte("0123456789")); n != 10 || err != nil || out.err() != nil || string(out.kept) != "0123456789" {
		t.Errorf("as much as is allowed: %d, %v, %v", n, err, out.err())
	}
}

// TestEnding: the last words stay, however many there were.
func TestEnding(t *testing.T) {
	e := &ending{most: 100}
	var all bytes.Buffer
	for i := range 1000 {
		b := bytes.Repeat([]byte{byte('a' + i%26)}, i%250)
		all.Write(b)
		if n, err := e.Write(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
		if e.Len() > 3*e.most || !bytes.HasSuffix(all.Bytes(), e.Bytes()) || e.Len() < min(e.most, all.Len()) {
			t.Fatalf("after %d bytes it holds %q", all.Len(), e.Bytes())
		}
	}
}
