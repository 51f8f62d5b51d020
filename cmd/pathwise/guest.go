package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/measure/report"
)

// guestPlace is where guest kernels are looked for.
func (e env) guestPlace() guest.Place { return guest.Place{Self: e.self, Getenv: e.getenv} }

// guestConfig describes a guest of this executable, whose commands see the
// environment of this one but for what names the host's labs.
func (e env) guestConfig(k guest.Kernel) guest.Config {
	c := guest.Config{Kernel: k, Store: e.store(), Self: e.self}
	for _, v := range os.Environ() {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "PATHWISE_LAB", "PATHWISE_STATE", "XDG_RUNTIME_DIR":
		default:
			c.Env = append(c.Env, v)
		}
	}
	return c
}

func guestCommand(e env) *cobra.Command {
	list := guestListCommand(e)
	cmd := &cobra.Command{
		Use: "guest", Short: "List guest kernels, or run a program on one",
		Long: `A guest kernel builds the networks that the host's kernel cannot: Pathwise boots
it next to the host's, with the host's own files as a read-only root under a layer
in memory, and runs the same programs in it. "pathwise bench" and "pathwise
networks" use guests by themselves and say so; "guest exec" runs any program.

uml is User-mode Linux, a kernel that is a process: it needs no virtualisation,
has one CPU and about half the host's speed. qemu is a virtual machine.`,
		Example: `  pathwise guest
  pathwise guest exec -- uname -r
  pathwise guest exec -- pathwise networks`,
		Args: noSuchCommand, RunE: list.RunE,
	}
	cmd.AddCommand(list, guestExecCommand(e))
	return cmd
}

func guestListCommand(e env) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "list", Short: "List the guest kernels, and what they lack to boot here", Args: exactArgs(),
		Example: "  pathwise guest list\n  pathwise guest list -o json",
		RunE: func(*cobra.Command, []string) error {
			if format == "" {
				format = "text"
			}
			if err := checkFormat(format, listFormats()...); err != nil {
				return err
			}
			kernels := guest.Kernels(e.guestPlace())
			if format == "json" {
				return writeJSON(e.stdout, kernels)
			}
			return printGuests(e.stdout, kernels, e.listOptions(format))
		},
	}
	formatFlag(cmd, &format, listFormats()...)
	return cmd
}

func printGuests(w io.Writer, kernels []guest.Kernel, o report.Options) error {
	l := report.NewList(report.Head{Name: "GUEST"}, report.Head{Name: "WORKS"}, report.Head{Name: "RELEASE"},
		report.Head{Name: "RUN BY", Drop: 2}, report.Head{Name: "IMAGE", Drop: 1})
	for _, k := range kernels {
		works := "yes"
		if !k.Works() {
			works = "no"
		}
		l.Add(k.Name, works, orDash(k.Release), orDash(k.How), orDash(k.Image))
		lacking(l, k.Missing)
	}
	return l.Write(w, o)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func guestExecCommand(e env) *cobra.Command {
	var kernel, memory, share string
	var quiet bool
	cmd := &cobra.Command{
		Use: "exec -- CMD [ARG...]", Short: "Boot a guest and run a program in it",
		Long: `Boot a guest kernel, run the program as root in this directory, and power the
guest off. The program's output comes through as it is written, and its exit code
becomes pathwise's; it has no input and no network but a loopback. What it writes
to files is gone with the guest, except in the directory --share.`,
		Example: `  pathwise guest exec -- ip link add type ipvlan
  pathwise guest exec --memory 1G -- sh -c 'modprobe geneve && pathwise networks'
  pathwise guest exec --share results -- pathwise bench --out results/inside`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("guest exec: expected -- CMD: see \"pathwise guest exec --help\"")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := guest.Find(e.guestPlace(), kernel)
			if err != nil {
				return usageError{fmt.Errorf("--kernel: %w", err)}
			}
			c := e.guestConfig(k)
			if c.Memory, err = parseMemory(memory); err != nil {
				return usageError{fmt.Errorf("--memory: %w", err)}
			}
			if c.Share, err = absolute(share); err != nil {
				return usageError{fmt.Errorf("--share: %w", err)}
			}
			if c.WorkDir, err = os.Getwd(); err != nil {
				return fmt.Errorf("find working directory: %w", err)
			}
			c.Argv, c.Stdout, c.Stderr = args, e.stdout, e.stderr
			if !quiet {
				c.Ready = e.guestReady(k)
			}
			code, err := guest.Run(cmd.Context(), c)
			if err == nil && code != 0 {
				err = codeError(code)
			}
			return err
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&kernel, "kernel", guest.UML, "guest kernel: "+strings.Join(guest.Names(), ", "))
	fl.StringVar(&memory, "memory", "2G", "the guest's memory")
	fl.StringVar(&share, "share", "", "a directory that the guest may write on the host")
	fl.BoolVarP(&quiet, "quiet", "q", false, "do not say how long the boot took")
	_ = cmd.RegisterFlagCompletionFunc("kernel", cobra.FixedCompletions(guest.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// guestReady says on standard error that a guest has come up.
func (e env) guestReady(k guest.Kernel) func(time.Duration) {
	return func(after time.Duration) {
		fmt.Fprintf(e.stderr, "guest kernel %s: ready after %.1f s\n", k.Label(), after.Seconds())
	}
}

// parseMemory reads 512M or 2G.
func parseMemory(s string) (int64, error) {
	shift := 0
	switch {
	case strings.HasSuffix(s, "M"):
		shift = 20
	case strings.HasSuffix(s, "G"):
		shift = 30
	}
	n, err := strconv.ParseInt(strings.TrimRight(s, "MG"), 10, 32)
	const least, most = 128 << 20, 1 << 40
	if size := n << shift; err == nil && shift > 0 && len(s) < 8 && size >= least && size <= most {
		return size, nil
	}
	return 0, fmt.Errorf("%q: expected a size of 128M or more, such as 512M or 2G", s)
}

// absolute is the directory's path from the root, as the guest sees it; "" stays.
func absolute(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	st, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("find directory: %w", err)
	}
	if !st.IsDir() {
		return "", fmt.Errorf("%s: expected a directory", dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("find directory: %w", err)
	}
	return dir, nil
}

// guestInitCommand and guestNeedsCommand are what runs inside a guest; they are
// not for users.
func guestInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: guest.InitArgument, Hidden: true, Short: "Be the first process of a guest", Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error { return guest.Init() },
	}
}

func guestNeedsCommand() *cobra.Command {
	return &cobra.Command{
		Use: guest.AnswerArgument, Hidden: true, Short: "Say what the kernel lacks", Args: exactArgs("NEEDS"),
		RunE: func(cmd *cobra.Command, args []string) error { return guest.Answer(cmd.OutOrStdout(), args[0]) },
	}
}

// codeError is the exit code of a program that has said all there is to say.
type codeError int

func (c codeError) Error() string { return fmt.Sprintf("exit status %d", int(c)) }
