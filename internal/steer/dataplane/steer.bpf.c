//go:build ignore
// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The data plane: tcx programs in a pod's namespace (Linux 6.6 and later).
 *
 *   out      eth0 egress   stable pair -> the path's own pair, redirect; also netN
 *                          egress where a direct route leads there (Plane.Direct)
 *   in       eth0 ingress  what the default path tells: marks, confirmations, what is forgotten
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
const volatile __u32 slot_shift = 23, slot_rev_shift = 22; /* of a hash, to an index of slots and slots_rev */
const volatile __u32 flows_per_peer = 0;

#include "packet.h"
#include "mark.h"
#include "rewrite.h"

/* alive is whether the agent's lease runs. It runs for whole ticks, as the coarse
 * clock does not move within one, so it is looked at once for each. */
GLOBAL int alive(void)
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

#include "role.h"
#include "recall.h"
#include "icmp.h"
#include "encap.h"

/* choose returns the path on which the pair's maps have a flow. */
static __always_inline __u32 choose(const struct peer *pe, __u32 bucket, __u32 role)
{
	__u32 id = pe->id;
	struct row *r = role == FLOW_OWNER ? bpf_map_lookup_elem(&own, &id) : bpf_map_lookup_elem(&follow, &id);

	__u32 n = r ? ROW_PATH(*(volatile __u8 *)&r->choice[bucket & (BUCKETS - 1)]) : 0;
	/* A dead agent cannot see its path fail: back to the default. */
	if (!n || alive())
		return n;
	count_event(EV_LEASE);
	return 0;
}

/* astray is whether a direct route has led a packet to a path's interface. */
static __always_inline int astray(struct __sk_buff *skb)
{
	return skb->ifindex != stable_ifindex;
}

/* utter says what is to be said of a flow, by a packet of it on the default network, if
 * it is time to. how is the mark, and in the second byte whether it is IPv6. */
GLOBAL int utter(struct __sk_buff *skb, const struct key *key, struct part *known, __u64 what, __u32 how)
{
	if (!key || !known || !due(known))
		return 0;
	return remark(skb, how >> 8, WITH_TAG(how & 0xff, siphash_any(key->k[0], key->k[1], what)));
}

/* speech is what is to be said of a flow until the other end knows it. */
GLOBAL int speech(__u32 role)
{
	if (role == FLOW_OWNER_NEW)
		return SAY_OPEN;
	if (role == FLOW_OWNER)
		return SAY_SETTLED;
	return role == FLOW_ANSWERED ? SAY_ANSWER : 0;
}

/* stay leaves a packet on the default network. */
static __always_inline int stay(struct __sk_buff *skb, const struct peer *pe, const struct packet *p, __u32 role,
				struct part *known, __u32 mark)
{
	__u32 say = speech(role);

	if (astray(skb)) /* eth0's program does the rest */
		return bpf_redirect_neigh(stable_ifindex, NULL, 0, 0);
	went(skb, p, pe->id, 0, role, skb->gso_segs, skb->len - ETH_HLEN);
	if (known && say)
		utter(skb, &pe->key, known, tagged(p, pe->lower, say), mark | p->v6 << 8);
	return TCX_NEXT;
}

/* part_out is this end's part in the flow of a packet that leaves. */
static __always_inline __u32 part_out(const struct flow *f, const struct packet *p, struct part **known)
{
	__u32 role = role_out(f, p, known);

	if (p->closes)
		closing(f, p->closes & CLOSED_RESET ? CLOSED_RESET : CLOSED_OUT);
	if (role != FLOW_FOLLOW_NEW || !answers(p))
		return role;
	role = assume(f, FLOW_ANSWERED);
	*known = part_of(f);
	return role;
}

#define STAYS 1000 /* no verdict: the packet is to stay on the default network */

/* cross sends a packet over path n. */
static __always_inline int cross(struct __sk_buff *skb, const struct packet *p, struct peer *pe, __u32 role, __u32 n, __u32 mark)
{
	struct path *pa = &pe->path[n & (PATHS - 1)];

	if (!pa->ifindex || !fits(skb, p, pa)) {
		count_event(pa->ifindex ? EV_TOO_BIG : EV_NO_PATH);
		return STAYS;
	}
	__u64 t = tag(&pa->key, p, pe->lower, SAY_DATA);
	__u32 packets = skb->gso_segs, bytes = skb->len - ETH_HLEN; /* wrap changes them */
	const __u8 *mac = pa->flags & PATH_MAC ? pa->mac : NULL;
	int err = pa->flags & PATH_ENCAP ? wrap(skb, pa, t)
					 : rewrite(skb, p, &pa->local, &pa->remote, pa->diff, WITH_TAG(mark, t), mac);
	if (err == 1) {
		count_event(EV_NO_PATH);
		return STAYS;
	} else if (err || (mac && pa->flags & PATH_ENCAP && bpf_skb_store_bytes(skb, 0, mac, 12, 0))) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	went(skb, p, pe->id, n, role, packets, bytes);
	if (astray(skb) && mac && pa->ifindex == skb->ifindex)
		return TCX_NEXT; /* it is where it is to go */
	return mac ? bpf_redirect(pa->ifindex, 0) : bpf_redirect_neigh(pa->ifindex, NULL, 0, 0);
}

