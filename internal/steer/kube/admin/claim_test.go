package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// spaces is an API server that has one namespace, with a Lease and pods.
type spaces struct {
	mu      sync.Mutex
	there   bool
	ending  bool // it is being removed
	going   int  // how often it is still being removed when it is asked for
	lease   *coordinationv1.Lease
	version int
	pods    string // a list
	deaf    bool   // what is written is, and nobody is told
	renewed int
}

func (s *spaces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	code, answer := http.StatusOK, any(map[string]any{"kind": "Namespace", "apiVersion": "v1"})
	switch what := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
	case strings.Contains(r.URL.Path, "/pods/") && r.Method == http.MethodDelete:
		s.pods = ""
	case strings.HasSuffix(r.URL.Path, "/pods"):
		answer = json.RawMessage(`{"kind": "PodList", "apiVersion": "v1", "items": [` + s.pods + `]}`)
	case strings.Contains(r.URL.Path, "/leases"):
		code, answer = s.leases(r.Method, text)
	case r.Method == http.MethodPatch:
		s.there = true
	case r.Method == http.MethodDelete && what != "":
		s.there, s.lease = false, nil
	case !s.there:
		code, answer = failure(http.StatusNotFound, "NotFound", "")
	case s.ending:
		answer = json.RawMessage(`{"kind": "Namespace", "apiVersion": "v1", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer) // the client says what it lacks
}

func (s *spaces) leases(method string, text []byte) (int, any) {
	var l coordinationv1.Lease
	if len(text) > 0 {
		if err := json.Unmarshal(text, &l); err != nil {
			return failure(http.StatusBadRequest, "BadRequest", "")
		}
	}
	switch {
	case s.going > 0:
		s.going--
		return failure(http.StatusForbidden, "Forbidden", "NamespaceTerminating")
	case method == http.MethodPost && s.lease != nil:
		return failure(http.StatusConflict, "AlreadyExists", "")
	case method != http.MethodPost && s.lease == nil:
		return failure(http.StatusNotFound, "NotFound", "")
	case method == http.MethodPut && l.ResourceVersion != s.lease.ResourceVersion:
		return failure(http.StatusConflict, "Conflict", "")
	case method != http.MethodGet:
		s.version++
		s.renewed++
		l.ResourceVersion = fmt.Sprint(s.version)
		s.lease = &l
		if s.deaf {
			s.deaf = false
			return failure(http.StatusInternalServerError, "InternalError", "")
		}
	}
	return http.StatusOK, s.lease
}

func failure(code int, reason, cause string) (int, any) {
	return code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
		"details": map[string]any{"causes": []any{map[string]any{"reason": cause}}}}
}

// do does something while nobody else does.
func (s *spaces) do(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

func quick() claimTimes {
	return claimTimes{renew: 20 * time.Millisecond, expire: 400 * time.Millisecond, poll: 10 * time.Millisecond}
}

// eventually waits for what the server has.
func (s *spaces) eventually(t *testing.T, what func() bool) {
	t.Helper()
	for range 500 {
		ok := false
		s.do(func() { ok = what() })
		if ok {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("not after 5 s")
}

// TestClaim: of two runs the second is refused, and removes nothing; after the first it is not.
func TestClaim(t *testing.T) {
	s := &spaces{going: 3, pods: `{"metadata": {"name": "left"}}`}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	c, other := clusterAt(t, hs.URL), clusterAt(t, hs.URL)
	ctx, h, err := c.claim(t.Context(), namespaceOf("x"), quick())
	if err != nil {
		t.Fatal(err)
	}
	s.do(func() {
		if s.pods != "" {
			t.Errorf("%s are left", s.pods)
		}
		s.pods = `{"metadata": {"name": "mine"}}`
	})
	begin := time.Now()
	_, _, err = other.claim(t.Context(), namespaceOf("x"), quick())
	if err == nil || !strings.Contains(err.Error(), "take namespace x: process ") ||
		!strings.Contains(err.Error(), "one runs at a time") || time.Since(begin) > quick().expire {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	s.do(func() {
		if s.pods == "" || !s.there {
			t.Errorf("it removed the other's: %q, %v", s.pods, s.there)
		}
		s.deaf = true // a write whose answer is lost is no other's
	})
	s.eventually(t, func() bool { return !s.deaf })
	was := 0
	s.do(func() { was = s.renewed })
	s.eventually(t, func() bool { return s.renewed > was+3 })
	if err := h.release(t.Context()); err != nil || ctx.Err() == nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	s.do(func() {
		if s.there {
			t.Error("the namespace is left")
		}
	})
	if _, h, err = other.claim(t.Context(), namespaceOf("x"), quick()); err != nil {
		t.Fatal(err)
	}
	if err := h.release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestClaimRemoved: a run whose namespace somebody takes away is told so, before it has gone and after that, and
// removes nothing then.
func TestClaimRemoved(t *testing.T) {
	for what, take := range map[string]func(*spaces){
		"is being removed": func(s *spaces) { s.ending = true },
		"was removed":      func(s *spaces) { s.there, s.lease = false, nil },
	} {
		s := &spaces{}
		hs := httptest.NewServer(s)
		t.Cleanup(hs.Close)
		c := clusterAt(t, hs.URL)
		slow := quick()
		slow.renew = time.Hour
		for n, times := range []claimTimes{quick(), slow} {
			ctx, h, err := c.claim(t.Context(), namespaceOf("x"), times)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.removed(t.Context()); err != nil {
				t.Errorf("while it is there: %v", err)
			}
			s.do(func() { take(s) })
			if err = h.removed(t.Context()); n == 0 {
				<-ctx.Done()
				err = context.Cause(ctx)
			}
			if err == nil || !strings.Contains(err.Error(), "not this run's any more: it "+what) {
				t.Errorf("%s: %v", what, err)
			}
			if err := h.release(t.Context()); err != nil {
				t.Error(err)
			}
			s.do(func() {
				if what == "is being removed" && !s.there {
					t.Error("it removed the namespace")
				}
				s.there, s.ending, s.lease = false, false, nil
			})
		}
	}
}

// TestClaimOfTheDead: a run that was killed does not renew, and the next one takes its namespace; should
// it live all the same, it ends, and leaves that alone.
func TestClaimOfTheDead(t *testing.T) {
	s := &spaces{}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	slow := quick()
	slow.renew = 2 * time.Second // as one that is stopped
	ctx, dead, err := clusterAt(t, hs.URL).claim(t.Context(), namespaceOf("x"), slow)
	if err != nil {
		t.Fatal(err)
	}
	s.do(func() { s.pods = `{"metadata": {"name": "left"}}` })
	next, said := clusterAt(t, hs.URL), ""
	next.Say = func(what string) { said += what }
	_, h, err := next.claim(t.Context(), namespaceOf("x"), quick())
	if err != nil {
		t.Fatal(err)
	}
	if want := "waiting for up to 400ms to see whether that still runs"; !strings.Contains(said, "x is of process ") ||
		strings.Count(said, want) != 1 {
		t.Errorf("it waits, and says %q", said)
	}
	s.do(func() {
		if s.pods != "" {
			t.Errorf("%s are left", s.pods)
		}
	})
	<-ctx.Done()
	if cause := context.Cause(ctx); !strings.Contains(cause.Error(), "not this run's any more") {
		t.Errorf("%v", cause)
	}
	if err := dead.release(t.Context()); err != nil {
		t.Error(err)
	}
	s.do(func() {
		if !s.there {
			t.Error("it removed what is another's")
		}
	})
	if err := h.release(t.Context()); err != nil {
		t.Error(err)
	}
}
