package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelp: every command of the user's has a job, one line that fits a terminal, and
// examples, and every example is one that the command takes.
func TestHelp(t *testing.T) {
	e := env{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }, self: "pathwise"}
	root := rootCommand(e)
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() != (c.GroupID != "") {
			t.Errorf("%s: group %q", c.CommandPath(), c.GroupID)
		}
	}
	eachCommand(root, func(c *cobra.Command) {
		const width = 80
		if n := utf8.RuneCountInString(c.Short) + c.NamePadding() + len("   "); n > width {
			t.Errorf("%s: %q is %d columns wide with its name", c.CommandPath(), c.Short, n)
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Short[:1] != strings.ToUpper(c.Short[:1]) {
			t.Errorf("%s: short %q: expected a verb first, and no full stop", c.CommandPath(), c.Short)
		}
		if c.Example == "" {
			t.Errorf("%s: no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			for _, args := range commands(line) {
				if err := taken(rootCommand(e), args); err != nil {
					t.Errorf("%s: example %q: %v", c.CommandPath(), strings.TrimSpace(line), err)
				}
			}
		}
	})
}

// TestArguments: what a command says of arguments that it does not take names it, and is a mistake
// in the command line.
func TestArguments(t *testing.T) {
	e := env{stdout: io.Discard, stderr: io.Discard, getenv: func(string) string { return "" }, self: "pathwise"}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for n := range 8 {
			err := c.ValidateArgs(slices.Repeat([]string{"x"}, n))
			if err != nil && !errors.As(err, new(usageError)) {
				t.Errorf("%s with %d arguments: %v", c.CommandPath(), n, err)
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(rootCommand(e))
}

// eachCommand calls f for every command of the user's.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			eachCommand(sub, f)
		}
	}
}

// commands are the arguments of each run of pathwise on a line of examples, where three
// spaces begin what is said of it.
func commands(line string) (out [][]string) {
	line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
	words := []string{""}
	quoted := false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted = !quoted
		case r == ' ' && !quoted:
			words = append(words, "")
		default:
			words[len(words)-1] += string(r)
		}
	}
	open := false
	for i, w := range words {
		switch {
		case w == "pathwise" && (i == 0 || strings.ContainsAny(words[i-1], "&|")):
			out, open = append(out, nil), true
		case strings.Trim(w, "&|>") == "":
			open = false
		case open:
			out[len(out)-1] = append(out[len(out)-1], w)
		}
	}
	return out
}

// taken is why the program would not take the arguments: it parses them and runs nothing.
func taken(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
