//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What the kernel sees of the TCP flows of watched namespaces towards watched
 * peers: round trips, retransmissions and timeouts, per bucket of the data plane.
 *
 * pw_tcp_observe runs for every TCP socket of the cgroup and asks for callbacks only
 * on sockets that are watched when they are established, so an unwatched one
 * costs a few short runs while it connects and nothing afterwards. A watched
 * one costs a run per retransmission, per timeout and per change of state, and
 * none per packet: what its connection counts is taken by pw_tcp_survey, which walks the
 * watched sockets when they are read. The callback for each round trip is not asked
 * for: a request-response flow has one with each packet, at both ends, and of many
 * thousands a second a reader wants one. pw_tcp_adopt watches connections that were there
 * before.
 *
 * Needs Linux 5.16: netns cookies in sock_ops (5.15), bpf_setsockopt in a TCP
 * iterator (5.16), and BTF of the kernel; pw_tcp_adopt needs TCP_BPF_SOCK_OPS_CB_FLAGS (6.12).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "../flow/bucket.h"

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define SOL_TCP 6
#ifndef TCP_BPF_SOCK_OPS_CB_FLAGS
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#endif
#define TCP_CA_RECOVERY 3 /* enum tcp_ca_state: open, disorder, CWR, recovery, loss */

#define CALLBACKS (BPF_SOCK_OPS_RETRANS_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG)

/* A retransmission wakes the agent at most once a millisecond and flow, and so does a
 * tail loss probe: it says nothing of its connection that it does not say of the path. */
#define EVENT_GAP_NS 1000000

#define MAX_FLOWS 16384
#define MAX_WATCHED 1024
#define MAX_PEERS 16384
/* Room for the timeouts of 37,000 connections at once: each is told, as each is to be
 * woken when the path changes. */
#define MAX_EVENT_BYTES (2 * 1024 * 1024)

/* The kernel's own structures, as far as they are read; offsets are relocated. */
struct tcp_rack {
	__u64 mstamp; /* when the segment was sent that was acknowledged last */
	__u32 rtt_us; /* and how long that took */
} __attribute__((preserve_access_index));

struct tcp_sock {
	struct tcp_rack rack;
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 segs_out;
	__u32 dsack_dups;
	__u32 reord_seen;
	__u32 srtt_us; /* in eighths */
	__u32 snd_cwnd;
	__u32 mss_cache;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	__u32 lost_out;
	__u32 total_retrans;
	__u8 bpf_sock_ops_cb_flags;
	__u8 rate_app_limited : 1;
} __attribute__((preserve_access_index));

struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
} __attribute__((preserve_access_index));

struct net {
	__u64 net_cookie;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	__u32 word[4];
};

struct sock_common {
	__u32 skc_daddr;
	__u16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
} __attribute__((preserve_access_index));

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct sock;
struct bpf_map;

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
} __attribute__((preserve_access_index));

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} __attribute__((preserve_access_index));

/* The keys and values that Go reads too. */
struct flow_key {
	__u64 netns;	 /* cookie */
	__u8 remote[16]; /* IPv4 as ::ffff:a.b.c.d */
	__u32 bucket;	 /* with THEIRS */
	__u32 zero;
};

struct flow_value {
	__u64 born; /* CLOCK_MONOTONIC ns; tells an entry from its evicted predecessor */
	__u64 last_active;
	__u64 last_timeout;
	__u64 last_event;
	__u64 last_probe;
	__u64 rtt_sum; /* us */
	__u64 retransmits;
	__u64 tail_probes;
	__u64 timeouts;
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 segments_out;
	__u64 spurious;
	__u64 reordered;
	__u32 window; /* the reading that rtt_min and rtt_max belong to */
	__u32 rtt_min;
	__u32 rtt_max;
	__u32 srtt;
	__u32 cwnd;
	__u32 mss;
	__u32 rate_delivered;
	__u32 rate_interval;
	__u32 app_limited;
	__u32 lost;
	__u32 hist[32]; /* of RTT in us, by log2 */
};

/* What of a socket has been counted already. */
struct socket_value {
	struct flow_key key;
	__u64 bytes_sent;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 trip; /* when the segment was sent whose round trip was counted last */
	__u32 segments_out;
	__u32 dsacks;
	__u32 reorderings;
	__u16 local_port;
	__u16 remote_port;
};

