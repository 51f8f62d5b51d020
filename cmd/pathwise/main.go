// Command pathwise finds the best container network for a workload: it builds
// networks on a lab of namespaces, puts real load on them, and ranks them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pathwise.dev/pathwise/internal/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the next one kills: what is left then is removed
	// by "pathwise lab down --all".
	context.AfterFunc(ctx, stop)
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	// "make plugins" puts flanneld next to the executable.
	if err := os.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(self)); err != nil {
		fmt.Fprintf(os.Stderr, "pathwise: %v\n", err)
		os.Exit(1)
	}
	e := env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, self: self, program: os.Args[0],
		now: time.Now}
	os.Exit(exitCode(e.stderr, run(ctx, e, os.Args[1:])))
}

// env is what a command may use of the outside world.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	// self is the pathwise executable.
	self string
	now  func() time.Time
	// program is the name that it was started by.
	program string
	// args is the command line, without the program.
	args []string
}

// run executes the command line. It is the whole program but for the exit code.
func run(ctx context.Context, e env, args []string) error {
	e.args = args
	root := rootCommand(e)
	if filepath.Base(e.program) == kubectlName {
		root = kubectlCommand(e, root)
	}
	root.SetArgs(args)
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && err != nil {
		return errors.Join(errInterrupted, err)
	}
	return err
}

// errInterrupted: the user or the system asked the program to stop.
var errInterrupted = errors.New("interrupted")

// errUsage wraps mistakes in the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// silentError ends the program with an error code after it has said all there is to say.
type silentError struct{ error }

// exitCode prints an error once and turns it into the program's exit code: 2
// for a mistake in the command line, 130 when interrupted, that of the program
// run by "lab exec" or "guest exec", 1 for everything else.
func exitCode(stderr io.Writer, err error) int {
	var exit *exec.ExitError
	var usage usageError
	var silent silentError
	var code codeError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(stderr, "pathwise: interrupted")
		return 130
	case errors.As(err, &silent):
		return 1
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "pathwise: %s\n", oneLine(err))
		return 2
	default:
		fmt.Fprintf(stderr, "pathwise: %s\n", oneLine(err))
		return 1
	}
}

// oneLine is the error's text without the line breaks of errors.Join.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func rootCommand(e env) *cobra.Command {
	root := &cobra.Command{
		Use:   "pathwise",
		Short: "Find the best container network for a workload",
		Long: `Pathwise builds container networks on a lab of network namespaces, puts real
load on them, and ranks them with honest uncertainty. Where pods are on several
networks, it moves their live traffic to the one that serves it best.

Everything Pathwise makes is named pw-* and is removed by "pathwise lab down --all",
also after a kill.`,
		Example: `  pathwise networks                  what works on this machine
  pathwise bench                     the experiment "quick", in five minutes
  pathwise report results/quick      show a result again
  pathwise lab up --network vxlan    a lab to try things in`,
		SilenceUsage: true, SilenceErrors: true,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return e.ownNamespaces(cmd, e.args) }
	root.SetFlagErrorFunc(flagError)
	addJob(root, "measure", "Measure networks:",
		networksCommand(e), workloadsCommand(e), experimentsCommand(e), benchCommand(e), paperCommand(e))
	addJob(root, "explain", "Explain results:",
		reportCommand(e), recommendCommand(e), compareCommand(e), claimsCommand(e), explainCommand(e), ovsCommand(e))
	addJob(root, "steer", "Steer live traffic:",
		agentCommand(e), pathsCommand(e), eventsCommand(e), switchCommand(e), pinCommand(e), unpinCommand(e),
		kubeCommand(e), drillCommand(e), replayCommand(e))
	addJob(root, "lab", "Build a lab:", labCommand(e), guestCommand(e))
	addJob(root, "other", "Other:", versionCommand(e))
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	// What Pathwise's own processes are started by: all of these are hidden.
	root.AddCommand(guestInitCommand(), guestNeedsCommand(), delayLineCommand(e), vmAgentCommand(e),
		rootlessHoldCommand(e), agentConnectCommand(e), agentHoleCommand(e), generateCommand())
	return root
}

// addJob adds the commands of one job, which help shows together.
func addJob(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
}

// store is where labs record themselves; PATHWISE_STATE moves it.
func (e env) store() lab.Store {
	if root := e.getenv("PATHWISE_STATE"); root != "" {
		return lab.Store{Root: root}
	}
	return lab.Store{Root: lab.DefaultRoot}
}

// width is that of the terminal on standard output, 0 when it is none. A terminal that does
// not know its own, as a serial line, has what COLUMNS says, or the usual 80.
func (e env) width() int {
	f, ok := e.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	if w, err := strconv.Atoi(e.getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return 80
}

// interactive reports whether standard error is a terminal, which progress needs.
func (e env) interactive() bool {
	f, ok := e.stderr.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && e.getenv("TERM") != "dumb"
}

// color reports whether standard output takes colours (no-color.org).
func (e env) color() bool { return e.width() > 0 && e.getenv("NO_COLOR") == "" }
