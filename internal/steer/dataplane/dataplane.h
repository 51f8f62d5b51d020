/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs and their loader share: bpf2go gives the loader the structs and enums
 * (-type in dataplane.go). Names of maps and programs begin with pw_, as bpftool lists
 * those of the whole machine; the kernel keeps 15 characters (BPF_OBJ_NAME_LEN). */
#ifndef DATAPLANE_H
#define DATAPLANE_H

/* enum tcx_action_base, of Linux 6.6; older headers lack it. */
#define TCX_NEXT -1
#define TCX_DROP 2

enum limit {
	PATHS = 8, /* per pair of pods; path 0 is the default network */
	KEYS = 4,  /* accepted at a time: keys turn over, and may again before all have the last one */
	CANDIDATE_SHIFT = 15,
	MISS_BITS = 8,
	SEEN_SHIFT = 28, /* the unit of flow_state.seen in ns, about a quarter of a second */
	/* Of flow_state.unanswered: the count, and what changes each time that a packet comes after some have gone. */
	UNANSWERED_MOST = 0x7f,
	UNANSWERED_TURN = 0x80,
};

/* A peer's choices, a bucket each, in 64 bytes: a switch of all of them is one cache line
 * for the processors to hand over. They are two rows, so that flows of one pair can go
 * different ways (flow_state.row). The path is in the lowest bits; what is above them is
 * the loader's, but for CHOICE_OPENS and CHOICE_TAKES. */
struct choices {
	__u8 choice[BUCKETS];
};
enum choice {
	CHOICE_PATH = PATHS - 1,
	CHOICE_NOTIFIED = 8,
	CHOICE_DIVERTED = 16,
	CHOICE_OPENS = 32, /* in the first of pw_owner: flows with this peer may begin on a path */
	CHOICE_TAKES = 64, /* there too: what the peer begins or answers on a path is taken */
};

/* The mark has two parts, as docs/explanation/security.md says. The visible one is a
 * code point of DSCP pool 2, xxx111, which RFC 2474 section 6 leaves to local use; xxx
 * says which DSCP the application gave (CLASSES). It tells steered packets from an
 * application's own traffic on a path. (Layout 1 had xxx011: the two take no notice of
 * each other's packets.)
 *
 * The other part is a keyed tag, where the packet has room: in IPv4 the identification,
 * which means nothing in a datagram that is never fragmented (RFC 6864), in IPv6 the
 * flow label (RFC 6437), and in the encapsulated mode the shim. */
enum dscp { MARK = 0x07 };
#define IS_MARK(dscp) (((dscp) & 0x07) == MARK)
#define FORMER_MARK(dscp) (((dscp) & 0x07) == 0x03) /* layout 1's */
#define CLASSES 0x2e22120a04020100ull /* DSCP 0, 1 (LE), 2, 4, 10 (AF11), 18 (AF21), 34 (AF41), 46 (EF) */
#define CLASS_DSCP(mark) ((__u8)(CLASSES >> ((mark) >> 3 << 3)))

/* Further DSCPs share the mark of DSCP 2, and are added to the tag, above what segments
 * count up: a bit for each, where 0 is DSCP 2 itself. They are those that standards may
 * name (RFC 2474 section 6, pool 1), but for CS6 and CS7, which are the network's own. A
 * data plane that does not know of them takes such packets for forged, so they are sent
 * only where PATH_DSCP says that the other end does. */
#define OTHERS (2 << 3 | MARK)
#define OTHER_DSCPS 0x5454155155515141ull
#define OTHERS_SHIFT 10

/* What a tag says. DATA is for paths, the others for the default network: a flow's
 * opener says OPEN until the other end has answered there, which says ANSWER until it
 * learns that its answer came, by SETTLED or by DATA. Who gets DATA of a flow that it does
 * not know says FORGOTTEN, in a packet of its own, and the flow is opened again. */
enum tag { TAG_DATA = 1, TAG_OPEN, TAG_ANSWER, TAG_SETTLED, TAG_FORGOTTEN };

/* Segments of one packet count the identification up from the tag. */
#define SEGMENTS 128

/* Says to eth0's ingress that pw_path_ingress has translated the packet. */
#define FROM_PATH 0x50570001

