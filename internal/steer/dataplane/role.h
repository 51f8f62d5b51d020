/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The role that this end has in a flow, and what tags make of it. */
#ifndef ROLE_H
#define ROLE_H

#define CACHE_SHIFT 21

static __always_inline __u64 *cache_slot(const struct flow *f)
{
	__u32 i = (((__u32)f->local << 16 | f->remote) + f->peer) * 0x9E3779B1u >> CACHE_SHIFT;

	if (f->proto != IPPROTO_TCP || f->peer >> 16)
		return NULL;
	return bpf_map_lookup_elem(&pw_flow_cache, &i);
}

/* cache_key is a flow's word in this tick, but for row and role. */
static __always_inline __u64 cache_key(const struct flow *f)
{
	return (__u64)f->local << 48 | (__u64)f->remote << 32 | f->peer << 16 | (__u16)(bpf_jiffies64() << 4);
}

static __always_inline __u32 flow_clock(void)
{
	return bpf_ktime_get_coarse_ns() >> SEEN_SHIFT;
}

static __always_inline struct flow_state *flow_in(__u32 i, const struct flow *f)
{
	void *t = bpf_map_lookup_elem(&pw_flows, &i);

	return t ? bpf_map_lookup_elem(t, f) : NULL;
}

/* flow_of finds a flow: the second table is empty but while the loader replaces it. */
static __noinline struct flow_state *flow_of(const struct flow *f)
{
	struct flow_state *state = flow_in(0, f);

	return state ? state : flow_in(1, f);
}

/* refresh notes that the flow lives, and of datagrams whether they go on: not at once, but soon. */
static __always_inline void refresh(const struct flow *f, struct flow_state *state)
{
	__u32 now = flow_clock(), gap = now - state->seen;

	if (!gap)
		return;
	if (f->proto != IPPROTO_TCP && gap <= 6)
		state->closed |= gap <= 2 && state->closed & GOES_ON ? SURELY_GOES_ON : GOES_ON;
	state->seen = now;
}

/* uncache has the next look at a flow read the table. */
static __always_inline void uncache(const struct flow *f)
{
	volatile __u64 *r = cache_slot(f);

	if (r)
		*r = 0;
}

/* set_closed notes that a packet ends its connection, or one direction. It reads the table,
 * not the cache. */
GLOBAL int set_closed(const struct flow *f, __u32 how)
{
	struct flow_state *state = f ? flow_of(f) : NULL;

	if (state)
		state->closed |= how;
	return 0;
}

/* Half of what the loader keeps idle flows for (keep), in units of flow_clock(). */
#define IDLE_UDP (60000000000ull >> SEEN_SHIFT)
#define IDLE_ONCE (15000000000ull >> SEEN_SHIFT)
#define IDLE_ECHO IDLE_ONCE

/* flow_role is the role that this end has in a flow. state is set where the table was read,
 * for TCP once a tick. A flow that was idle for longer than idle is to be opened again; 0 is
 * never. */
static __always_inline __u32 flow_role(const struct flow *f, struct flow_state **state, __u32 idle, __u32 *row)
{
	volatile __u64 *r = cache_slot(f);
	__u64 name = r ? cache_key(f) : 0, word = r ? *r : 0;

	*state = NULL;
	*row = word & CACHE_ROW ? 1 : 0;
	if (r && (word & ~(__u64)(CACHE_ROLE | CACHE_ROW)) == name)
		return word & CACHE_ROLE;
	*row = 0;
	struct flow_state *found = flow_of(f);
	__u32 role = FLOW_NONE;
	if (found) {
		if (idle > IDLE_ONCE && !(found->closed & SURELY_GOES_ON) && found->claimed != ONE_WAY)
			idle = IDLE_ONCE;
		if (idle && ADMITTED(found->role) && flow_clock() - found->seen > idle) {
			found->role = FLOW_OWNER_NEW;
			found->announcements = 0;
		}
		role = found->role & CACHE_ROLE;
		*row = found->row & (ROWS - 1);
		refresh(f, found);
	}
	*state = found;
	if (r)
		*r = name | role | (*row ? CACHE_ROW : 0);
	return role;
}

/* room_of is how many flows a peer may have before another one: a quarter is for connections. */
static __always_inline __u32 room_of(__u32 proto)
{
	return proto == IPPROTO_TCP ? flows_per_peer : flows_per_peer - flows_per_peer / 4;
}

/* set_role changes the role that this end has in a flow, and returns it: none where the
 * table has no room. closed and dscp stay, but where the flow begins; row and claimed stay, but
 * for where the peer has begun it. */
