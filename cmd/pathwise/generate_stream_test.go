package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/stream"
)

func TestStreamRefusesBadFlags(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"tcp", "target"},
		{"tcp --target 10.0.0.1", "--target"},
		{"tcp --target 10.0.0.1:7 --connections 0", "connections 0"},
		{"tcp --target 10.0.0.1:7 --bind fd00::1", "bind"},
		{"tcp --target 10.0.0.1:7 extra", "expected no argument"},
		{"rr --target 10.0.0.1:7 --request 9-1", "request 9-1"},
		{"rr --target 10.0.0.1:7 --request many", "--request"},
		{"udp --target 10.0.0.1:7 --interval 0", "interval"},
		{"icmp --target 10.0.0.1:7", "--target"},
		{"serve icmp --listen 10.0.0.1:7", "tcp, rr or udp"},
		{"serve tcp", "listen"},
		{"serve", "expected tcp|rr|udp"},
		{"serve tcp --listen 10.0.0.1:7 --bin 1ns", "bin 1ns"},
	} {
		var out, errs strings.Builder
		e := env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		err := run(t.Context(), e, append([]string{"generate", "stream"}, strings.Fields(tc.args)...))
		if code := exitCode(&errs, err); code != 2 {
			t.Errorf("%s: exit code %d", tc.args, code)
		}
		if text := errs.String(); out.Len() > 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %q and %q, expected %q", tc.args, out.String(), text, tc.want)
		}
	}
}

// TestStreamEndsWithItsCaller: a server whose standard input is closed reports,
// and so does a client that is told to stop.
func TestStreamEndsWithItsCaller(t *testing.T) {
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, w := io.Pipe()
	served := make(chan error, 1)
	go func() {
		e := env{stdin: in, stdout: w, stderr: io.Discard, getenv: func(string) string { return "" }}
		err := run(t.Context(), e, strings.Fields("generate stream serve rr --listen 127.0.0.1:0"))
		w.CloseWithError(err)
		served <- err
	}()
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var report strings.Builder
	e := env{stdin: strings.NewReader(""), stdout: &report, stderr: io.Discard, getenv: func(string) string { return "" }}
	target := strings.TrimSpace(strings.TrimPrefix(first, "listening "))
	if err := run(t.Context(), e, strings.Fields(
		"generate stream rr --count 50 --request 200-1000 --target "+target)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as a signal that comes at once
	_ = run(ctx, e, strings.Fields("generate stream rr --target "+target))
	hold.Close()
	rest, err := io.ReadAll(lines)
	if err != nil || <-served != nil {
		t.Fatalf("the server: %v", err)
	}
	client, err := stream.Parse([]byte(report.String()))
	server, serverErr := stream.Parse(append([]byte(first), rest...))
	if err != nil || serverErr != nil || client.Counts.Operations != 50 || server.Counts.Operations != 50 {
		t.Errorf("%v, %v: %+v, %+v", err, serverErr, client.Counts, server.Counts)
	}
}
