package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestUnreadable: that a server does not answer, or has trouble of its own, changes nothing of what it said before. An
// answer that cannot be decoded does: a policy may be in it.
func TestUnreadable(t *testing.T) {
	var port intstr.IntOrString
	undecodable := json.Unmarshal([]byte("5000000000"), &port)
	if undecodable == nil {
		t.Fatal("a port that is none is read")
	}
	none := schema.GroupResource{Resource: "policies"}
	for _, tt := range []struct {
		err  error
		kept bool
	}{
		{fmt.Errorf("unable to decode: %w", undecodable), true},
		{apierrors.NewForbidden(none, "", nil), true},
		{apierrors.NewNotFound(none, ""), true},
		{apierrors.NewInternalError(errors.New("etcd has no leader")), false},
		{apierrors.NewTooManyRequests("later", 1), false},
		{&url.Error{Op: "Get", URL: "https://x", Err: errors.New("connection refused")}, false},
		{fmt.Errorf("watch: %w", io.ErrUnexpectedEOF), false},
		{apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "list", none, "", "", 0, true), false},
	} {
		r := &reading{}
		if r.noted(tt.err); (r.err != nil) != tt.kept {
			t.Errorf("%v: kept %v", tt.err, r.err)
		}
		if r.noted(nil); r.err != nil {
			t.Errorf("%v is kept though it was read since", r.err)
		}
	}
}
