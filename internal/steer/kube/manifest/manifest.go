// Package manifest holds what Pathwise is in a Kubernetes cluster: the definitions of its
// objects, the agents' DaemonSet, and what they may do there.
//
// It writes them as YAML. It speaks to no cluster.
package manifest

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"pathwise.dev/pathwise/internal/steer/decide"
)

//go:embed crd/*.yaml
var definitions embed.FS

//go:embed agent.yaml
var agents string

//go:embed leave.yaml
var leave string

//go:embed monitoring.yaml
var monitoring string

//go:embed dashboard.json
var dashboard string

//go:embed namespace.yaml
var namespace string

// Options are what differs from one cluster to another.
type Options struct {
	Namespace string
	Image     string
	// Networks are those that the agents probe, as NAMESPACE/NAME of their definitions.
	Networks []string
	// Cgroup is where the nodes have their cgroup v2 hierarchy.
	Cgroup string
	// Monitoring adds a PodMonitor, a PrometheusRule and a dashboard: the cluster has the Prometheus
	// operator.
	Monitoring bool
	// Need and Policy are as "pathwise agent" has them; "" leaves them to it.
	Need, Policy string
}

// KeySecret is the Secret in which the agents' keys are, and Key its entry.
const KeySecret, Key = "pathwise-key", "keys"

// PriorMap is the ConfigMap in which agents are told what a bench promises, and Prior its entry.
const PriorMap, Prior = "pathwise-prior", "prior.json"

// Dir is where an agent has its socket, in its own container.
const Dir = "/run/pathwise/agent"

// Check returns an error where an option would make another document than is meant.
func (o Options) Check() error {
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	if !label.MatchString(o.Namespace) {
		return fmt.Errorf("namespace %q: expected a DNS label, such as pathwise", o.Namespace)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][-._/:@A-Za-z0-9]*$`).MatchString(o.Image) {
		return fmt.Errorf("image %q: expected a reference, such as registry.example.org/pathwise:1", o.Image)
	}
	for _, n := range o.Networks {
		if ns, name, ok := strings.Cut(n, "/"); !ok || !label.MatchString(ns) ||
			!regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`).MatchString(name) {
			return fmt.Errorf("network %q: expected a NetworkAttachmentDefinition as NAMESPACE/NAME", n)
		}
	}
	if !path.IsAbs(o.Cgroup) || path.Clean(o.Cgroup) != o.Cgroup || strings.ContainsAny(o.Cgroup, "\"\\\n\r") {
		return fmt.Errorf("cgroup %q: expected an absolute path", o.Cgroup)
	}
	return o.checkAgent()
}

// checkAgent returns an error where an agent would refuse its flags, and so never be at work.
func (o Options) checkAgent() error {
	if o.Need != "" && !slices.Contains(decide.Needs(), decide.Need(o.Need)) {
		return fmt.Errorf("need %q: expected one of %v", o.Need, decide.Needs())
	}
	if o.Policy == "" {
		return nil
	}
	if _, err := decide.ParsePolicy(o.Policy, decide.Table{}, 0); err != nil {
		return err
	}
	if !regexp.MustCompile(`^[-:/.a-z0-9]+$`).MatchString(o.Policy) {
		return fmt.Errorf("policy %q: expected static:default or static:NAMESPACE/NAME", o.Policy)
	}
	return nil
}

// Definitions are those of the objects, one document each.
func Definitions() ([]byte, error) {
	var out bytes.Buffer
	names, err := fs.Glob(definitions, "crd/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list definitions: %w", err)
	}
	for _, name := range names {
		raw, err := definitions.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read definition: %w", err)
		}
		if !bytes.HasPrefix(raw, []byte("---\n")) {
			out.WriteString("---\n")
		}
		out.Write(raw)
	}
	return out.Bytes(), nil
}

// Write returns all that is to be applied, in an order in which it can be.
func Write(o Options) ([]byte, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	crds, err := Definitions()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := o.fill(&out, "namespace.yaml", namespace); err != nil {
		return nil, err
	}
	out.Write(crds)
	if o.Monitoring {
		if err := o.fill(&out, "monitoring.yaml", monitoring); err != nil {
			return nil, err
		}
		for line := range strings.Lines(dashboard) {
			out.WriteString("    " + line)
		}
	}
	if err := o.fill(&out, "agent.yaml", agents); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Leave returns the DaemonSet that takes out of all pods what agents have put there. The agents
// are to be gone before, and what they may do is to be there still. On each node it is Ready when
// nothing is left.
func Leave(o Options) ([]byte, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err := o.fill(&out, "leave.yaml", leave)
	return out.Bytes(), err
}

// fill writes one of the files with the options filled in.
func (o Options) fill(out *bytes.Buffer, name, text string) error {
	return fill(out, name, text, struct {
		Options
		Attached, Secret, Entry, Dir, Prior, PriorEntry string
	}{o, strings.Join(o.Networks, ","), KeySecret, Key, Dir, PriorMap, Prior})
}

func fill(out *bytes.Buffer, name, text string, with any) error {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	if err := t.Execute(out, with); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Reverse returns the same documents from the last to the first, the order to delete them in:
// agents go before what they need.
func Reverse(text []byte) []byte {
	const mark = "---\n"
	docs := bytes.Split(bytes.TrimPrefix(text, []byte(mark)), []byte("\n"+mark))
	slices.Reverse(docs)
	for i := range docs {
		docs[i] = append(bytes.TrimRight(docs[i], "\n"), '\n')
	}
	return bytes.Join(docs, []byte(mark))
}

// Defaults are the options of a cluster of which nothing is known.
func Defaults(version string) Options {
	return Options{Namespace: "pathwise", Image: "pathwise:" + cmp.Or(version, "latest"), Cgroup: "/sys/fs/cgroup"}
}
