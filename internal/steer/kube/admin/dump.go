package admin

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// Dump writes one archive of all that is asked for where something is to be found out: objects,
// events, and of each agent its log, health, paths, events, metrics and maps. It asks for no
// Secret, and an agent gives no key. What cannot be read is said in the archive, and returned.
func (c *Cluster) Dump(ctx context.Context, o manifest.Options, w io.Writer) (faults []string, err error) {
	raw, err := c.raw()
	if err != nil {
		return nil, err
	}
	d := &dump{ctx: ctx, at: time.Now(), read: func(path string, params map[string]string) ([]byte, error) {
		r := raw.Get().AbsPath(path)
		for k, v := range params {
			r = r.Param(k, v)
		}
		return r.Do(ctx).Raw()
	}}
	zip := gzip.NewWriter(w)
	d.out = tar.NewWriter(zip)
	d.objects(c.agents)
	d.value("check.json", func() (any, error) { return c.Check(ctx, o) })
	d.value("status.json", func() (any, error) { return c.Status(ctx) })
	agents, failed := c.Agents(ctx)
	d.fault("agents", failed)
	clients, failed := c.Ask(ctx, nil, manifest.Dir)
	d.fault("agents", failed)
	for _, a := range agents {
		d.logs(c.agents, a)
		if client := clients[a.Node]; client != nil {
			d.agent(a, client)
		}
	}
	said := strings.Join(d.faults, "\n") + "\n"
	if len(d.faults) == 0 {
		said = "nothing\n"
	}
	d.file("not-read.txt", []byte(said))
	if err := errors.Join(d.failed, d.out.Close(), zip.Close()); err != nil {
		return d.faults, fmt.Errorf("write archive: %w", err)
	}
	return d.faults, ctx.Err()
}

// dump is an archive as it is written.
type dump struct {
	ctx    context.Context
	at     time.Time
	read   func(path string, params map[string]string) ([]byte, error)
	out    *tar.Writer
	faults []string
	failed error // to write
}

// each bounds the time of one question to an agent.
const each = 30 * time.Second

// objects are those of the cluster that matter to agents.
func (d *dump) objects(agents string) {
	const paths, nads = "/apis/pathwise.dev/v1alpha1/", "/apis/k8s.cni.cncf.io/"
	own := "/api/v1/namespaces/" + agents
	for _, f := range []struct {
		name, path string
		params     map[string]string
		custom     bool // its kind may not be there
	}{
		{"version", "/version", nil, false},
		{"nodes", "/api/v1/nodes", nil, false},
		{"pathnetworks", paths + "pathnetworks", nil, false},
		{"pathnodes", paths + "pathnodes", nil, false},
		{"pathpolicies", paths + "pathpolicies", nil, true},
		{"network-attachment-definitions", nads + "v1/network-attachment-definitions", nil, true},
		{"networkpolicies", "/apis/networking.k8s.io/v1/networkpolicies", nil, false},
		{"multi-networkpolicies", nads + "v1beta2/multi-networkpolicies", nil, true},
		{"daemonsets", "/apis/apps/v1/namespaces/" + agents + "/daemonsets", nil, false},
		{"agent-pods", own + "/pods", map[string]string{"labelSelector": nameLabel + "=" + nameValue}, false},
		{"agent-events", own + "/events", nil, false},
		{"pod-events", "/api/v1/events", map[string]string{"fieldSelector": "source=pathwise-agent"}, false},
	} {
		text, err := d.read(f.path, f.params)
		if f.custom && apierrors.IsNotFound(err) {
			continue
		}
		d.value("objects/"+f.name+".json", func() (any, error) { return trimmed(text, err) })
	}
}

// trimmed leaves out who has written which field, and what kubectl keeps of the last one.
func trimmed(text []byte, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	var trim func(v any)
	trim = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "managedFields")
			delete(v, "kubectl.kubernetes.io/last-applied-configuration")
			for _, inner := range v {
				trim(inner)
			}
		case []any:
			for _, inner := range v {
				trim(inner)
			}
		}
	}
	trim(v)
	return v, nil
}

// logs are those of an agent, and of the one before in the same pod.
func (d *dump) logs(namespace string, a Agent) {
	path := "/api/v1/namespaces/" + namespace + "/pods/" + a.Pod
	const most = "4000000"
	text, err := d.read(path+"/log", map[string]string{"container": "agent", "limitBytes": most})
	d.text("agents/"+a.Node+"/log.txt", text, err)
	text, err = d.read(path+"/log", map[string]string{"container": "agent", "limitBytes": most, "previous": "true"})
	if err == nil { // else it is the first
		d.text("agents/"+a.Node+"/log-previous.txt", text, nil)
	}
	text, err = d.read(path+":9477/proxy/metrics", nil)
	d.text("agents/"+a.Node+"/metrics.txt", text, err)
}

// agent asks one for what it knows.
func (d *dump) agent(a Agent, c *agent.Client) {
	ask := func(name string, of func(context.Context) (any, error)) {
		d.value("agents/"+a.Node+"/"+name, func() (any, error) {
			ctx, cancel := context.WithTimeout(d.ctx, each)
			defer cancel()
			return of(ctx)
		})
	}
	ask("health.json", func(ctx context.Context) (any, error) { return c.Health(ctx) })
	ask("paths.json", func(ctx context.Context) (any, error) { return c.Paths(ctx) })
	ask("events.json", func(ctx context.Context) (any, error) { return c.Events(ctx, 0, false) })
	ask("maps.json", func(ctx context.Context) (any, error) { return c.Maps(ctx) })
}

// value writes what is read as JSON.
func (d *dump) value(name string, read func() (any, error)) {
	v, err := read()
	if err != nil {
		d.fault(name, err)
		return
	}
	text, err := json.MarshalIndent(v, "", "  ")
	d.text(name, append(text, '\n'), err)
}

// text writes what was read, if it was.
func (d *dump) text(name string, text []byte, err error) {
	if err != nil {
		d.fault(name, err)
		return
	}
	d.file(name, text)
}

func (d *dump) fault(name string, err error) {
	if err == nil {
		return
	}
	said := fmt.Sprintf("%s: %s", name, strings.ReplaceAll(err.Error(), "\n", "; "))
	if !slices.Contains(d.faults, said) {
		d.faults = append(d.faults, said)
	}
}

func (d *dump) file(name string, text []byte) {
	if d.failed != nil {
		return
	}
	d.failed = d.out.WriteHeader(&tar.Header{Name: "pathwise-sysdump/" + name, Mode: 0o600, Size: int64(len(text)),
		ModTime: d.at, Format: tar.FormatPAX})
	if d.failed == nil {
		_, d.failed = d.out.Write(text)
	}
}
