/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Packets: other addresses, another mark, and handing them over. */
#ifndef REWRITE_H
#define REWRITE_H

/* fold makes a 16-bit checksum of a sum (RFC 1071). */
static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* Of a header: its DSCP, and in the upper half the tag to write, if TAGGED. */
#define TAGGED (1u << 8)
#define WITH_TAG(dscp, tag) ((dscp) | TAGGED | (__u32)(__u16)(tag) << 16)

/* readdress is what a header is with other addresses (NULL: the same) and DSCP; diff
 * is the addresses' checksum difference (RFC 1624). Where a tag is in its
 * identification, the datagram is not to be fragmented (RFC 6864). */
static __always_inline void readdress(struct iphdr *ip, const struct addr *src, const struct addr *dst, __u32 diff, __u32 dscp)
{
	__u8 tos = (ip->tos & 3) | (dscp & 0x3f) << 2;
	__u64 sum = (__u64)(__u16)~ip->check + diff + (__u16)~bpf_htons(ip->tos) + bpf_htons(tos);

	if (dscp & TAGGED) {
		__be16 id = bpf_htons(dscp >> 16), frag = ip->frag_off | bpf_htons(0x4000);
		sum += (__u16)~ip->id + id + (__u16)~ip->frag_off + frag;
		ip->id = id;
		ip->frag_off = frag;
	}
	ip->check = ~fold(sum);
	ip->tos = tos;
	if (src) {
		ip->saddr = src->w[0];
		ip->daddr = dst->w[0];
	}
}

/* store_ip_header changes the IP header. All writing is by bpf_skb_store_bytes: for a program
 * that writes by itself the kernel makes each packet writable that its sender still
 * holds, also those that it then leaves alone (tc_cls_act_prologue). */
static __always_inline int store_ip_header(struct __sk_buff *skb, const struct packet *p, const struct addr *src,
				  const struct addr *dst, __u32 diff, __u32 dscp)
{
	if (p->v6) {
		struct ipv6hdr *was = pull(skb, ETH_HLEN, sizeof(*was)), ip;
		if (!was)
			return -1;
		ip = *was;
		__be16 *first = (__be16 *)&ip;
		*first = bpf_htons((bpf_ntohs(*first) & ~(0x3f << 6)) | (dscp & 0x3f) << 6);
		if (dscp & TAGGED) {
			*first &= ~bpf_htons(0xf);
			first[1] = bpf_htons(dscp >> 16);
		}
		if (src) {
			__builtin_memcpy(&ip.saddr, src, 16);
			__builtin_memcpy(&ip.daddr, dst, 16);
		}
		return bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0);
	}
	struct iphdr *was = pull(skb, ETH_HLEN, sizeof(*was)), ip;
	if (!was)
		return -1;
	ip = *was;
	readdress(&ip, src, dst, diff, dscp);
	return bpf_skb_store_bytes(skb, ETH_HLEN, &ip, sizeof(ip), 0);
}

/* remark sets the DSCP alone, and a tag. */
GLOBAL int remark(struct __sk_buff *skb, __u32 v6, __u32 dscp)
{
	struct packet p = { .v6 = v6 };

	if (store_ip_header(skb, &p, NULL, NULL, 0, dscp))
		count_event(EV_ERROR);
	return 0;
}

