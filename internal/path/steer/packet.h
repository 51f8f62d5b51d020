/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Packets: reading, rewriting, counting. */
#ifndef PACKET_H
#define PACKET_H

/* Linux 6.16 told IPv6 apart, for CHECKSUM_COMPLETE; older ones refuse the flag. */
#define F_IPV6 (1ull << 7)

struct packet {
	struct addr src, dst;
	__u32 bucket;
	__u32 l4;       /* offset of the transport header */
	__u32 seglen;   /* of the IP packet, or of each segment of a GSO packet */
	__u16 sport, dport;
	__u8 v6, proto, dscp;
	__u8 steerable; /* a whole TCP, UDP or ICMP echo packet */
	__u8 opens;     /* TCP: SYN without ACK; ICMP: echo request; UDP: any */
	__u8 accepts;   /* TCP: SYN with ACK; ICMP: echo reply */
	__u8 fragment;
	__u8 later;     /* a fragment without the transport header */
	__u8 error;     /* an ICMP error that quotes a packet */
	__u8 asks;      /* it wants an answer, if its sender opened the flow: not a mere acknowledgment */
};

/* The packet's bounds. By assembly, as the compiler may shorten what it takes for
 * plain 32-bit fields, where the verifier wants whole pointers. */
static __always_inline void *data_of(struct __sk_buff *skb)
{
	void *p;

	asm volatile("%0 = *(u32 *)(%1 + %2)" : "=r"(p) : "r"(skb), "i"(offsetof(struct __sk_buff, data)));
	return p;
}

static __always_inline void *end_of(struct __sk_buff *skb)
{
	void *p;

	asm volatile("%0 = *(u32 *)(%1 + %2)" : "=r"(p) : "r"(skb), "i"(offsetof(struct __sk_buff, data_end)));
	return p;
}

static __always_inline void count_event(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&events, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline void tally(void *map, __u32 id, __u32 n, __u32 packets, __u32 bytes)
{
	__u32 i = id * PATHS + n;
	struct tally *t = bpf_map_lookup_elem(map, &i);

	if (t) {
		__sync_fetch_and_add(&t->packets, packets ? packets : 1);
		__sync_fetch_and_add(&t->bytes, bytes);
	}
}

/* stamp notes that a packet came, or that one went that wants an answer. The
 * coarse clock would not do: it may tick every 4 ms only. */
static __always_inline void stamp(void *map, __u32 id, __u32 n)
{
	__u32 i = id * PATHS + n;
	struct tally *t = bpf_map_lookup_elem(map, &i);

	if (t)
		*(volatile __u64 *)&t->last = bpf_ktime_get_ns();
}

static __always_inline void count(void *map, __u32 id, __u32 n, struct __sk_buff *skb)
{
	tally(map, id, n, skb->gso_segs, skb->len - ETH_HLEN);
}

static __always_inline int same(const struct addr *a, const struct addr *b, int v6)
{
	if (a->w[0] != b->w[0])
		return 0;
	return !v6 || (a->w[1] == b->w[1] && a->w[2] == b->w[2] && a->w[3] == b->w[3]);
}

/* head makes the first n bytes readable and returns them, or NULL. */
static __always_inline void *head(struct __sk_buff *skb, __u32 n)
{
	if (data_of(skb) + n > end_of(skb) && bpf_skb_pull_data(skb, n))
		return NULL;
	void *data = data_of(skb);
	return data + n > end_of(skb) ? NULL : data;
}

/* transport reads ports and flags. Packets of other protocols are not steerable. */
static __always_inline void transport(struct __sk_buff *skb, struct packet *p)
{
	__u8 b[16] = {};
	__u32 h, hlen = 8;

	if (p->fragment)
		return;
	if (p->proto == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, p->l4, b, 16))
			return;
		p->sport = b[0] << 8 | b[1];
		p->dport = b[2] << 8 | b[3];
		p->opens = (b[13] & 0x12) == 0x02;
		p->accepts = (b[13] & 0x12) == 0x12;
		hlen = (b[12] >> 4) * 4;
	} else if (p->proto == IPPROTO_UDP) {
		if (bpf_skb_load_bytes(skb, p->l4, b, 8))
			return;
		p->sport = b[0] << 8 | b[1];
		p->dport = b[2] << 8 | b[3];
		p->opens = 1;
	} else if (p->proto == (p->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		if (bpf_skb_load_bytes(skb, p->l4, b, 8))
			return;
		__u8 request = p->v6 ? 128 : 8, reply = p->v6 ? 129 : 0;
		p->error = p->v6 ? b[0] >= 1 && b[0] <= 4 : b[0] == 3 || b[0] == 11 || b[0] == 12;
		if (b[0] != request && b[0] != reply)
			return;
		p->opens = b[0] == request;
		p->accepts = b[0] == reply;
		p->sport = b[4] << 8 | b[5]; /* the identifier, whatever the direction */
	} else {
		return;
	}
	if (p->proto == IPPROTO_ICMP || p->proto == IPPROTO_ICMPV6)
		p->dport = p->sport;
	p->asks = p->proto == IPPROTO_TCP ? skb->gso_size || skb->len > p->l4 + hlen : p->opens;
	if (skb->gso_size)
		p->seglen = p->l4 - ETH_HLEN + hlen + skb->gso_size;
	h = (__u32)(__u16)(p->sport ^ p->dport) * 0x9E3779B1u + p->proto * 0x85EBCA6Bu;
	h ^= h >> 16;
	p->bucket = h & (BUCKETS - 1); /* the same in both directions; as package flow has it */
	p->steerable = 1;
}