/* Set in the bucket of a connection that the remote end has opened: it goes by that end's choices. */
enum { THEIRS = BUCKETS };

/* A connection of which Go has said which bucket it goes by. */
struct place_key {
	__u64 netns;
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 zero;
};

struct settings {
	__u32 window;
	__u32 only_peers;
};

enum kind {
	KIND_RETRANSMIT = 1,
	KIND_TAIL_PROBE = 2,
	KIND_TIMEOUT = 3,
	KIND_DELIVERED = 4,
};

struct event {
	__u64 at;
	__u64 netns;
	__u8 remote[16];
	__u64 bytes_acked;
	__u32 count;
	__u32 snd_una;
	__u32 snd_nxt;
	__u16 local_port;
	__u16 remote_port;
	__u8 bucket;
	__u8 kind;
	__u8 zero[6];
};

enum fault {
	FAULT_EVENT,	/* ring full */
	FAULT_SOCKET,	/* no memory for a socket's state */
	FAULT_FLOW,	/* no room for a flow */
	FAULT_ADOPT,	/* kernel refused to watch an old connection */
	FAULTS,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_WATCHED);
	__type(key, __u64);
	__type(value, __u32);
} pw_tcp_watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PEERS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u8[16]);
	__type(value, __u32);
} pw_tcp_peers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} pw_tcp_settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow_value);
} pw_tcp_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct place_key);
	__type(value, __u32);
} pw_tcp_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct socket_value);
} pw_tcp_sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, MAX_EVENT_BYTES);
} pw_tcp_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FAULTS);
	__type(key, __u32);
	__type(value, __u64);
} pw_tcp_faults SEC(".maps");

/* count_fault and describe are functions in the object, so that BTF has their types for Go. */
static __noinline void count_fault(enum fault which)
{
	__u32 i = which;
	__u64 *n = bpf_map_lookup_elem(&pw_tcp_faults, &i);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline __u32 log2_of(__u32 v)
{
	__u32 r = (v > 0xffff) << 4, s;

	v >>= r;
	s = (v > 0xff) << 3;
	v >>= s;
	r |= s;
	s = (v > 0xf) << 2;
	v >>= s;
	r |= s;
	s = (v > 0x3) << 1;
	v >>= s;
	r |= s;
	return r | (v >> 1);
}

static __always_inline void set_mapped(struct flow_key *key, __u32 addr)
{
	__u32 *word = (__u32 *)key->remote;

	word[2] = bpf_htonl(0xffff);
	word[3] = addr;
}

static __always_inline int is_watched(const struct flow_key *key)
{
	__u32 zero = 0;
	struct settings *s;

	if (!bpf_map_lookup_elem(&pw_tcp_watched, &key->netns))
		return 0;
	s = bpf_map_lookup_elem(&pw_tcp_settings, &zero);
	if (!s || !s->only_peers)
		return 1;
	return bpf_map_lookup_elem(&pw_tcp_peers, key->remote) != NULL;
}

/* set_baseline takes what the socket has counted so far as counted. */
static __always_inline void set_baseline(struct socket_value *st, struct tcp_sock *tp)
{
	if (!tp)
		return;
	st->bytes_sent = tp->bytes_sent;
	st->bytes_acked = tp->bytes_acked;
	st->bytes_received = tp->bytes_received;
	st->trip = tp->rack.mstamp;
	st->segments_out = tp->segs_out;
	st->dsacks = tp->dsack_dups;
	st->reorderings = tp->reord_seen;
}

static __always_inline void established(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	struct flow_key key = {};
	struct socket_value *st;
	__u16 lport, rport;

	key.netns = bpf_get_netns_cookie(ctx);
	if (!bpf_map_lookup_elem(&pw_tcp_watched, &key.netns))
		return;
	if (ctx->family == AF_INET) {
		set_mapped(&key, ctx->remote_ip4);
	} else if (ctx->family == AF_INET6) {
		__u32 *word = (__u32 *)key.remote;

		word[0] = ctx->remote_ip6[0];
		word[1] = ctx->remote_ip6[1];
		word[2] = ctx->remote_ip6[2];
		word[3] = ctx->remote_ip6[3];
	} else {
		return;
	}
	if (!is_watched(&key))
		return;
	lport = ctx->local_port;
	rport = bpf_ntohl(ctx->remote_port);
	key.bucket = flow_bucket(lport, rport, IPPROTO_TCP);
	st = bpf_sk_storage_get(&pw_tcp_sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!st) {
		count_fault(FAULT_SOCKET);
		return;
	}
	/* The handshake is not part of the flow's evidence: it uses path 0. */
	set_baseline(st, bpf_skc_to_tcp_sock(sk));
	st->local_port = lport;
	st->remote_port = rport;
	st->key = key; /* last: pw_tcp_survey looks for it */
	/* Flags are shared by all sock_ops programs: add, never take away. */
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | CALLBACKS);
}

