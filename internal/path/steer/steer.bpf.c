//go:build ignore
// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The data plane: tcx programs in a pod's namespace (Linux 6.6 and later).
 *
 *   out      eth0 egress   stable pair -> the path's own pair, redirect; also netN
 *                          egress where a direct route leads there (Plane.Direct)
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
#include "rewrite.h"
#include "role.h"
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

/* astray is whether a direct route has led a packet to a path's interface. */
static __always_inline int astray(struct __sk_buff *skb)
{
	return skb->ifindex != stable_ifindex;
}

/* stay leaves a packet on the default network. Until the peer has confirmed the
 * choice, it is told: also where a packet cannot take the path that was chosen, as
 * the peer must leave the old one, which may be dead. */
static __always_inline int stay(struct __sk_buff *skb, const struct peer *pe, const struct packet *p, __u32 role, __u32 choice)
{
	if (astray(skb)) /* eth0's program does the rest */
		return bpf_redirect_neigh(stable_ifindex, NULL, 0, 0);
	went(skb, p, pe->id, 0, role, skb->gso_segs, skb->len - ETH_HLEN);
	if (role == FLOW_OWNER && (choice & CHOICE_TELL))
		remark(skb, p->v6, MARK(CHOICE_EPOCH(choice), 1));
	return TCX_NEXT;
}

/* leave sends a packet to a peer. */
static __always_inline int leave(struct __sk_buff *skb, const struct packet *p, struct peer *pe)
{
	if (!p->steerable || p->dscp || !same(&p->src, &pe->self, p->v6))
		return stay(skb, pe, p, FLOW_NONE, 0);
	struct flow f = { pe->id, pe->generation, p->sport, p->dport, p->proto };
	__u32 role = role_out(&f, p), choice = 0;
	if (role == FLOW_OWNER_NEW) {
		/* The handshake goes over the default network, whose policy is the pod's;
		 * the mark tells the peer's data plane that its replies may be steered. */
		int verdict = stay(skb, pe, p, role, 0);
		if (p->opens && verdict == TCX_NEXT)
			remark(skb, p->v6, MARK(CHOICE_EPOCH(owned(pe, p->bucket)), 1));
		return verdict;
	}
	if (role == FLOW_OWNER || role == FLOW_FOLLOW)
		choice = choose(pe, p->bucket, role);
	__u32 n = CHOICE_PATH(choice) & (PATHS - 1);
	if (n == 0)
		return stay(skb, pe, p, role, choice);
	struct path *pa = &pe->path[n];
	if (!pa->ifindex || !fits(skb, p, pa)) {
		count_event(pa->ifindex ? EV_TOO_BIG : EV_NO_PATH);
		return stay(skb, pe, p, role, choice);
	}
	__u32 mark = MARK(CHOICE_EPOCH(choice), role == FLOW_OWNER);
	__u32 packets = skb->gso_segs, bytes = skb->len - ETH_HLEN; /* wrap changes them */
	const __u8 *mac = pa->flags & PATH_MAC ? pa->mac : NULL;
	int err = pa->flags & PATH_ENCAP ? wrap(skb, pa, mark)
					 : rewrite(skb, p, &pa->local, &pa->remote, pa->diff, mark, mac);
	if (err == 1) {
		count_event(EV_NO_PATH);
		return stay(skb, pe, p, role, choice);
	} else if (err || (mac && pa->flags & PATH_ENCAP && bpf_skb_store_bytes(skb, 0, mac, 12, 0))) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	went(skb, p, pe->id, n, role, packets, bytes);
	if (astray(skb) && mac && pa->ifindex == skb->ifindex)
		return TCX_NEXT; /* it is where it is to go */
	return mac ? bpf_redirect(pa->ifindex, 0) : bpf_redirect_neigh(pa->ifindex, NULL, 0, 0);
}

static __noinline int out_any(struct __sk_buff *skb)
{
	struct packet p = {};
	__u32 hint;

	if (internet(skb, &p) < 0 || !(hint = maybe(&p.dst)))
		return TCX_NEXT;
	struct peer *pe = peer_of(&p, &p.dst, hint);
	if (!pe)
		return TCX_NEXT;
	transport(skb, &p);
	return leave(skb, &p, pe);
}