/* rewrite_fast is rewrite on the fast path, in one go. */
static __always_inline int rewrite_fast(struct __sk_buff *skb, const struct packet *p, const struct addr *src, const struct addr *dst,
				__u32 diff, __u32 dscp, const __u8 *mac)
{
	struct fast_headers s;
	void *data = pull(skb, ETH_HLEN, FAST_REWRITTEN);

	if (!data)
		return -1;
	__builtin_memcpy(&s.ip, __builtin_assume_aligned(data, 8), FAST_REWRITTEN);
	readdress(&s.ip, src, dst, diff, dscp);
	/* Where it is left to the device, the field holds the sum of the addresses only,
	 * as it is (inet_proto_csum_replace_by_diff). */
	__u16 invert = p->ip_summed == CHECKSUM_PARTIAL ? 0 : 0xffff;
	s.tcp.check = fold((__u64)(__u16)(s.tcp.check ^ invert) + diff) ^ invert;
	if (!mac)
		return bpf_skb_store_bytes(skb, ETH_HLEN, &s.ip, FAST_REWRITTEN, 0);
	__builtin_memcpy(&s.eth, mac, 12);
	s.eth.h_proto = bpf_htons(ETH_P_IP);
	return bpf_skb_store_bytes(skb, 0, &s.eth, ETH_HLEN + FAST_REWRITTEN, 0);
}

/* sums_addresses is whether a datagram's checksum field holds the sum of its addresses, as where the sum is left to the
 * device, though the kernel's helper takes it for a whole checksum, which is the inverse: of a UDP_SEGMENT socket
 * whose device does no checksums (udp4_hwcsum, Linux 6.11 and later; earlier kernels send no such thing). */
static __always_inline int sums_addresses(struct __sk_buff *skb)
{
	return skb->gso_size && BPF_CORE_READ_BITFIELD((struct sk_buff *)bpf_cast_to_kern_ctx(skb), ip_summed) == CHECKSUM_NONE;
}

/* rewrite replaces the address pair, and the frame's if mac is given; with GSO and
 * checksum offload as they are: the kernel's helper knows what the checksum field
 * holds. */
static __always_inline int rewrite(struct __sk_buff *skb, const struct packet *p, const struct addr *src,
				   const struct addr *dst, __u32 diff, __u32 dscp, const __u8 *mac)
{
	__u64 flags = BPF_F_PSEUDO_HDR;
	__u32 off = 0, l4_diff = diff;

	if (p->fast)
		return rewrite_fast(skb, p, src, dst, diff, dscp, mac);
	if (p->non_first) {
		off = 0;
	} else if (p->proto == IPPROTO_TCP) {
		off = offsetof(struct tcphdr, check);
	} else if (p->proto == IPPROTO_UDP) {
		off = offsetof(struct udphdr, check);
		flags |= BPF_F_MARK_MANGLED_0; /* zero: no checksum, and stays so */
		if (sums_addresses(skb))
			l4_diff = ~diff;
	} else if (p->v6 && p->proto == IPPROTO_ICMPV6) {
		off = 2;
	}
	if (off && p->v6) {
		int err = bpf_l4_csum_replace(skb, p->l4 + off, 0, l4_diff, flags | F_IPV6);
		if (err == -22)
			err = bpf_l4_csum_replace(skb, p->l4 + off, 0, l4_diff, flags);
		if (err)
			return err;
	} else if (off && bpf_l4_csum_replace(skb, p->l4 + off, 0, l4_diff, flags)) {
		return -1;
	}
	if (mac && bpf_skb_store_bytes(skb, 0, mac, 12, 0))
		return -1;
	return store_ip_header(skb, p, src, dst, diff, dscp);
}

/* deliver hands a translated packet to the stack. What filters in the pod may not have seen of its
 * flow comes by eth0, as on the default network, so that those that tell interfaces apart take it for
 * the same. */
static __always_inline int deliver(struct __sk_buff *skb, int unseen)
{
	if (!to_stable_dev && !unseen)
		return TCX_NEXT;
	/* The redirect runs eth_type_trans again: the frame must carry eth0's MAC. */
	__u8 mac[6];
#pragma unroll
	for (int i = 0; i < 6; i++)
		mac[i] = stable_mac[i];
	if (bpf_skb_store_bytes(skb, 0, mac, sizeof(mac), 0))
		return TCX_DROP;
	skb->mark = FROM_PATH;
	return bpf_redirect(stable_ifindex, BPF_F_INGRESS);
}

#endif