static __always_inline struct flow_value *flow_of(const struct flow_key *key, __u64 now)
{
	struct flow_value *f = bpf_map_lookup_elem(&pw_tcp_flows, key);

	if (f)
		return f;
	struct flow_value fresh = { .born = now };

	bpf_map_update_elem(&pw_tcp_flows, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&pw_tcp_flows, key);
}

/* find_place has what is counted of the socket from now on belong to the bucket that Go has said. Until then that is
 * one of the first row. */
static __always_inline void find_place(struct socket_value *st)
{
	struct place_key key = { .netns = st->key.netns, .local_port = st->local_port, .remote_port = st->remote_port };
	__u32 *place;

	__builtin_memcpy(key.remote, st->key.remote, sizeof(key.remote));
	place = bpf_map_lookup_elem(&pw_tcp_places, &key);
	st->key.bucket = place ? *place : flow_bucket(st->local_port, st->remote_port, IPPROTO_TCP);
}

/* advance moves what is counted of a socket on to now, and returns by how much. The
 * pw_tcp_survey and a callback may come together, on two CPUs: each step is counted once, and
 * who was too late by a step tries once more. */
static __always_inline __u64 advance64(__u64 *counted, __u64 now)
{
	__u64 was = *(volatile __u64 *)counted;

	for (int i = 0; i < 2 && (__s64)(now - was) > 0; i++) {
		__u64 seen = __sync_val_compare_and_swap(counted, was, now);

		if (seen == was)
			return now - was;
		was = seen;
	}
	return 0;
}

static __always_inline __u32 advance(__u32 *counted, __u32 now)
{
	__u32 was = *(volatile __u32 *)counted;

	for (int i = 0; i < 2 && (__s32)(now - was) > 0; i++) {
		__u32 seen = __sync_val_compare_and_swap(counted, was, now);

		if (seen == was)
			return now - was;
		was = seen;
	}
	return 0;
}

/* on_trip counts the socket's latest round trip. */
static __always_inline void on_trip(struct tcp_sock *tp, struct flow_value *f)
{
	__u32 rtt = tp->rack.rtt_us, zero = 0;
	struct settings *s = bpf_map_lookup_elem(&pw_tcp_settings, &zero);

	f->srtt = tp->srtt_us >> 3;
	__sync_fetch_and_add(&f->rtt_sum, rtt);
	__u32 slot = log2_of(rtt);
	asm volatile("%0 &= 31" : "+r"(slot)); /* of what an OR leaves Linux 6.8's verifier knows nothing */
	__sync_fetch_and_add(&f->hist[slot], 1);
	/* Two CPUs may race for the least and the greatest; the histogram is exact. */
	if (s && f->window != s->window) {
		f->window = s->window;
		f->rtt_min = rtt;
		f->rtt_max = rtt;
	} else if (rtt < f->rtt_min) {
		f->rtt_min = rtt;
	} else if (rtt > f->rtt_max) {
		f->rtt_max = rtt;
	}
}

/* add_counts adds what the socket has done since it was last looked at; of its round trips,
 * the latest. */