GLOBAL int set_role(const struct flow *f, __u32 role)
{
	struct flow_state now = { .role = role, .seen = flow_clock() };
	__u32 zero = 0;

	if (!f)
		return FLOW_NONE;
	struct flow_state *state = flow_of(f);
	__u32 peer = f->peer;
	if (state) {
		if (ADMITTED(role)) {
			now.closed = state->closed;
			now.dscp = state->dscp;
		}
		now.row = state->row;
		now.claimed = role == FLOW_FOLLOW_NEW && state->claimed == BEGUN_ELSEWHERE ? 0 : state->claimed;
		*state = now;
	} else if (role != FLOW_NONE) {
		void *t = bpf_map_lookup_elem(&pw_flows, &zero);
		__u32 *n = bpf_map_lookup_elem(&pw_flow_count, &peer);
		if (!t || !n || *n >= room_of(f->proto) || bpf_map_update_elem(t, f, &now, BPF_ANY)) {
			count_event(EV_FULL);
			role = FLOW_NONE;
		} else {
			__sync_fetch_and_add(n, 1);
		}
	}
	uncache(f);
	return role & CACHE_ROLE;
}

/* What is read of the kernel's types, found by name (CO-RE). */
#define KERNEL_TYPE __attribute__((preserve_access_index))
struct sock {
	__u32 sk_max_ack_backlog;
} KERNEL_TYPE;
struct inet_sock {
	struct sock sk;
} KERNEL_TYPE;
struct inet_connection_sock {
	struct inet_sock icsk_inet;
} KERNEL_TYPE;
struct tcp_sock {
	struct inet_connection_sock inet_conn;
} KERNEL_TYPE;

/* side_of is which end of its connection has sent a packet, by its socket. What accept(2) gives
 * is a copy of the listener, and so has the length that listen(2) gave to its queue
 * (sk_clone_lock), also when the listener is gone; what has connected has none. A server
 * that has asked for a queue of 0 looks like a client. */
GLOBAL int side_of(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	if (!tp)
		return SIDE_UNKNOWN; /* a pod that only forwards */
	return tp->inet_conn.icsk_inet.sk.sk_max_ack_backlog ? SIDE_SERVER : SIDE_OPENER;
}

/* claim is whether this end takes a connection for its own that the other end has said to
 * open: it has opened it itself, and no SYN was seen. It does so once: an end of an earlier
 * version, or a server that looks like a client, may insist, and then the lower address owns. */
GLOBAL int claim(struct __sk_buff *skb, const struct flow *f)
{
	struct flow_state *state = f && f->proto == IPPROTO_TCP ? flow_of(f) : NULL;

	if (!state || state->claimed || side_of(skb) != SIDE_OPENER || !lease_runs())
		return 0;
	state->claimed = CLAIMED;
	return 1;
}

/* syn_place is where a set of SYNs keeps that of a flow: in its own place, as it was sent before,
 * or in that of the oldest. */
static __always_inline __u32 syn_place(const struct syn_set *set, const struct flow *f)
{
	__u64 oldest = ~0ULL;
	__u32 place = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < SYNS; i++) {
		const volatile struct flow *o = &set->syn[i].flow;
		__u64 at = *(const volatile __u64 *)&set->at[i];

		if (o->local == f->local && o->remote == f->remote && o->peer == f->peer)
			at = 0;
		if (at < oldest) {
			oldest = at;
			place = i;
		}
	}
	return place;
}

/* keep_syn keeps a SYN that leaves. */
GLOBAL int keep_syn(struct __sk_buff *skb, const struct flow *f)
{
	if (!f)
		return 0;
	__u32 i = (((__u32)f->local << 16 | f->remote) * 0x9E3779B1u) >> (32 - SYN_BITS), n = skb->len - ETH_HLEN;
	struct syn_set *set = bpf_map_lookup_elem(&pw_syns, &i);

	if (!set || n > SYN_MOST)
		return 0;
	asm volatile("" : "+r"(n)); /* two comparisons, as Linux 6.8's verifier learns nothing from one of n - 1 */
	if (!n)
		return 0;
	i = syn_place(set, f);
	if (i >= SYNS)
		return 0;
	struct syn *s = &set->syn[i];
	volatile __u64 *at = &set->at[i];

	*at = 0;
	s->flow = *f;
	s->length = n;
	if (!bpf_skb_load_bytes(skb, ETH_HLEN, s->packet, n))
		*at = bpf_ktime_get_ns();
	return 0;
}

/* owner_role finds or makes the role that this end has in the flow. One that was not
 * seen to begin is opened again, of TCP by the end that has opened it: the peer's data plane
 * answers only if it sees the same addresses, and not those of a Service. */
static __always_inline __u32 owner_role(struct __sk_buff *skb, const struct flow *f, const struct packet *p,
					struct flow_state **state, __u32 *row)
{
	int tcp = f->proto == IPPROTO_TCP;
	/* The other end may forget it soon, if it has not: a datagram is not sent twice. */
	__u32 role = flow_role(f, state, tcp ? 0 : f->proto == IPPROTO_UDP ? IDLE_UDP : IDLE_ECHO, row);

