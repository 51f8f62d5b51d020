package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeyFile writes a key file in place and by renaming, whole, half and badly: what
// is no whole file is told, and a whole one is taken at the next look.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(s string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	a, z := strings.Repeat("a", 64)+"\n", strings.Repeat("z", 64)+"\n"
	keys := keysOf(path)
	for _, step := range []struct {
		name string
		do   func()
		want string // "": an error
	}{
		{"no file", func() {}, ""},
		{"the first", func() { write(a) }, a},
		{"again", func() {}, a},
		{"of the same size and time", func() {
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(z)
			if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, z},
		{"by renaming", func() { rename(a + z) }, a + z},
		{"half-written", func() { write(z[:30]) }, ""},
		{"cut within a line", func() { write(z + a[:30]) }, ""},
		{"empty", func() { write("") }, ""},
		{"whole", func() { write(z + a) }, z + a},
		{"too large", func() { write(strings.Repeat("#\n", largestKeyFile)) }, ""},
		{"gone", func() { os.Remove(path) }, ""},
		{"bytes", func() { rename("\x00\x01" + a) }, "\x00\x01" + a},
		{"half of bytes", func() { write("\x00\x02" + a[:30]) }, ""},
	} {
		step.do()
		k, err := keys()
		if got := string(bytes.Join(k.All(), nil)); got != step.want || (err != nil) != (step.want == "") {
			t.Errorf("%s: %q, %v", step.name, got, err)
		}
	}
}

// TestKeyPipe: a pipe is read once, and nothing is waited for after that.
func TestKeyPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("a", 64) + "\n"
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte(key), 0o600) }()
	keys := keysOf(path)
	for range 3 {
		if k, err := keys(); err != nil || string(k.Current) != key {
			t.Errorf("%q, %v", k.Current, err)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestLabKey: of several agents that begin at once, all have one key.
func TestLabKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.key")
	var had string
	for range 3 {
		if err := makeKey(path); err != nil {
			t.Fatal(err)
		}
		k, err := keysOf(path)()
		if err != nil || len(k.Current) < 64 || had != "" && string(k.Current) != had {
			t.Fatalf("%q, %v", k.Current, err)
		}
		had = string(k.Current)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
}
