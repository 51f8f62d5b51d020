package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/bundle"
)

func patchFlag(cmd *cobra.Command, patches *[]string) {
	cmd.Flags().StringArrayVar(patches, "patch", nil,
		"a patch between two bridges of files, such as br-int:2=br-tun:1, by ports' numbers or names (repeatable)")
}

// namedBridge is a bridge of a command line, and the file of its flows if they are in one.
type namedBridge struct {
	name, from string
	live       bool
}

// bridgesOf tells the bridges of an argument, and whether there are several.
func bridgesOf(arg string) ([]namedBridge, bool) {
	if _, err := os.Stat(arg); err == nil || !strings.Contains(arg, ",") {
		return nil, false
	}
	var out []namedBridge
	for _, part := range strings.Split(arg, ",") {
		b := namedBridge{from: part}
		if _, err := os.Stat(part); err == nil {
			b.name = strings.TrimSuffix(filepath.Base(part), filepath.Ext(part))
		} else if name, file, ok := strings.Cut(part, "="); ok {
			b.name, b.from = name, file
		} else {
			b.name, b.live = part, true
		}
		out = append(out, b)
	}
	return out, true
}

// readBridges reads a pipeline of one bridge, or of several that patch ports join.
func (e env) readBridges(ctx context.Context, arg string, names *pipeline.Names, patches []string,
) (*pipeline.Pipeline, error) {
	list, several := bridgesOf(arg)
	if !several {
		if len(patches) > 0 {
			return nil, usageError{fmt.Errorf("--patch %s: expected several bridges, such as br-int=FILE,br-tun=FILE", patches[0])}
		}
		return e.readNamed(ctx, arg, names)
	}
	var bridges []pipeline.Bridge
	var live []string
	for _, b := range list {
		if b.name == "" || b.from == "" {
			return nil, usageError{fmt.Errorf("%s: expected bridges with commas in between, such as br-int,br-tun", arg)}
		}
		p, err := e.readNamed(ctx, b.from, names)
		if err != nil {
			return nil, err
		}
		bridges = append(bridges, pipeline.Bridge{Name: b.name, Pipeline: p})
		if b.live {
			live = append(live, b.name)
		}
	}
	peers, err := bundle.Patches(ctx, live)
	if err != nil {
		return nil, err
	}
	told, err := readPatches(patches, names)
	if err != nil {
		return nil, usageError{err}
	}
	maps.Copy(peers, told)
	p, err := pipeline.Join(bridges, peers)
	if err == nil && len(peers) == 0 {
		err = fmt.Errorf("%s: no patch port joins these bridges: expected --patch, such as %s:2=%s:1", arg, list[0].name,
			list[1].name)
	}
	if err != nil {
		return nil, usageError{err}
	}
	return p, nil
}

// readPatches reads what --patch tells.
func readPatches(list []string, names *pipeline.Names) (map[pipeline.End]pipeline.End, error) {
	out := map[pipeline.End]pipeline.End{}
	for _, s := range list {
		from, to, _ := strings.Cut(s, "=")
		var ends [2]pipeline.End
		for i, side := range []string{from, to} {
			bridge, port, ok := strings.Cut(side, ":")
			if !ok || bridge == "" || port == "" {
				return nil, fmt.Errorf("--patch %s: expected BRIDGE:PORT=BRIDGE:PORT, such as br-int:2=br-tun:1", s)
			}
			p, err := names.ReadPort(port)
			if err != nil {
				return nil, fmt.Errorf("--patch %s: %w", s, err)
			}
			ends[i] = pipeline.End{Bridge: bridge, Port: p}
		}
		out[ends[0]], out[ends[1]] = ends[1], ends[0]
	}
	return out, nil
}

// checkAlike wants the same bridges of two pipelines that are held against each other.
func checkAlike(a, b *pipeline.Pipeline) error {
	if a.Several() != b.Several() || len(a.Entries()) != len(b.Entries()) {
		return usageError{errors.New("expected as many bridges in A as in B")}
	}
	if a.Several() && !slices.Equal(a.Entries(), b.Entries()) {
		return usageError{errors.New("expected bridges of the same names in A and B, in the same order")}
	}
	return nil
}
