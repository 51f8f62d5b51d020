package main

import (
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/bulk"
	"pathwise.dev/pathwise/internal/measure/workload/request"
	"pathwise.dev/pathwise/internal/steer/kube/trial"
)

// generateCommand holds what Pathwise runs inside pods: its own load generator,
// and the process of a pod that only waits. They are not for users.
func generateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "generate", Hidden: true, Short: "Load generators that run in pods", Args: exactArgs()}
	cmd.AddCommand(generateRequestsCommand(), generateServeCommand(), generateBulkCommand(), generateBulkServeCommand(),
		generatePauseCommand(), generateStreamCommand(), generateInsertsCommand())
	cmd.AddCommand(generateRunCommand(), generateMeterCommand())
	cmd.AddCommand(generateHTTPCommands()...)
	cmd.AddCommand(generateMongoCommands()...)
	cmd.AddCommand(generateUperfCommands()...)
	return cmd
}

func generateRequestsCommand() *cobra.Command {
	var o request.Offer
	var begin string
	cmd := &cobra.Command{
		Use: "requests", Short: "Send requests and print their count and latencies as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Begin, err = workload.Beginning(begin); err != nil {
				return err
			}
			return request.Generate(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	protoFlag(cmd, &o.Proto)
	cmd.Flags().TextVar(&o.Target, "target", netip.AddrPort{}, "ADDRESS:PORT of the server")
	cmd.Flags().IntVar(&o.Connections, "connections", 1, "connections side by side")
	cmd.Flags().IntVar(&o.Size, "size", 1, "bytes of a request and of its answer")
	cmd.Flags().BoolVar(&o.Once, "once", false, "a connection for each request")
	congestionFlag(cmd, &o.Congestion)
	cmd.Flags().StringVar(&o.Hello, "hello", "", "sent first on each connection")
	beginFlag(cmd, &begin)
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "length of the window")
	return cmd
}

func generateServeCommand() *cobra.Command {
	var s request.Service
	cmd := &cobra.Command{
		Use: "serve", Short: "Answer requests", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Serve(cmd.Context()) },
	}
	protoFlag(cmd, &s.Proto)
	cmd.Flags().TextVar(&s.Addr, "addr", netip.AddrPort{}, "ADDRESS:PORT to listen on")
	cmd.Flags().IntVar(&s.Connections, "connections", 1, "connections to expect")
	cmd.Flags().IntVar(&s.Size, "size", 1, "bytes of a request and of its answer")
	congestionFlag(cmd, &s.Congestion)
	cmd.Flags().BoolVar(&s.Once, "once", false, "close after the first answer")
	return cmd
}

// beginFlag adds --begin, which workload.Beginning reads once the command runs.
func beginFlag(cmd *cobra.Command, begin *string) {
	cmd.Flags().StringVar(begin, "begin", "0s", "beginning of the window on the monotonic clock, or fifo:PATH that tells it")
}

// congestionFlag adds --congestion.
func congestionFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "congestion", "", "TCP's congestion control; none: the machine's")
}

// protoFlag adds --proto.
func protoFlag(cmd *cobra.Command, p *workload.Proto) {
	cmd.Flags().StringVar((*string)(p), "proto", string(workload.TCP), "tcp or udp")
}

func generateBulkCommand() *cobra.Command {
	var o bulk.Offer
	var begin string
	cmd := &cobra.Command{
		Use: "bulk", Short: "Send and receive as fast as it goes and print what arrived as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Begin, err = workload.Beginning(begin); err != nil {
				return err
			}
			return bulk.Generate(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	cmd.Flags().TextVar(&o.Target, "target", netip.AddrPort{}, "ADDRESS:PORT of the server")
	cmd.Flags().IntVar(&o.Up, "up", 1, "connections by which to send")
	cmd.Flags().IntVar(&o.Down, "down", 0, "connections by which to receive")
	congestionFlag(cmd, &o.Congestion)
	cmd.Flags().BoolVar(&o.Datagrams, "datagrams", false, "send UDP from one socket instead")
	cmd.Flags().IntVar(&o.Size, "size", 1400, "bytes of a message")
	beginFlag(cmd, &begin)
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "length of the window")
	return cmd
}

func generateBulkServeCommand() *cobra.Command {
	var s bulk.Service
	cmd := &cobra.Command{
		Use: "bulk-serve", Short: "Take, send or echo what clients ask for", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Serve(cmd.Context()) },
	}
	cmd.Flags().TextVar(&s.Addr, "addr", netip.AddrPort{}, "ADDRESS:PORT to listen on")
	cmd.Flags().IntVar(&s.Connections, "connections", 1, "connections to expect")
	congestionFlag(cmd, &s.Congestion)
	cmd.Flags().BoolVar(&s.Datagrams, "datagrams", false, "take UDP as well")
	return cmd
}

// generateRunCommand and generateMeterCommand are what "bench --kube" runs in pods of a cluster.
func generateRunCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Run a program as a line of JSON says, until it or standard input ends", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return trial.Run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func generateMeterCommand() *cobra.Command {
	return &cobra.Command{
		Use: "meter", Short: "Tell of this machine and pod, at each line of standard input", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return trial.Meter(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
}

func generatePauseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pause", Short: "Wait until told to stop", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { <-cmd.Context().Done(); return nil },
	}
}
