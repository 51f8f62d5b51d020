//go:build ignore
// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The data plane: tcx programs in a pod's namespace (Linux 6.6), which verifiers since Linux 6.8 take.
 *
 *   pw_egress        eth0 egress   stable pair -> the path's own pair, redirect; also netN
 *                                  egress where a direct route leads there (Plane.Direct)
 *   pw_ingress       eth0 ingress  tags on the default network: open, answer, forgotten
 *   pw_path_ingress  netN ingress  the path's own pair -> stable pair
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

#include "../flow/bucket.h"
#include "dataplane.h"

/* Set by the loader. */
const volatile __u32 stable_ifindex = 0;  /* eth0 */
const volatile __u8 stable_mac[6] = {};
const volatile __u8 to_stable_dev = 0;    /* hand arrivals to eth0: rp_filter is strict on a path */
const volatile __u64 lease_ns = 0;
const volatile __u32 slot_shift = 23, slot_rev_shift = 22; /* of a hash, to an index of pw_hints and pw_rev_hints */
const volatile __u32 flows_per_peer = 0;

#include "packet.h"
#include "mark.h"
#include "rewrite.h"

/* lease_runs is whether the agent's lease runs. It runs for whole ticks, as the coarse
 * clock does not move within one, so it is looked at once for each. */
GLOBAL int lease_runs(void)
{
	__u32 zero = 0;
	__u64 tick = bpf_jiffies64();
	struct lease *b = bpf_map_lookup_elem(&pw_heartbeat, &zero);

	if (!b)
		return 0;
	if (*(volatile __u64 *)&b->tick == tick)
		return 1;
	/* Signed: the renewal may be newer than the clock was when we read it. */
	if ((__s64)(bpf_ktime_get_coarse_ns() - *(volatile __u64 *)&b->renewed) >= (__s64)lease_ns)
		return 0;
	*(volatile __u64 *)&b->tick = tick;
	return 1;
}

#include "role.h"
#include "row.h"
#include "forgotten.h"
#include "icmp.h"
#include "encap.h"

/* on_path_dev is whether a direct route has led a packet to a path's interface. */
static __always_inline int on_path_dev(struct __sk_buff *skb)
{
	return skb->ifindex != stable_ifindex;
}

/* announce tags a packet of a flow on the default network, if it is time to. what is the flow and
 * the kind (tag_input), how is what dscp_mark gives, and in the second byte whether it is IPv6. */
GLOBAL int announce(struct __sk_buff *skb, const struct key *key, struct flow_state *state, __u64 what, __u32 how)
{
	__u32 kind = what >> 40 & 0xff;

	if (!key || !state || !announcement_due(state))
		return 0;
	__u64 tags = word_tags(key->k[0], key->k[1], what & ~(0xffull << 40));
	if (!(how >> 8 & 1) && runs_over(tags, kind, skb->gso_segs, how >> 16))
		return 0; /* the next one that is shorter says it */
	note_announced(state);
	return remark(skb, how >> 8 & 1, WITH_TAG(how & 0xff, WORD_TAG(tags, kind) + (how >> 16)));
}

/* tag_due is the tag for packets on the default network until the other end confirms it. */
GLOBAL int tag_due(__u32 role)
{
	if (role == FLOW_OWNER_NEW)
		return TAG_OPEN;
	if (role == FLOW_OWNER)
		return TAG_SETTLED;
	return role == FLOW_ANSWERED ? TAG_ANSWER : 0;
}

/* pass_default leaves a packet on the default network. */
static __always_inline int pass_default(struct __sk_buff *skb, const struct peer *pe, const struct packet *p, __u32 role,
				struct flow_state *state, __u32 mark)
{
	__u32 kind = tag_due(role);

	if (on_path_dev(skb)) /* eth0's program does the rest */
		return bpf_redirect_neigh(stable_ifindex, NULL, 0, 0);
	count_sent(skb, p, pe->id, 0, role, skb->gso_segs, skb->len - ETH_HLEN);
	if (state && kind && (!(mark >> 16) || pe->path[0].flags & PATH_DSCP))
		announce(skb, &pe->key, state, tag_input(p, pe->lower, kind), mark | p->v6 << 8);
	return TCX_NEXT;
}

