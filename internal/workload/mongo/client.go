package mongo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"pathwise.dev/pathwise/internal/mongowire"
)

// database is where the collections are.
const database = "pathwise"

// findServer is how long a server may take to answer for the first time.
const findServer = 5 * time.Second

// pool is a client and what is known of its connections.
type pool struct {
	*mongo.Client
	ready atomic.Int64
}

// connect makes a client that keeps that many connections open. Nothing is
// tried again: an operation that fails is counted.
func connect(uri string, connections int) (*pool, error) {
	p := &pool{}
	o := options.Client().ApplyURI(uri).SetRetryReads(false).SetRetryWrites(false).SetServerSelectionTimeout(findServer).
		SetMinPoolSize(uint64(connections)).SetMaxConnecting(uint64(connections)).
		SetMaxPoolSize(uint64(connections) + 1). // one for questions about the server
		SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) {
			if e.Type == event.ConnectionReady {
				p.ready.Add(1)
			}
		}})
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	var err error
	if p.Client, err = mongo.Connect(o); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return p, nil
}

// close lets go of the connections; what is under way on them does not matter any more.
func (p *pool) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = p.Disconnect(ctx)
}

// awaitReady returns when n connections are there, or false at the deadline.
func (p *pool) awaitReady(ctx context.Context, n int, deadline time.Time) bool {
	for p.ready.Load() < int64(n) {
		if ctx.Err() != nil || time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// identify says in words which server answers.
func (p *pool) identify(ctx context.Context) (string, error) {
	info, err := p.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Raw()
	if err != nil {
		return "", fmt.Errorf("ask server what it is: %w", err)
	}
	text := func(key string) string { s, _ := info.Lookup(key).StringValueOK(); return s }
	switch {
	case text(mongowire.Identity) != "":
		return "Pathwise's own (" + text(mongowire.Identity) + ")", nil
	case text("ferretdbVersion") != "":
		return "FerretDB " + text("ferretdbVersion"), nil
	case text("version") != "":
		return "MongoDB " + text("version"), nil
	default:
		return "", fmt.Errorf("ask server what it is: %w: it has no version", errWrong)
	}
}

// cpuTime is the server's user-mode CPU time; false where it does not tell.
func (p *pool) cpuTime(ctx context.Context) (time.Duration, bool) {
	status, err := p.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Raw()
	if err != nil {
		return 0, false
	}
	us, ok := status.Lookup("extra_info", "user_time_us").AsInt64OK()
	return time.Duration(us) * time.Microsecond, ok
}

// Kinds of failures.
const (
	kindWrong   = "answered wrongly"
	kindRefused = "refused"
	kindReset   = "connection lost"
	kindTimeout = "timed out"
	kindServer  = "server error"
	kindOther   = "other"
)

// kindOf says how an operation failed.
func kindOf(err error) string {
	var selection topology.ServerSelectionError
	var server mongo.ServerError
	var timeout net.Error
	text := err.Error()
	switch {
	case errors.Is(err, errWrong):
		return kindWrong
	case errors.Is(err, syscall.ECONNREFUSED), strings.Contains(text, syscall.ECONNREFUSED.Error()):
		return kindRefused // the text: what the driver found out by itself it tells in words alone
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), mongo.IsTimeout(err), errors.As(err, &timeout) && timeout.Timeout():
		return kindTimeout
	case mongo.IsNetworkError(err), errors.As(err, &selection):
		return kindReset
	case errors.As(err, &server):
		return kindServer
	default:
		return kindOther
	}
}
