package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// engine is the dockerd of a host.
type engine struct {
	host topo.Host
	// dir holds its socket.
	dir string
}

// Where an engine finds things in its mount namespace.
const (
	hostDir    = "/run/site"  // the host's part of the lab's directory
	executable = "/run/pause" // the pathwise executable
)

// enclosed starts a program in a mount namespace of its own, in which nothing
// that it writes leaves the lab: dockerd and its containerd have paths that no
// option moves, such as /etc/docker/key.json, /opt/containerd and
// /var/lib/docker/network/files. /run is empty there but for the lab's directory
// and the executable; the other directories take what is written to layers that
// go with the namespace. The socket of the machine's D-Bus is hidden too, by
// which an engine would change the machine's firewalld; -n keeps mount from
// writing to the machine's /run/mount.
const enclosed = `set -e
run=$1/run
mount -n -t tmpfs -o mode=755 pathwise "$run"
mkdir "$run/docker" "$run/site"
: >"$run/pause"
mount -n --bind "$2" "$run/pause"
mount -n --bind "$1" "$run/site"
mount -n --move "$run" /run
for d in etc opt var; do
	mkdir -p /run/layers/$d/upper /run/layers/$d/work
	mount -n -t overlay -o lowerdir=/$d,upperdir=/run/layers/$d/upper,workdir=/run/layers/$d/work pathwise /$d
done
shift 2
exec "$@"
`

// pools are the ranges from which an engine chooses addresses for what is its
// own (docker_gwbridge, the swarm's ingress). RFC 2544 sets them aside for
// benchmarks, so that they meet neither pods nor, usually, the underlay.
const (
	localPool = "198.19.128.0/17"
	swarmPool = "198.19.0.0/17"
)

// start starts the host's engine. With it go its containerd and its containers:
// they inherit the lab's mark or are in the lab's cgroup.
func start(ctx context.Context, site network.Site, h topo.Host, flags []string) (*engine, error) {
	e := &engine{host: h, dir: filepath.Join(site.Dir, h.Name)}
	if err := os.MkdirAll(filepath.Join(e.dir, "run"), 0o755); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	self, err := executablePath(site)
	if err != nil {
		return nil, err
	}
	cgroup, err := site.Cgroup()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(e.dir, "daemon.json") // else it would read the machine's
	text := fmt.Sprintf(`{"default-address-pools":[{"base":%q,"size":24}]}`, localPool)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	argv := []string{"unshare", "--mount", "--propagation", "private", "sh", "-c", enclosed, "sh", e.dir, self,
		"dockerd", "--config-file", hostDir + "/daemon.json", "--data-root", hostDir + "/root", "--exec-root", "/run/docker",
		"--pidfile", "/run/docker.pid", "--host", "unix://" + hostDir + "/" + socket, "--group", "0",
		// systemd's would want a slice
		"--cgroup-parent", cgroup + "/" + h.Name, "--exec-opt", "native.cgroupdriver=cgroupfs",
		"--mtu", strconv.Itoa(site.MTU), "--log-level", "warn"}
	err = site.Start(ctx, network.Daemon{Name: "dockerd-" + h.Name, Netns: h.Netns, Argv: append(argv, flags...),
		Env: []string{
			// It runs iptables and docker-proxy.
			"PATH=" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin",
			// In a container, as it is of sorts, it loads no AppArmor profile, which
			// would stay in the machine's kernel.
			"container=pathwise",
		}})
	return e, err
}

// executablePath is where the pathwise executable is.
func executablePath(site network.Site) (string, error) {
	if site.Self != "" {
		return site.Self, nil
	}
	path, err := network.FindProgram("pathwise") // "make build" brings it
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// flags are those of the engine that the kind makes different.
func (d docker) flags(h topo.Host) []string {
	switch d.kind {
	case Bridge, NAT, Container:
		return []string{"--bip", fmt.Sprintf("%v/%d", h.Pods.Masked().Addr().Next(), h.Pods.Bits())}
	case Overlay:
		return []string{"--bridge", "none"}
	default:
		// Nothing here passes netfilter's rules for bridges, and writing them is
		// half of an engine's beginning.
		return []string{"--bridge", "none", "--iptables=false"}
	}
}

// answers waits until the engine takes requests.
func (e *engine) answers(ctx context.Context) error {
	return network.Poll(ctx, 5*time.Millisecond, func() error { return e.get(ctx, "/_ping", nil) })
}