	if (!(tcp && p->opens)) {
		if (role != FLOW_NONE || (tcp ? p->accepts || p->closes || side_of(skb) == SIDE_SERVER : !p->opens))
			return role;
	}
	/* A SYN begins another flow with these ports. Without an agent nothing begins. */
	role = set_role(f, lease_runs() ? FLOW_OWNER_NEW : FLOW_NONE);
	*state = flow_of(f);
	*row = 0;
	if (*state) {
		(*state)->row = 0;
		(*state)->claimed = role == FLOW_OWNER_NEW;
	}
	if (tcp && p->opens && role == FLOW_OWNER_NEW)
		keep_syn(skb, f);
	return role;
}

/* announcement_due is whether to repeat what the other end has not confirmed: a few times at
 * once, then every quarter of a second, as an older flow is native until both ends have
 * entered the pair, and cannot leave a network that fails. */
#define AT_ONCE 8
static __always_inline int announcement_due(const struct flow_state *state)
{
	return state->announcements < AT_ONCE || flow_clock() != state->announced;
}

/* note_announced counts what was said. */
static __always_inline void note_announced(struct flow_state *state)
{
	if (state->announcements <= AT_ONCE)
		state->announcements++;
	state->announced = flow_clock();
}

/* surely_received is whether the other end has received an answer, as far as can be known of one
 * that only listens from then on: it was said nine times, or some time ago. If it
 * has not, it says FORGOTTEN to what comes by a path. */
static __always_inline int surely_received(const struct flow_state *state)
{
	return state->announcements > AT_ONCE || (state->announcements && flow_clock() - state->announced >= 2);
}

/* is_answer is whether a packet shows that the pod took what came: its stack, behind
 * whatever filters. */
static __always_inline int is_answer(const struct packet *p)
{
	if (p->proto == IPPROTO_TCP)
		return !p->opens && !(p->closes & CLOSED_RESET);
	return p->proto == IPPROTO_UDP || p->accepts;
}

/* tag_kind_of is what the tag of a packet on the default network says, 0 without a valid one;
 * above FOUND_SHIFT as match_tag. Each key's words are tried before the next key's. */
GLOBAL int tag_kind_of(const struct packet *p, const struct keys *accept, __u32 lower)
{
	if (!p || !accept)
		return 0;
	for (int i = 0; i < KEYS; i++) {
		const struct key *k = &accept->k[i];
		if (is_repeated(accept, i))
			continue;
		__u64 tags = word_tags(k->k[0], k->k[1], tag_input(p, lower, 0));
		for (__u32 kind = TAG_OPEN; kind <= TAG_FORGOTTEN; kind++) {
			__u32 found = match_tag(p, WORD_TAG(tags, kind));
			if ((found & HOW) == EXACT)
				return (found & ~HOW) | kind;
		}
	}
	return 0;
}

/* other_dscp holds a packet of OTHERS from a path against the flow's latest, and returns how
 * it is to be taken. Many tags are right for some DSCP: so one with another DSCP is to be
 * exact, and is no sign of life. */
GLOBAL int other_dscp(const struct flow *f, __u32 found)
{
	struct flow_state *state = f ? flow_of(f) : NULL;

	if (!state)
		return FORGED;
	if (state->dscp == found >> FOUND_SHIFT)
		return found & HOW;
	if ((found & HOW) != EXACT)
		return FORGED;
	state->dscp = found >> FOUND_SHIFT;
	return GENUINE;
}

/* handle_tag changes the flow's role by what a tag says. */
GLOBAL int handle_tag(const struct flow *f, __u32 syn, __u32 lower, __u32 kind)
{
	if (!f)
		return 0;
	struct flow_state *state = flow_of(f);
	__u32 role = state ? state->role : FLOW_NONE, next = role;

	if (kind == TAG_ANSWER) {
		if (role == FLOW_OWNER_NEW)
			next = FLOW_OWNER;
	} else if (kind == TAG_FORGOTTEN) {
		/* A connection is opened again by the end that has opened it, which side_of() tells
		 * with the next packet. */
		if (ADMITTED(role))
			next = f->proto == IPPROTO_TCP && role != FLOW_OWNER ? FLOW_NONE : FLOW_OWNER_NEW;
	} else if (kind == TAG_SETTLED) {
		if (role == FLOW_ANSWERED)
			next = FLOW_FOLLOW;
		else if (role == FLOW_NONE)
			next = FLOW_FOLLOW_NEW; /* forgotten here: learnt again */
	} else if (!syn && lower && (role == FLOW_OWNER || role == FLOW_OWNER_NEW)) {
		next = FLOW_OWNER_NEW; /* both ends open it: the lower address owns */
	} else if (!syn && role >= FLOW_ANSWERED) {
		next = FLOW_ANSWERED; /* the other end has not received it, or has forgotten */
	} else {
		next = FLOW_FOLLOW_NEW;
	}
	return next != role || kind == TAG_OPEN ? set_role(f, next) : 0;
}

#endif
