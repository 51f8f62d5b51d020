// Package flow says which of a peer's buckets a flow belongs to: the one
// function that the data plane, the telemetry and the agent must agree on. It
// is pure and knows nothing of paths.
package flow

// Buckets is how many buckets the flows towards one peer are spread over.
const Buckets = 64

// Bucket is the bucket of a flow by its ports, in host order, and its protocol
// number. It is symmetric, so that both ends of a flow agree without a word.
// The eBPF programs have it from bucket.h, the same in C.
func Bucket(sport, dport uint16, proto uint8) uint8 {
	h := uint32(sport^dport)*0x9E3779B1 + uint32(proto)*0x85EBCA6B
	h ^= h >> 16
	return uint8(h & (Buckets - 1))
}
