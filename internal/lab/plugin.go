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
	"slices"
	"strings"
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
		if errors.Is(err, exec.ErrWaitDelay) {
			return nil, fmt.Errorf("plugin %s: it left a process that keeps its output open", name)
		}
		return nil, fmt.Errorf("plugin %s: %w%s", name, err, printed(append(stdout.kept, stderr.Bytes()...)))
	}
	if add := slices.Contains(environ, "CNI_COMMAND=ADD"); add && len(bytes.TrimSpace(stdout.kept)) == 0 {
		return nil, fmt.Errorf("plugin %s: it printed no result%s", name, printed(stderr.Bytes()))
	}
	if err := checkResult(stdout.kept); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	return stdout.kept, nil
}

// printed is the end of what a plugin printed, for an error.
func printed(text []byte) string {
	if said := tail(text); said != "" {
		return fmt.Sprintf(": it printed %q", said)
	}
	return ""
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

// DefaultCNIPath returns where CNI plugins are looked for: CNI_PATH, then alongside
// the pathwise executable, then where distributions put them.
func DefaultCNIPath(self string) []string {
	var out []string
	if env := os.Getenv("CNI_PATH"); env != "" {
		out = filepath.SplitList(env)
	}
	return append(out, filepath.Join(filepath.Dir(self), "cni"), "/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
}
