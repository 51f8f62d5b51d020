// Package stamp is a Session-Sender and a Session-Reflector of STAMP, the Simple
// Two-Way Active Measurement Protocol (RFC 8762), with the sessions and TLVs of
// RFC 8972. It measures round trips, delay and loss in each direction between two
// hosts, in unauthenticated and in authenticated mode, over IPv4 and IPv6. Both modes
// are tested against an independent implementation.
//
// The shortest way to a figure is [Measure]. A [Sender] probes any number of
// reflectors at a pace of the caller's; a [Reflector] answers. Both work on a UDP
// socket that the caller opens, and open none themselves. It is for Linux, which dates
// each packet (SO_TIMESTAMPNS) and tells its TTL and DSCP.
//
// # What is implemented
//
//   - RFC 8762: both modes, a stateful reflector and replies as long as their probes
//     (section 4.3), timestamps of NTP and of PTPv2, the error estimate (section 4.2).
//   - RFC 8972: the SSID (section 3), flags U, M and I (section 4), and the TLVs Extra
//     Padding (4.1), Class of Service (4.4), Direct Measurement (4.5) and HMAC (4.8).
//     TLVs of the experimental types 240 to 250 carry what the caller wants.
//
// Not implemented: Location, Timestamp Information, Access Report and Follow-Up
// Telemetry TLVs, which are reflected as unrecognized; control of sessions by YANG.
//
// # Loss and delay in one direction
//
// A stateful reflector numbers what it sends: [Reply.ReflectorSeq]. By that,
// [Measurement.Loss] tells on which way probes were lost. Delays in one direction compare two
// clocks, and mean what they say only where [Reply.ClocksAgree].
//
// # What authenticated mode protects
//
// With [Keys], every packet carries RFC 8762's HMAC (section 4.4) and its TLVs that of
// RFC 8972 (section 4.8). The latter covers no more of the base packet than its
// sequence number: TLVs could be moved from one session's packet to another's, and a
// reply could be played to a reflector as if it were a probe. So where TLVs of
// experimental types are sent, one more is added, the binding (type 251), an HMAC over
// the direction, the whole base packet and all TLVs before it, by a key that is derived
// from the session's. Other implementations mark it as unrecognized and reflect it. This
// one calls [ReflectorConfig.OnTLV] only for what is bound, never twice for one
// sequence number of a session, and only while the probe's timestamp is fresh.
//
// Where both ends are told the name of their network ([SenderConfig.Network]), every
// packet is bound, to that name and to the addresses of both ends too, and none is
// taken that is not: so neither a probe nor an answer can be played on another network
// or from another address. Reflectors that share a [ReplayCache] take each packet once
// between them.
//
// No packet is encrypted: RFC 8762 has no such mode.
package stamp
