package kube

import (
	"context"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// A process that wakes for each of ten changes in a second, and has a few threads and the kernel's timers wake with it,
// costs more by that than by all that it does of them. So what comes of other nodes is read at most so often, all
// at once; the kernel keeps it until then.
const (
	together = 250 * time.Millisecond
	// promptly is how long a connection is read at once: who begins waits for answers.
	promptly = 10 * time.Second
	// drained is how long nothing comes of a connection where there is nothing more.
	drained = 10 * time.Millisecond
)

// batched is a connection of which what comes is read together.
type batched struct {
	net.Conn
	since  time.Time
	now    func() time.Time
	closed context.Context
	close  context.CancelFunc
}

func newBatched(c net.Conn, now func() time.Time) *batched {
	b := &batched{Conn: c, since: now(), now: now}
	b.closed, b.close = context.WithCancel(context.Background())
	return b
}

// Read reads as a connection does, but where it has had to wait, it waits for what else comes until the turn of
// the next period: all agents' parts that do something in a period do it then. What comes after a whole period
// without anything is read at once: where little changes, nothing is late.
func (b *batched) Read(p []byte) (int, error) {
	began := b.now()
	n, err := b.Conn.Read(p)
	now := b.now()
	if waited := now.Sub(began); err == nil && waited > drained && waited < together && now.Sub(b.since) > promptly {
		select {
		case <-time.After(now.Truncate(together).Add(together).Sub(now)):
		case <-b.closed.Done():
		}
	}
	return n, err
}

func (b *batched) Close() error {
	b.close()
	return b.Conn.Close()
}

// batching is a configuration by whose connections is read what may wait.
func batching(cfg *rest.Config, now func() time.Time) *rest.Config {
	own, dial := rest.CopyConfig(cfg), cfg.Dial
	own.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newBatched(c, now), nil
	}
	return own
}
