package main

import (
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/http"
)

// generateHTTPCommands are the client and the server of web access.
func generateHTTPCommands() []*cobra.Command {
	return []*cobra.Command{generateHTTPCommand(), generateHTTPServeCommand(), generateNginxCommand()}
}

func generateHTTPCommand() *cobra.Command {
	var o http.Offer
	var begin string
	cmd := &cobra.Command{
		Use: "http", Short: "Ask a web server for an object and print counts and latencies as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Begin, err = workload.Beginning(begin); err != nil {
				return err
			}
			return http.Generate(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().TextVar(&o.Target, "target", netip.AddrPort{}, "ADDRESS:PORT of the server")
	cmd.Flags().IntVar(&o.Connections, "connections", 1, "connections side by side")
	cmd.Flags().IntVar(&o.Size, "size", 0, "bytes of the object")
	congestionFlag(cmd, &o.Congestion)
	cmd.Flags().BoolVar(&o.Close, "close", false, "a connection for each request")
	cmd.Flags().Float64Var(&o.Rate, "rate", 0, "requests per second; 0: the next one waits for the last answer")
	beginFlag(cmd, &begin)
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "length of the window")
	return cmd
}

func generateHTTPServeCommand() *cobra.Command {
	var addr, congestion string
	var size int
	cmd := &cobra.Command{
		Use: "http-serve", Short: "Serve one object by HTTP", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return http.Serve(cmd.Context(), addr, congestion, size) },
	}
	cmd.Flags().StringVar(&addr, "addr", "", "address:port to listen on")
	congestionFlag(cmd, &congestion)
	cmd.Flags().IntVar(&size, "size", 0, "bytes of the object")
	return cmd
}

func generateNginxCommand() *cobra.Command {
	var addr netip.AddrPort
	var congestion string
	cmd := &cobra.Command{
		Use: "http-nginx -- NGINX...", Short: "Become an nginx that listens by a congestion control",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return nil
			}
			return exactArgs("NGINX and its arguments")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return http.ExecNginx(addr, congestion, args) },
	}
	cmd.Flags().TextVar(&addr, "addr", netip.AddrPort{}, "ADDRESS:PORT to listen on, as nginx's configuration has it")
	congestionFlag(cmd, &congestion)
	return cmd
}
