package network

import "context"

// Datapath forwards packets by flows that it caches.
type Datapath interface {
	// Count is what has passed so far, on all hosts together.
	Count(ctx context.Context) (Passed, error)
	// Forget empties the cache, so that the next packet of each flow is a first one.
	Forget(ctx context.Context) error
}

// Passed is packets that a datapath took in, and the passes through it that they took: a
// packet whose connection is tracked begins again, which is another pass.
type Passed struct{ Packets, Passes uint64 }
