package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// viewed is the view of a PathNode that nothing was known of.
func viewed(n *v1alpha1.PathNode) *view { return viewedAfter(n, nil) }

// viewedAfter is that of one of which there is another.
func viewedAfter(n *v1alpha1.PathNode, before *view) *view {
	raw, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	v, err := viewOf(cursorOf(raw), func(string) *view { return before })
	if err != nil {
		panic(err)
	}
	return v
}

// TestViewAfterAnother: what is taken from the view before is as if all was read.
func TestViewAfterAnother(t *testing.T) {
	pods := func(names ...string) *v1alpha1.PathNode {
		n := &v1alpha1.PathNode{}
		n.Name, n.ResourceVersion = "n2", strings.Join(names, "")
		for i, name := range names {
			p := v1alpha1.Pod{UID: "uid-" + name, Name: "shop/" + name, Attachments: []v1alpha1.Attachment{
				{Network: "default", Device: "eth0", MTU: 1500, Addresses: []string{fmt.Sprintf("10.0.0.%d", name[0])}}}}
			if name == "p" {
				p.Policies = []string{"one", "two"}
			}
			if name == "w" { // wrong
				p.Attachments[0].Addresses[0] = "x"
			}
			if i > 0 && name == "c" { // another, by the same name
				p.UID = "uid-other"
			}
			n.Spec.Pods = append(n.Spec.Pods, p)
		}
		return n
	}
	var before *view
	for _, names := range []string{"abc", "abc", "bc", "cba", "pabw", "wabp", "bp", "", "pc"} {
		n := pods(strings.Split(names, "")...)
		if names == "" {
			n = pods()
		}
		got := viewedAfter(n, before)
		want := viewedAfter(n, &view{seed: got.seed})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, expected %+v", names, got, want)
		}
		for i := range got.pods {
			if was := (former{view: before}); before != nil && was.find(got.marks[i]) >= 0 {
				at := was.find(got.marks[i])
				if &got.pods[i].Attachments[0] != &before.pods[at].Attachments[0] {
					t.Errorf("%s: pod %s was read again", names, got.pods[i].Name)
				}
			}
		}
		before = got
	}
}

