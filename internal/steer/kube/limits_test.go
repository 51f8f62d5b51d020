package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"sigs.k8s.io/yaml"
)

// TestLongTextsAreCut: a version of a build from git and long reasons fit into a PathNode, by the
// limits of its definition. Fails where one is written as it is: the API server then refuses the
// whole object, and nothing is steered.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 2000)
	pods := ownPods(apiPod("a", 4))
	pods[0].barred = map[string]string{pods[0].Attachments[0].Network: long}
	refused := []v1alpha1.Refusal{{Pod: "shop/b", Reason: long}}
	spec, status := node("v0.0.0-20261126170013-4a94fb45fc35+dirty 4a94fb45fc3591c2958ed79f5c5f3351392916d8 (modified)", pods,
		refused)
	if strings.HasSuffix(spec.Version, "…") {
		t.Errorf("version %q is cut", spec.Version)
	}
	if refused[0].Reason != long {
		t.Error("the caller's own refusal is cut")
	}
	version, reason, barred := definedLimits(t)
	for _, tt := range []struct {
		what, text string
		most       int
	}{{"version", spec.Version, version}, {"reason", status.Refusals[0].Reason, reason},
		{"barred", spec.Pods[0].Attachments[0].Barred, barred}} {
		if len(tt.text) > tt.most || tt.most == 0 {
			t.Errorf("%s: %d bytes, at most %d", tt.what, len(tt.text), tt.most)
		}
	}
	if spec, _ := node(strings.Repeat("v", 500), nil, nil); len(spec.Version) > version {
		t.Errorf("version: %d bytes", len(spec.Version))
	}
}

// definedLimits are what the definition of PathNodes says.
func definedLimits(t *testing.T) (version, reason, barred int) {
	raw, err := os.ReadFile(filepath.Join("manifest", "crd", "pathwise.dev_pathnodes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	at := func(v any, keys ...string) any {
		for _, k := range keys {
			if list, ok := v.([]any); ok {
				v = list[0]
			}
			v = v.(map[string]any)[k]
		}
		return v
	}
	props := at(crd["spec"], "versions", "schema", "openAPIV3Schema", "properties")
	most := func(keys ...string) int { return int(at(at(props, keys...), "maxLength").(float64)) }
	return most("spec", "properties", "version"),
		most("status", "properties", "refusals", "items", "properties", "reason"),
		most("spec", "properties", "pods", "items", "properties", "attachments", "items", "properties", "barred")
}
