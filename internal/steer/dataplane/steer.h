/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs and their loader share. */
#ifndef STEER_H
#define STEER_H

/* enum tcx_action_base, of Linux 6.6; older headers lack it. */
#define TCX_NEXT -1
#define TCX_DROP 2

#define PATHS 8    /* per pair of pods; path 0 is the default network */
#define BUCKETS 64 /* per pair of pods */
#define KEYS 4     /* accepted at a time: keys turn over, and may again before all have the last one */

/* A row holds a peer's choices, a bucket each, in 64 bytes: a switch of all of them is
 * one cache line for the processors to hand over. The path is in the lowest bits, what
 * is above them is the loader's. */
struct row {
	__u8 choice[BUCKETS];
};
#define ROW_PATH(c) ((c) & (PATHS - 1))

/* The mark has two parts, as docs/explanation/security.md says. The visible one is a
 * code point of DSCP pool 2, xxx111, which RFC 2474 section 6 leaves to local use; xxx
 * says which DSCP the application gave (CLASSES). It tells steered packets from an
 * application's own traffic on a path. (Layout 1 had xxx011: the two take no notice of
 * each other's packets.)
 *
 * The other part is a keyed tag, where the packet has room: in IPv4 the identification,
 * which means nothing in a datagram that is never fragmented (RFC 6864), in IPv6 the
 * flow label (RFC 6437), and in the encapsulated mode the shim. */
#define MARK 0x07
#define IS_MARK(dscp) (((dscp) & 0x07) == MARK)
#define FORMER_MARK(dscp) (((dscp) & 0x07) == 0x03) /* layout 1's */
#define CLASSES 0x2e22120a04020100ull /* DSCP 0, 1 (LE), 2, 4, 10 (AF11), 18 (AF21), 34 (AF41), 46 (EF) */
#define CLASS_DSCP(mark) ((__u8)(CLASSES >> ((mark) >> 3 << 3)))

/* What a tag says. DATA is for paths, the others for the default network: a flow's
 * opener says OPEN until the other end has answered there, which says ANSWER until it
 * hears that its answer came, by SETTLED or by DATA. Who gets DATA of a flow that it does
 * not know says FORGOTTEN, in a packet of its own, and the flow is opened again. */
enum { SAY_DATA = 1, SAY_OPEN, SAY_ANSWER, SAY_SETTLED, SAY_FORGOTTEN };

/* Segments of one packet count the identification up from the tag. */
#define SEGMENTS 128

/* Says to eth0's ingress that path_in has translated the packet. */
#define FROM_PATH 0x50570001

/* A flow's part at this end: what a path may deliver is what both ends have seen to
 * pass the default network in both directions.
 *
 *   OWNER_NEW   opened here; on the default network until the peer has answered there
 *   OWNER       the peer has answered: goes where the map own says
 *   FOLLOW_NEW  opened by the peer; nothing was answered yet
 *   ANSWERED    answered over the default network; the peer may have left it
 *   FOLLOW      the peer has heard the answer: goes where the map follow says */
enum { FLOW_NONE, FLOW_OWNER_NEW, FLOW_OWNER, FLOW_FOLLOW_NEW, FLOW_ANSWERED, FLOW_FOLLOW };
#define ADMITTED(role) ((role) == FLOW_OWNER || (role) >= FLOW_ANSWERED)

/* How a TCP connection ends, in part.closed. */
#define CLOSED_OUT 1
#define CLOSED_IN 2
#define CLOSED_RESET 4

enum { EV_ERROR, EV_TOO_BIG, EV_NO_PATH, EV_LEASE, EV_STRANGER, EV_ICMP, EV_FORGED, EV_UNADMITTED, EV_FULL, EVENTS };

/* At the end of the map events is what is left of what strangers could cause: a time in
 * units of 2^32 ns, about four seconds, and how often it was done since. */
enum { SPENT_NOTES = 14, SPENT_GUESSES };

struct addr {
	__u32 w[4]; /* IPv4: the first word */
};

#define PATH_MAC 1   /* mac holds destination and source */
#define PATH_ENCAP 2 /* whole packets in UDP, for networks that translation cannot cross */

/* A SipHash key, of a pair of pods on a network. */
struct key {
	__u64 k[2];
};

/* keys are those accepted, the likeliest first; what is the first again is none. */
struct keys {
	struct key k[KEYS];
};

struct path {
	struct addr local, remote;
	struct key key; /* of what is sent */
	__u32 diff; /* checksum difference, stable pair to this pair */
	__u32 ifindex;
	__u16 mtu; /* of IP packets */
	__u8 flags;
	__u8 pad;
	__u8 mac[12];
};

struct peer {
	__u32 id;         /* index of its rows in the arrays */
	__u32 generation; /* of the pod's UID, for the agent */
	__u32 lower;      /* this pod's address is the lower of the pair */
	__u32 remote;     /* IPv4: the peer's stable address */
	struct addr self; /* this pod's stable address */
	struct key key; /* on the default network */
	struct keys accept;
	struct path path[PATHS];
};

/* rev finds the pair by the peer's address on a path. */
struct rev {
	__u32 id;
	__u32 generation;
	__u32 lower;
	__u32 path;
	__u32 ifindex;
	__u32 diff; /* the path's pair to the stable pair */
	__u32 flags;
	__u32 remote;      /* IPv4: the peer's address on the path */
	struct addr local; /* this pod's address on the path */
	struct addr stable_local, stable_remote;
	struct keys accept;
};