/* internet reads the addresses of an Ethernet frame with IPv4 or IPv6. Returns -1 for
 * anything else. Most packets of a pod are of no peer, and end with them. */
static __always_inline int internet(struct __sk_buff *skb, struct packet *p)
{
	p->seglen = skb->len - ETH_HLEN;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		void *data = head(skb, ETH_HLEN + sizeof(struct iphdr));
		if (!data)
			return -1;
		struct iphdr *ip = data + ETH_HLEN;
		p->src.w[0] = ip->saddr;
		p->dst.w[0] = ip->daddr;
		p->proto = ip->protocol;
		p->dscp = ip->tos >> 2;
		p->l4 = ETH_HLEN + ip->ihl * 4;
		p->later = (ip->frag_off & bpf_htons(0x1fff)) != 0;
		p->fragment = (ip->frag_off & bpf_htons(0x3fff)) != 0; /* an offset, or more to come */
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		void *data = head(skb, ETH_HLEN + sizeof(struct ipv6hdr));
		if (!data)
			return -1;
		struct ipv6hdr *ip = data + ETH_HLEN;
		__builtin_memcpy(&p->src, &ip->saddr, 16);
		__builtin_memcpy(&p->dst, &ip->daddr, 16);
		p->v6 = 1;
		p->proto = ip->nexthdr; /* extension headers, fragments among them: not steerable */
		p->dscp = (bpf_ntohs(*(__be16 *)ip) >> 6) & 0x3f;
		p->l4 = ETH_HLEN + sizeof(*ip);
	} else {
		return -1;
	}
	return 0;
}

static __always_inline int parse(struct __sk_buff *skb, struct packet *p)
{
	if (internet(skb, p) < 0)
		return -1;
	transport(skb, p);
	return 0;
}

/* fold makes a 16-bit checksum of a sum (RFC 1071). */
static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* header writes addresses (NULL: keep) and DSCP into the IP header; diff is the
 * addresses' checksum difference (RFC 1624). */
