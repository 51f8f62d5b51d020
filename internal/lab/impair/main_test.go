package impair

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"pathwise.dev/pathwise/internal/lab/guest"
)

// TestMain lets the test binary be a delay line, and a guest's init.
func TestMain(m *testing.M) {
	switch {
	case guest.Inside():
		fmt.Fprintln(os.Stderr, guest.Init())
		os.Exit(1)
	case len(os.Args) == 6 && os.Args[1] == LineArgument:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		l := Line{Port: Port{Netns: os.Args[2], Dev: os.Args[3], Host: os.Args[4]}, Dir: os.Args[5], Seed: 1}
		if err := l.Run(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