static __always_inline void add_counts(struct tcp_sock *tp, struct socket_value *st, struct flow_value *f, __u64 now)
{
	__u64 sent = advance64(&st->bytes_sent, tp->bytes_sent);
	__u64 acked = advance64(&st->bytes_acked, tp->bytes_acked);
	__u64 received = advance64(&st->bytes_received, tp->bytes_received);
	__u32 out = advance(&st->segments_out, tp->segs_out);
	__u32 dsacks = advance(&st->dsacks, tp->dsack_dups);
	__u32 reorderings = advance(&st->reorderings, tp->reord_seen);

	if (sent)
		__sync_fetch_and_add(&f->bytes_sent, sent);
	if (acked)
		__sync_fetch_and_add(&f->bytes_acked, acked);
	if (received)
		__sync_fetch_and_add(&f->bytes_received, received);
	if (out)
		__sync_fetch_and_add(&f->segments_out, out);
	if (dsacks)
		__sync_fetch_and_add(&f->spurious, dsacks);
	if (reorderings)
		__sync_fetch_and_add(&f->reordered, reorderings);
	if (advance64(&st->trip, tp->rack.mstamp))
		on_trip(tp, f);
	f->app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	f->cwnd = tp->snd_cwnd;
	f->mss = tp->mss_cache;
	f->rate_delivered = tp->rate_delivered;
	f->rate_interval = tp->rate_interval_us;
	f->lost = tp->lost_out;
	f->last_active = now;
}

static __noinline void describe(struct event *e, const struct socket_value *st, enum kind kind)
{
	e->netns = st->key.netns;
	__builtin_memcpy(e->remote, st->key.remote, sizeof(e->remote));
	e->local_port = st->local_port;
	e->remote_port = st->remote_port;
	e->bytes_acked = st->bytes_acked;
	e->bucket = st->key.bucket;
	e->kind = kind;
	__builtin_memset(e->zero, 0, sizeof(e->zero));
}

static __always_inline void emit_event(struct bpf_sock_ops *ctx, const struct socket_value *st,
				       __u64 now, enum kind kind, __u32 count)
{
	struct event *e = bpf_ringbuf_reserve(&pw_tcp_events, sizeof(*e), 0);

	if (!e) {
		count_fault(FAULT_EVENT);
		return;
	}
	e->at = now;
	e->count = count;
	e->snd_una = ctx->snd_una;
	e->snd_nxt = ctx->snd_nxt;
	describe(e, st, kind);
	bpf_ringbuf_submit(e, 0);
}

/*
 * args[1] is how many segments. One retransmitted outside recovery and loss is
 * a tail loss probe (RFC 8985 section 7): the first sign of a silent path.
 */
static __always_inline void on_retransmit(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					  struct socket_value *st, struct flow_value *f, __u64 now)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	__u32 segments = ctx->args[1];
	enum kind kind = KIND_RETRANSMIT;

	__sync_fetch_and_add(&f->retransmits, segments);
	if (BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) < TCP_CA_RECOVERY) {
		kind = KIND_TAIL_PROBE;
		__sync_fetch_and_add(&f->tail_probes, 1);
		if (now - f->last_probe < EVENT_GAP_NS)
			return;
		f->last_probe = now;
	} else if (now - f->last_event < EVENT_GAP_NS) {
		return;
	}
	f->last_event = now;
	emit_event(ctx, st, now, kind, segments);
}

/* args[0] is how many timeouts there were in a row before this one. */
static __always_inline void on_timeout(struct bpf_sock_ops *ctx, struct socket_value *st,
				       struct flow_value *f, __u64 now)
{
	__sync_fetch_and_add(&f->timeouts, 1);
	f->last_timeout = now;
	emit_event(ctx, st, now, KIND_TIMEOUT, ctx->args[0] + 1);
}

/*
 * args are the state before and the new one. The FIN of a connection that goes to FIN_WAIT2, or
 * ends with nothing on its way, is acknowledged, and all before it. Of most nobody asks: only of
 * those that had to send something again.
 */
static __always_inline void on_state(struct bpf_sock_ops *ctx, struct tcp_sock *tp, struct socket_value *st, __u64 now)
{
	__u32 was = ctx->args[0], is = ctx->args[1];

	if (!tp->total_retrans || ctx->snd_una != ctx->snd_nxt)
		return;
	if (is == BPF_TCP_FIN_WAIT2 || (is == BPF_TCP_CLOSE && was != BPF_TCP_FIN_WAIT2))
		emit_event(ctx, st, now, KIND_DELIVERED, 0);
}