/* The role of this end in a flow: what a path may deliver is what both ends have seen to
 * pass the default network in both directions.
 *
 *   OWNER_NEW   opened here; on the default network until the peer has answered there
 *   OWNER       the peer has answered: goes where the map pw_owner says
 *   FOLLOW_NEW  opened by the peer; nothing was answered yet
 *   ANSWERED    answered over the default network; the peer may have left it, and may say
 *               nothing ever more
 *   FOLLOW      the peer has received the answer: goes where the map pw_follower says
 *
 * While the default network is known to fail, a path may stand in for it where the networks'
 * policy is the same (elsewhere). */
enum role { FLOW_NONE, FLOW_OWNER_NEW, FLOW_OWNER, FLOW_FOLLOW_NEW, FLOW_ANSWERED, FLOW_FOLLOW };
#define ADMITTED(role) ((role) == FLOW_OWNER || (role) >= FLOW_ANSWERED)

/* How a flow has begun, in flow_state.claimed: this end has said once that it opens it; agents have
 * admitted a flow of datagrams, and nothing has come back; on a path, by which the peer's first
 * packet has come, or its answer to ours. */
enum claimed { CLAIMED = 1, ONE_WAY, BEGUN_ELSEWHERE };

/* Which end of a TCP connection a socket is. */
enum side { SIDE_UNKNOWN, SIDE_OPENER, SIDE_SERVER };

/* How a TCP connection ends, in flow_state.closed. */
enum closed {
	CLOSED_OUT = 1,
	CLOSED_IN = 2,
	CLOSED_RESET = 4,
	/* Of datagrams, which are never closed: the flow goes on for some time (refresh). Who keeps it goes by the first,
	 * and who counts on that by the second, which both ends' clocks agree about: it takes a quarter of a second more. */
	GOES_ON = 8,
	SURELY_GOES_ON = 16,
};

enum event { EV_ERROR, EV_TOO_BIG, EV_NO_PATH, EV_LEASE, EV_STRANGER, EV_ICMP, EV_FORGED, EV_UNADMITTED, EV_FULL, EV_DSCP, EV_ELSEWHERE };

/* At the end of the map pw_events is what is left of what strangers could cause: a time in
 * units of 2^32 ns, about four seconds, and how much of the limit was used since. */
enum { LIMIT_NOTES = 14, LIMIT_GUESSES };

struct addr {
	__u32 w[4]; /* IPv4: the first word */
};

enum path_flag {
	PATH_MAC = 1,   /* mac holds destination and source */
	PATH_ENCAP = 2, /* whole packets in UDP, for networks that translation cannot cross */
	PATH_DSCP = 4,  /* the other end knows of OTHERS; path 0: on the default network */
};

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

struct flow_state {
	__u8 role, closed;
	__u16 announcements; /* of the role, up to one more than are repeated at once */
	__u32 seen;          /* in units of 2^SEEN_SHIFT ns: the latest packet, either way */
	__u32 announced;     /* the same: the latest announcement */
	__u8 dscp;           /* of OTHERS: of the latest packet from a path whose tag was exact */
	__u8 row;            /* of its choices, by what Go says (pw_assign_row), or by what comes (learn_row) */
	__u8 claimed;        /* enum claimed, or 0 */
	__u8 unanswered;     /* OWNER, FOLLOW: datagrams sent since one came, UNANSWERED_MOST for more, and the turn */
};

/* What pw_assign_row is to do. */
struct row_order {
	struct flow flow;
	__u32 row;
};

/* A word of the map pw_flow_cache is what pw_flows has about a TCP flow in this tick, which
 * spares its look-up for further packets: the ports, the peer's number, the tick, the
 * row and the role. A change of the flow's state clears the word. A program that has read the
 * state just before may write the old word again, which then counts until the tick ends. */
#define CACHE_ROLE 7
#define CACHE_ROW 8

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

/* A SYN to a peer, from the IP header on, before it got a tag: of IPv6 with all options of TCP. */
#define SYN_MOST 100
struct syn {
	struct flow flow;
	__u32 length;
	__u8 packet[SYN_MOST];
};

/* The latest SYNs of one hash of ports, and when each was sent: CLOCK_MONOTONIC ns; 0 while it is written. */
#define SYNS 6
struct syn_set {
	__u64 at[SYNS];
	struct syn syn[SYNS];
};

/* The numbers of the latest notices about a peer's choices: this end's, and the peer's. */
struct notice_numbers {
	__u64 sent, received;
};