static __always_inline int header(struct __sk_buff *skb, const struct packet *p, const struct addr *src,
				  const struct addr *dst, __u32 diff, __u8 dscp)
{
	void *data = data_of(skb), *end = end_of(skb);

	if (p->v6) {
		struct ipv6hdr *ip = data + ETH_HLEN;
		if ((void *)(ip + 1) > end)
			return -1;
		__be16 *first = (__be16 *)ip;
		*first = bpf_htons((bpf_ntohs(*first) & ~(0x3f << 6)) | dscp << 6);
		if (src) {
			__builtin_memcpy(&ip->saddr, src, 16);
			__builtin_memcpy(&ip->daddr, dst, 16);
		}
		return 0;
	}
	struct iphdr *ip = data + ETH_HLEN;
	if ((void *)(ip + 1) > end)
		return -1;
	__u8 tos = (ip->tos & 3) | dscp << 2;
	__u64 sum = (__u64)(__u16)~ip->check + diff + (__u16)~bpf_htons(ip->tos) + bpf_htons(tos);
	ip->check = ~fold(sum);
	ip->tos = tos;
	if (src) {
		ip->saddr = src->w[0];
		ip->daddr = dst->w[0];
	}
	return 0;
}

/* remark sets the DSCP alone. */
static __always_inline void remark(struct __sk_buff *skb, const struct packet *p, __u8 dscp)
{
	if (header(skb, p, NULL, NULL, 0, dscp))
		count_event(EV_ERROR);
}

/* rewrite replaces the address pair; with GSO and checksum offload as they are:
 * the kernel's helper knows what the checksum field holds. */
static __always_inline int rewrite(struct __sk_buff *skb, const struct packet *p, const struct addr *src,
				   const struct addr *dst, __u32 diff, __u8 dscp)
{
	__u64 flags = BPF_F_PSEUDO_HDR;
	__u32 off = 0;

	if (p->later) {
		off = 0;
	} else if (p->proto == IPPROTO_TCP) {
		off = offsetof(struct tcphdr, check);
	} else if (p->proto == IPPROTO_UDP) {
		off = offsetof(struct udphdr, check);
		flags |= BPF_F_MARK_MANGLED_0; /* zero: no checksum, and stays so */
	} else if (p->v6 && p->proto == IPPROTO_ICMPV6) {
		off = 2;
	}
	if (off && p->v6) {
		int err = bpf_l4_csum_replace(skb, p->l4 + off, 0, diff, flags | F_IPV6);
		if (err == -22)
			err = bpf_l4_csum_replace(skb, p->l4 + off, 0, diff, flags);
		if (err)
			return err;
	} else if (off && bpf_l4_csum_replace(skb, p->l4 + off, 0, diff, flags)) {
		return -1;
	}
	return header(skb, p, src, dst, diff, dscp);
}

/* deliver hands a translated packet to the stack. */
static __always_inline int deliver(struct __sk_buff *skb)
{
	if (!to_stable_dev)
		return TCX_NEXT;
	/* The redirect runs eth_type_trans again: the frame must carry eth0's MAC. */
	void *data = head(skb, ETH_HLEN);
	if (!data)
		return TCX_DROP;
#pragma unroll
	for (int i = 0; i < 6; i++)
		((__u8 *)data)[i] = stable_mac[i];
	skb->mark = FROM_PATH;
	return bpf_redirect(stable_ifindex, BPF_F_INGRESS);
}

/* A quoted packet, as much of it as we need. */
struct quote {
	struct addr src, dst;
	__u32 l4;
	__be16 first; /* of its header: the DSCP is in there */
	__u8 proto, marked, later;
};