// TestSplit: the parts of JSON are those that encoding/json finds, and what is none is told.
func TestSplit(t *testing.T) {
	for _, text := range []string{`{}`, ` {"a" : [1, {"b": "}\\\"]"}], "c":null ,"d":-1.5e3}`, `{"a":"\\","b":"\""}`,
		`{"metadata":{"x":[[],[{}]]},"spec":true}`} {
		got, want := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		c := cursorOf([]byte(text))
		if err := c.members(func(key string) error {
			value, err := c.ReadValue()
			got[key] = json.RawMessage(bytes.Clone(value))
			return err
		}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s, expected %s, %v", text, got, want, err)
		}
	}
	for _, text := range []string{``, `null`, `[]`, `{`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":"`, `{"a":1,"b"}`,
		`{a:1}`, `{"a" 1}`, `{"a":1 "b":2}`} {
		c := cursorOf([]byte(text))
		if c.members(func(string) error { return c.SkipValue() }) == nil {
			t.Errorf("%s was taken", text)
		}
	}
	c, got := cursorOf([]byte(`[ "a", [1,2] ,{}]`)), 0
	if err := c.elements(func() error { got++; return c.SkipValue() }); err != nil || got != 3 {
		t.Errorf("%d elements, %v", got, err)
	}
}

// TestEvents: events are read however they come in parts, and what is none ends the watch with an error.
func TestEvents(t *testing.T) {
	object, err := json.Marshal(viewable("n2"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n"+`{"object":%[1]s,"type":"DELETED"}{"type":"BOOKMARK",`+
		`"object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`+
		`{"type":"ERROR","object":{"kind":"Status","code":410}}`+"\n", object)
	for name, from := range map[string]io.Reader{"whole": strings.NewReader(text),
		"bytes":        iotest.OneByteReader(strings.NewReader(text)),
		"with the end": iotest.DataErrReader(strings.NewReader(text))} {
		got := followed(t, from)
		if len(got) != 4 || got[0].Type != watch.Added || got[1].Type != watch.Deleted || got[2].Type != watch.Bookmark ||
			got[3].Type != watch.Error {
			t.Fatalf("%s: %+v", name, got)
		}
		if v, ok := got[1].Object.(*view); !ok || v.Name != "n2" || len(v.pods) != 1 || v.pods[0].Name != "shop/a" {
			t.Errorf("%s: %+v", name, got[1].Object)
		}
		if v, ok := got[2].Object.(*view); !ok || v.ResourceVersion != "9" ||
			v.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("%s: %+v", name, got[2].Object)
		}
		if s, ok := got[3].Object.(*metav1.Status); !ok || s.Code != 410 {
			t.Errorf("%s: %+v", name, got[3].Object)
		}
	}
	for _, text := range []string{`{"type":"OTHER","object":{}}`, `{"type":"ADDED","object":[]}`, `]`,
		`{"type":"ADDED","object":{"spec":{"pods":[{"uid":1}]}}}`} {
		if got := followed(t, strings.NewReader(text)); len(got) != 1 || got[0].Type != watch.Error {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := followed(t, strings.NewReader(text[:len(object)])); len(got) != 0 { // the connection has ended
		t.Errorf("%+v of a part", got)
	}
}

func viewable(name string) *v1alpha1.PathNode { return seen(name, apiPod("a", 5)) }

// followed are the events of a watch.
func followed(t *testing.T, from io.Reader) (all []watch.Event) {
	t.Helper()
	events := make(chan watch.Event, 8)
	(&nodeReader{before: func(string) *view { return nil }}).follow(t.Context(), newCursor(from), events)
	close(events)
	for e := range events {
		all = append(all, e)
	}
	return all
}

// BenchmarkChange is what it takes to read that one of a node's 20 pods is another, with what a real API server
// writes of who has written which field.
func BenchmarkChange(b *testing.B) {
	var texts [2][]byte
	for turn := range texts {
		n := largeNode(7, turn)
		fields, err := json.Marshal(n.Spec) // as long as those are
		if err != nil {
			b.Fatal(err)
		}
		n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", FieldsV1: metav1.NewFieldsV1(string(fields))}}
		object, err := json.Marshal(n)
		if err != nil {
			b.Fatal(err)
		}
		texts[turn] = fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`+"\n", object)
	}
	var last *view
	r := &nodeReader{before: func(string) *view { return last }}
	b.SetBytes(int64(len(texts[0])))
	for n := 0; b.Loop(); n++ {
		e, err := r.event(cursorOf(texts[n&1]))
		if err != nil {
			b.Fatal(err)
		}
		last = e.Object.(*view)
	}
}

// FuzzViewOf: what is read of a PathNode in parts is what is read of it as a whole.
func FuzzViewOf(f *testing.F) {
	for _, n := range []*v1alpha1.PathNode{viewable("n2"), seen("n3", apiPod("a", 5), apiPod("b", 6)), {}} {
		raw, err := json.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"spec":{"pods":null},"metadata":{"name":"n"}}`))
	f.Add([]byte(`{"spec":{"pods":[{"uid":"1"},{"uid":"1"}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := viewOf(cursorOf(raw), func(string) *view { return nil })
		var n v1alpha1.PathNode
		if whole := utiljson.Unmarshal(raw, &n); whole != nil || err != nil {
			return // they differ in how much they look at
		}
		if len(v.pods)+len(v.faults) != len(n.Spec.Pods) {
			t.Errorf("%d pods and %d faults of %d pods", len(v.pods), len(v.faults), len(n.Spec.Pods))
		}
		again, err := viewOf(cursorOf(raw), func(string) *view { return v })
		if err != nil || !reflect.DeepEqual(again.known(), v.known()) {
			t.Errorf("read again: %v, %v; before %v", again, err, v.known())
		}
	})
}
