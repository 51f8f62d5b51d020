package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// ociVersion is the version of the runtime specification that the bundle
// follows: the oldest that has all it uses, as older runtimes refuse newer ones.
const ociVersion = "1.0.2"

// inside is where the container finds the pathwise executable.
const inside = "/pathwise"

// writeBundle writes the container's directory: config.json and an empty root
// file system.
func writeBundle(c Container) error {
	// /proc and /dev are mounted over directories that must be there.
	for _, dir := range []string{"rootfs/proc", "rootfs/dev", "state"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o755); err != nil {
			return fmt.Errorf("create bundle: %w", err)
		}
	}
	raw, err := json.MarshalIndent(config(c), "", "  ")
	if err != nil {
		return fmt.Errorf("encode config.json: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "config.json"), raw, 0o644); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// config is the container as the runtime specification describes it.
func config(c Container) specs.Spec {
	return specs.Spec{
		Version:  ociVersion,
		Hostname: c.ID,
		Root:     &specs.Root{Path: filepath.Join(c.Dir, "rootfs"), Readonly: true},
		Process: &specs.Process{
			Args: []string{inside, "generate", "pause"},
			Cwd:  "/",
			Env:  c.Env,
			// No capability at all: the process only waits.
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			// No rlimits: raising one needs CAP_SYS_RESOURCE, which root in a
			// container or a sandbox often lacks.
		},
		Mounts: []specs.Mount{
			// runc closes inherited files through /proc/self/fd.
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "mode=755", "size=64k"}},
			{Destination: inside, Type: "bind", Source: c.Self, Options: []string{"bind", "ro", "nosuid", "nodev"}},
		},
		Linux: &specs.Linux{
			CgroupsPath: c.Cgroup,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.NetworkNamespace, Path: c.Netns},
			},
		},
	}
}
