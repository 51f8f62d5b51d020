package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// The image of all containers, by its parts.
const (
	repository = "pathwise"
	tag        = "pause"
	image      = repository + ":" + tag
)

// importImage gives the engine an image that is made on the spot. There is
// nothing in it but a directory: the one program that runs is mounted, which
// spares each engine reading and storing it.
func (e *engine) importImage(ctx context.Context) error {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "proc/", Mode: 0o755})
	if err := errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	query := url.Values{"fromSrc": {"-"}, "repo": {repository}, "tag": {tag}}
	raw, err := e.request(ctx, http.MethodPost, "/images/create?"+query.Encode(), "application/x-tar", &layer)
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	// The answer is one document a line, and an error may stand in one although
	// the status was good.
	for line := range strings.Lines(string(raw)) {
		var told struct{ Error string }
		if json.Unmarshal([]byte(line), &told) == nil && told.Error != "" {
			return fmt.Errorf("import image: %s", told.Error)
		}
	}
	return nil
}

// containerConfig is the body of a request for a container.
type containerConfig struct {
	Image        string
	Cmd          []string
	Env          []string
	ExposedPorts map[string]struct{} `json:",omitempty"`
	HostConfig   hostConfig
}

type hostConfig struct {
	Binds        []string
	NetworkMode  string
	CapDrop      []string
	SecurityOpt  []string
	LogConfig    logConfig
	PortBindings map[string][]portBinding `json:",omitempty"`
}

type logConfig struct{ Type string }

type portBinding struct {
	HostIP   string `json:"HostIp"`
	HostPort string
}

// config is the container as the engine of the host is asked for it.
func (d docker) config(h topo.Host, c network.Container) containerConfig {
	const inside = "/pathwise"
	out := containerConfig{Image: image, Cmd: []string{inside, "generate", "pause"}, Env: c.Env,
		HostConfig: hostConfig{
			Binds:       []string{executable + ":" + inside + ":ro"},
			NetworkMode: d.networkMode(c),
			// No capability at all: the process only waits.
			CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: logConfig{"none"},
		}}
	if c.Published > 0 {
		out.ExposedPorts, out.HostConfig.PortBindings = map[string]struct{}{}, map[string][]portBinding{}
		for _, proto := range []string{"tcp", "udp"} {
			port := fmt.Sprintf("%d/%s", c.Listen, proto)
			out.ExposedPorts[port] = struct{}{}
			// At the host's address: what docker-proxy listens to at any address it
			// answers, for UDP, from the one nearest to the sender.
			out.HostConfig.PortBindings[port] = []portBinding{{h.Addr.Addr().String(), strconv.Itoa(int(c.Published))}}
		}
	}
	return out
}

// networkMode is what docker run calls --network.
func (d docker) networkMode(c network.Container) string {
	switch d.kind {
	case Host, None:
		return string(d.kind)
	case Container:
		if c.Leader != "" {
			return "container:" + c.Leader
		}
		return "bridge"
	case Bridge, NAT:
		return "bridge"
	default:
		return madeNetwork
	}
}

// late is what an engine says that has not got a container onto a swarm's network
// within 20 s, which is the time that it gives itself (moby, daemon/cluster/swarm.go,
// swarmRequestTimeout); gone what it says where the last container that was late has
// just taken the engine's part of that network with it.
const (
	tooLate = "attaching to network failed"
	gone    = "404 Not Found: network "
)

// startContainer starts the container, and again where the engine was late: on a
// guest's only processor, alongside other work, it is, and what it has done by then it
// need not do again. The lab's patience bounds it.
func (d docker) startContainer(ctx context.Context, e *engine, id string) error {
	var failed error
	late := network.Poll(ctx, 100*time.Millisecond, func() error {
		err := e.post(ctx, "/containers/"+id+"/start", nil, nil)
		if err != nil && d.kind == Overlay &&
			(strings.Contains(err.Error(), tooLate) || strings.Contains(err.Error(), gone)) {
			return err
		}
		failed = err // or nil; it ends the poll
		return nil
	})
	return cmp.Or(late, failed)
}

// run creates and starts the container and returns the process id of its init.
func (d docker) run(ctx context.Context, e *engine, c network.Container) (int, error) {
	var made struct{ ID string }
	if err := e.post(ctx, "/containers/create?name="+url.QueryEscape(c.Name), d.config(e.host, c), &made); err != nil {
		return 0, err
	}
	if err := d.startContainer(ctx, e, made.ID); err != nil {
		return 0, err
	}
	var is struct {
		State struct {
			PID   int
			Error string
		}
	}
	if err := e.get(ctx, "/containers/"+made.ID+"/json", &is); err != nil {
		return 0, err
	}
	if is.State.PID == 0 {
		return 0, fmt.Errorf("container %s has ended: %s", c.Name, is.State.Error)
	}
	return is.State.PID, nil
}
