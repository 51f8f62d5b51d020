// Package flow is what the data plane, the telemetry, the detector and the agent must
// agree on about a flow: which of a peer's buckets it belongs to, which of these a part of
// the flows is, and how its datagrams without an answer are counted. It is pure and knows nothing of paths.
package flow

// Buckets is how many buckets the flows towards one peer are spread over. They lie in
// Rows of Width, one for each class of flows that is moved apart: 64 octets are one cache
// line, and the form in which all versions keep and tell what they have chosen.
const (
	Buckets = 64
	Rows    = 2
	Width   = Buckets / Rows
)

// Row is the number of a row: flows are in the first one until they are told apart.
type Row uint8

// Bucket is the bucket of a row that has the same place there as b in its own.
func (r Row) Bucket(b uint8) uint8 { return uint8(r)%Rows*Width + b%Width }

// RowOf is the row of a bucket.
func RowOf(b uint8) Row { return Row(b / Width % Rows) }

// Bucket is the bucket of a flow in the first row, by its ports, in host order, and its
// protocol number. It is symmetric, so that both ends of a flow agree without a word.
// The eBPF programs have it from bucket.h, the same in C.
func Bucket(sport, dport uint16, proto uint8) uint8 {
	h := uint32(sport^dport)*0x9E3779B1 + uint32(proto)*0x85EBCA6B
	h ^= h >> 16
	return uint8(h & (Width - 1))
}

// Unanswered is how many datagrams of a flow have gone since one last came, as far as they
// are counted: by the data plane up to 127.
type Unanswered struct {
	N int
	// Turn changes each time that a datagram comes after some have gone.
	Turn bool
}
