/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What part this end has in a flow, and what marks make of it. */
#ifndef ROLE_H
#define ROLE_H

#define RECENT_SHIFT 21

static __always_inline __u64 *recent_of(const struct flow *f)
{
	__u32 i = (((__u32)f->local << 16 | f->remote) + f->peer) * 0x9E3779B1u >> RECENT_SHIFT;

	if (f->proto != IPPROTO_TCP || f->peer >> 16)
		return NULL;
	return bpf_map_lookup_elem(&recent, &i);
}

/* named is a flow's word in this tick. */
static __always_inline __u64 named(const struct flow *f)
{
	return (__u64)f->local << 48 | (__u64)f->remote << 32 | f->peer << 16 | (__u16)(bpf_jiffies64() << 4);
}

static __always_inline __u32 seconds(void)
{
	return bpf_ktime_get_coarse_ns() >> SEEN_SHIFT;
}

static __always_inline struct part *part_in(__u32 i, const struct flow *f)
{
	void *t = bpf_map_lookup_elem(&flows, &i);

	return t ? bpf_map_lookup_elem(t, f) : NULL;
}

/* part_of finds a flow: the second table is empty but while the loader replaces it. */
static __noinline struct part *part_of(const struct flow *f)
{
	struct part *known = part_in(0, f);

	return known ? known : part_in(1, f);
}

/* touch notes that the flow lives. */
static __always_inline void touch(struct part *known)
{
	__u32 now = seconds();

	if (known->seen != now)
		known->seen = now;
}

/* closing notes that a packet ends its connection, or one direction. The table is asked,
 * though it may have been in this tick. */
GLOBAL int closing(const struct flow *f, __u32 how)
{
	struct part *known = f ? part_of(f) : NULL;

	if (known)
		known->closed |= how;
	return 0;
}

/* role_of is the part that this end has in a flow. known is set where the table was
 * asked, for TCP once a tick. A flow that was idle for longer than that is to be opened
 * again; 0 is never. */
static __always_inline __u32 role_of(const struct flow *f, struct part **known, __u32 idle)
{
	volatile __u64 *r = recent_of(f);
	__u64 name = r ? named(f) : 0, word = r ? *r : 0;

	*known = NULL;
	if (r && (word & ~(__u64)RECENT_ROLE) == name)
		return word & RECENT_ROLE;
	struct part *found = part_of(f);
	__u32 role = FLOW_NONE;
	if (found) {
		if (idle && ADMITTED(found->role) && seconds() - found->seen > idle) {
			found->role = FLOW_OWNER_NEW;
			found->marks = 0;
		}
		role = found->role & RECENT_ROLE;
		touch(found);
	}
	*known = found;
	if (r)
		*r = name | role;
	return role;
}

/* assume changes the part that this end has in a flow, and returns it: none where the
 * table has no room. What is known of the flow's end stays, but where it begins. */
GLOBAL int assume(const struct flow *f, __u32 role)
{
	struct part now = { .role = role, .seen = seconds() };
	__u32 zero = 0;

	if (!f)
		return FLOW_NONE;
	struct part *known = part_of(f);
	__u32 peer = f->peer;
	__u64 *r = recent_of(f);
	if (known) {
		if (ADMITTED(role))
			now.closed = known->closed;
		*known = now;
	} else if (role != FLOW_NONE) {
		void *t = bpf_map_lookup_elem(&flows, &zero);
		__u32 *n = bpf_map_lookup_elem(&held, &peer);
		if (!t || !n || *n >= flows_per_peer || bpf_map_update_elem(t, f, &now, BPF_ANY)) {
			count_event(EV_FULL);
			role = FLOW_NONE;
		} else {
			__sync_fetch_and_add(n, 1);
		}
	}
	if (r)
		*(volatile __u64 *)r = 0;
	return role & RECENT_ROLE;
}

/* Half of what the loader keeps idle flows for (keep), in units of seconds(). */
#define IDLE_UDP (60000000000ull >> SEEN_SHIFT)
#define IDLE_ECHO (15000000000ull >> SEEN_SHIFT)

/* role_out finds or makes the part that this end has in the flow. One that was not
 * seen to begin is asked about: the peer's data plane answers only if it sees the same
 * addresses, and not those of a Service. */
static __always_inline __u32 role_out(const struct flow *f, const struct packet *p, struct part **known)
{
	int tcp = f->proto == IPPROTO_TCP;
	/* The other end may forget it soon, if it has not: a datagram is not sent twice. */
	__u32 role = role_of(f, known, tcp ? 0 : f->proto == IPPROTO_UDP ? IDLE_UDP : IDLE_ECHO);

	if (!(tcp && p->opens)) {
		if (role != FLOW_NONE || (tcp ? p->accepts || p->closes : !p->opens))
			return role;
	}
	/* A SYN begins anew what had these ports before. Without an agent nothing begins. */
	role = assume(f, alive() ? FLOW_OWNER_NEW : FLOW_NONE);
	*known = part_of(f);
	return role;
}

/* due is whether it is time to say again what the other end has not confirmed: a few
 * times at once, then about every second. */
static __always_inline int due(struct part *known)
{
	__u32 now = seconds();

	if (known->marks >= 8 && now - known->told < 4)
		return 0;
	if (known->marks < 8)
		known->marks++;
	known->told = now;
	return 1;
}

/* answers is whether a packet says that the pod took what came: its stack, behind
 * whatever filters. */
static __always_inline int answers(const struct packet *p)
{
	if (p->proto == IPPROTO_TCP)
		return !p->opens && !(p->closes & CLOSED_RESET);
	return p->proto == IPPROTO_UDP || p->accepts;
}

/* said is what a genuine packet on the default network says, 0 for none. */
GLOBAL int said(const struct packet *p, const struct keys *accept, __u32 lower)
{
	if (!p || !accept)
		return 0;
	for (__u32 say = SAY_OPEN; say <= SAY_FORGOTTEN; say++)
		if (genuine(p, accept, lower, say) == EXACT)
			return say;
	return 0;
}

/* told folds that into the flow's part. */
GLOBAL int told(const struct flow *f, __u32 syn, __u32 lower, __u32 say)
{
	if (!f)
		return 0;
	struct part *known = part_of(f);
	__u32 role = known ? known->role : FLOW_NONE, next = role;

	if (say == SAY_ANSWER) {
		if (role == FLOW_OWNER_NEW)
			next = FLOW_OWNER;
	} else if (say == SAY_FORGOTTEN) {
		if (ADMITTED(role))
			next = FLOW_OWNER_NEW;
	} else if (say == SAY_SETTLED) {
		if (role == FLOW_ANSWERED)
			next = FLOW_FOLLOW;
		else if (role == FLOW_NONE)
			next = FLOW_FOLLOW_NEW; /* forgotten here: learnt again */
	} else if (!syn && lower && (role == FLOW_OWNER || role == FLOW_OWNER_NEW)) {
		next = FLOW_OWNER_NEW; /* both ends sent first: the lower address owns */
	} else if (!syn && role >= FLOW_ANSWERED) {
		next = FLOW_ANSWERED; /* the other end has not heard it, or has forgotten */
	} else {
		next = FLOW_FOLLOW_NEW;
	}
	return next != role || say == SAY_OPEN ? assume(f, next) : 0;
}

#endif
