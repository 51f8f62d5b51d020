/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Errors from routers on a path, about a packet that they quote. */
#ifndef ICMP_H
#define ICMP_H

/* A quoted packet, as much of it as we need. */
struct quote {
	struct addr src, dst;
	__u32 l4;
	__be16 first; /* of its header: the DSCP is in there */
	__u16 id;     /* as in struct packet */
	__u8 proto, mark, non_first;
};

static __always_inline int parse_quote(struct __sk_buff *skb, const struct packet *p, __u32 at, struct quote *q)
{
	if (p->v6) {
		struct ipv6hdr ip;
		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
			return -1;
		__builtin_memcpy(&q->src, &ip.saddr, 16);
		__builtin_memcpy(&q->dst, &ip.daddr, 16);
		q->first = *(__be16 *)&ip;
		q->mark = (bpf_ntohs(q->first) >> 6) & 0x3f;
		q->id = bpf_ntohs(*((__be16 *)&ip + 1));
		q->proto = ip.nexthdr;
		q->l4 = at + sizeof(ip);
		return 0;
	}
	struct iphdr ip;
	if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
		return -1;
	q->src.w[0] = ip.saddr;
	q->dst.w[0] = ip.daddr;
	q->first = *(__be16 *)&ip;
	q->mark = ip.tos >> 2;
	q->id = bpf_ntohs(ip.id);
	q->proto = ip.protocol;
	q->non_first = (ip.frag_off & bpf_htons(0x1fff)) != 0;
	q->l4 = at + ip.ihl * 4;
	return 0;
}

/* store_quoted changes 16 bits of the quote; the ICMP checksum keeps up. */
static __always_inline int store_quoted(struct __sk_buff *skb, const struct packet *p, __u32 at, __be16 old, __be16 now)
{
	return bpf_skb_store_bytes(skb, at, &now, 2, 0) || bpf_l4_csum_replace(skb, p->l4 + 2, old, now, 2);
}

/* restore_quoted makes the quoted packet the one that the pod sent: addresses, DSCP, and
 * the transport's checksum as far as the quote reaches (RFC 5508 section 4.2). */
static __always_inline int restore_quoted(struct __sk_buff *skb, const struct packet *p, __u32 at, const struct quote *q,
				   const struct rev *r)
{
	struct addr from[2] = { r->local, q->dst }, to[2] = { r->stable_local, r->stable_remote };
	__be16 sum, first = q->first & (p->v6 ? bpf_htons((__u16)~(0x3f << 6)) : bpf_htons(0xff03));
	__u32 check = q->l4 + 2;

	first |= bpf_htons(CLASS_DSCP(q->mark) << (p->v6 ? 6 : 2));

	if (p->v6) {
		__s64 diff = bpf_csum_diff((__be32 *)from, sizeof(from), (__be32 *)to, sizeof(to), 0);
		if (bpf_l4_csum_replace(skb, p->l4 + 2, 0, diff, 0) ||
		    bpf_skb_store_bytes(skb, at + offsetof(struct ipv6hdr, saddr), to, 32, 0) ||
		    store_quoted(skb, p, at, q->first, first))
			return -1;
	} else {
		__be32 pair[2] = { to[0].w[0], to[1].w[0] };
		/* The header's checksum keeps its sum, so the ICMP checksum stays right. */
		if (bpf_l3_csum_replace(skb, at + offsetof(struct iphdr, check), 0, r->diff, 0) ||
		    bpf_l3_csum_replace(skb, at + offsetof(struct iphdr, check), q->first, first, 2) ||
		    bpf_skb_store_bytes(skb, at, &first, 2, 0) ||
		    bpf_skb_store_bytes(skb, at + offsetof(struct iphdr, saddr), pair, 8, 0))
			return -1;
	}
	if (q->proto == IPPROTO_TCP)
		check = q->l4 + offsetof(struct tcphdr, check);
	else if (q->proto == IPPROTO_UDP)
		check = q->l4 + offsetof(struct udphdr, check);
	else if (!p->v6 || q->proto != IPPROTO_ICMPV6)
		return 0;
	if (q->non_first || bpf_skb_load_bytes(skb, check, &sum, 2) || (q->proto == IPPROTO_UDP && !sum))
		return 0;
	__be16 now = ~fold((__u64)(__u16)~sum + r->diff);
	return store_quoted(skb, p, check, sum, !now && q->proto == IPPROTO_UDP ? 0xffff : now); /* 0 would be none (RFC 768) */
}