/* egress_role is this end's role in the flow of a packet that leaves. */
static __always_inline __u32 egress_role(struct __sk_buff *skb, const struct flow *f, const struct packet *p,
					 struct flow_state **state, __u32 *row)
{
	__u32 role = owner_role(skb, f, p, state, row);

	if (p->closes)
		set_closed(f, p->closes & CLOSED_RESET ? CLOSED_RESET : CLOSED_OUT);
	if (role != FLOW_FOLLOW_NEW || !is_answer(p))
		return role;
	role = set_role(f, claim(skb, f) ? FLOW_OWNER_NEW : FLOW_ANSWERED);
	*state = flow_of(f);
	return role;
}

/* rewrite_any is rewrite for packets that are not on the fast path: verified once, and not again for all that may have
 * gone before it. */
GLOBAL int rewrite_any(struct __sk_buff *skb, const struct packet *p, const struct path *pa, __u32 dscp)
{
	if (!p || !pa || p->fast)
		return -1;
	return rewrite(skb, p, &pa->local, &pa->remote, pa->diff, dscp, pa->flags & PATH_MAC ? pa->mac : NULL);
}

#define PASS_DEFAULT 1000 /* no verdict: the packet is to stay on the default network */

/* keep_default has a packet stay there, and counts why, once: eth0's program finds the same. */
static __always_inline int keep_default(struct __sk_buff *skb, __u32 why)
{
	if (!on_path_dev(skb))
		count_event(why);
	return PASS_DEFAULT;
}

/* redirect_path sends a packet over path n. */
static __always_inline int redirect_path(struct __sk_buff *skb, const struct packet *p, struct peer *pe, __u32 role,
					 __u32 n, __u32 mark, int fast)
{
	struct path *pa = &pe->path[n & (PATHS - 1)];

	if (!pa->ifindex || !fits(skb, p, pa))
		return keep_default(skb, pa->ifindex ? EV_TOO_BIG : EV_NO_PATH);
	if (mark >> 16 && !(pa->flags & (PATH_DSCP | PATH_ENCAP)))
		return keep_default(skb, EV_DSCP);
	__u64 t = flow_tag(&pa->key, p, pe->lower);
	__u32 packets = skb->gso_segs, bytes = skb->len - ETH_HLEN; /* encapsulate changes them */
	const __u8 *mac = pa->flags & PATH_MAC ? pa->mac : NULL;
	asm volatile("" : "+r"(mac)); /* what is tested is to be the pointer, which Linux 6.8's verifier knows */
	__u32 dscp = WITH_TAG(mark & 0xff, t + (mark >> 16));
	int err = pa->flags & PATH_ENCAP ? encapsulate(skb, pa, t)
		  : fast ? rewrite_fast(skb, p, &pa->local, &pa->remote, pa->diff, dscp, mac) : rewrite_any(skb, p, pa, dscp);
	if (err == 1) {
		count_event(EV_NO_PATH);
		return PASS_DEFAULT;
	} else if (err || (mac && pa->flags & PATH_ENCAP && bpf_skb_store_bytes(skb, 0, mac, 12, 0))) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	count_sent(skb, p, pe->id, n, role, packets, bytes);
	if (on_path_dev(skb) && mac && pa->ifindex == skb->ifindex)
		return TCX_NEXT; /* it is where it is to go */
	return mac ? bpf_redirect(pa->ifindex, 0) : bpf_redirect_neigh(pa->ifindex, NULL, 0, 0);
}

/* redirect_any is redirect_path for packets that are not on the fast path. how is the role, and from the ninth bit on
 * the path. */
GLOBAL int redirect_any(struct __sk_buff *skb, const struct packet *p, struct peer *pe, __u32 how, __u32 mark)
{
	return p && pe ? redirect_path(skb, p, pe, how & 0xff, how >> 8, mark, 0) : PASS_DEFAULT;
}

/* beginning_path is the path of a packet of a flow that not both ends have admitted, 0 for the default network, and from
 * the ninth bit on this end's role. state is there where the other end may have received an answer. */
