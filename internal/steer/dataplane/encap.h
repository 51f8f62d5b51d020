/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The encapsulated mode: IPv4 in UDP in IPv4, for networks that track connections
 * or do not carry the mark. Both ports are the same, so that a network that lets
 * only answers in takes the two directions for one flow. */
#ifndef ENCAP_H
#define ENCAP_H

#define ENCAP_PORT 52170 /* of the dynamic ports (RFC 6335) */
/* Of this layout alone: a data plane of layout 1 (0x5057) may be in front of this one for
 * a while, took whatever had its magic, and drops what it does not know. */
#define ENCAP_MAGIC 0x5077
#define FORMER_MAGIC 0x5057

struct shim {
	__be16 magic;
	__u8 version, zero;
	__u32 tag[2]; /* whole: there is room */
};
#define ENCAP_VERSION 2 /* the layout */

struct outer {
	struct iphdr ip;
	struct udphdr udp;
	struct shim shim;
};

/* fits: the packet, or each of its segments, and the whole in an IPv4 header's length. */
static __always_inline int fits(struct __sk_buff *skb, const struct packet *p, const struct path *pa)
{
	if (!(pa->flags & PATH_ENCAP))
		return p->seglen <= pa->mtu;
	/* Linux 6.18 cannot take the tunnel's mark off a GSO packet again, which TCP
	 * does not mind, but UDP would segment by it (udp_rcv_segment). */
	if (skb->gso_size && p->proto == IPPROTO_UDP)
		return 0;
	return p->seglen + sizeof(struct outer) <= pa->mtu && skb->len - ETH_HLEN + sizeof(struct outer) <= 65535;
}

/* encapsulate puts the packet into another. Returns 1, and it is as it was, where the
 * kernel cannot: a packet of the pod's own tunnel. */
GLOBAL int encapsulate(struct __sk_buff *skb, const struct path *pa, __u64 t)
{
	struct outer o = {};
	__u32 len = skb->len - ETH_HLEN + sizeof(o);
	struct iphdr *ip = pull(skb, ETH_HLEN, sizeof(*ip));

	if (!ip || !pa)
		return 1;
	o.ip.version = 4;
	o.ip.ihl = 5;
	o.ip.tos = ip->tos & 3; /* RFC 6040 */
	o.ip.tot_len = bpf_htons(len);
	o.ip.frag_off = bpf_htons(0x4000); /* never to be fragmented: no identifier needed (RFC 6864) */
	o.ip.ttl = 64;
	o.ip.protocol = IPPROTO_UDP;
	o.ip.saddr = pa->local.w[0];
	o.ip.daddr = pa->remote.w[0];
	o.ip.check = ~fold((__u32)bpf_csum_diff(NULL, 0, (__be32 *)&o.ip, sizeof(o.ip), 0));
	o.udp.source = bpf_htons(ENCAP_PORT);
	o.udp.dest = bpf_htons(ENCAP_PORT);
	o.udp.len = bpf_htons(len - sizeof(o.ip));
	o.shim.magic = bpf_htons(ENCAP_MAGIC);
	o.shim.version = ENCAP_VERSION;
	o.shim.tag[0] = t;
	o.shim.tag[1] = t >> 32;
	/* The shim is told as a link header, so that GSO puts it before each segment.
	 * Segments keep their size: fits has made room. */
	if (bpf_skb_adjust_room(skb, sizeof(o), BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 |
				BPF_F_ADJ_ROOM_ENCAP_L4_UDP | BPF_F_ADJ_ROOM_ENCAP_L2(sizeof(struct shim))))
		return 1;
	return bpf_skb_store_bytes(skb, ETH_HLEN, &o, sizeof(o), 0);
}

/* shim_tag reports whether encapsulate may have made a packet, and its tag. */
static __always_inline int shim_tag(struct __sk_buff *skb, const struct packet *p, __u64 *t)
{
	struct shim s;

	if (p->v6 || p->proto != IPPROTO_UDP || !p->steerable || p->sport != ENCAP_PORT || p->dport != ENCAP_PORT ||
	    bpf_skb_load_bytes(skb, p->l4 + sizeof(struct udphdr), &s, sizeof(s)) ||
	    s.magic != bpf_htons(ENCAP_MAGIC) || s.version != ENCAP_VERSION || p->l4 != ETH_HLEN + sizeof(struct iphdr))
		return 0;
	*t = s.tag[0] | (__u64)s.tag[1] << 32;
	return 1;
}

/* is_former_shim reports whether layout 1 may have made a packet so. */
static __always_inline int is_former_shim(struct __sk_buff *skb, const struct packet *p)
{
	__be16 magic;

	return !p->v6 && p->proto == IPPROTO_UDP && p->steerable && p->sport == ENCAP_PORT && p->dport == ENCAP_PORT &&
	       !bpf_skb_load_bytes(skb, p->l4 + sizeof(struct udphdr), &magic, sizeof(magic)) && magic == bpf_htons(FORMER_MAGIC);
}