static __always_inline __s64 pair_diff(const struct addr *a, const struct addr *b, const struct addr *x, const struct addr *y)
{
	struct addr from[2] = { *a, *b }, to[2] = { *x, *y };

	return bpf_csum_diff((__be32 *)from, sizeof(from), (__be32 *)to, sizeof(to), 0);
}

/* MAX_GUESSES is how many errors may quote what we have not sent, in about four seconds. After
 * these none is believed, as who tries all tags finds one. */
#define MAX_GUESSES 16

/* is_ours is whether a packet that an error quotes is one that we sent: who has not seen
 * it cannot know its tag, which is t whole or else id, of the first of several segments.
 * l4 begins its ports. */
static __always_inline int is_ours(const struct rev *r, int v6, __u8 proto, const __u8 *l4, __u16 id, const __u64 *t)
{
	int echo = proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6;
	struct addr stable = r->stable_remote;
	struct peer *pe = v6 ? bpf_map_lookup_elem(&pw_peers6, &stable) : bpf_map_lookup_elem(&pw_peers4, &stable.w[0]);
	struct packet q = { .id = id, .proto = proto, .v6 = v6 };

	if (!pe)
		return 0;
	q.sport = echo ? l4[4] << 8 | l4[5] : l4[0] << 8 | l4[1];
	q.dport = echo ? q.sport : l4[2] << 8 | l4[3];
	__u64 want = flow_tag(&pe->path[r->path & (PATHS - 1)].key, &q, r->lower);
	return t ? *t == want : match_tag(&q, want) == EXACT && limit_used(LIMIT_GUESSES) < MAX_GUESSES;
}

/* In encap.h. */
static __always_inline int icmp_decap(struct __sk_buff *skb, const struct packet *p);

/* icmp_translate translates an ICMP error from a router on the path: the packet that it
 * quotes, and its destination. Its source stays: routers have no stable address. */
static __always_inline int icmp_translate(struct __sk_buff *skb, struct packet *p)
{
	struct quote q = {};
	__u32 at = p->l4 + 8;

	if (parse_quote(skb, p, at, &q))
		return TCX_NEXT;
	if (!IS_MARK(q.mark))
		return icmp_decap(skb, p);
	struct rev *r = rev_of(&q.dst, p->v6);
	__u8 l4[8];
	if (!r || !addr_equal(&q.src, &r->local, p->v6) || !addr_equal(&p->dst, &r->local, p->v6))
		return TCX_NEXT;
	if (q.non_first || bpf_skb_load_bytes(skb, q.l4, l4, sizeof(l4)) || !is_ours(r, p->v6, q.proto, l4, q.id, NULL)) {
		limit_take(LIMIT_GUESSES, MAX_GUESSES);
		count_event(EV_FORGED);
		return TCX_DROP;
	}
	/* In the quote our address is the source, so the pair is the other way round than in
	 * what arrives; the sum is the same. */
	struct addr src = addr_equal(&p->src, &q.dst, p->v6) ? r->stable_remote : p->src;
	__s64 outer = pair_diff(&p->src, &p->dst, &src, &r->stable_local);
	if (restore_quoted(skb, p, at, &q, r) ||
	    rewrite(skb, p, &src, &r->stable_local, outer, IS_MARK(p->dscp) ? 0 : p->dscp, NULL)) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	count_event(EV_ICMP);
	/* A router's address is reached by this interface, and strict reverse path
	 * filtering would drop it on eth0. */
	return addr_equal(&src, &r->stable_remote, p->v6) ? deliver(skb, 0) : TCX_NEXT;
}

#endif
