package kube

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// TestTell: a pod is told of once a minute, however often it is refused, and what is not taken
// is not tried again at once.
func TestTell(t *testing.T) {
	made, taken := 0, true
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if made++; r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/shop/events" || !taken {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answer(w, corev1.Event{})
	}))
	defer hs.Close()
	c, err := connect(kubeconfig(t, hs.URL))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	a := announcer{clients: c, node: "n1", now: func() time.Time { return now }, announced: map[string]time.Time{}}
	pods := []*corev1.Pod{apiPod("a", 4), apiPod("b", 5)}
	refused := []v1alpha1.Refusal{{Pod: "shop/a", Reason: "x"}}
	for n, step := range []struct {
		after time.Duration
		taken bool
		made  int
	}{{0, true, 1}, {time.Second, true, 1}, {tellEvery, true, 2}, {tellEvery, false, 3}, {time.Second, true, 3},
		{tellEvery, true, 4}} {
		now, taken = now.Add(step.after), step.taken
		if err := a.tell(t.Context(), pods, refused, refusedReason); made != step.made || (err == nil) != step.taken {
			t.Errorf("step %d: %d made, %v", n, made, err)
		}
	}
}
