package mongo

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// Repeat fills the collection and does its operation count times on one
// connection, one after the other, with a call of between after each. It ends with
// the first operation that fails. lost is how many connections were lost on the way:
// the driver opens another one only in the place of one that has gone.
func Repeat(ctx context.Context, p Place, count int64, between func()) (lost int64, err error) {
	if err := Prepare(ctx, io.Discard, p, true); err != nil {
		return 0, fmt.Errorf("prepare server: %w", err)
	}
	op, err := operationByName(p.Operation)
	if err != nil {
		return 0, err
	}
	var opened atomic.Int64
	client, err := connect(p.URI, 1, &opened)
	if err != nil {
		return 0, err
	}
	defer client.close()
	steps := op.steps(client.Database(database).Collection(p.Collection))
	for n := range count {
		if err := steps[n%int64(len(steps))](ctx); err != nil {
			return max(0, opened.Load()-1), fmt.Errorf("%s %d of %d: %w", p.Operation, n+1, count, err)
		}
		between()
	}
	return max(0, opened.Load()-1), nil
}

// Operations lists the names of all, such as insert-int-vector.
func Operations() (out []string) {
	for _, o := range operations() {
		out = append(out, o.name)
	}
	return out
}
