package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Patches are the patch ports between bridges of this machine, each by the one on its other side.
func Patches(ctx context.Context, bridges []string) (map[pipeline.End]pipeline.End, error) {
	out := map[pipeline.End]pipeline.End{}
	if len(bridges) == 0 {
		return out, nil
	}
	on := map[string]string{}
	for _, b := range bridges {
		list, err := vsctl(ctx, "list-ifaces", b)
		if err != nil {
			return nil, err
		}
		for _, name := range strings.Fields(list) {
			on[name] = b
		}
	}
	text, err := vsctl(ctx, "--format=json", "--columns=name,ofport,options", "find", "Interface", "type=patch")
	if err != nil {
		return nil, err
	}
	var table struct{ Data [][3]json.RawMessage }
	if err := json.Unmarshal([]byte(text), &table); err != nil {
		return nil, fmt.Errorf("read patch ports: %w", err)
	}
	ends, peers := map[string]pipeline.End{}, map[string]string{}
	for _, row := range table.Data {
		var name string
		var port uint16
		var options [2]json.RawMessage
		var pairs [][2]string
		if json.Unmarshal(row[0], &name) != nil || json.Unmarshal(row[1], &port) != nil ||
			json.Unmarshal(row[2], &options) != nil || json.Unmarshal(options[1], &pairs) != nil || on[name] == "" {
			continue // one that has no number is not there yet
		}
		ends[name] = pipeline.End{Bridge: on[name], Port: pipeline.Port(port)}
		for _, p := range pairs {
			if p[0] == "peer" {
				peers[name] = p[1]
			}
		}
	}
	for name, peer := range peers {
		if to, ok := ends[peer]; ok && peers[peer] == name {
			out[ends[name]] = to
		}
	}
	return out, nil
}

func vsctl(ctx context.Context, args ...string) (string, error) {
	out, err := output(ctx, "", "ovs-vsctl", append([]string{"--timeout=10"}, args...)...)
	if err != nil {
		return "", fmt.Errorf("read patch ports: %w", err)
	}
	return out, nil
}
