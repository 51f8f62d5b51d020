package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/steer/drill"
	"pathwise.dev/pathwise/internal/steer/stream"
)

// generateStreamCommand holds the traffic of drills: it runs while paths are
// switched and broken, and tells what it felt.
func generateStreamCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stream", Short: "Send traffic and print its time line as JSON", Args: exactArgs(),
		Long: `Sends traffic until its duration is over, a signal comes, or standard input,
where it is a pipe, is closed; then prints one report (package internal/steer/stream).`,
	}
	cmd.AddCommand(streamServeCommand(), streamTCPCommand(), streamRRCommand(), streamUDPCommand(), streamICMPCommand())
	return cmd
}

func streamServeCommand() *cobra.Command {
	var s stream.Server
	cmd := &cobra.Command{
		Use: "serve tcp|rr|udp", Short: "Answer streams; prints \"listening ADDRESS:PORT\" first",
		Args: exactArgs("tcp|rr|udp"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Kind = stream.Kind(args[0])
			if err := s.Check(); err != nil {
				return usageError{err}
			}
			ctx, stop := whileOpen(cmd.Context(), cmd.InOrStdin())
			defer stop()
			return stream.Serve(ctx, cmd.OutOrStdout(), s)
		},
	}
	cmd.Flags().TextVar(&s.Listen, "listen", netip.AddrPort{}, "ADDRESS:PORT to listen on")
	cmd.Flags().BoolVar(&s.MPTCP, "mptcp", false, "accept MPTCP")
	recordFlags(cmd, &s.Record)
	return cmd
}

func streamTCPCommand() *cobra.Command {
	c := &stream.Client{Kind: stream.TCP}
	cmd := clientCommand(c, "tcp", "Send or receive bulk streams")
	connectionFlags(cmd, c)
	cmd.Flags().BoolVar(&c.Reverse, "reverse", false, "the server sends")
	cmd.Flags().Int64Var(&c.Rate, "rate", 0, "bit/s of each connection; 0: as fast as it goes")
	cmd.Flags().IntVar(&c.Size, "size", 0, "bytes of a write; 0: 128 KiB, or a millisecond's of the rate")
	return cmd
}

func streamRRCommand() *cobra.Command {
	c := &stream.Client{Kind: stream.RR, Requests: stream.Sizes{Min: 64, Max: 64}}
	cmd := clientCommand(c, "rr", "Send requests in a closed loop")
	connectionFlags(cmd, c)
	cmd.Flags().Var(&c.Requests, "request", "bytes of a request, or a range: 200-1000 for inserts")
	cmd.Flags().IntVar(&c.Size, "size", 0, "bytes of an answer; 0: 64")
	cmd.Flags().Int64Var(&c.Count, "count", 0,
		"operations of all connections together, then end; without --duration there is no other end")
	cmd.Flags().DurationVar(&c.Think, "think", 0, "time between an answer and the next request")
	cmd.Flags().DurationVar(&c.Work, "work", 0, "CPU time that the client computes between an answer and the next request")
	return cmd
}

func streamUDPCommand() *cobra.Command {
	c := &stream.Client{Kind: stream.UDP}
	cmd := clientCommand(c, "udp", "Send numbered datagrams at an interval")
	trainFlags(cmd, c, 50*time.Microsecond)
	cmd.Flags().BoolVar(&c.Echo, "echo", false, "the server sends each one back")
	return cmd
}

func streamICMPCommand() *cobra.Command {
	c := &stream.Client{Kind: stream.ICMP}
	cmd := clientCommand(c, "icmp", "Send ICMP echo requests at an interval")
	trainFlags(cmd, c, time.Millisecond)
	return cmd
}

// clientCommand is what the clients have in common.
func clientCommand(c *stream.Client, use, short string) *cobra.Command {
	var target netip.Addr
	cmd := &cobra.Command{Use: use, Short: short, Args: exactArgs(), RunE: func(cmd *cobra.Command, _ []string) error {
		if c.Kind == stream.ICMP {
			c.Target = netip.AddrPortFrom(target, 0)
		}
		if c.Count > 0 && !cmd.Flags().Changed("duration") {
			c.Duration = 0
		}
		if err := c.Check(); err != nil {
			return usageError{err}
		}
		ctx, stop := whileOpen(cmd.Context(), cmd.InOrStdin())
		defer stop()
		return stream.Run(ctx, cmd.OutOrStdout(), *c)
	}}
	if c.Kind == stream.ICMP {
		cmd.Flags().TextVar(&target, "target", netip.Addr{}, "address to ping")
	} else {
		cmd.Flags().TextVar(&c.Target, "target", netip.AddrPort{}, "ADDRESS:PORT of the server")
	}
	cmd.Flags().TextVar(&c.Bind, "bind", netip.Addr{}, "own address; empty: the kernel's choice")
	cmd.Flags().DurationVar(&c.Duration, "duration", 10*time.Second, "how long; 0: until told to stop")
	cmd.Flags().DurationVar(&c.Patience, "patience", 2*time.Second, "how long to wait for what is missing at the end")
	recordFlags(cmd, &c.Record)
	return cmd
}

func connectionFlags(cmd *cobra.Command, c *stream.Client) {
	cmd.Flags().IntVar(&c.Connections, "connections", 1, "connections side by side")
	cmd.Flags().BoolVar(&c.MPTCP, "mptcp", false, "use MPTCP")
}

func trainFlags(cmd *cobra.Command, c *stream.Client, interval time.Duration) {
	cmd.Flags().DurationVar(&c.Interval, "interval", interval, "time between two")
	cmd.Flags().IntVar(&c.Size, "size", 0, "bytes of payload; 0: 64")
	cmd.Flags().BoolVar(&c.Busy, "busy", false, "wait without sleeping: exact, at the cost of a CPU")
}

func recordFlags(cmd *cobra.Command, r *stream.Record) {
	cmd.Flags().DurationVar(&r.Bin, "bin", stream.DefaultBin, "width of a bin")
	cmd.Flags().DurationVar(&r.Gap, "gap", stream.DefaultGap, "list gaps, and operations of rr, longer than this")
}

// errHungUp: the caller closed standard input.
var errHungUp = errors.New("standard input was closed")

// whileOpen ends with ctx, or when in is closed, if it is a pipe or a socket: a
// caller that dies takes its generators with it. Others, such as /dev/null, are
// at their end from the beginning and mean nothing.
func whileOpen(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	f, ok := in.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
	}
	if ok {
		go func() { // ends with the process at the latest
			_, _ = io.Copy(io.Discard, f)
			cancel(errHungUp)
		}()
	}
	return ctx, func() { cancel(context.Canceled) }
}

// generateInsertsCommand is the client of the drill "inserts".
func generateInsertsCommand() *cobra.Command {
	var plan string
	cmd := &cobra.Command{
		Use: "inserts", Short: "Do operations and move them among paths, and print the times as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var i drill.Inserter
			if err := json.Unmarshal([]byte(plan), &i); err != nil {
				return usageError{fmt.Errorf("--plan: %w", err)}
			}
			ctx, stop := whileOpen(cmd.Context(), cmd.InOrStdin())
			defer stop()
			return i.Run(ctx, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&plan, "plan", "", "the plan, in JSON")
	return cmd
}