static __always_inline int quote(struct __sk_buff *skb, const struct packet *p, __u32 at, struct quote *q)
{
	if (p->v6) {
		struct ipv6hdr ip;
		if (bpf_skb_load_bytes(skb, at, &ip, sizeof(ip)))
			return -1;
		__builtin_memcpy(&q->src, &ip.saddr, 16);
		__builtin_memcpy(&q->dst, &ip.daddr, 16);
		q->first = *(__be16 *)&ip;
		q->marked = IS_MARK((bpf_ntohs(q->first) >> 6) & 0x3f);
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
	q->marked = IS_MARK(ip.tos >> 2);
	q->proto = ip.protocol;
	q->later = (ip.frag_off & bpf_htons(0x1fff)) != 0;
	q->l4 = at + ip.ihl * 4;
	return 0;
}

/* requote changes 16 bits of the quote; the ICMP checksum keeps up. */
static __always_inline int requote(struct __sk_buff *skb, const struct packet *p, __u32 at, __be16 old, __be16 now)
{
	return bpf_skb_store_bytes(skb, at, &now, 2, 0) || bpf_l4_csum_replace(skb, p->l4 + 2, old, now, 2);
}

/* restore makes the quoted packet the one that the pod sent: addresses, DSCP, and
 * the transport's checksum as far as the quote reaches (RFC 5508 section 4.2). */
static __always_inline int restore(struct __sk_buff *skb, const struct packet *p, __u32 at, const struct quote *q,
				   const struct rev *r)
{
	struct addr from[2] = { r->local, q->dst }, to[2] = { r->stable_local, r->stable_remote };
	__be16 sum, first = q->first & (p->v6 ? bpf_htons((__u16)~(0x3f << 6)) : bpf_htons(0xff03));
	__u32 check = q->l4 + 2;

	if (p->v6) {
		__s64 diff = bpf_csum_diff((__be32 *)from, sizeof(from), (__be32 *)to, sizeof(to), 0);
		if (bpf_l4_csum_replace(skb, p->l4 + 2, 0, diff, 0) ||
		    bpf_skb_store_bytes(skb, at + offsetof(struct ipv6hdr, saddr), to, 32, 0) ||
		    requote(skb, p, at, q->first, first))
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
	if (q->later || bpf_skb_load_bytes(skb, check, &sum, 2) || (q->proto == IPPROTO_UDP && !sum))
		return 0;
	return requote(skb, p, check, sum, ~fold((__u64)(__u16)~sum + r->diff));
}

/* In encap.h. */
static __always_inline int unquote(struct __sk_buff *skb, const struct packet *p);

/* quoted translates an ICMP error from a router on the path: the packet that it
 * quotes, and its destination. Its source stays: routers have no stable address. */
static __always_inline int quoted(struct __sk_buff *skb, struct packet *p)
{
	struct quote q = {};
	__u32 at = p->l4 + 8;

	if (quote(skb, p, at, &q))
		return TCX_NEXT;
	if (!q.marked)
		return unquote(skb, p);
	struct rev *r = p->v6 ? bpf_map_lookup_elem(&rev6, &q.dst) : bpf_map_lookup_elem(&rev4, &q.dst.w[0]);
	if (!r || !same(&q.src, &r->local, p->v6) || !same(&p->dst, &r->local, p->v6))
		return TCX_NEXT;
	/* In the quote our address is the source, so the pair stands the other way
	 * round than in what arrives; the sum does not mind. */
	struct addr src = same(&p->src, &q.dst, p->v6) ? r->stable_remote : p->src;
	struct addr old[2] = { p->src, p->dst }, now[2] = { src, r->stable_local };
	__s64 outer = bpf_csum_diff((__be32 *)old, sizeof(old), (__be32 *)now, sizeof(now), 0);
	if (restore(skb, p, at, &q, r) ||
	    !head(skb, ETH_HLEN + (p->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr))) ||
	    rewrite(skb, p, &src, &r->stable_local, outer, IS_MARK(p->dscp) ? 0 : p->dscp)) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	count_event(EV_ICMP);
	/* A router's address is reached by this interface, and strict reverse path
	 * filtering would drop it on eth0. */
	return same(&src, &r->stable_remote, p->v6) ? deliver(skb) : TCX_NEXT;
}

#endif
