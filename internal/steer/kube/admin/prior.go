package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// priorNote is what marks the agents' pods by the prior that they have read.
const priorNote = "pathwise.dev/prior"

// Tell gives the agents what a bench promises, and has them begin again with it, one node after
// another, where it is not what they have. Flows stay where they are meanwhile.
func (c *Cluster) Tell(ctx context.Context, prior []byte) error {
	m := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": manifest.PriorMap, "namespace": c.agents,
			"labels": map[string]string{nameLabel: nameValue}},
		"data": map[string]string{manifest.Prior: string(prior)}}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write ConfigMap: %w", err)
	}
	if err := c.applyAll(ctx, text); err != nil {
		return err
	}
	sum := sha256.Sum256(prior)
	patch := fmt.Sprintf(`{"spec": {"template": {"metadata": {"annotations": {%q: %q}}}}}`, priorNote,
		hex.EncodeToString(sum[:8]))
	raw, err := c.raw()
	if err != nil {
		return err
	}
	set := daemonSet(c.agents, agentSet)
	err = raw.Patch(types.StrategicMergePatchType).AbsPath(set.path()).Body([]byte(patch)).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("have agents begin again: %w", err)
	}
	return nil
}