struct flow {
	__u32 peer, generation; /* its number may have been another's */
	__u16 local, remote; /* ports in host order, or an ICMP identifier and 0 */
	__u8 proto;
	__u8 pad[3];
};

/* part is what this end has in a flow. */
struct part {
	__u8 role, closed;
	__u16 marks; /* said about the role, up to what due() repeats at once */
	__u32 seen;  /* in units of 2^SEEN_SHIFT ns: when something last came of it, or went */
	__u32 told;  /* the same: when it was last said */
	__u32 pad;
};
#define SEEN_SHIFT 28 /* about a quarter of a second */

/* A word of the map recent is what flows has told of a TCP flow in this tick, which
 * spares its look-up for further packets: the ports, the peer's number, the tick, and
 * the role. Whoever changes a part takes the word away; who has read the part just
 * before may put the old one back, and is believed until the tick ends. */
#define RECENT_ROLE 7

struct tally {
	__u64 packets, bytes;
	/* CLOCK_MONOTONIC ns: sent, when the latest went that wants an answer; received,
	 * when the latest came, up to a tick too early but not earlier than what was sent
	 * before it. Which is later tells whether an answer is waited for. */
	__u64 last;
	/* Sent: packets of flows opened here, of which only matters that it moves.
	 * Received: jiffies when the clock was last read. */
	__u64 more;
};

/* order numbers what was said of a peer's choices: by this end, and by the peer. */
struct order {
	__u64 said, heard;
};

struct beat {
	__u64 at;   /* CLOCK_MONOTONIC_COARSE ns: the agent's last sign of life */
	__u64 tick; /* jiffies in which the data plane has found the lease to run */
	__u32 lenient; /* a data plane of another layout is there: it may know what ours does not */
	__u32 pad;
};

/* Peers are entered when traffic with them begins: elsewhere has a bit for the address
 * of each pod that could be one, by a hash, and wanted takes those that were sent to. */
#define ELSEWHERE_SHIFT 15
#define WANTED_BITS 8

#define MAP(name, t, k, v, n, f)                                                                     \
	struct {                                                                                     \
		__uint(type, t);                                                                     \
		__uint(max_entries, n);                                                              \
		__uint(map_flags, f);                                                                \
		__type(key, k);                                                                      \
		__type(value, v);                                                                    \
	} name SEC(".maps")

/* Sizes are the loader's; these are for 64 peers. */
#define PEERS 64
MAP(peers4, BPF_MAP_TYPE_HASH, __u32, struct peer, PEERS, BPF_F_NO_PREALLOC);
MAP(peers6, BPF_MAP_TYPE_HASH, struct addr, struct peer, PEERS, BPF_F_NO_PREALLOC);
MAP(rev4, BPF_MAP_TYPE_HASH, __u32, struct rev, PEERS * PATHS, BPF_F_NO_PREALLOC);
MAP(rev6, BPF_MAP_TYPE_HASH, struct addr, struct rev, PEERS * PATHS, BPF_F_NO_PREALLOC);
/* The rows of peers4 and rev4 again, by number: an array is read without a call. */
MAP(near, BPF_MAP_TYPE_ARRAY, __u32, struct peer, PEERS, 0);
MAP(near_rev, BPF_MAP_TYPE_ARRAY, __u32, struct rev, PEERS * PATHS, 0);
MAP(own, BPF_MAP_TYPE_ARRAY, __u32, struct row, PEERS, BPF_F_MMAPABLE);
MAP(follow, BPF_MAP_TYPE_ARRAY, __u32, struct row, PEERS, BPF_F_MMAPABLE);
MAP(order, BPF_MAP_TYPE_ARRAY, __u32, struct order, PEERS, BPF_F_MMAPABLE); /* the loader's */
MAP(sent, BPF_MAP_TYPE_ARRAY, __u32, struct tally, PEERS * PATHS, BPF_F_MMAPABLE);
MAP(received, BPF_MAP_TYPE_ARRAY, __u32, struct tally, PEERS * PATHS, BPF_F_MMAPABLE);
/* By a hash of the address (slot), the number of a peer with such a stable address, or
 * of a row of near_rev with such a one on a path, and one; 0 is none. */
MAP(slots, BPF_MAP_TYPE_ARRAY, __u32, __u32, PEERS * 8, BPF_F_MMAPABLE);
MAP(slots_rev, BPF_MAP_TYPE_ARRAY, __u32, __u32, PEERS * 16, BPF_F_MMAPABLE);
/* How many flows a peer has in the table, so that none takes all the room. */
MAP(held, BPF_MAP_TYPE_ARRAY, __u32, __u32, PEERS, BPF_F_MMAPABLE);

MAP(elsewhere, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1 << (32 - ELSEWHERE_SHIFT - 6), BPF_F_MMAPABLE);
MAP(wanted, BPF_MAP_TYPE_ARRAY, __u32, struct addr, 1 << WANTED_BITS, BPF_F_MMAPABLE);
MAP(heartbeat, BPF_MAP_TYPE_ARRAY, __u32, struct beat, 1, BPF_F_MMAPABLE);
MAP(events, BPF_MAP_TYPE_ARRAY, __u32, __u64, 16, BPF_F_MMAPABLE);
MAP(recent, BPF_MAP_TYPE_ARRAY, __u32, __u64, 2048, 0);

/* The flows, in a table that the loader replaces by a larger one as it fills: new ones
 * go into the first, and what is not there yet is found in the second. Entries end
 * with their flow, and no other drives them out. */
struct table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, sizeof(struct flow)); /* clang 14 gives no types of inner maps */
	__uint(value_size, sizeof(struct part));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct table);
} flows SEC(".maps");

#endif
