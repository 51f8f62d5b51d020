package mongo

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Repeat fills the collection, capped where it may be, and does its operation count times on one
// connection, one after the other, with a call of between after each. It ends with
// the first operation that fails. lost is how many connections were lost on the way:
// the driver opens another one only in the place of one that has gone.
func Repeat(ctx context.Context, p Place, count int64, capped bool, between func()) (lost int64, err error) {
	if err := Prepare(ctx, io.Discard, p, capped); err != nil {
		return 0, fmt.Errorf("prepare server: %w", err)
	}
	op, err := operationByName(p.Operation)
	if err != nil {
		return 0, err
	}
	fleet, err := connectAll(p.URI, 1, "")
	if err != nil {
		return 0, err
	}
	defer fleet.close()
	// Or the first operation would open a second connection alongside it.
	if !fleet.awaitReady(ctx, 1, time.Now().Add(findServer)) {
		return 0, fmt.Errorf("connect: the server's connection was not there within %v", findServer)
	}
	gone := func() int64 { return fleet.ready.Load() - 1 }
	steps := op.steps(fleet.of(0).Database(database).Collection(p.Collection))
	for n := range count {
		if err := steps[n%int64(len(steps))](ctx); err != nil {
			return gone(), fmt.Errorf("%s %d of %d: %w", p.Operation, n+1, count, err)
		}
		between()
	}
	return gone(), nil
}

// Operations lists the names of all, such as insert-int-vector.
func Operations() (out []string) {
	for _, o := range operations() {
		out = append(out, o.name)
	}
	return out
}
