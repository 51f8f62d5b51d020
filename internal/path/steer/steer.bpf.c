//go:build ignore
// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The data plane: tcx programs in a pod's namespace (Linux 6.6 and later).
 *
 *   out      eth0 egress   stable pair -> the path's own pair, redirect
 *   in       eth0 ingress  what the default path tells: marks, confirmations
 *   path_in  netN ingress  the path's own pair -> stable pair
 *
 * A path that translation cannot cross carries whole packets in UDP (encap.h).
 * They look up, rewrite and count; which path is right is decided in Go.
 * Whatever they do not know goes on as it came.
 */
#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "steer.h"

/* Set by the loader. */
const volatile __u32 stable_ifindex = 0;  /* eth0 */
const volatile __u8 stable_mac[6] = {};
const volatile __u8 to_stable_dev = 0;    /* hand arrivals to eth0: rp_filter is strict on a path */
const volatile __u64 lease_ns = 0;

#include "packet.h"
#include "icmp.h"
#include "encap.h"

/* owned is the agent's choice for flows opened here. */
static __always_inline __u32 owned(const struct peer *pe, __u32 bucket)
{
	__u32 id = pe->id;
	struct row *r = bpf_map_lookup_elem(&own, &id);

	if (!r)
		return 0;
	__u8 c = *(volatile __u8 *)&r->choice[bucket & (BUCKETS - 1)];
	return ROW_CHOICE(c);
}

/* alive is whether the agent's lease runs. It runs for whole ticks, as the coarse
 * clock does not move within one, so it is looked at once for each. */
static __always_inline int alive(void)
{
	__u32 zero = 0;
	__u64 tick = bpf_jiffies64();
	struct beat *b = bpf_map_lookup_elem(&heartbeat, &zero);

	if (!b)
		return 0;
	if (*(volatile __u64 *)&b->tick == tick)
		return 1;
	/* Signed: the beat may be newer than the clock was when we read it. */
	if ((__s64)(bpf_ktime_get_coarse_ns() - *(volatile __u64 *)&b->at) >= (__s64)lease_ns)
		return 0;
	*(volatile __u64 *)&b->tick = tick;
	return 1;
}

/* choose returns what the pair's maps say for a flow: path, epoch and whether
 * the peer is to be told on the default path too. */
static __always_inline __u32 choose(const struct peer *pe, __u32 bucket, __u32 role)
{
	__u32 choice = 0;

	if (role == FLOW_OWNER) {
		choice = owned(pe, bucket);
	} else {
		__u32 i = pe->id * BUCKETS + bucket;
		__u32 *c = bpf_map_lookup_elem(&follow, &i); /* its lower half */
		if (c)
			choice = *(volatile __u32 *)c;
	}
	if (CHOICE_PATH(choice) == 0)
		return choice;
	/* A dead agent cannot see its path fail: back to the default, and say so. */
	if (alive())
		return choice;
	count_event(EV_LEASE);
	return CHOICE(0, CHOICE_EPOCH(choice) + 1) | CHOICE_TELL;
}

/* role_out finds or makes the part that this end has in the flow. A flow that
 * was not seen to begin is left alone. */
static __always_inline __u32 role_out(const struct peer *pe, struct flow *f, const struct packet *p)
{
	struct part *known = bpf_map_lookup_elem(&flows, f), now = { FLOW_OWNER_NEW };
	__u32 role = known ? known->role : FLOW_NONE;

	if (!p->opens || role == FLOW_OWNER_NEW)
		return role;
	if (f->proto == IPPROTO_UDP ? role != FLOW_NONE : f->proto != IPPROTO_TCP && role == FLOW_OWNER)
		return role;
	/* A SYN begins anew what had these ports before. */
	bpf_map_update_elem(&flows, f, &now, BPF_ANY);
	return FLOW_OWNER_NEW;
}

