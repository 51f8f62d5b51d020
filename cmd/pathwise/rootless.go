package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/rootless"
)

// rootlessHoldCommand is the process that holds a user's namespaces; it is not for users.
func rootlessHoldCommand(e env) *cobra.Command {
	return &cobra.Command{
		Use: rootless.Argument, Hidden: true, Short: "Hold a user's namespaces", Args: exactArgs("DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return rootless.Hold(args[0], e.self) },
	}
}

// ownNamespaces has an ordinary user's command go on as root in namespaces of his
// own: this process becomes another one there. Those of the first list make the
// namespaces; those of the second go where labs of his are, if any.
func (e env) ownNamespaces(cmd *cobra.Command, args []string) error {
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	create := slices.Contains([]string{"bench", "networks", "workloads", "lab up", "paper run"}, path)
	if os.Geteuid() == 0 || !create && !slices.Contains([]string{"lab status", "lab exec", "lab impair", "lab down"},
		path) {
		return nil
	}
	err := e.join(cmd.Context(), args, create)
	if err == nil {
		return nil
	}
	dry, _ := cmd.Flags().GetBool("dry-run") // false where there is no such flag
	if path == "networks" || path == "workloads" || dry {
		fmt.Fprintf(e.stderr, "without root: %s; with sudo all is known\n", oneLine(err))
		return nil
	}
	return fmt.Errorf("%s without root: %w: run as root, for example with sudo", path, err)
}

// join executes this command line in the user's namespaces, and returns only where it
// cannot, or where there are none to join.
func (e env) join(ctx context.Context, args []string, create bool) error {
	place := e.rootlessPlace()
	argv, err := place.Command(ctx, e.self, args, create)
	if err != nil || argv == nil {
		return err
	}
	if err := unix.Exec(argv[0], argv, append(os.Environ(), place.Mark())); err != nil {
		return fmt.Errorf("execute %s: %w", argv[0], err)
	}
	return nil
}

// rootlessPlace is where this user's holder is recorded.
func (e env) rootlessPlace() rootless.Place {
	name := "pathwise-rootless"
	var st unix.Stat_t
	if dir := e.getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && unix.Stat(dir, &st) == nil &&
		int(st.Uid) == os.Geteuid() {
		return rootless.Place{Dir: filepath.Join(dir, name)}
	}
	return rootless.Place{Dir: filepath.Join(os.TempDir(), name+"-"+strconv.Itoa(os.Geteuid()))}
}

// needMachineRoot returns why this process may not do what is the machine's root's,
// and not that of a user namespace.
func needMachineRoot(what, why string) error {
	if rootless.Inside() {
		return errors.New(what + " the machine's root " + why + ": run as root, for example with sudo")
	}
	return needRoot(what, why)
}

// isRootless reports whether a result, by its machine's record, was measured so.
func isRootless(machine map[string]any) bool {
	yes, _ := machine["rootless"].(bool) // absent in results of root
	return yes
}

// warnRootless says that two results differ in this.
func (e env) warnRootless(a, b map[string]any) {
	if isRootless(a) == isRootless(b) {
		return
	}
	which := "first"
	if isRootless(b) {
		which = "second"
	}
	fmt.Fprintf(e.stderr, "warning: the %s result is rootless, the other was measured as root: a change may be due to that\n", which)
}

// needBenchRoot returns why this process may not run a bench.
func needBenchRoot(explain bool) error {
	if explain {
		return needMachineRoot("bench --explain needs", "to sample the kernel")
	}
	return needRoot("bench needs", "to build networks")
}
