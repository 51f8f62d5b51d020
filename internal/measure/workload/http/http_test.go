package http

import (
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
)

func TestArguments(t *testing.T) {
	g := testbed.New(t, 1)
	tr := trial{Access: Access{Self: "/pathwise", Close: true, Embedded: true}, bed: g.Bed(),
		load: sample.Load{Connections: 8, Size: 100, Rate: 2e6}, window: workload.Window{Duration: time.Second}}
	if err := tr.prepare(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tr.servers[0], " "); got != "/pathwise generate http-serve --addr :5201 --size 100 --congestion cubic" {
		t.Errorf("got %s", got)
	}
	const want = "/pathwise generate http --target 10.201.0.2:5201 --connections 8 --size 100 --begin 3s --duration 1s --congestion cubic --rate 2e+06 --close"
	if got := strings.Join(tr.clientArgs(0, "3s"), " "); got != want {
		t.Errorf("got %s", got)
	}
	tr.Embedded, tr.servers = false, nil
	if err := tr.prepare(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tr.servers[0], " "); !strings.HasPrefix(got,
		"/pathwise generate http-nginx --addr 0.0.0.0:5201 --congestion cubic -- nginx ") {
		t.Errorf("got %v, want nginx, which is installed here", tr.servers[0])
	}
}
