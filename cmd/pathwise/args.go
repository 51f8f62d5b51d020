package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/measure/report"
)

// exactArgs wants the named arguments, no more and no less.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		want, got := "no argument", "got none"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		if len(args) > 0 {
			got = "got " + strings.Join(args, " ")
		}
		return usageError{fmt.Errorf("%s: expected %s, %s: see \"%s --help\"",
			strings.TrimPrefix(cmd.CommandPath(), "pathwise "), want, got, cmd.CommandPath())}
	}
}

// optionalArg wants the named argument or none.
func optionalArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return exactArgs("at most one "+name)(cmd, args)
	}
}

// flagError says what is wrong with a flag, and which one was meant or what it takes.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := config.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			text += fmt.Sprintf(": did you mean --%s?", near)
			return usageError{fmt.Errorf("%s see \"%s --help\"", text, cmd.CommandPath())}
		}
		if strings.Contains(cmd.Use, "-- CMD") {
			text += ": what a program is given comes after --"
		}
	case errors.As(err, &value) && errors.Is(err, strconv.ErrSyntax):
		kind := "a whole number"
		if value.GetFlag().Value.Type() == "bool" {
			kind = "true or false"
		}
		text = fmt.Sprintf("--%s %q: expected %s", value.GetFlag().Name, value.GetValue(), kind)
	}
	return usageError{fmt.Errorf("%s: see \"%s --help\"", text, cmd.CommandPath())}
}

// noSuchCommand refuses an argument of a command that is but the parent of others.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	meant := ""
	if near := config.Nearest(args[0], names); near != "" {
		meant = fmt.Sprintf("did you mean %q? ", near)
	}
	return usageError{fmt.Errorf("unknown command %q: %ssee \"%s --help\"", args[0], meant, cmd.CommandPath())}
}

// labFlag adds --lab with its completion. A value is checked as it is read, whatever
// the command does with it, and one that is empty is refused: it is a variable that
// was not set, and is not to mean the only lab.
func labFlag(e env, cmd *cobra.Command, dst *string) {
	cmd.Flags().Var((*labName)(dst), "lab", "name of the lab, where there are several")
	// The flag has just been defined, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("lab", completeLabs(e))
}

// labName is a flag's value (pflag.Value) that names a lab.
type labName string

func (n *labName) String() string { return string(*n) }
func (n *labName) Type() string   { return "string" }

func (n *labName) Set(text string) error {
	if err := lab.CheckName(text); err != nil {
		return fmt.Errorf("lab name %w", err)
	}
	*n = labName(text)
	return nil
}

// labArg is the lab that an argument names; "" where there is none.
func labArg(cmd *cobra.Command, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	var n labName
	if err := n.Set(args[0]); err != nil {
		return "", usageError{fmt.Errorf("%s: %w", strings.TrimPrefix(cmd.CommandPath(), "pathwise "), err)}
	}
	return args[0], nil
}

// formatFlag adds -o with its completion.
func formatFlag(cmd *cobra.Command, dst *string, formats ...string) {
	cmd.Flags().StringVarP(dst, "output", "o", formats[0], "format: "+strings.Join(formats, ", "))
	// The flag has just been defined, so this cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// listFormats are those of commands that list what there is, the default first.
func listFormats() []string { return []string{report.Text, report.Wide, report.JSON} }

// listOptions are the options of text in a format, report.Text or report.Wide.
func (e env) listOptions(format string) report.Options {
	o := e.reportOptions()
	o.Whole = format == report.Wide
	return o
}

func checkFormat(format string, formats ...string) error {
	if !slices.Contains(formats, format) {
		return usageError{fmt.Errorf("-o %s: expected one of %s", format, strings.Join(formats, ", "))}
	}
	return nil
}

// writeLine writes v as one line of JSON.
func writeLine(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // pairs are called p1>p2
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