GLOBAL int beginning_path(const struct peer *pe, const struct flow *f, const struct flow_state *state, __u32 bucket,
			  __u32 role)
{
	__u32 n;

	if (!pe || !f)
		return 0;
	if (role == FLOW_ANSWERED && state && surely_received(state) && (n = choose_path(pe, bucket, FLOW_FOLLOW)))
		return set_role(f, FLOW_FOLLOW) << 8 | n;
	return role << 8 | opening_path(pe, f, bucket, role);
}

/* egress_peer sends a packet to a peer. */
static __always_inline int egress_peer(struct __sk_buff *skb, struct packet *p, struct peer *pe, int fast)
{
	__u32 mark = p->dscp || !p->steerable ? dscp_mark(p->dscp) : MARK, role = FLOW_NONE, n = 0, row = 0;
	struct flow_state *state = NULL;

	if (p->steerable && mark && addr_equal(&p->src, &pe->self, p->v6)) {
		struct flow f = { pe->id, pe->generation, p->sport, p->dport, p->proto };
		role = egress_role(skb, &f, p, &state, &row);
		if (role == FLOW_OWNER || role == FLOW_FOLLOW) {
			n = choose_path(pe, row_bucket(p->bucket, row), role);
		} else {
			n = beginning_path(pe, &f, state && !p->accepts ? state : NULL, row_bucket(p->bucket, row), role);
			role = n >> 8;
			n &= 0xff;
		}
		if (!n && state && on_path_dev(skb))
			uncache(&f); /* eth0's program announces by the table, once a tick as well */
		else if (p->proto == IPPROTO_UDP)
			p->wants_reply = wants_datagram(&f, state, role);
	} else if (p->steerable && !mark && (p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP)) {
		keep_default(skb, EV_DSCP);
	}
	int verdict = PASS_DEFAULT;
	if (n)
		verdict = fast ? redirect_path(skb, p, pe, role, n, mark, 1) : redirect_any(skb, p, pe, n << 8 | role, mark);
	return verdict == PASS_DEFAULT ? pass_default(skb, pe, p, role, state, mark) : verdict;
}

GLOBAL int egress_any(struct __sk_buff *skb)
{
	struct packet p = {};
	__u32 hint;

	if (parse_ip_once(skb, &p) < 0) {
		report_asked(skb);
		return TCX_NEXT;
	}
	if (!(hint = peer_hint(&p.dst))) {
		report_miss(&p.dst);
		if (p.v6)
			report_asked(skb);
		return TCX_NEXT;
	}
	struct peer *pe = peer_of(&p, &p.dst, hint);
	if (!pe)
		return TCX_NEXT;
	parse_l4_once(skb, &p);
	return egress_peer(skb, &p, pe, 0);
}

#define NOT_FAST 1001 /* no verdict: the packet is not of the fast path */

GLOBAL int egress_fast(struct __sk_buff *skb)
{
	struct packet p = {};

	if (!parse_fast(skb, &p))
		return NOT_FAST;
	__u32 hint = peer_hint(&p.dst);
	struct peer *pe = hint ? peer_of(&p, &p.dst, hint) : NULL;
	return pe ? egress_peer(skb, &p, pe, 1) : TCX_NEXT;
}

/* The two have their stack one after the other: before Linux 6.9 each function's counts as a multiple of 32 bytes, and
 * all that call each other have 512 (round_up_stack_depth). */
SEC("tc") int pw_egress(struct __sk_buff *skb)
{
	if (not_peer(skb, offsetof(struct iphdr, daddr), 1))
		return TCX_NEXT;
	int verdict = egress_fast(skb);
	return verdict == NOT_FAST ? egress_any(skb) : verdict;
}