SEC("tc") int out(struct __sk_buff *skb)
{
	struct packet p = {};

	if (bystander(skb, offsetof(struct iphdr, daddr)))
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
	came(pe->id, 0, skb);
	if (!p->steerable)
		return TCX_NEXT;
	struct flow f = { pe->id, pe->generation, p->dport, p->sport, p->proto };
	if (IS_MARK(p->dscp)) {
		told(pe->id, pe->lower, &f, p, 0);
		remark(skb, p->v6, 0);
		return TCX_NEXT;
	}
	if (f.proto == IPPROTO_TCP && !p->opens && !p->accepts)
		return TCX_NEXT;
	struct part *known = bpf_map_lookup_elem(&flows, &f);
	if (known && known->role == FLOW_OWNER_NEW && !(f.proto == IPPROTO_TCP && p->opens))
		assume(&f, FLOW_OWNER); /* the peer answered over the default network */
	else if (!known ? !p->accepts : f.proto == IPPROTO_TCP && p->opens)
		/* Not opened here, and its opener does not steer it: a client behind a
		 * Service address, or one without agent. Replies stay native. */
		assume(&f, FLOW_NATIVE);
	return TCX_NEXT;
}

static __noinline int in_any(struct __sk_buff *skb)
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

	if (bystander(skb, offsetof(struct iphdr, saddr)))
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

/* arrive takes a packet that was steered here. */
static __always_inline int arrive(struct __sk_buff *skb, const struct packet *p, const struct rev *r, int encap)
{
	__u32 n = r->path & (PATHS - 1);

	came(r->id, n, skb);
	if (p->steerable) {
		struct flow f = { r->id, r->generation, p->dport, p->sport, p->proto };
		told(r->id, r->lower, &f, p, n);
	}
	if (!encap && rewrite(skb, p, &r->stable_remote, &r->stable_local, r->diff, 0, NULL)) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	return deliver(skb);
}

/* An error's programs have their stack for themselves: 512 bytes are for all that call each other. */
#define QUOTES 1000

/* Linux routers answer a marked packet with an error that looks marked: they keep
 * some of its bits (icmp_send). Peers send theirs by the default network. */
static __noinline int error_in(struct __sk_buff *skb)
{
	struct packet p = {};

	return parse(skb, &p) < 0 ? TCX_NEXT : quoted(skb, &p);
}

static __noinline int path_in_any(struct __sk_buff *skb)
{
	struct packet p = {};

	if (internet(skb, &p) < 0 || (p.proto == IPPROTO_TCP && !IS_MARK(p.dscp)))
		return TCX_NEXT; /* TCP of the application's own on this path */
	transport(skb, &p);
	if (p.error)
		return QUOTES;
	__u8 mark = p.dscp;
	int encap = wrapped(skb, &p, &mark);
	if (!encap && !IS_MARK(mark))
		return TCX_NEXT;
	struct rev *r = rev_of(&p.src, p.v6);
	if (!r || !expected(skb, &p, r) ||
	    encap != ((r->flags & PATH_ENCAP) != 0) || (encap && unwrap(skb, &p, r, mark)) ||
	    (p.proto == IPPROTO_TCP && p.opens)) {
		/* Meant for a pod that had this address before, or from one that we do
		 * not know: never deliver it to a stranger. Nor a SYN, which no data plane
		 * steers: it would go past the policy of the default network. */
		count_event(EV_STRANGER);
		return TCX_DROP;
	}
	return arrive(skb, &p, r, encap);
}

SEC("tc") int path_in(struct __sk_buff *skb)
{
	struct packet p = {};

	if (!plain(skb, &p)) {
		int verdict = path_in_any(skb);
		return verdict == QUOTES ? error_in(skb) : verdict;
	}
	if (!IS_MARK(p.dscp))
		return TCX_NEXT; /* the application's own */
	struct rev *r = rev_of(&p.src, 0);
	if (!r || !expected(skb, &p, r) || r->flags & PATH_ENCAP)
		return path_in_any(skb); /* which refuses it */
	return arrive(skb, &p, r, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
