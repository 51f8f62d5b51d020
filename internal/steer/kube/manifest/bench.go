package manifest

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
)

//go:embed bench.yaml
var benchPods string

//go:embed benchspace.yaml
var benchSpace string

// BenchNamespace is that of the pods that "bench --kube" makes.
const BenchNamespace = "pathwise-bench"

// BenchPod is one of them: it waits for programs to be run in it.
type BenchPod struct {
	Name, Node string
	// Attached is a NetworkAttachmentDefinition as NAMESPACE/NAME; "" is the default network alone.
	Attached string
	// Host: the pod is on its node's own network.
	Host bool
}

// IsName reports whether the text can be the name of an object.
func IsName(text string) bool {
	return regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`).MatchString(text)
}

// BenchSpace returns their namespace.
func BenchSpace() ([]byte, error) {
	var out bytes.Buffer
	err := fill(&out, "benchspace.yaml", benchSpace, struct{ Namespace string }{BenchNamespace})
	return out.Bytes(), err
}

// Bench returns such pods.
func Bench(image string, pods []BenchPod) ([]byte, error) {
	o := Defaults("")
	o.Image, o.Namespace = image, BenchNamespace
	for _, p := range pods {
		if !IsName(p.Node) || !IsName(p.Name) {
			return nil, fmt.Errorf("pod %q on node %q: expected names", p.Name, p.Node)
		}
		if p.Attached != "" {
			o.Networks = append(o.Networks, p.Attached)
		}
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err := fill(&out, "bench.yaml", benchPods, struct {
		Options
		Pods []BenchPod
	}{o, pods})
	return out.Bytes(), err
}
