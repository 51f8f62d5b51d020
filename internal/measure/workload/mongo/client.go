package mongo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"pathwise.dev/pathwise/internal/measure/workload/mongowire"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
)

// database is where the collections are.
const database = "pathwise"

// findServer is how long a server may take to answer for the first time: on a
// busy machine the kernel notices a new link seconds late, and drops until then.
const findServer = 10 * time.Second

// pool is a client of the driver and what is known of its connections.
type pool struct {
	*mongo.Client
	ready *atomic.Int64
}

// connect makes a client that keeps that many connections open, and at most one
// more for questions about the server. Nothing is tried again: an operation that
// fails is counted.
func connect(uri string, connections int, congestion string, ready *atomic.Int64) (*pool, error) {
	p := &pool{ready: ready}
	o := options.Client().ApplyURI(uri).SetRetryReads(false).SetRetryWrites(false).SetServerSelectionTimeout(findServer).
		SetMinPoolSize(uint64(connections)).SetMaxConnecting(uint64(connections)).SetMaxPoolSize(uint64(connections) + 1).
		SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) {
			if e.Type == event.ConnectionReady {
				ready.Add(1)
			}
		}})
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if congestion != "" {
		o.SetDialer(&net.Dialer{Control: socket.Control(congestion)})
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

// fleet is as many clients as it takes to have all connections open before the
// window: a client opens ten at once, and then no more for ten seconds unless
// they are asked for (the driver's pool.maintain, v2.9).
type fleet struct {
	pools []*pool
	ready atomic.Int64
}

const perPool = 10

// connectAll makes clients that keep that many connections open together.
func connectAll(uri string, connections int, congestion string) (*fleet, error) {
	f := &fleet{}
	for left := connections; left > 0; left -= perPool {
		p, err := connect(uri, min(left, perPool), congestion, &f.ready)
		if err != nil {
			f.close()
			return nil, err
		}
		f.pools = append(f.pools, p)
	}
	return f, nil
}

// of is the client that the i-th connection belongs to.
func (f *fleet) of(i int) *pool { return f.pools[i/perPool] }

func (f *fleet) close() {
	var wg sync.WaitGroup
	for _, p := range f.pools {
		wg.Go(p.close)
	}
	wg.Wait()
}

// awaitReady returns when n connections are there, or false at the deadline.
func (f *fleet) awaitReady(ctx context.Context, n int, deadline time.Time) bool {
	for f.ready.Load() < int64(n) {
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
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), mongo.IsTimeout(err),
		errors.As(err, &timeout) && timeout.Timeout():
		return kindTimeout
	case mongo.IsNetworkError(err), errors.As(err, &selection):
		return kindReset
	case errors.As(err, &server):
		return kindServer
	default:
		return kindOther
	}
}
