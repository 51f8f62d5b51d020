package main

import (
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/workload/http"
)

// generateHTTPCommands are the client and the server of web access.
func generateHTTPCommands() []*cobra.Command {
	return []*cobra.Command{generateHTTPCommand(), generateHTTPServeCommand()}
}

func generateHTTPCommand() *cobra.Command {
	var o http.Offer
	cmd := &cobra.Command{
		Use: "http", Short: "Ask a web server for an object and print counts and latencies as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return http.Generate(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().TextVar(&o.Target, "target", netip.AddrPort{}, "ADDRESS:PORT of the server")
	cmd.Flags().IntVar(&o.Connections, "connections", 1, "connections side by side")
	cmd.Flags().IntVar(&o.Size, "size", 0, "bytes of the object")
	cmd.Flags().BoolVar(&o.Close, "close", false, "a connection for each request")
	cmd.Flags().Float64Var(&o.Rate, "rate", 0, "requests per second; 0: the next one waits for the last answer")
	cmd.Flags().DurationVar(&o.Begin, "begin", 0, "beginning of the window, on the monotonic clock")
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "length of the window")
	return cmd
}

func generateHTTPServeCommand() *cobra.Command {
	var addr string
	var size int
	cmd := &cobra.Command{
		Use: "http-serve", Short: "Serve one object by HTTP", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return http.Serve(cmd.Context(), addr, size) },
	}
	cmd.Flags().StringVar(&addr, "addr", "", "address:port to listen on")
	cmd.Flags().IntVar(&size, "size", 0, "bytes of the object")
	return cmd
}
