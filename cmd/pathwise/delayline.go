package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/lab/impair"
)

// delayLineCommand is the process of a delay line. It is not for users.
func delayLineCommand(e env) *cobra.Command {
	return &cobra.Command{
		Use: impair.LineArgument + " NETNS DEV HOST DIR", Hidden: true, Short: "Hold up a pod's packets",
		Args: exactArgs("NETNS", "DEV", "HOST", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l := impair.Line{Port: impair.Port{Netns: args[0], Dev: args[1], Host: args[2]}, Dir: args[3], Seed: rand.Uint64()}
			fmt.Fprintf(e.stderr, "seed %d\n", l.Seed)
			return l.Run(cmd.Context(), e.stdout)
		},
	}
}
