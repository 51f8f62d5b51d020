/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs and their loader share. */
#ifndef STEER_H
#define STEER_H

/* enum tcx_action_base, of Linux 6.6; older headers lack it. */
#define TCX_NEXT -1
#define TCX_DROP 2

#define PATHS 8    /* per pair of pods; path 0 is the default network */
#define BUCKETS 64 /* per pair of pods */

/* A choice, as the map follow holds it. */
#define CHOICE(path, epoch) ((path) | (((epoch) & 3) << 8))
#define CHOICE_PATH(c) ((c) & 0xff)
#define CHOICE_EPOCH(c) (((c) >> 8) & 3)
#define CHOICE_TELL (1u << 16)  /* mark packets on the default path too */
#define CHOICE_VALID (1u << 17) /* follow: the owner has told */
#define CHOICE_DIVERTED (1u << 18) /* follow: moved here, until the owner tells anew */
/* follow's upper half is when the owner last said so, in units of 2^20 ns. What
 * contradicts it after this long is no packet late from an older epoch, but an
 * owner that has moved on by three epochs or more while nothing came. */
#define CHOICE_SHIFT 20
#define CHOICE_LASTS 1000

/* own holds a peer's choices in 64 bytes, so that a switch of all of them is one
 * cache line for the processors to hand over. */
struct row {
	__u8 choice[BUCKETS]; /* path | epoch << 3 | tell << 5 */
};
#define ROW_CHOICE(c) ((__u32)((c) & 7) | (__u32)((c) >> 3 & 3) << 8 | ((c) & 32 ? CHOICE_TELL : 0))

/* The mark: a code point of DSCP pool 2, xxxx11, which RFC 2474 section 6 leaves
 * to local use. It tells steered packets from an application's own traffic on a
 * path, and carries the choice's epoch, modulo 4, and whether its sender owns it. */
#define MARK_BASE 0x03
#define MARK(epoch, owner) (MARK_BASE | (((epoch) & 3) << 4) | ((owner) ? 8 : 0))
#define IS_MARK(dscp) (((dscp) & 0x07) == MARK_BASE)
#define MARK_OWNER(dscp) ((dscp) & 8)
#define MARK_EPOCH(dscp) (((dscp) >> 4) & 3)

/* Says to eth0's ingress that path_in has translated the packet. */
#define FROM_PATH 0x50570001

/* A flow's part at this end. The NEW ones are on the default path: an owner's
 * until the peer has answered there, a follower's until the owner has moved. */
enum { FLOW_NONE, FLOW_OWNER_NEW, FLOW_OWNER, FLOW_FOLLOW_NEW, FLOW_FOLLOW, FLOW_NATIVE };

enum { EV_ERROR, EV_TOO_BIG, EV_NO_PATH, EV_LEASE, EV_STRANGER, EV_ICMP, EVENTS };

struct addr {
	__u32 w[4]; /* IPv4: the first word */
};

#define PATH_MAC 1   /* mac holds destination and source */
#define PATH_ENCAP 2 /* whole packets in UDP, for networks that translation cannot cross */

struct path {
	struct addr local, remote;
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
};

struct flow {
	__u32 peer, generation; /* its number may have been another's */
	__u16 local, remote; /* ports in host order, or an ICMP identifier and 0 */
	__u8 proto;
	__u8 pad[3];
};

/* part is what this end has in a flow. */
struct part {
	__u32 role;
	__u32 tick; /* jiffies when its owner's mark was last taken to heart */
};

/* A word of the map recent is what flows has told of a TCP flow in this tick, which
 * spares its look-up for further packets: the ports, the peer's number, the tick, and
 * what is below. Whoever changes a part takes the word away; who has read the part just
 * before may put the old one back, and is believed until the tick ends. */
#define RECENT_ROLE 7
#define RECENT_TOLD 8 /* its owner's mark was taken to heart in this tick */
#define RECENT_SHIFT 19

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

struct beat {
	__u64 at;   /* CLOCK_MONOTONIC_COARSE ns: the agent's last sign of life */
	__u64 tick; /* jiffies in which the data plane has found the lease to run */
};

/* filter has, by a hash of FILTER_SHIFT bits less than 32, the number of a peer with
 * such an address, stable or on a path, and one; 0 is none. filter.go knows the hash. */
#define FILTER_SHIFT 19
#define SLOTS (1 << (32 - FILTER_SHIFT))
struct filter {
	__u32 peer[SLOTS], rev[SLOTS];
};

#define MAP(name, t, k, v, n, f)                                                                     \
	struct {                                                                                     \
		__uint(type, t);                                                                     \
		__uint(max_entries, n);                                                              \
		__uint(map_flags, f);                                                                \
		__type(key, k);                                                                      \
		__type(value, v);                                                                    \
	} name SEC(".maps")

/* Sizes are the loader's; these are for 1,024 peers. */
MAP(peers4, BPF_MAP_TYPE_HASH, __u32, struct peer, 1024, BPF_F_NO_PREALLOC);
MAP(peers6, BPF_MAP_TYPE_HASH, struct addr, struct peer, 1024, BPF_F_NO_PREALLOC);
MAP(rev4, BPF_MAP_TYPE_HASH, __u32, struct rev, 8192, BPF_F_NO_PREALLOC);
MAP(rev6, BPF_MAP_TYPE_HASH, struct addr, struct rev, 8192, BPF_F_NO_PREALLOC);
/* The rows of peers4 and rev4 again, by number: an array is read without a call. */
MAP(near, BPF_MAP_TYPE_ARRAY, __u32, struct peer, 1024, 0);
MAP(near_rev, BPF_MAP_TYPE_ARRAY, __u32, struct rev, 1024 * PATHS, 0);
MAP(own, BPF_MAP_TYPE_ARRAY, __u32, struct row, 1024, BPF_F_MMAPABLE);
MAP(follow, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1024 * BUCKETS, BPF_F_MMAPABLE);
MAP(sent, BPF_MAP_TYPE_ARRAY, __u32, struct tally, 1024 * PATHS, BPF_F_MMAPABLE);
MAP(received, BPF_MAP_TYPE_ARRAY, __u32, struct tally, 1024 * PATHS, BPF_F_MMAPABLE);
MAP(filter, BPF_MAP_TYPE_ARRAY, __u32, struct filter, 1, BPF_F_MMAPABLE);
MAP(heartbeat, BPF_MAP_TYPE_ARRAY, __u32, struct beat, 1, BPF_F_MMAPABLE);
MAP(events, BPF_MAP_TYPE_ARRAY, __u32, __u64, 16, BPF_F_MMAPABLE);
MAP(recent, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1 << (32 - RECENT_SHIFT), 0);
MAP(flows, BPF_MAP_TYPE_LRU_HASH, struct flow, struct part, 65536, 0);

#endif
