package kube

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// forbid takes from all who ask what they may read, or gives it back; watches end, as the API server has
// them do in time.
func (s *server) forbid(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		close(s.cut)
	}
	s.forbidden, s.cut = yes, make(chan struct{})
}

// TestForbiddenPolicies: what may be read no more is known not to be, which keeps pods home, until it may be
// read again.
func TestForbiddenPolicies(t *testing.T) {
	s := &server{}
	s.forbid(false)
	p, follow, stop := readPolicies(t, s)
	defer stop()
	for _, step := range []struct {
		forbidden bool
		want      string
	}{{false, ""}, {true, "CustomResourceDefinition NetworkPolicy"}, {false, ""}} {
		s.forbid(step.forbidden)
		var unread []string
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			follow()
			unread = nil
			for _, u := range p.known().Unread {
				unread = append(unread, u.Kind)
			}
			if strings.Join(unread, " ") == step.want {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("forbidden %v: not read %q, want %q", step.forbidden, unread, step.want)
			}
		}
	}
}

// TestForbiddenSource: an agent that may read nothing any more goes on with what it has read, and says so.
func TestForbiddenSource(t *testing.T) {
	s := &server{}
	s.forbid(false)
	hs := httptest.NewServer(s)
	defer hs.Close()
	var log safeBuffer
	src, err := Open(Config{Kubeconfig: kubeconfig(t, hs.URL), Node: "n1", Pod: "uid-agent", Version: "test",
		Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { src.Run(ctx); close(done) }()
	defer func() { cancel(); hs.CloseClientConnections(); <-done }()
	if err := src.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	s.forbid(true)
	for end := time.Now().Add(20 * time.Second); !strings.Contains(log.String(), "read from the API server"); {
		if time.Now().After(end) {
			t.Fatalf("nobody is told:\n%s", log.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if c, err := src.Cluster(); err != nil || len(c.Hosts) != 2 || len(c.Pods) != 1 || len(c.Equal) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// safeBuffer is written and read at the same time.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
