package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	_ "embed"
)

//go:embed test.yaml
var testPods string

// TestNamespace is that of the pods that "kube test" makes, TestClient and TestServer their names.
const (
	TestNamespace          = "pathwise-test"
	TestClient, TestServer = "client", "server"
)

type testServer struct{ Kind, Listen string }

type testPod struct {
	Name, Node string
	Servers    []testServer
}

// Test returns the two pods of a test, on these nodes, with their namespace. rr and udp are where
// the server listens.
func Test(o Options, nodes [2]string, rr, udp string) ([]byte, error) {
	o.Namespace = TestNamespace
	if err := o.Check(); err != nil {
		return nil, err
	}
	name := regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	for _, n := range nodes {
		if !name.MatchString(n) {
			return nil, fmt.Errorf("node %q: expected a name of a node", n)
		}
	}
	servers := []testServer{{"rr", rr}, {"udp", udp}}
	var out bytes.Buffer
	err := fill(&out, "test.yaml", testPods, struct {
		Options
		Attached string
		Pods     []testPod
	}{o, strings.Join(o.Networks, ","), []testPod{{TestClient, nodes[0], servers[:1]}, {TestServer, nodes[1], servers}}})
	return out.Bytes(), err
}