/* ingress_peer takes what a packet on the default network tells of its flow. */
static __always_inline int ingress_peer(struct __sk_buff *skb, const struct packet *p, struct peer *pe)
{
	count_received(pe->id, 0, skb, 1);
	if (!p->steerable || (p->fast && !IS_MARK(p->dscp)))
		return TCX_NEXT;
	struct flow f = { pe->id, pe->generation, p->dport, p->sport, p->proto };
	int syn = p->proto == IPPROTO_TCP && p->opens;
	__u32 found = IS_MARK(p->dscp) ? tag_kind_of(p, &pe->accept, !pe->lower) : 0, kind = found & HOW;
	if (kind) {
		handle_tag(&f, syn, pe->lower, kind);
		if (kind == TAG_FORGOTTEN)
			return TCX_DROP; /* it has no other purpose */
		remark(skb, p->v6, app_dscp(p->dscp, found));
	} else if (syn) { /* what has a mark but no tag may be an application's own, or sent back by tcp_reflect_tos */
		/* Its opener does not steer it: a client behind a Service address, or one
		 * without agent. */
		set_role(&f, FLOW_NONE);
	}
	struct flow_state *state = flow_of(&f);
	if (state) {
		refresh(&f, state);
		note_received(&f, state, state->role);
		state->closed |= p->closes;
		if (kind)
			learn_row(&f, state, 0);
	}
	return TCX_NEXT;
}

GLOBAL int ingress_any(struct __sk_buff *skb)
{
	struct packet p = {};
	__u32 hint;

	if (parse_ip_once(skb, &p) < 0 || !(hint = peer_hint(&p.src)))
		return TCX_NEXT;
	struct peer *pe = peer_of(&p, &p.src, hint);
	if (!pe)
		return TCX_NEXT;
	parse_l4_once(skb, &p);
	return ingress_peer(skb, &p, pe);
}

SEC("tc") int pw_ingress(struct __sk_buff *skb)
{
	struct packet p = {};

	if (not_peer(skb, offsetof(struct iphdr, saddr), 0))
		return TCX_NEXT;
	if (skb->mark == FROM_PATH) { /* pw_path_ingress has seen it */
		skb->mark = 0;
		return TCX_NEXT;
	}
	if (!parse_fast(skb, &p) || p.dscp == OTHERS)
		return ingress_any(skb);
	__u32 hint = peer_hint(&p.src);
	struct peer *pe = hint ? peer_of(&p, &p.src, hint) : NULL;
	return pe ? ingress_peer(skb, &p, pe) : TCX_NEXT;
}

/* from_known_path is whether a packet is from a peer, by the path that we know it on. */
static __always_inline int from_known_path(struct __sk_buff *skb, const struct packet *p, const struct rev *r)
{
	return addr_equal(&p->dst, &r->local, p->v6) && r->ifindex == skb->ifindex;
}

/* reject drops a packet that looks steered; but for one that a data plane of another
 * layout may know, which comes after ours then and decides. An encapsulated packet tells
 * its layout, and may be decapsulated by now: it is never anybody else's. */
static __always_inline int reject(__u32 why, int encap)
{
	__u32 zero = 0;
	struct lease *b = bpf_map_lookup_elem(&pw_heartbeat, &zero);

	if (b && b->lenient && !encap)
		return TCX_NEXT;
	count_event(why);
	return TCX_DROP;
}

/* reject_former rejects what a data plane of layout 1 has sent, and lets all else pass. Where
 * the other end is of that layout still, it may send so long after ours has taken that one's
 * place here. The stack would answer with a reset, or an error, that the other end takes
 * for one of its flow: it is to find that the path is dead. */
static __always_inline int reject_former(const struct packet *p)
{
	return FORMER_MARK(p->dscp) ? reject(EV_STRANGER, 0) : TCX_NEXT;
}

/* No verdicts, but what is to be done with the packet: by functions that have their stack
 * for themselves, as 512 bytes are for all that call each other. */
#define IS_ICMP_ERROR 1000
#define IS_UNKNOWN_FLOW 1001

/* ingress_steered takes a packet that was steered here: of a flow that the default network
 * has admitted in both directions, and no other, but while that fails (open_from_path).
 * found is how its tag matches: one that is exact could hardly be guessed. */
