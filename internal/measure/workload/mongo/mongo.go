// Package mongo offers the operations on MongoDB that Atici and Boluk (2020)
// measured: mongo-perf's documents, indexes and counting, by the official Go
// driver in closed loops, which is the pathwise executable run in the pods.
//
// The server is mongowire's, unless the user names another: a program that is
// started in the server's pod, or the URI of one that runs somewhere. Results
// say which it was. Latencies are service times. A vector of documents is one
// operation, as mongo-perf counts it.
package mongo

import (
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
)

// Mongo is one of the workloads.
type Mongo struct {
	// Self is the pathwise executable.
	Self string
	// Operation is the name of one, "insert-empty".
	Operation string
	// Server is what answers: "" for the embedded one, a URI, or the command
	// line of a program.
	Server string
}

// All returns a workload for each operation.
func All(self string) (out []workload.Workload) {
	for _, o := range operations() {
		out = append(out, Mongo{Self: self, Operation: o.name})
	}
	return out
}

// Info implements workload.Workload.
func (m Mongo) Info() workload.Info {
	o, err := operationByName(m.Operation)
	if err != nil {
		panic(err) // not from All
	}
	return workload.Info{
		Name:    "mongo-" + o.name,
		Summary: "MongoDB " + o.summary + " (mongo-perf's " + o.test + ")",
		Tool:    "MongoDB Go driver: answered operations (service time, closed loop)",
		Needs:   []network.Need{network.NeedRoot()},
		Metrics: []string{sample.Rate, sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean,
			sample.Errors},
		Knobs:   []string{"connections", "congestion"},
		Default: sample.Load{Connections: 1},
		Max:     sample.Load{Connections: 1000},
		Pairs:   true,
		Server:  "the embedded one, a mongodb:// URI, or a command line such as mongod",

		MinDuration: minDuration,
		Extra:       600 * time.Millisecond,
	}
}

// With implements workload.Served.
func (m Mongo) With(server string) (workload.Workload, error) {
	switch scheme, _, hasScheme := strings.Cut(server, "://"); {
	case server == embedded:
		server = ""
	case len(strings.Fields(server)) == 0, hasScheme && !isURI(server) && !strings.Contains(scheme, " "):
		return nil, fmt.Errorf("server %q: expected %s, mongodb://HOST:PORT, or a command line such as mongod", redacted(server), embedded)
	case isURI(server):
		if err := options.Client().ApplyURI(server).Validate(); err != nil {
			return nil, fmt.Errorf("server %q: %w", redacted(server), err)
		}
	}
	m.Server = server
	return m, nil
}

// embedded is the name of the server that is used by default.
const embedded = "embedded"

// isURI tells the address of a server from the command line of one.
func isURI(server string) bool {
	return strings.HasPrefix(server, "mongodb://") || strings.HasPrefix(server, "mongodb+srv://")
}

// redacted leaves the password out of a URI. MongoDB's have several hosts, so
// they are none to the standard library.
func redacted(server string) string {
	scheme, rest, ok := strings.Cut(server, "://")
	at := strings.LastIndex(rest, "@")
	if !ok || at < 0 {
		return server
	}
	user, _, secret := strings.Cut(rest[:at], ":")
	if secret {
		user += ":xxxxx"
	}
	return scheme + "://" + user + rest[at:]
}