/* stay leaves a packet on the default network. Until the peer has confirmed the
 * choice, it is told: also where a packet cannot take the path that was chosen, as
 * the peer must leave the old one, which may be dead. */
static __always_inline int stay(struct __sk_buff *skb, const struct peer *pe, const struct packet *p, __u32 role, __u32 choice)
{
	went(skb, p, pe->id, 0, role, skb->gso_segs, skb->len - ETH_HLEN);
	if (role == FLOW_OWNER && (choice & CHOICE_TELL))
		remark(skb, p, MARK(CHOICE_EPOCH(choice), 1));
	return TCX_NEXT;
}

SEC("tc") int out(struct __sk_buff *skb)
{
	struct packet p = {};

	if (internet(skb, &p) < 0 || !maybe(&p.dst))
		return TCX_NEXT;
	struct peer *pe = peer_of(&p.dst, p.v6);
	if (!pe)
		return TCX_NEXT;
	transport(skb, &p);
	if (!p.steerable || p.dscp || !same(&p.src, &pe->self, p.v6))
		return stay(skb, pe, &p, FLOW_NONE, 0);
	struct flow f = { pe->id, pe->generation, p.sport, p.dport, p.proto };
	__u32 role = role_out(pe, &f, &p), choice = 0;
	if (role == FLOW_OWNER_NEW) {
		/* The handshake goes over the default network, whose policy is the pod's;
		 * the mark tells the peer's data plane that its replies may be steered. */
		stay(skb, pe, &p, role, 0);
		if (p.opens)
			remark(skb, &p, MARK(CHOICE_EPOCH(owned(pe, p.bucket)), 1));
		return TCX_NEXT;
	}
	if (role == FLOW_OWNER || role == FLOW_FOLLOW)
		choice = choose(pe, p.bucket, role);
	__u32 n = CHOICE_PATH(choice) & (PATHS - 1);
	if (n == 0)
		return stay(skb, pe, &p, role, choice);
	struct path *pa = &pe->path[n];
	if (!pa->ifindex || !fits(skb, &p, pa)) {
		count_event(pa->ifindex ? EV_TOO_BIG : EV_NO_PATH);
		return stay(skb, pe, &p, role, choice);
	}
	__u32 mark = MARK(CHOICE_EPOCH(choice), role == FLOW_OWNER);
	__u32 packets = skb->gso_segs, bytes = skb->len - ETH_HLEN; /* wrap changes them */
	const __u8 *mac = pa->flags & PATH_MAC ? pa->mac : NULL;
	int err = pa->flags & PATH_ENCAP ? wrap(skb, pa, mark)
					 : rewrite(skb, &p, &pa->local, &pa->remote, pa->diff, mark, mac);
	if (err == 1) {
		count_event(EV_NO_PATH);
		return stay(skb, pe, &p, role, choice);
	} else if (err || (mac && pa->flags & PATH_ENCAP && bpf_skb_store_bytes(skb, 0, mac, 12, 0))) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	went(skb, &p, pe->id, n, role, packets, bytes);
	return mac ? bpf_redirect(pa->ifindex, 0) : bpf_redirect_neigh(pa->ifindex, NULL, 0, 0);
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

/* told folds a mark into the flow's role and the follow table. The initiator
 * owns the choice: only its marks move anything, and only newer ones, so that
 * packets still under way on the old path move nothing back. */
static __always_inline void told(__u32 id, __u32 lower, struct flow *f, const struct packet *p, __u32 n)
{
	if (!MARK_OWNER(p->dscp))
		return;
	struct part *known = bpf_map_lookup_elem(&flows, f);
	__u32 role = known ? known->role : FLOW_NONE, tick = bpf_jiffies64();
	struct part next = { follows(role, p, lower, n) };
	if (next.role != role)
		bpf_map_update_elem(&flows, f, &next, BPF_ANY);
	if (next.role != FLOW_FOLLOW)
		return; /* a handshake is on the default path whatever was chosen */
	__u32 i = id * BUCKETS + p->bucket;
	__u64 *c = bpf_map_lookup_elem(&follow, &i);
	if (!c)
		return;
	__u64 word = *(volatile __u64 *)c;
	__u32 had = word, ahead = (MARK_EPOCH(p->dscp) - CHOICE_EPOCH(had)) & 3;
	int again = !ahead && (had & CHOICE_VALID) && (CHOICE_PATH(had) == n || (had & CHOICE_DIVERTED));
	/* The same as before, of which one packet for each tick is enough. */
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
	if (known && next.role == role)
		known->tick = tick;
}

SEC("tc") int in(struct __sk_buff *skb)
{
	struct packet p = {};

	if (skb->mark == FROM_PATH) { /* path_in has seen it */
		skb->mark = 0;
		return TCX_NEXT;
	}
	if (internet(skb, &p) < 0 || !maybe(&p.src))
		return TCX_NEXT;
	struct peer *pe = peer_of(&p.src, p.v6);
	if (!pe)
		return TCX_NEXT;
	transport(skb, &p);
	came(pe->id, 0, skb);
	if (!p.steerable)
		return TCX_NEXT;
	struct flow f = { pe->id, pe->generation, p.dport, p.sport, p.proto };
	if (IS_MARK(p.dscp)) {
		told(pe->id, pe->lower, &f, &p, 0);
		remark(skb, &p, 0);
		return TCX_NEXT;
	}
	if (f.proto == IPPROTO_TCP && !p.opens && !p.accepts)
		return TCX_NEXT;
	struct part *known = bpf_map_lookup_elem(&flows, &f), native = { FLOW_NATIVE };
	if (known && known->role == FLOW_OWNER_NEW && !(f.proto == IPPROTO_TCP && p.opens))
		known->role = FLOW_OWNER; /* the peer answered over the default network */
	else if (!known ? !p.accepts : f.proto == IPPROTO_TCP && p.opens)
		/* Not opened here, and its opener does not steer it: a client behind a
		 * Service address, or one without agent. Replies stay native. */
		bpf_map_update_elem(&flows, &f, &native, BPF_ANY);
	return TCX_NEXT;
}

SEC("tc") int path_in(struct __sk_buff *skb)
{
	struct packet p = {};

	if (internet(skb, &p) < 0 || (p.proto == IPPROTO_TCP && !IS_MARK(p.dscp)))
		return TCX_NEXT; /* TCP of the application's own on this path */
	transport(skb, &p);
	/* Linux routers answer a marked packet with an error that looks marked: they
	 * keep some of its bits (icmp_send). Peers send theirs by the default network. */
	if (p.error)
		return quoted(skb, &p);
	__u8 mark = p.dscp;
	int encap = wrapped(skb, &p, &mark);
	if (!encap && !IS_MARK(mark))
		return TCX_NEXT;
	struct rev *r = rev_of(&p.src, p.v6);
	if (!r || !same(&p.dst, &r->local, p.v6) || r->ifindex != skb->ifindex ||
	    encap != ((r->flags & PATH_ENCAP) != 0) || (encap && unwrap(skb, &p, r, mark)) ||
	    (p.proto == IPPROTO_TCP && p.opens)) {
		/* Meant for a pod that had this address before, or from one that we do
		 * not know: never deliver it to a stranger. Nor a SYN, which no data plane
		 * steers: it would go past the policy of the default network. */
		count_event(EV_STRANGER);
		return TCX_DROP;
	}
	__u32 n = r->path & (PATHS - 1);
	came(r->id, n, skb);
	if (p.steerable) {
		struct flow f = { r->id, r->generation, p.dport, p.sport, p.proto };
		told(r->id, r->lower, &f, &p, n);
	}
	if (!encap && rewrite(skb, &p, &r->stable_remote, &r->stable_local, r->diff, 0, NULL)) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	return deliver(skb);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