static __always_inline int ingress_steered(struct __sk_buff *skb, const struct packet *p, const struct rev *r,
					   int encap, __u32 found)
{
	__u32 n = r->path & (PATHS - 1);
	struct flow f = { r->id, r->generation, p->dport, p->sport, p->proto };
	struct flow_state *state;
	__u32 row, role = flow_role(&f, &state, 0, &row), dscp = app_dscp(p->dscp, found);
	int exact = (found & HOW) == EXACT, syn = p->proto == IPPROTO_TCP && p->opens;

	if ((syn || !ADMITTED(role)) && !(exact && (role = open_from_path(&f, syn ? FLOW_NONE : role)))) {
		int verdict = reject(EV_UNADMITTED, encap);
		return verdict == TCX_DROP && exact ? IS_UNKNOWN_FLOW : verdict;
	}
	if (!encap && !p->fast && p->dscp == OTHERS) {
		int how = other_dscp(&f, found);
		if (how == FORGED)
			return reject(EV_FORGED, encap);
		exact = how == EXACT;
	}
	if (role == FLOW_ANSWERED)
		set_role(&f, FLOW_FOLLOW); /* its owner has received the answer */
	if (state) {
		learn_row(&f, state, n);
		note_received(&f, state, role);
	}
	if (p->closes)
		set_closed(&f, p->closes);
	count_received(r->id, n, skb, exact);
	if (!encap && rewrite(skb, p, &r->stable_remote, &r->stable_local, r->diff, dscp, NULL)) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	return deliver(skb, role == FLOW_FOLLOW_NEW || is_one_way(&f, state));
}

/* Linux routers answer a marked packet with an error that looks marked: they keep
 * some of its bits (icmp_send). Peers send theirs by the default network. */
GLOBAL int icmp_error(struct __sk_buff *skb)
{
	struct packet p = {};

	return parse(skb, &p) < 0 ? TCX_NEXT : icmp_translate(skb, &p);
}

GLOBAL int path_ingress_any(struct __sk_buff *skb)
{
	struct packet p = {};
	__u64 t = 0;

	if (parse_ip_once(skb, &p) < 0)
		return TCX_NEXT;
	if (p.proto == IPPROTO_TCP && !IS_MARK(p.dscp))
		return reject_former(&p); /* TCP of the application's own on this path */
	parse_l4_once(skb, &p);
	if (p.error)
		return IS_ICMP_ERROR;
	int encap = shim_tag(skb, &p, &t);
	if (!encap && !IS_MARK(p.dscp))
		return is_former_shim(skb, &p) ? reject(EV_STRANGER, 0) : reject_former(&p);
	struct rev *r = rev_of(&p.src, p.v6);
	/* Meant for a pod that had this address before, or from one that we do not know:
	 * never deliver it to a stranger. Nor a fragment, nor a SYN, which would go past the
	 * policy of the default network, but while that fails and policy is the same. */
	if (!r || !from_known_path(skb, &p, r) || encap != ((r->flags & PATH_ENCAP) != 0) || (encap && decapsulate(skb, &p, r)) ||
	    !p.steerable || (p.proto == IPPROTO_TCP && p.opens && !elsewhere(r->id, CHOICE_TAKES)))
		return reject(EV_STRANGER, encap);
	int how = encap ? verify_shim(&p, r, t) : verify_tag(&p, &r->accept, !r->lower);
	return how ? ingress_steered(skb, &p, r, encap, how) : reject(EV_FORGED, encap);
}

SEC("tc") int pw_path_ingress(struct __sk_buff *skb)
{
	struct packet p = {};

	if (!parse_fast(skb, &p) || p.dscp == OTHERS) {
		int verdict = path_ingress_any(skb);
		if (verdict == IS_ICMP_ERROR)
			return icmp_error(skb);
		return verdict == IS_UNKNOWN_FLOW ? reply_forgotten(skb) : verdict;
	}
	if (!IS_MARK(p.dscp))
		return reject_former(&p); /* the application's own */
	struct rev *r = rev_of(&p.src, 0);
	if (!r || !from_known_path(skb, &p, r) || r->flags & PATH_ENCAP)
		return path_ingress_any(skb); /* which refuses it */
	int how = verify_tag(&p, &r->accept, !r->lower);
	int verdict = how ? ingress_steered(skb, &p, r, 0, how) : reject(EV_FORGED, 0);
	return verdict == IS_UNKNOWN_FLOW ? reply_forgotten(skb) : verdict;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