static __always_inline void on_callback(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	struct socket_value *st = bpf_sk_storage_get(&pw_tcp_sockets, sk, NULL, 0);
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct flow_value *f;
	__u64 now;

	/* Without, the callback was asked for by another program. */
	if (!st || !tp)
		return;
	if (!is_watched(&st->key)) {
		bpf_sk_storage_delete(&pw_tcp_sockets, sk);
		return;
	}
	now = bpf_ktime_get_ns();
	find_place(st);
	f = flow_of(&st->key, now);
	if (!f) {
		count_fault(FAULT_FLOW);
		return;
	}
	add_counts(tp, st, f, now);
	if (ctx->op == BPF_SOCK_OPS_RETRANS_CB)
		on_retransmit(ctx, tp, st, f, now);
	else if (ctx->op == BPF_SOCK_OPS_RTO_CB)
		on_timeout(ctx, st, f, now);
	else
		on_state(ctx, tp, st, now);
}

/* Always 1 and the reply untouched: it observes and changes nothing. */
SEC("sockops")
int pw_tcp_observe(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (!sk || !ctx->is_fullsock)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ctx, sk);
		break;
	case BPF_SOCK_OPS_RETRANS_CB:
	case BPF_SOCK_OPS_RTO_CB:
	case BPF_SOCK_OPS_STATE_CB:
		on_callback(ctx, sk);
		break;
	}
	return 1;
}

/* Counts what a watched socket has done since it was last looked at, if anything. */
static __always_inline void survey(struct tcp_sock *tp)
{
	struct socket_value *st;
	struct flow_value *f;
	__u64 now;

	st = bpf_sk_storage_get(&pw_tcp_sockets, tp, NULL, 0);
	if (!st)
		return;
	if (st->segments_out == tp->segs_out && st->bytes_received == tp->bytes_received &&
	    st->bytes_acked == tp->bytes_acked)
		return;
	if (!is_watched(&st->key)) {
		set_baseline(st, tp); /* it may be wanted again */
		return;
	}
	now = bpf_ktime_get_ns();
	find_place(st);
	f = flow_of(&st->key, now);
	if (f)
		add_counts(tp, st, f, now);
	else
		count_fault(FAULT_FLOW);
}

/* Walks the watched sockets, of whatever namespace. */
SEC("iter/bpf_sk_storage_map")
int pw_tcp_survey(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (tp)
		survey(tp);
	return 0;
}

/*
 * The same for all sockets of the namespace in which the iterator is opened, for kernels that
 * refuse to walk elements of maps.
 */
SEC("iter/tcp")
int pw_tcp_survey_all(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (tp)
		survey(tp);
	return 0;
}

/*
 * Walks the sockets of the namespace in which the iterator is opened and asks
 * for callbacks on those that are watched; writes an int for each: 0 or an error.
 */
SEC("iter/tcp")
int pw_tcp_adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct flow_key key = {};
	struct socket_value *st;
	struct tcp_sock *tp;
	int flags, err;

	if (!skc)
		return 0;
	if (skc->skc_state != BPF_TCP_ESTABLISHED && skc->skc_state != BPF_TCP_FIN_WAIT1 &&
	    skc->skc_state != BPF_TCP_CLOSE_WAIT)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	key.netns = skc->skc_net.net->net_cookie;
	if (skc->skc_family == AF_INET)
		set_mapped(&key, skc->skc_daddr);
	else if (skc->skc_family == AF_INET6)
		bpf_probe_read_kernel(key.remote, sizeof(key.remote), &skc->skc_v6_daddr);
	else
		return 0;
	if (!is_watched(&key))
		return 0;
	st = bpf_sk_storage_get(&pw_tcp_sockets, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!st) {
		count_fault(FAULT_SOCKET);
		return 0;
	}
	if (!st->key.netns) { /* not ours yet: counting starts now */
		set_baseline(st, tp);
		st->local_port = skc->skc_num;
		st->remote_port = bpf_ntohs(skc->skc_dport);
		key.bucket = flow_bucket(st->local_port, st->remote_port, IPPROTO_TCP);
		st->key = key;
	}
	flags = tp->bpf_sock_ops_cb_flags | CALLBACKS;
	err = bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	if (err)
		count_fault(FAULT_ADOPT);
	bpf_seq_write(ctx->meta->seq, &err, sizeof(err));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
