/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The answer to packets that must not be delivered: a note that their flow is forgotten. */
#ifndef RECALL_H
#define RECALL_H

/* MAX_NOTES is how many there are in about four seconds, so that no replay makes a storm. */
#define MAX_NOTES 256

/* A packet without payload, that harms nobody who takes it for one of the flow. */
struct note {
	union {
		struct {
			__be16 sport, dport;
			__be32 seq, ack;
			__u8 offset, flags;
			__be16 window, check, urgent;
		} tcp;
		struct {
			__be16 sport, dport, len, check;
		} udp;
		struct {
			__u8 type, code;
			__be16 check, id, seq;
		} icmp;
		__be32 w[5];
	};
};

/* fill_note writes the transport's header: a repeated acknowledgment, a datagram of
 * nothing, or an echo reply. The checksum is of the header, as there is nothing else. */
static __always_inline __u32 fill_note(struct __sk_buff *skb, const struct packet *p, struct note *n)
{
	__be32 seq[2] = {};
	__u32 len = 8;

	if (p->proto == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, p->l4 + 4, seq, sizeof(seq)))
			return 0;
		n->tcp.seq = seq[1];
		n->tcp.ack = seq[0];
		n->tcp.offset = 5 << 4;
		n->tcp.flags = 0x10;
		n->tcp.window = bpf_htons(1024);
		len = 20;
	}
	if (p->proto == IPPROTO_TCP || p->proto == IPPROTO_UDP) {
		n->udp.sport = bpf_htons(p->dport);
		n->udp.dport = bpf_htons(p->sport);
		if (p->proto == IPPROTO_UDP)
			n->udp.len = bpf_htons(8);
	} else {
		n->icmp.type = p->v6 ? 129 : 0;
		n->icmp.id = bpf_htons(p->sport);
	}
	return len;
}

/* store_note_ip writes the IP header of a note, which says FORGOTTEN. */
static __always_inline int store_note_ip(struct __sk_buff *skb, const struct packet *p, const struct addr *from,
				    const struct addr *to, __u32 len, __u16 t)
{
	if (p->v6) {
		struct ipv6hdr ip = {};
		__be16 *first = (__be16 *)&ip;
		first[0] = bpf_htons(6 << 12 | MARK << 6);
		first[1] = bpf_htons(t);
		ip.payload_len = bpf_htons(len);
		ip.nexthdr = p->proto;
		ip.hop_limit = 64;
		__builtin_memcpy(&ip.saddr, from, 16);
		__builtin_memcpy(&ip.daddr, to, 16);
		return bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0);
	}
	struct iphdr ip = { .version = 4, .ihl = 5, .tos = MARK << 2, .ttl = 64, .frag_off = bpf_htons(0x4000) };
	ip.protocol = p->proto;
	ip.tot_len = bpf_htons(sizeof(ip) + len);
	ip.id = bpf_htons(t);
	ip.saddr = from->w[0];
	ip.daddr = to->w[0];
	ip.check = ~fold((__u32)bpf_csum_diff(NULL, 0, (__be32 *)&ip, sizeof(ip), 0));
	return bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0);
}

/* checksum_note enters the checksum: of the header, as there is nothing else. */
static __always_inline void checksum_note(struct __sk_buff *skb, const struct packet *p, const struct addr *from,
				     const struct addr *to, __u32 len, struct note *n)
{
	struct addr pair[2] = { *from, *to };
	__u32 sum = 0;

	if (p->v6 || p->proto != IPPROTO_ICMP)
		sum = fold((__u64)(__u32)bpf_csum_diff(NULL, 0, (__be32 *)pair, sizeof(pair), 0) + bpf_htons(len) + bpf_htons(p->proto));
	/* Where it is left to the device, the field holds the sum of the addresses only. */
	if (BPF_CORE_READ_BITFIELD((struct sk_buff *)bpf_cast_to_kern_ctx(skb), ip_summed) != CHECKSUM_PARTIAL)
		sum = (__u16)~fold((__u64)(__u32)bpf_csum_diff(NULL, 0, n->w, sizeof(n->w), sum));
	if (p->proto == IPPROTO_TCP)
		n->tcp.check = sum;
	else if (p->proto == IPPROTO_UDP)
		n->udp.check = sum ? sum : 0xffff; /* 0 would be none (RFC 768, RFC 8200 section 8.1) */
	else
		n->icmp.check = sum;
}

/* store_note turns a packet into a note to a peer. */
GLOBAL int store_note(struct __sk_buff *skb, const struct packet *p, const struct peer *pe, const struct addr *to)
{
	struct note n = {};
	__u32 len, at;

	if (!p || !pe || !to || !(len = fill_note(skb, p, &n)))
		return -1;
	struct addr from = pe->self, back = *to;
	struct packet q = { .sport = p->dport, .dport = p->sport, .proto = p->proto };
	__u16 t = WORD_TAG(word_tags(pe->key.k[0], pe->key.k[1], tag_input(&q, pe->lower, 0)), TAG_FORGOTTEN);
	at = ETH_HLEN + (p->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	checksum_note(skb, p, &from, &back, len, &n);
	/* What was encapsulated on this very machine keeps a tunnel's mark, and cannot be cut: what
	 * is too long for its IP header is padding then, which the next hop cuts. */
	if (p->l4 != at || (bpf_skb_change_tail(skb, at + len, 0) && skb->gso_size) || bpf_skb_store_bytes(skb, at, &n, 8, 0) ||
	    (len == sizeof(n) && bpf_skb_store_bytes(skb, at + 8, &n.w[2], 12, 0)))
		return -1;
	return store_note_ip(skb, p, &from, &back, len, t);
}

/* reply_forgotten turns a steered packet of a flow that is not known here into a note to its
 * sender, over the default network, that it is forgotten: the sender opens it again there.
 * Such a packet is not delivered, and a sender without an answer would go on. */
static __noinline int reply_forgotten(struct __sk_buff *skb)
{
	struct packet p = {};

	if (parse(skb, &p) < 0 || !p.steerable || !limit_take(LIMIT_NOTES, MAX_NOTES))
		return TCX_DROP;
	struct rev *r = rev_of(&p.src, p.v6);
	struct addr to = r ? r->stable_remote : p.src; /* which was encapsulated */
	struct peer *pe = p.v6 ? bpf_map_lookup_elem(&pw_peers6, &to) : bpf_map_lookup_elem(&pw_peers4, &to);
	if (!pe || store_note(skb, &p, pe, &to))
		return TCX_DROP;
	return bpf_redirect_neigh(stable_ifindex, NULL, 0, 0);
}

#endif
