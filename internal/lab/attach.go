package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"pathwise.dev/pathwise/internal/netns"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/topo"
)

// podDev is the pod's interface on its default network.
const podDev = "eth0"

// publishedPort is the first host port at which pods are published.
const publishedPort = 20000

// attachAll makes and attaches the spec's pods, hosts side by side: plugins of
// one host may hold a lock there, those of different hosts do not meet.
func (l *Lab) attachAll(ctx context.Context) error {
	l.pods = make([]topo.Pod, len(l.spec.Pods))
	errs := make([]error, len(l.hosts))
	var wg sync.WaitGroup
	for i, h := range l.hosts {
		wg.Go(func() {
			for n, p := range l.spec.Pods {
				if p.Host == h.Index && errs[i] == nil {
					l.pods[n], errs[i] = l.makePod(ctx, h, p.Name, n)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// makePod makes pod number n (from 0) on the host and attaches it.
func (l *Lab) makePod(ctx context.Context, h topo.Host, name string, n int) (topo.Pod, error) {
	pod := topo.Pod{Name: name, Host: h.Index, Listen: topo.ServicePort}
	shared := false
	switch l.plug.Mode {
	case network.ShareHost:
		pod.Netns, shared = h.Netns, true
		pod.Attachments = []topo.Attachment{{Dev: h.Dev, Addr: h.Addr.Addr(), MTU: l.spec.MTU}}
	case network.SharePod:
		pod.Netns = l.spec.netns("p-" + h.Name)
		shared = netns.Exists(pod.Netns)
	default:
		pod.Netns = l.spec.netns(name)
	}
	if !shared {
		if err := errors.Join(ctx.Err(), l.makeNetns(pod.Netns)); err != nil {
			return pod, fmt.Errorf("make pod %s: %w", name, err)
		}
	}
	if l.plug.Mode == network.ShareHost || l.plug.Mode == network.SharePod {
		pod.Listen += uint16(n)
	}
	if l.plug.Mode == network.ByCNI || l.plug.Mode == network.SharePod {
		if err := l.attach(ctx, h, &pod, n, shared); err != nil {
			return pod, fmt.Errorf("attach pod %s to %s: %w", name, l.network.Info().Name, err)
		}
	}
	for i := range pod.Attachments {
		pod.Attachments[i].Network = l.network.Info().Name
	}
	if a := pod.Addr(); a.IsValid() {
		pod.Service = netip.AddrPortFrom(a, pod.Listen)
	}
	if l.plug.Publish {
		pod.Service = netip.AddrPortFrom(h.Addr.Addr(), uint16(publishedPort+n))
	}
	return pod, nil
}

// attach runs CNI ADD for the pod, or finds the address of the pod whose
// namespace it shares.
func (l *Lab) attach(ctx context.Context, h topo.Host, pod *topo.Pod, n int, shared bool) error {
	if shared {
		return l.readAttachment(pod)
	}
	raw := l.plug.Conflists[h.Index]
	list, err := libcni.ConfListFromBytes(raw)
	if err != nil {
		return fmt.Errorf("read CNI configuration list: %w", err)
	}
	if l.plug.Delete {
		if err := l.willDelete(deletion{pod.Name, h.Netns, pod.Netns, raw, l.opts.CNIPath}); err != nil {
			return err
		}
	}
	rt := l.runtimeConf(pod.Name, pod.Netns)
	if l.plug.Publish {
		rt.CapabilityArgs = map[string]any{"portMappings": portMappings(pod.Listen, uint16(publishedPort+n))}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.opts.Timeout, fmt.Errorf("CNI ADD took longer than %v", l.opts.Timeout))
	defer cancel()
	res, err := l.cni(h.Netns, l.opts.CNIPath).AddNetworkList(ctx, list, rt)
	if err != nil {
		return fmt.Errorf("CNI ADD: %w", err)
	}
	if _, err := types100.NewResultFromResult(res); err != nil {
		return fmt.Errorf("read CNI result: %w", err)
	}
	return l.readAttachment(pod)
}

// willDelete records an attachment that wants a CNI DEL, before it is made.
func (l *Lab) willDelete(d deletion) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deletes = append(l.deletes, d)
	return l.save(false)
}

// readAttachment takes the pod's address and MTU from the interface itself: what
// a plugin says and what it did may differ.
func (l *Lab) readAttachment(pod *topo.Pod) error {
	return netns.Do(pod.Netns, func() error {
		dev, err := net.InterfaceByName(podDev)
		if err != nil {
			return fmt.Errorf("find the pod's interface: %w", err)
		}
		addrs, err := dev.Addrs()
		if err != nil {
			return fmt.Errorf("list the pod's addresses: %w", err)
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is4() {
				pod.Attachments = []topo.Attachment{{Dev: podDev, Addr: p.Addr(), MTU: dev.MTU}}
				return nil
			}
		}
		return fmt.Errorf("the pod's interface %s got no IPv4 address", podDev)
	})
}

func (l *Lab) runtimeConf(pod, ns string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: "pw-" + l.spec.Name + "-" + pod, NetNS: netns.Path(ns), IfName: podDev}
}

func portMappings(listen, host uint16) []map[string]any {
	var out []map[string]any
	for _, proto := range []string{"tcp", "udp"} {
		out = append(out, map[string]any{"hostPort": host, "containerPort": listen, "protocol": proto})
	}
	return out
}

// cni returns a libcni client that runs plugins in the host's namespace and
// keeps its cache in the lab.
func (l *Lab) cni(hostNetns string, path []string) *libcni.CNIConfig {
	return cniClient(l.rec.dir, hostNetns, path)
}

func cniClient(dir, hostNetns string, path []string) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(path, filepath.Join(dir, "cni-cache"), &pluginExec{netns: hostNetns, dir: dir})
}

// pluginExec runs CNI plugins inside a host. It stands in for libcni's own
// executor, which would run them in the caller's namespace.
type pluginExec struct {
	netns, dir string
	version.PluginDecoder
}

// FindInPath implements invoke.Exec.
func (p *pluginExec) FindInPath(plugin string, paths []string) (string, error) {
	if found := network.FindPlugin(plugin, paths); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("CNI plugin %q is in none of %s", plugin, strings.Join(paths, ", "))
}

// ExecPlugin implements invoke.Exec. A plugin that prints no JSON, or fails
// without the specification's error object, is reported with what it wrote.
func (p *pluginExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(environ, labEnv+"="+p.dir, "XTABLES_LOCKFILE="+filepath.Join(p.dir, "xtables.lock"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	name := filepath.Base(path)
	if err := netns.Start(p.netns, cmd); err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", name, err)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("plugin %s was killed: %w", name, context.Cause(ctx))
	}
	if err != nil {
		var told types.Error
		if json.Unmarshal(stdout.Bytes(), &told) == nil && told.Msg != "" {
			return nil, fmt.Errorf("plugin %s: %w", name, &told)
		}
		return nil, fmt.Errorf("plugin %s: %w: it printed %q", name, err, tail(append(stdout.Bytes(), stderr.Bytes()...)))
	}
	if out := stdout.Bytes(); len(out) > 0 && !json.Valid(out) {
		return nil, fmt.Errorf("plugin %s: its result is no JSON: %q", name, tail(out))
	}
	return stdout.Bytes(), nil
}

var _ invoke.Exec = (*pluginExec)(nil)

// deleteTimeout bounds a CNI DEL: a plugin that hangs must not keep a lab up.
const deleteTimeout = 5 * time.Second

// runDeletes calls CNI DEL for recorded attachments, side by side, as the lab
// goes down. Errors are returned together; one does not keep the others from
// running.
func runDeletes(ctx context.Context, dir string, st State) error {
	errs := make([]error, len(st.Delete))
	var wg sync.WaitGroup
	for i, d := range st.Delete {
		if netns.Exists(d.Host) {
			wg.Go(func() { errs[i] = runDelete(ctx, dir, st.Spec.Name, d) })
		}
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w (the plugin may have left state of its own)", err)
	}
	return nil
}

func runDelete(ctx context.Context, dir, lab string, d deletion) error {
	list, err := libcni.ConfListFromBytes(d.Conflist)
	if err != nil {
		return fmt.Errorf("read CNI configuration list: %w", err)
	}
	rt := &libcni.RuntimeConf{ContainerID: "pw-" + lab + "-" + d.Pod, NetNS: netns.Path(d.Netns), IfName: podDev}
	ctx, cancel := context.WithTimeoutCause(ctx, deleteTimeout, fmt.Errorf("CNI DEL took longer than %v", deleteTimeout))
	defer cancel()
	if err := cniClient(dir, d.Host, d.CNIPath).DelNetworkList(ctx, list, rt); err != nil {
		return fmt.Errorf("CNI DEL of pod %s: %w", d.Pod, err)
	}
	return nil
}

// DefaultCNIPath returns where CNI plugins are looked for: CNI_PATH, then beside
// the pathwise executable, then where distributions put them.
func DefaultCNIPath(self string) []string {
	var out []string
	if env := os.Getenv("CNI_PATH"); env != "" {
		out = filepath.SplitList(env)
	}
	return append(out, filepath.Join(filepath.Dir(self), "cni"), "/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
}
