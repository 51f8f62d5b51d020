package drill

import (
	"context"
	"net/netip"
	"strings"

	"pathwise.dev/pathwise/internal/stream"
	"pathwise.dev/pathwise/internal/topo"
	"pathwise.dev/pathwise/internal/workload/mongo"
)

// mongoPrefix begins the names of the workloads of MongoDB, whose operations the
// drill "inserts" can do in place of bare round trips.
const mongoPrefix = "mongo-"

// documentWorkloads are their names.
func documentWorkloads() (out []string) {
	for _, o := range mongo.Operations() {
		out = append(out, mongoPrefix+o)
	}
	return out
}

// serveDocuments starts Pathwise's own server of MongoDB's protocol in a pod. The
// client waits for it to listen.
func (g *ground) serveDocuments(pod topo.Pod) (*flow, error) {
	g.port = 6000 + (g.port-6000+1)%20000
	f := &flow{kind: stream.RR, target: netip.AddrPortFrom(pod.Addr(), g.port)}
	var err error
	f.server, err = g.generate(pod, onCPU(lastCPU()), "mongo-serve", "--addr", f.target.String())
	return f, err
}

// documents does count operations of the inserter's workload. The report has the
// connections that were lost, and no time line.
func (i Inserter) documents(ctx context.Context, count int64, between func()) (stream.Report, error) {
	op := strings.TrimPrefix(i.Workload, mongoPrefix)
	place := mongo.Place{URI: "mongodb://" + i.Target.String() + "/?directConnection=true", Operation: op, Collection: "drill"}
	lost, err := mongo.Repeat(ctx, place, count, between)
	out := stream.Report{Format: stream.Format, Kind: stream.RR, Role: stream.ClientRole, Unit: stream.Operations,
		Bins: stream.Bins{Width: stream.DefaultBin}, Gaps: stream.Gaps{Floor: stream.DefaultGap}}
	out.Counts.Operations = count
	out.Counts.Connections.Lost = lost
	return out, err
}
