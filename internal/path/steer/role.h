/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What part this end has in a flow, and what marks make of it. */
#ifndef ROLE_H
#define ROLE_H

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

/* role_of is the part that this end has in a flow. */
static __always_inline __u32 role_of(const struct flow *f)
{
	volatile __u64 *r = recent_of(f);
	__u64 name = r ? named(f) : 0, word = r ? *r : 0;

	if (r && (word & ~(__u64)(RECENT_ROLE | RECENT_TOLD)) == name)
		return word & RECENT_ROLE;
	struct part *known = bpf_map_lookup_elem(&flows, f);
	__u32 role = known ? known->role : FLOW_NONE;
	if (r)
		*r = name | role;
	return role;
}

/* assume changes the part that this end has in a flow. */
static __noinline int assume(const struct flow *f, __u32 role)
{
	struct part now = { role };
	__u64 *r = recent_of(f);

	bpf_map_update_elem(&flows, f, &now, BPF_ANY);
	if (r)
		*(volatile __u64 *)r = 0;
	return 0;
}

/* role_out finds or makes the part that this end has in the flow. A flow that
 * was not seen to begin is left alone. */
static __always_inline __u32 role_out(const struct flow *f, const struct packet *p)
{
	__u32 role = role_of(f);

	if (!p->opens || role == FLOW_OWNER_NEW)
		return role;
	if (f->proto == IPPROTO_UDP ? role != FLOW_NONE : f->proto != IPPROTO_TCP && role == FLOW_OWNER)
		return role;
	/* A SYN begins anew what had these ports before. */
	assume(f, FLOW_OWNER_NEW);
	return FLOW_OWNER_NEW;
}

/* follows says what a marked packet makes of the flow: the part of this end. */
static __always_inline __u32 follows(__u32 role, const struct packet *p, __u32 lower, __u32 n)
{
	int syn = p->proto == IPPROTO_TCP && p->opens;

	/* Both ends sent first: the lower address owns. */
	if ((role == FLOW_OWNER || role == FLOW_OWNER_NEW) && lower && !syn)
		return role;
	if (n)
		return FLOW_FOLLOW;
	/* Over the default path: replies stay there until the owner has moved. */
	return role == FLOW_FOLLOW && !syn ? FLOW_FOLLOW : FLOW_FOLLOW_NEW;
}

/* agrees is whether what the follow table has is what a mark says. */
static __always_inline int agrees(__u32 had, const struct packet *p, __u32 n)
{
	return CHOICE_EPOCH(had) == MARK_EPOCH(p->dscp) && (had & CHOICE_VALID) &&
	       (CHOICE_PATH(had) == n || (had & CHOICE_DIVERTED));
}

/* told folds a mark into the flow's role and the follow table. The initiator
 * owns the choice: only its marks move anything, and only newer ones, so that
 * packets still under way on the old path move nothing back. */
static __always_inline void told(__u32 id, __u32 lower, struct flow *f, const struct packet *p, __u32 n)
{
	if (!MARK_OWNER(p->dscp))
		return;
	__u32 i = id * BUCKETS + p->bucket;
	__u64 *c = bpf_map_lookup_elem(&follow, &i);
	if (!c)
		return;
	__u64 word = *(volatile __u64 *)c;
	__u32 had = word, ahead = (MARK_EPOCH(p->dscp) - CHOICE_EPOCH(had)) & 3, tick = bpf_jiffies64();
	int again = agrees(had, p, n);
	/* The same as before, of which one packet for each tick is enough. */
	volatile __u64 *r = p->plain ? recent_of(f) : NULL;
	__u64 name = named(f) | FLOW_FOLLOW | RECENT_TOLD;
	if (again && r && *r == name)
		return;
	struct part *known = bpf_map_lookup_elem(&flows, f);
	__u32 role = known ? known->role : FLOW_NONE, next = follows(role, p, lower, n);
	if (next != role)
		assume(f, next);
	if (next != FLOW_FOLLOW)
		return; /* a handshake is on the default path whatever was chosen */
	if (again && known && known->tick == tick)
		return;
	__u32 now = bpf_ktime_get_coarse_ns() >> CHOICE_SHIFT;
	__u64 said = (__u64)now << 32 | CHOICE(n, MARK_EPOCH(p->dscp)) | CHOICE_VALID;
	if (again)
		said = (__u64)now << 32 | had;
	else if ((had & CHOICE_VALID) && ahead != 1 && ahead != 2 &&
		 (__s32)(now - (__u32)(word >> 32)) < CHOICE_LASTS)
		return;
	if (said != word)
		*(volatile __u64 *)c = said;
	if (known && next == role) {
		known->tick = tick;
		if (r)
			*r = name;
	}
}

#endif