/* leave sends a packet to a peer. */
static __always_inline int leave(struct __sk_buff *skb, const struct packet *p, struct peer *pe)
{
	__u32 mark = p->dscp || !p->steerable ? class(p->dscp) : MARK, role = FLOW_NONE, n = 0;
	struct part *known = NULL;

	if (p->steerable && mark && same(&p->src, &pe->self, p->v6)) {
		struct flow f = { pe->id, pe->generation, p->sport, p->dport, p->proto };
		role = part_out(&f, p, &known);
		if (role == FLOW_OWNER || role == FLOW_FOLLOW)
			n = choose(pe, p->bucket, role);
	}
	int verdict = n ? cross(skb, p, pe, role, n, mark) : STAYS;
	return verdict == STAYS ? stay(skb, pe, p, role, known, mark) : verdict;
}

GLOBAL int out_any(struct __sk_buff *skb)
{
	struct packet p = {};
	__u32 hint;

	if (internet(skb, &p) < 0)
		return TCX_NEXT;
	if (!(hint = maybe(&p.dst))) {
		want(&p.dst);
		return TCX_NEXT;
	}
	struct peer *pe = peer_of(&p, &p.dst, hint);
	if (!pe)
		return TCX_NEXT;
	transport(skb, &p);
	return leave(skb, &p, pe);
}

SEC("tc") int out(struct __sk_buff *skb)
{
	struct packet p = {};

	if (bystander(skb, offsetof(struct iphdr, daddr), 1))
		return TCX_NEXT;
	if (!plain(skb, &p))
		return out_any(skb);
	__u32 hint = maybe(&p.dst);
	struct peer *pe = hint ? peer_of(&p, &p.dst, hint) : NULL;
	return pe ? leave(skb, &p, pe) : TCX_NEXT;
}

/* heard takes to heart what the default path tells of a flow. */
static __always_inline int heard(struct __sk_buff *skb, const struct packet *p, struct peer *pe)
{
	came(pe->id, 0, skb, 1);
	if (!p->steerable || (p->plain && !IS_MARK(p->dscp)))
		return TCX_NEXT;
	struct flow f = { pe->id, pe->generation, p->dport, p->sport, p->proto };
	int syn = p->proto == IPPROTO_TCP && p->opens;
	__u32 say = IS_MARK(p->dscp) ? said(p, &pe->accept, !pe->lower) : 0;
	if (say) {
		told(&f, syn, pe->lower, say);
		if (say == SAY_FORGOTTEN)
			return TCX_DROP; /* all that it was for */
		remark(skb, p->v6, CLASS_DSCP(p->dscp));
	} else if (syn) { /* what has a mark but no tag may be an application's own, or sent back by tcp_reflect_tos */
		/* Its opener does not steer it: a client behind a Service address, or one
		 * without agent. */
		assume(&f, FLOW_NONE);
	}
	struct part *known = part_of(&f);
	if (known) {
		touch(known);
		known->closed |= p->closes;
	}
	return TCX_NEXT;
}

GLOBAL int in_any(struct __sk_buff *skb)
{
	struct packet p = {};
	__u32 hint;

	if (internet(skb, &p) < 0 || !(hint = maybe(&p.src)))
		return TCX_NEXT;
	struct peer *pe = peer_of(&p, &p.src, hint);
	if (!pe)
		return TCX_NEXT;
	transport(skb, &p);
	return heard(skb, &p, pe);
}

SEC("tc") int in(struct __sk_buff *skb)
{
	struct packet p = {};

	if (bystander(skb, offsetof(struct iphdr, saddr), 0))
		return TCX_NEXT;
	if (skb->mark == FROM_PATH) { /* path_in has seen it */
		skb->mark = 0;
		return TCX_NEXT;
	}
	if (!plain(skb, &p))
		return in_any(skb);
	__u32 hint = maybe(&p.src);
	struct peer *pe = hint ? peer_of(&p, &p.src, hint) : NULL;
	return pe ? heard(skb, &p, pe) : TCX_NEXT;
}

/* expected is whether a packet is from a peer, by the path that we know it on. */
static __always_inline int expected(struct __sk_buff *skb, const struct packet *p, const struct rev *r)
{
	return same(&p->dst, &r->local, p->v6) && r->ifindex == skb->ifindex;
}

