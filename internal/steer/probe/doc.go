// Package probe measures the paths between hosts actively, by STAMP (RFC 8762)
// with the extensions of RFC 8972: a Sender, a Reflector, and two pure parts
// that make sense of them. A Track folds replies and losses into what is known
// of a path, and Judge says whether a path has failed.
//
// It opens no sockets (the caller does, in whatever namespace), moves no
// traffic, and decides neither when to probe nor where traffic should go.
//
// # What authenticated mode protects
//
// With a key, every packet carries RFC 8762's HMAC and its TLVs that of RFC 8972
// (section 4.8). The latter covers no more of the base packet than its sequence
// number, so that TLVs could be moved from one session's packet to another's,
// and a reply could be played to a reflector as if it were a probe. TLVs of
// experimental types are orders between agents, so they are sent with one more
// TLV, the binding (type 251), an HMAC over the direction, the whole base packet
// and all TLVs before it, by a key derived from the session's. Other
// implementations mark it as unknown and reflect it; ours call OnTLV only for
// what is bound, never twice for one sequence number of a session, and only
// while the probe's timestamp is fresh.
//
// Where both ends are told the name of their network, every packet is bound, to
// that and to the addresses of both ends too, and none is taken that is not: so
// neither a probe nor an answer can be played on another network or from another
// address. Reflectors that share their Replays take each packet once between them.
package probe
