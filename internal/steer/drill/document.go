package drill

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"pathwise.dev/pathwise/internal/measure/workload/mongo"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
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

// serveDocuments starts a server of MongoDB's protocol in a pod: the user's, or
// Pathwise's own. The client waits for it to listen.
func (g *ground) serveDocuments(pod topo.Pod) (*flow, error) {
	g.port = 6000 + (g.port-6000+1)%20000
	f := &flow{kind: stream.RR, target: netip.AddrPortFrom(pod.Addr(), g.port)}
	pin := onCPU(lastCPU())
	var err error
	server := g.s.options().Server
	if server == "" {
		f.server, err = g.generate(pod, pin, "mongo-serve", "--addr", f.target.String())
		return f, err
	}
	argv := mongo.Command(server, g.port, "")
	if argv[0], err = exec.LookPath(argv[0]); err != nil {
		return nil, fmt.Errorf("find server: %w", err)
	}
	if f.dir, err = os.MkdirTemp(g.lab.Dir(), "documents-"); err != nil {
		return nil, fmt.Errorf("make directory of server: %w", err)
	}
	argv = append(argv[:1], mongo.Command(server, g.port, f.dir)[1:]...)
	if f.server, err = g.start(pod, append(pin, argv...)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(f.dir))
	}
	return f, nil
}

// documents does count operations of the inserter's workload. The report has the
// connections that were lost, and no time line.
func (i Inserter) documents(ctx context.Context, count int64, between func()) (stream.Report, error) {
	op := strings.TrimPrefix(i.Workload, mongoPrefix)
	place := mongo.Place{URI: "mongodb://" + i.Target.String() + "/?directConnection=true", Operation: op,
		Collection: "drill"}
	lost, err := mongo.Repeat(ctx, place, count, i.Capped, between)
	out := stream.Report{Format: stream.Format, Kind: stream.RR, Role: stream.ClientRole, Unit: stream.Operations,
		Bins: stream.Bins{Width: stream.DefaultBin}, Gaps: stream.Gaps{Floor: stream.DefaultGap}}
	out.Counts.Operations = count
	out.Counts.Connections.Lost = lost
	return out, err
}
