package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/topo"
)

// FuzzCluster: a description is refused with its file and line, or what is worked out
// from it holds no surprise, and it comes back from JSON as it was.
func FuzzCluster(f *testing.F) {
	raw, err := json.Marshal(
		Cluster{Hosts: []topo.Host{{Index: 1, Name: "h1", Addr: netip.MustParsePrefix("10.0.0.1/24")}},
			Pods:  []topo.Pod{testPod("a", 1, 1, "bridge", "vxlan"), testPod("b", 2, 2, "bridge", "vxlan", "macvlan")},
			Equal: []string{"vxlan"}, Encapsulated: []string{"macvlan"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add("{\n\"pods\": [{\"host\": \"1\"}]}")
	f.Add("{\"pods\":[{\"attachments\":[{\"addr\":\"fe80::1%x\"},{}]},{}]}")
	place := regexp.MustCompile(`^f\.json:\d+: `)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCluster("f.json", strings.NewReader(text))
		if err != nil {
			if !place.MatchString(err.Error()) {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := ParseCluster("f.json", bytes.NewReader(raw))
		if raw2, _ := json.Marshal(again); err != nil || !bytes.Equal(raw, raw2) {
			t.Errorf("%s came back as %s: %v", raw, raw2, err)
		}
		work(t, c)
	})
}

// work does with a description what an agent does before it touches the kernel.
func work(t *testing.T, c Cluster) {
	names := c.names()
	if len(names) > 0 && dialect(names, c.Encapsulated) != dialect(c.names(), c.Encapsulated) {
		t.Error("one description, two dialects")
	}
	for i, p := range c.Pods[:min(len(c.Pods), 8)] {
		c.agentPod(p.Host)
		if !reflect.DeepEqual(idOf(p), idOf(p)) {
			t.Error("one pod, two identities")
		}
		for _, s := range c.steerable(p.Host) {
			if s.Agent || s.UID == "" || len(s.Attachments) < 2 {
				t.Errorf("%+v is steerable", s)
			}
		}
		for _, q := range c.Pods[i:min(len(c.Pods), 8)] {
			rs := c.eligible(route.Between(p, q))
			for _, r := range rs {
				r.MTU()
			}
			if len(rs) > 0 {
				route.Peer(q, rs, true, nil, nil)
			}
		}
	}
}

func TestClusterErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{\n\"pods\": [\n{\"host\": \"1\"}]}": "f.json:3: ",
		"{\n\n}\n}":                           "f.json:4: ",
		"":                                    "f.json:1: ",
		`{"hosts": [{"addr": "10.0.0.1"}]}`:   "f.json:1: ",
	} {
		if _, err := ParseCluster("f.json", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := ParseCluster("f.json", endless{}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a description without an end: %v", err)
	}
}

// endless gives spaces for ever.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// TestOrdersAreStrict: an order whose network is misspelt would unpin.
func TestOrdersAreStrict(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"local":"a","remote":"b","network":"n","pin":true}`:   true,
		`{"local":"a","remote":"b"}`:                            true,
		`{"local":"a","remote":"b","netwrok":"n","pin":true}`:   false,
		`{"local":"a","remote":"b"} {"local":"a","force":true}`: false,
		`{"local":"a","remote":"b"}x`:                           false,
		`[]`:                                                    false,
		``:                                                      false,
	} {
		if o, err := readOrder(strings.NewReader(text)); (err == nil) != ok {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
}

// TestAnswersAreBounded: an agent's answer that does not end is no answer, and is not
// gathered.
func TestAnswersAreBounded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		some := bytes.Repeat([]byte(" "), 1<<20)
		for {
			if _, err := w.Write(some); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	c := &Client{http.Client{Transport: rewritten{srv.Listener.Addr().String()}}}
	if _, err := c.Paths(t.Context()); err == nil {
		t.Error("an answer without an end was taken")
	}
}

// rewritten sends every request to one address.
type rewritten struct{ addr string }

func (r rewritten) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL.Host = r.addr
	return http.DefaultTransport.RoundTrip(q)
}

// FuzzControlRequest: whatever is asked at the control socket, the answer is JSON or a
// reason in one line, and no order is taken that names no pair.
func FuzzControlRequest(f *testing.F) {
	f.Add("POST", "/order", `{"local":"a","remote":"b","network":"n","pin":true}`)
	f.Add("POST", "/order", `{"network":1}`)
	f.Add("GET", "/events?since=-1", "")
	f.Add("GET", "/events?since=1&wait=1", "")
	f.Add("GET", "/events?since=99999999999999999999", "")
	f.Add("DELETE", "/paths", "")
	f.Add("", "paths", "0")
	f.Add("", "/health", "")
	a, err := New(Config{Host: "h1", Keys: oneKey("a key of the test, 32 octets wide")})
	if err != nil {
		f.Fatal(err)
	}
	for range 3 {
		a.note(Event{Kind: EventWarning, Reason: "x"})
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // of who waits for events, and goes
		r, err := http.NewRequestWithContext(ctx, method, "http://agent", strings.NewReader(body))
		if err != nil {
			return
		}
		if r.URL, err = r.URL.Parse(target); err != nil {
			return
		}
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, r)
		out := strings.TrimSpace(w.Body.String())
		switch {
		case w.Code == http.StatusOK && !json.Valid(w.Body.Bytes()):
			t.Errorf("%s %s: answered %q", method, target, out)
		case w.Code == http.StatusOK && r.URL.Path == "/order":
			t.Errorf("an order of a pair that is not there was taken: %s", body)
		case w.Code != http.StatusOK && r.URL.Path == "/order" && (strings.Contains(out, "\n") || len(out) > 2*len(body)+400):
			t.Errorf("%s %s: refused with %q", method, target, out)
		}
		if len(a.journal.events) != 3 {
			t.Errorf("a request left an event: %+v", a.journal.last())
		}
	})
}