/* decapsulate takes the outer headers off and reads what was in them. */
static __always_inline int decapsulate(struct __sk_buff *skb, struct packet *p, const struct rev *r)
{
	struct iphdr *ip = pull(skb, ETH_HLEN, sizeof(*ip));

	if (!ip)
		return -1;
	int congested = (ip->tos & 3) == 3;
	if (bpf_skb_adjust_room(skb, -(__s32)sizeof(struct outer), BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	__builtin_memset(p, 0, sizeof(*p));
	if (parse(skb, p) < 0 || p->v6 || !addr_equal(&p->src, &r->stable_remote, 0) || !addr_equal(&p->dst, &r->stable_local, 0))
		return -1;
	if (congested)
		bpf_skb_ecn_set_ce(skb); /* where the inner packet can say so */
	return 0;
}

/* verify_shim is verify_tag for what was encapsulated. */
static __always_inline int verify_shim(const struct packet *p, const struct rev *r, __u64 t)
{
	__u64 seven = tag_input(p, !r->lower, TAG_DATA);

	if (t == siphash_noinline(r->accept.k[0].k[0], r->accept.k[0].k[1], seven))
		return EXACT;
	return t ? verify_tag_next(&r->accept, seven, 0, 0, t) : FORGED;
}

/* An ICMP error with as much of the packet in question as IP requires. */
struct error {
	struct {
		__u8 type, code;
		__be16 checksum, unused, mtu;
	} icmp;
	struct iphdr ip;
	__u8 l4[8];
};

/* icmp_decap makes an error about an encapsulated packet one about the packet in it, where
 * the router quotes that far (RFC 1812 section 4.3.2.3 asks for 576 bytes). */
static __always_inline int icmp_decap(struct __sk_buff *skb, const struct packet *p)
{
	struct outer o;
	struct error e;
	__be16 tot = bpf_htons(p->l4 - ETH_HLEN + sizeof(e)), was;
	__u32 at = p->l4 + sizeof(e.icmp), ip = ETH_HLEN;

	if (p->v6 || bpf_skb_load_bytes(skb, at, &o, sizeof(o)) || o.ip.ihl != 5 || o.ip.protocol != IPPROTO_UDP ||
	    o.udp.dest != bpf_htons(ENCAP_PORT) || o.shim.magic != bpf_htons(ENCAP_MAGIC))
		return TCX_NEXT;
	struct rev *r = bpf_map_lookup_elem(&pw_rev4, &o.ip.daddr);
	__u64 t = o.shim.tag[0] | (__u64)o.shim.tag[1] << 32;
	if (!r || !(r->flags & PATH_ENCAP) || o.ip.saddr != r->local.w[0] || p->dst.w[0] != r->local.w[0] ||
	    bpf_skb_load_bytes(skb, p->l4, &e.icmp, sizeof(e.icmp)) ||
	    bpf_skb_load_bytes(skb, at + sizeof(o), &e.ip, sizeof(e) - sizeof(e.icmp)) || e.ip.ihl != 5 ||
	    e.ip.saddr != r->stable_local.w[0] || e.ip.daddr != r->stable_remote.w[0] ||
	    !is_ours(r, 0, e.ip.protocol, e.l4, 0, &t))
		return TCX_NEXT;
	__u16 mtu = bpf_ntohs(e.icmp.mtu);
	if (e.icmp.type == 3 && e.icmp.code == 4) /* too big; 0 is unknown (RFC 1191) */
		e.icmp.mtu = mtu > sizeof(o) ? bpf_htons(mtu - sizeof(o)) : 0;
	e.icmp.checksum = 0;
	e.icmp.checksum = ~fold((__u32)bpf_csum_diff(NULL, 0, (__be32 *)&e, sizeof(e), 0));
	/* The frame may be longer than its packet. */
	if (bpf_skb_load_bytes(skb, ip + offsetof(struct iphdr, tot_len), &was, 2) ||
	    bpf_skb_change_tail(skb, p->l4 + sizeof(e), 0) ||
	    bpf_skb_store_bytes(skb, p->l4, &e, sizeof(e), BPF_F_RECOMPUTE_CSUM) ||
	    bpf_l3_csum_replace(skb, ip + offsetof(struct iphdr, check), was, tot, 2) ||
	    bpf_skb_store_bytes(skb, ip + offsetof(struct iphdr, tot_len), &tot, 2, 0) ||
	    bpf_l3_csum_replace(skb, ip + offsetof(struct iphdr, check), r->local.w[0], r->stable_local.w[0], 4) ||
	    bpf_skb_store_bytes(skb, ip + offsetof(struct iphdr, daddr), &r->stable_local, 4, 0)) {
		count_event(EV_ERROR);
		return TCX_DROP;
	}
	count_event(EV_ICMP);
	return TCX_NEXT;
}

#endif