struct lease {
	__u64 renewed; /* CLOCK_MONOTONIC_COARSE ns: the agent's last sign of life */
	__u64 tick;    /* jiffies in which the data plane has found the lease to run */
	__u32 lenient; /* a data plane of another layout is there: it may know what ours does not */
	__u32 pad;
};

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
MAP(pw_peers4, BPF_MAP_TYPE_HASH, __u32, struct peer, PEERS, BPF_F_NO_PREALLOC);
MAP(pw_peers6, BPF_MAP_TYPE_HASH, struct addr, struct peer, PEERS, BPF_F_NO_PREALLOC);
MAP(pw_rev4, BPF_MAP_TYPE_HASH, __u32, struct rev, PEERS * PATHS, BPF_F_NO_PREALLOC);
MAP(pw_rev6, BPF_MAP_TYPE_HASH, struct addr, struct rev, PEERS * PATHS, BPF_F_NO_PREALLOC);
/* The rows of pw_peers4 and pw_rev4 again: an array is read without a call. Each row has two
 * places, of which the loader writes the one that no hint names. */
MAP(pw_rows, BPF_MAP_TYPE_ARRAY, __u32, struct peer, PEERS * 2, 0);
MAP(pw_rev_rows, BPF_MAP_TYPE_ARRAY, __u32, struct rev, PEERS * PATHS * 2, 0);
MAP(pw_owner, BPF_MAP_TYPE_ARRAY, __u32, struct choices, PEERS, BPF_F_MMAPABLE);
MAP(pw_follower, BPF_MAP_TYPE_ARRAY, __u32, struct choices, PEERS, BPF_F_MMAPABLE);
MAP(pw_notices, BPF_MAP_TYPE_ARRAY, __u32, struct notice_numbers, PEERS, BPF_F_MMAPABLE); /* the loader's */
MAP(pw_sent, BPF_MAP_TYPE_ARRAY, __u32, struct tally, PEERS * PATHS, BPF_F_MMAPABLE);
MAP(pw_received, BPF_MAP_TYPE_ARRAY, __u32, struct tally, PEERS * PATHS, BPF_F_MMAPABLE);
/* By a hash of an address (slot), a place in pw_rows of a peer with such a stable address, or
 * in pw_rev_rows of one with such an address on a path, and one; 0 is no such peer. */
MAP(pw_hints, BPF_MAP_TYPE_ARRAY, __u32, __u32, PEERS * 8, BPF_F_MMAPABLE);
MAP(pw_rev_hints, BPF_MAP_TYPE_ARRAY, __u32, __u32, PEERS * 16, BPF_F_MMAPABLE);
/* How many flows a peer has in the table, so that none takes all the room. */
MAP(pw_flow_count, BPF_MAP_TYPE_ARRAY, __u32, __u32, PEERS, BPF_F_MMAPABLE);

/* Peers are entered when traffic with them begins: pw_candidates has a bit for the address
 * of each pod that could be one, by a hash, and pw_misses takes those that were sent to. */
MAP(pw_candidates, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1 << (32 - CANDIDATE_SHIFT - 6), BPF_F_MMAPABLE);
MAP(pw_misses, BPF_MAP_TYPE_ARRAY, __u32, struct addr, 1 << MISS_BITS, BPF_F_MMAPABLE);
/* The latest SYNs, by a hash of their ports, for the agent to send those again that were lost:
 * as many as a busy client sends while a failure is found, of those that it sends meanwhile
 * elsewhere too. */
#define SYN_BITS 6
MAP(pw_syns, BPF_MAP_TYPE_ARRAY, __u32, struct syn_set, 1 << SYN_BITS, BPF_F_MMAPABLE);
MAP(pw_heartbeat, BPF_MAP_TYPE_ARRAY, __u32, struct lease, 1, BPF_F_MMAPABLE);
MAP(pw_events, BPF_MAP_TYPE_ARRAY, __u32, __u64, 16, BPF_F_MMAPABLE);
MAP(pw_flow_cache, BPF_MAP_TYPE_ARRAY, __u32, __u64, 2048, 0);

/* The flows, in a table that the loader replaces by a larger one as it fills: new ones
 * go into the first, and what is not there yet is found in the second. Entries end
 * with their flow, and no other drives them out. */
struct table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, sizeof(struct flow)); /* clang 14 gives no types of inner maps */
	__uint(value_size, sizeof(struct flow_state));
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct table);
} pw_flows SEC(".maps");

/* No program reads it. BTF, from which bpf2go makes Go types, has no enum that nothing uses. */
const volatile struct {
	enum limit limit;
	enum choice choice;
	enum dscp dscp;
	enum tag tag;
	enum role role;
	enum closed closed;
	enum event event;
	enum path_flag path_flag;
	enum claimed claimed;
} enums = {};

#endif