/* refuse drops a packet that looks steered; but for one that a data plane of another
 * layout may know, which comes after ours then and decides. What is wrapped tells its
 * layout, and may be unwrapped by now: it is never anybody else's. */
static __always_inline int refuse(__u32 why, int encap)
{
	__u32 zero = 0;
	struct beat *b = bpf_map_lookup_elem(&heartbeat, &zero);

	if (b && b->lenient && !encap)
		return TCX_NEXT;
	count_event(why);
	return TCX_DROP;
}

/* former refuses what a data plane of layout 1 has sent, and lets all else pass. Where the
 * other end is of that layout still, it may send so long after ours has taken that one's
 * place here. The stack would answer with a reset, or an error, that the other end takes
 * for one of its flow: it is to find that the path is dead. */
static __always_inline int former(const struct packet *p)
{
	return FORMER_MARK(p->dscp) ? refuse(EV_STRANGER, 0) : TCX_NEXT;
}

/* No verdicts, but what is to be done with the packet: by functions that have their stack
 * for themselves, as 512 bytes are for all that call each other. */
#define QUOTES 1000
#define UNKNOWN 1001

/* arrive takes a packet that was steered here: of a flow that the default network has
 * admitted in both directions, and no other. exact is whether its tag could hardly be
 * guessed. */
static __always_inline int arrive(struct __sk_buff *skb, const struct packet *p, const struct rev *r, int encap, int exact)
{
	__u32 n = r->path & (PATHS - 1);
	struct flow f = { r->id, r->generation, p->dport, p->sport, p->proto };
	struct part *known;
	__u32 role = role_of(&f, &known, 0);

	if (!ADMITTED(role)) {
		int verdict = refuse(EV_UNADMITTED, encap);
		return verdict == TCX_DROP && exact ? UNKNOWN : verdict;
	}
	if (role == FLOW_ANSWERED)
		assume(&f, FLOW_FOLLOW); /* its owner has heard the answer */
	if (p->closes)
		closing(&f, p->closes);
	came(r->id, n, skb, exact);
	if (!encap && rewrite(skb, p, &r->stable_remote, &r->stable_local, r->diff, CLASS_DSCP(p->dscp), NULL)) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	return deliver(skb);
}


/* Linux routers answer a marked packet with an error that looks marked: they keep
 * some of its bits (icmp_send). Peers send theirs by the default network. */
GLOBAL int error_in(struct __sk_buff *skb)
{
	struct packet p = {};

	return parse(skb, &p) < 0 ? TCX_NEXT : quoted(skb, &p);
}

GLOBAL int path_in_any(struct __sk_buff *skb)
{
	struct packet p = {};
	__u64 t = 0;

	if (internet(skb, &p) < 0)
		return TCX_NEXT;
	if (p.proto == IPPROTO_TCP && !IS_MARK(p.dscp))
		return former(&p); /* TCP of the application's own on this path */
	transport(skb, &p);
	if (p.error)
		return QUOTES;
	int encap = wrapped(skb, &p, &t);
	if (!encap && !IS_MARK(p.dscp))
		return wrapped_formerly(skb, &p) ? refuse(EV_STRANGER, 0) : former(&p);
	struct rev *r = rev_of(&p.src, p.v6);
	/* Meant for a pod that had this address before, or from one that we do not know:
	 * never deliver it to a stranger. Nor a fragment, nor a SYN, which no data plane
	 * steers: it would go past the policy of the default network. */
	if (!r || !expected(skb, &p, r) || encap != ((r->flags & PATH_ENCAP) != 0) || (encap && unwrap(skb, &p, r)) ||
	    !p.steerable || (p.proto == IPPROTO_TCP && p.opens))
		return refuse(EV_STRANGER, encap);
	int how = encap ? sealed(&p, r, t) : genuine(&p, &r->accept, !r->lower, SAY_DATA);
	return how ? arrive(skb, &p, r, encap, how == EXACT) : refuse(EV_FORGED, encap);
}

SEC("tc") int path_in(struct __sk_buff *skb)
{
	struct packet p = {};

	if (!plain(skb, &p)) {
		int verdict = path_in_any(skb);
		if (verdict == QUOTES)
			return error_in(skb);
		return verdict == UNKNOWN ? recall(skb) : verdict;
	}
	if (!IS_MARK(p.dscp))
		return former(&p); /* the application's own */
	struct rev *r = rev_of(&p.src, 0);
	if (!r || !expected(skb, &p, r) || r->flags & PATH_ENCAP)
		return path_in_any(skb); /* which refuses it */
	int how = genuine(&p, &r->accept, !r->lower, SAY_DATA);
	int verdict = how ? arrive(skb, &p, r, 0, how == EXACT) : refuse(EV_FORGED, 0);
	return verdict == UNKNOWN ? recall(skb) : verdict;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
