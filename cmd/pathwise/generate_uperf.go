package main

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/uperf"
)

// generateUperfCommands are the two ends of uperf's profiles.
func generateUperfCommands() []*cobra.Command {
	var plan, begin string
	master := &cobra.Command{
		Use: "uperf", Short: "Run a uperf profile and print counts and latencies as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var o uperf.Offer
			if err := json.Unmarshal([]byte(plan), &o); err != nil {
				return usageError{fmt.Errorf("--plan: %w", err)}
			}
			if o.Begin, err = workload.Beginning(begin); err != nil {
				return err
			}
			return uperf.Generate(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	master.Flags().StringVar(&plan, "plan", "", "the plan, in JSON")
	beginFlag(master, &begin)
	var addr string
	var connections int
	var datagrams bool
	slave := &cobra.Command{
		Use: "uperf-serve", Short: "Do the mirror of what uperf clients do", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := netip.ParseAddrPort(addr)
			if err != nil {
				return usageError{fmt.Errorf("--addr: %w", err)}
			}
			return uperf.Serve(cmd.Context(), at, connections, datagrams)
		},
	}
	slave.Flags().StringVar(&addr, "addr", "", "ADDRESS:PORT to listen on")
	slave.Flags().IntVar(&connections, "connections", 1, "connections to expect")
	slave.Flags().BoolVar(&datagrams, "datagrams", false, "listen for datagrams on the port as well")
	return []*cobra.Command{master, slave}
}
