package main

import (
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/workload/request"
)

// generateCommand holds what Pathwise runs inside pods: its own load generator,
// and the process of a pod that only waits. They are not for users.
func generateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "generate", Hidden: true, Short: "Load generators that run in pods", Args: exactArgs()}
	cmd.AddCommand(generateRequestsCommand(), generateServeCommand(), generatePauseCommand(), generateStreamCommand(), generateInsertsCommand())
	cmd.AddCommand(generateHTTPCommands()...)
	cmd.AddCommand(generateMongoCommands()...)
	return cmd
}

func generateRequestsCommand() *cobra.Command {
	var o request.Offer
	cmd := &cobra.Command{
		Use: "requests", Short: "Send requests and print their count and latencies as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return request.Generate(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().StringVar(&o.Target, "target", "", "address:port of the server")
	cmd.Flags().IntVar(&o.Connections, "connections", 1, "connections side by side")
	cmd.Flags().IntVar(&o.Size, "size", 1, "bytes of a request and of its answer")
	cmd.Flags().BoolVar(&o.Once, "once", false, "a connection for each request")
	cmd.Flags().DurationVar(&o.Begin, "begin", 0, "beginning of the window, on the monotonic clock")
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "length of the window")
	return cmd
}

func generateServeCommand() *cobra.Command {
	var addr string
	var size int
	var once bool
	cmd := &cobra.Command{
		Use: "serve", Short: "Answer requests", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return request.Serve(cmd.Context(), addr, size, once) },
	}
	cmd.Flags().StringVar(&addr, "addr", "", "address:port to listen on")
	cmd.Flags().IntVar(&size, "size", 1, "bytes of a request and of its answer")
	cmd.Flags().BoolVar(&once, "once", false, "close after the first answer")
	return cmd
}

func generatePauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause", Short: "Wait until told to stop", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { <-cmd.Context().Done(); return nil },
	}
}
