package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	out := &Capture{most: 1 << 20}
	cmd.Stdout = out
	err := cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
		t.Errorf("it ended with %v, want that its pipe was closed", err)
	}
	if out.err() == nil || !strings.Contains(out.err().Error(), "more than 1048576 bytes") || len(out.kept) > out.most {
		t.Errorf("%d bytes kept, %v", len(out.kept), out.err())
	}
	out = &Capture{most: 10}
	if n, err := out.Write([]byte("0123456789")); n != 10 || err != nil || out.err() != nil ||
		string(out.kept) != "0123456789" {
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
		if e.kept.Len() > 3*e.most || !bytes.HasSuffix(all.Bytes(), e.Bytes()) || e.kept.Len() < min(e.most, all.Len()) {
			t.Fatalf("after %d bytes it holds %q", all.Len(), e.Bytes())
		}
	}
}

func TestEndOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{4: "6789", 10: "0123456789", 100: "0123456789"} {
		if got, err := EndOf(path, most); string(got) != want || err != nil {
			t.Errorf("the last %d bytes: %q, %v", most, got, err)
		}
	}
	if _, err := EndOf(path+"x", 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestEndingOfWhatNeverEnds: as exec copies, by io.Copy, which asks for ReadFrom.
func TestEndingOfWhatNeverEnds(t *testing.T) {
	e := &ending{most: 100}
	most := 0
	rest := 4 << 20
	src := readerFunc(func(b []byte) (int, error) {
		most = max(most, e.kept.Cap())
		if rest -= len(b); rest < 0 {
			return 0, io.EOF
		}
		return len(b), nil
	})
	if _, err := io.Copy(e, src); err != nil || most > 256<<10 {
		t.Errorf("%v, %d bytes held for an end of %d", err, most, e.most)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
