package main

import (
	"time"

	"github.com/spf13/cobra"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/mongo"
	"pathwise.dev/pathwise/internal/measure/workload/mongowire"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// generateMongoCommands are both ends of the mongo workloads.
func generateMongoCommands() []*cobra.Command {
	return []*cobra.Command{generateMongoCommand(), generateMongoPrepareCommand(), generateMongoServeCommand()}
}

func generateMongoCommand() *cobra.Command {
	var o mongo.Offer
	var begin string
	cmd := &cobra.Command{
		Use: "mongo", Short: "Do MongoDB operations and print their count and latencies as JSON", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			tell := func() (time.Duration, error) { return workload.Beginning(begin) }
			if workload.Held(begin) {
				o.Ready = tell // connect first
			} else if o.Begin, err = tell(); err != nil {
				return err
			}
			return mongo.Generate(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	placeFlags(cmd, &o.Place)
	cmd.Flags().IntVar(&o.Connections, "connections", 1, "connections side by side")
	beginFlag(cmd, &begin)
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "length of the window")
	congestionFlag(cmd, &o.Congestion)
	cmd.Flags().BoolVar(&o.Drop, "drop", false, "drop the collection afterwards")
	return cmd
}

func generateMongoPrepareCommand() *cobra.Command {
	var p mongo.Place
	var capped bool
	cmd := &cobra.Command{
		Use: "mongo-prepare", Short: "Fill a collection for an operation", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return mongo.Prepare(cmd.Context(), cmd.OutOrStdout(), p, capped)
		},
	}
	placeFlags(cmd, &p)
	cmd.Flags().BoolVar(&capped, "capped", false, "bound a collection that grows")
	return cmd
}

func placeFlags(cmd *cobra.Command, p *mongo.Place) {
	cmd.Flags().StringVar(&p.URI, "uri", "", "URI of the server")
	cmd.Flags().StringVar(&p.Operation, "operation", "", "operation, such as insert-empty")
	cmd.Flags().StringVar(&p.Collection, "collection", "", "collection")
}

func generateMongoServeCommand() *cobra.Command {
	var addr, congestion string
	cmd := &cobra.Command{
		Use: "mongo-serve", Short: "Serve MongoDB's wire protocol from memory", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return mongowire.Listen(cmd.Context(), addr, socket.Control(congestion))
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "", "address:port to listen on")
	congestionFlag(cmd, &congestion)
	return cmd
}
