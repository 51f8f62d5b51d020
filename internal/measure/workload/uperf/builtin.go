package uperf

import "time"

// Sizes of the profiles of Busch and Kammerer (2021), in bytes.
const (
	request     = 200
	response    = 1000
	bulkWrite   = 30 << 10
	bulkCount   = 640
	theirLength = 5 * time.Minute
)

// RequestResponse is their transactional profile: on each connection, which lasts,
// requests of 200 bytes, each answered with so many. They use 1000 bytes and
// 30 KiB, with 50 and 250 connections, for five minutes.
func RequestResponse(connections, answer int) Profile {
	return lasting("rr1c", connections, Flowop{Kind: Write, Count: 1, Size: request},
		Flowop{Kind: Read, Count: 1, Size: answer})
}

// Streaming is their streaming profile: 640 writes of 30 KiB are a transaction.
func Streaming(connections, size int) Profile {
	return lasting("str", connections, Flowop{Kind: Write, Count: bulkCount, Size: size})
}

// lasting is a profile in uperf's usual shape: connect, a transaction with a
// duration, disconnect.
func lasting(name string, connections int, flowops ...Flowop) Profile {
	once := func(k Kind) Transaction {
		return Transaction{Iterations: 1, Flowops: []Flowop{{Kind: k, Count: 1}}}
	}
	return Profile{Name: name, Groups: []Group{{Strands: connections, Transactions: []Transaction{
		once(Connect),
		{Iterations: 1, Duration: theirLength, Flowops: flowops},
		once(Disconnect),
	}}}}
}
