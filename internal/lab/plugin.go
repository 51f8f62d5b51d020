package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
)

// cniClient returns a libcni client that runs plugins in the host's namespace
// and keeps its cache in the lab.
func cniClient(dir, hostNetns string, path []string) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(path, filepath.Join(dir, "cni-cache"), &pluginExec{netns: hostNetns, dir: dir})
}

// outputWait is how long after its end a program's output may take to be read: on a guest of
// a busy machine a second was too short. One that has left a child with its output ends then.
const outputWait = 10 * time.Second

// pluginExec runs CNI plugins inside a host, "" being this machine. It replaces libcni's own
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
	cmd.WaitDelay = outputWait
	stdout, stderr := &Capture{most: mostResult}, &ending{most: mostErrors}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), stdout, stderr
	name := filepath.Base(path)
	if err := netns.Start(p.netns, cmd); err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", name, err)
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("plugin %s was killed: %w", name, context.Cause(ctx))
	}
	if over := stdout.err(); over != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, over)
	}
	if err != nil {
		var told types.Error
		if json.Unmarshal(stdout.kept, &told) == nil && told.Msg != "" {
			return nil, fmt.Errorf("plugin %s: %w", name, &told)
		}
		return nil, fmt.Errorf("plugin %s: %w: it printed %q", name, err, tail(append(stdout.kept, stderr.Bytes()...)))
	}
	if err := checkResult(stdout.kept); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	return stdout.kept, nil
}

// checkResult refuses what the CNI library takes and hands to the next plugin as the
// address "<nil>". Commands other than ADD may print nothing, or something else.
func checkResult(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	if !json.Valid(out) {
		return fmt.Errorf("its result is no JSON: %q", tail(out))
	}
	made, err := create.CreateFromBytes(out)
	if err != nil {
		return nil // the library says what is wrong
	}
	res, err := types100.NewResultFromResult(made)
	if err != nil {
		return nil
	}
	for _, a := range res.IPs {
		if a == nil || a.Address.IP == nil {
			return fmt.Errorf("its result has an IP without an address: %q", tail(out))
		}
	}
	for _, r := range res.Routes {
		if r == nil || r.Dst.IP == nil {
			return fmt.Errorf("its result has a route to nowhere: %q", tail(out))
		}
	}
	return nil
}

// mostResult bounds a plugin's result, in bytes.
const mostResult = 1 << 20

var _ invoke.Exec = (*pluginExec)(nil)

// deleteTimeout bounds a CNI DEL where ADD was given as much as usual: a plugin that hangs
// must not keep a lab up. Where ADD was given more, as on a guest's kernel, so is DEL.
const deleteTimeout = 5 * time.Second

func (d deletion) limit() time.Duration { return max(deleteTimeout, d.Timeout/4) }

// runDeletes calls CNI DEL for recorded attachments, side by side, as the lab
// goes down. Errors are returned together; one does not keep the others from
// running.
func runDeletes(ctx context.Context, dir string, st State) error {
	errs := make([]error, len(st.Delete))
	var wg sync.WaitGroup
	for i, d := range st.Delete {
		if d.Host == "" || netns.Exists(d.Host) { // "" is the machine's own
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
	rt := runtimeConf(lab, d.Pod, d.Netns, d.IfName)
	ctx, cancel := context.WithTimeoutCause(ctx, d.limit(), fmt.Errorf("CNI DEL took longer than %v", d.limit()))
	defer cancel()
	if err := cniClient(dir, d.Host, d.CNIPath).DelNetworkList(ctx, list, rt); err != nil {
		return fmt.Errorf("CNI DEL of pod %s: %w", d.Pod, err)
	}
	return nil
}

// DefaultCNIPath returns where CNI plugins are looked for: CNI_PATH, then alongside
// the pathwise executable, then where distributions put them.
func DefaultCNIPath(self string) []string {
	var out []string
	if env := os.Getenv("CNI_PATH"); env != "" {
		out = filepath.SplitList(env)
	}
	return append(out, filepath.Join(filepath.Dir(self), "cni"), "/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
}
