/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Packets: reading, looking up, counting. */
#ifndef PACKET_H
#define PACKET_H

/* A function of its own, which the verifier looks at once and not for each state that it
 * may be called in (Linux 5.6; pointers to memory 5.12). What it is given may be NULL. */
#define GLOBAL __attribute__((noinline))

/* Linux 6.16 told IPv6 apart, for CHECKSUM_COMPLETE; older ones refuse the flag. */
#define F_IPV6 (1ull << 7)

struct packet {
	struct addr src, dst;
	__u32 bucket;
	__u32 l4;       /* offset of the transport header */
	__u32 seglen;   /* of the IP packet, or of each segment of a GSO packet */
	__u16 sport, dport;
	__u16 id;       /* IPv4: the identification; IPv6: of the flow label, the lower 16 bits */
	__u8 v6, proto, dscp;
	__u8 steerable; /* a whole TCP, UDP or ICMP echo packet */
	__u8 opens;     /* TCP: SYN without ACK; ICMP: echo request; UDP: any */
	__u8 accepts;   /* TCP: SYN with ACK; ICMP: echo reply */
	__u8 closes;    /* TCP: CLOSED_IN for FIN, CLOSED_RESET for RST */
	__u8 fragment;
	__u8 non_first; /* a fragment without the transport header */
	__u8 error;     /* an ICMP error that quotes a packet */
	__u8 wants_reply; /* it wants an answer, if its sender opened the flow: not a mere acknowledgment */
	__u8 fast;    /* read by parse_fast */
	__u8 ip_summed; /* if fast: the sk_buff's */
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
	__u64 *n = bpf_map_lookup_elem(&pw_events, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* limit_used is how much of a limit was used in these four seconds. */
static __always_inline __u32 limit_used(__u32 what)
{
	__u64 *word = bpf_map_lookup_elem(&pw_events, &what), now = bpf_ktime_get_coarse_ns() >> 32;

	if (!word)
		return ~0u;
	if (*(volatile __u64 *)word >> 32 != now)
		*(volatile __u64 *)word = now << 32;
	return *(volatile __u64 *)word;
}

/* limit_take uses one of a limit of about n, and is 0 if none is left. */
GLOBAL int limit_take(__u32 what, __u32 n)
{
	__u64 *word = bpf_map_lookup_elem(&pw_events, &what);

	if (!word || limit_used(what) >= n)
		return 0;
	__sync_fetch_and_add(word, 1);
	return 1;
}

/* tally counts a packet, and returns its line to note more there. */
static __always_inline struct tally *tally(void *map, __u32 id, __u32 n, __u32 packets, __u32 bytes)
{
	__u32 i = id * PATHS + n;
	struct tally *t = bpf_map_lookup_elem(map, &i);

	if (t) {
		__sync_fetch_and_add(&t->packets, packets ? packets : 1);
		__sync_fetch_and_add(&t->bytes, bytes);
	}
	return t;
}

/* count_received counts a packet that arrived, and when. The
 * clock is read once a tick, as that takes long. Within one, it is enough to tell that
 * something has come since the last question. What could be guessed is no sign of life. */
static __always_inline void count_received(__u32 id, __u32 n, struct __sk_buff *skb, int lease_runs)
{
	struct tally *t = tally(&pw_received, id, n, skb->gso_segs, skb->len - ETH_HLEN);
	__u32 i = id * PATHS + n;
	struct tally *sent = bpf_map_lookup_elem(&pw_sent, &i);
	__u64 tick = bpf_jiffies64();

	if (!t || !sent || !lease_runs)
		return;
	__u64 last = *(volatile __u64 *)&sent->last;
	if (t->more != tick) {
		t->more = tick;
		*(volatile __u64 *)&t->last = bpf_ktime_get_ns();
	} else if (last > t->last) {
		*(volatile __u64 *)&t->last = last;
	}
}

/* count_sent counts a packet that leaves over path n, of a flow in which this end has the
 * role. */
static __always_inline void count_sent(struct __sk_buff *skb, const struct packet *p, __u32 id, __u32 n, __u32 role, __u32 packets,
				 __u32 bytes)
{
	struct tally *t = tally(&pw_sent, id, n, packets, bytes);

	if (!t || (role != FLOW_OWNER && role != FLOW_OWNER_NEW))
		return;
	t->more += 1;
	if (!p->wants_reply)
		return;
	/* TCP has read the clock for each of its packets (tcp_wstamp_ns). */
	__u64 now = p->proto == IPPROTO_TCP ? skb->tstamp : 0;
	*(volatile __u64 *)&t->last = now ? now : bpf_ktime_get_ns();
}

static __always_inline __u32 addr_hash(const struct addr *a)
{
	return (a->w[0] ^ a->w[1] ^ a->w[2] ^ a->w[3]) * 0x9E3779B1u;
}

/* report_miss tells the agent of traffic with a pod that is not entered. Most packets are of
 * none, and pass by one word. */
static __always_inline void report_miss(const struct addr *a)
{
	/* The upper bits: on the lower ones the last octet of an IPv4 address has no bearing. */
	__u32 h = addr_hash(a) >> CANDIDATE_SHIFT, word = h >> 6, at = addr_hash(a) >> (32 - MISS_BITS);
	__u64 *bits = bpf_map_lookup_elem(&pw_candidates, &word);

	if (!bits || !(*(volatile __u64 *)bits >> (h & 63) & 1))
		return;
	struct addr *w = bpf_map_lookup_elem(&pw_misses, &at);
	if (w)
		*w = *a;
}

/* peer_hint is a place in pw_rows and one, if an address may be a peer's; else 0. Most
 * packets of a pod are of no peer, and pass by this one word. */
static __always_inline __u32 peer_hint(const struct addr *a)
{
	__u32 at = addr_hash(a) >> slot_shift;
	__u32 *n = bpf_map_lookup_elem(&pw_hints, &at);

	return n ? *(volatile __u32 *)n : 0;
}

/* not_peer is whether a packet is surely of no peer. It comes before all other reading, as
 * that is all that packets of others are to pay for. field is the offset of the address. */
static __always_inline int not_peer(struct __sk_buff *skb, __u32 field, int leaves)
{
	struct addr a = {};
	void *ip = data_of(skb) + ETH_HLEN;

	asm volatile("" : "+r"(ip)); /* as in pull */
	if (skb->protocol != bpf_htons(ETH_P_IP) || ip + sizeof(struct iphdr) > end_of(skb))
		return 0;
	a.w[0] = *(__u32 *)(ip + field);
	if (peer_hint(&a))
		return 0;
	if (leaves)
		report_miss(&a);
	return 1;
}

static __always_inline int addr_equal(const struct addr *a, const struct addr *b, int v6)
{
	if (a->w[0] != b->w[0])
		return 0;
	return !v6 || (a->w[1] == b->w[1] && a->w[2] == b->w[2] && a->w[3] == b->w[3]);
}

/* peer_of and rev_of look an address up by a copy of it: what a helper is given a
 * pointer into stays in memory as a whole, here all that is known of the packet.
 * A hash map takes four times as long as the hint, which is right unless two peers share
 * a slot, or the row is in the hash map alone. */
static __always_inline struct peer *peer_of(const struct packet *p, const struct addr *a, __u32 hint)
{
	struct addr key = *a;
	__u32 i = hint - 1;

	if (!p->v6) {
		struct peer *pe = bpf_map_lookup_elem(&pw_rows, &i);
		return pe && pe->remote == key.w[0] ? pe : bpf_map_lookup_elem(&pw_peers4, &key.w[0]);
	}
	return bpf_map_lookup_elem(&pw_peers6, &key);
}

static __always_inline struct rev *rev_of(const struct addr *a, int v6)
{
	struct addr key = *a;
	__u32 at = addr_hash(a) >> slot_rev_shift;

	if (v6)
		return bpf_map_lookup_elem(&pw_rev6, &key);
	__u32 *n = bpf_map_lookup_elem(&pw_rev_hints, &at);
	if (n) {
		__u32 i = *(volatile __u32 *)n - 1;
		struct rev *r = bpf_map_lookup_elem(&pw_rev_rows, &i);
		if (r && r->remote == key.w[0])
			return r;
	}
	return bpf_map_lookup_elem(&pw_rev4, &key.w[0]);
}

/* pull makes n bytes of the packet readable and returns them, or NULL. */
static __always_inline void *pull(struct __sk_buff *skb, __u32 off, __u32 n)
{
	void *p;

	asm volatile("%0 &= 127" : "+r"(off)); /* more than two headers; so that the verifier knows */
	p = data_of(skb) + off;
	asm volatile("" : "+r"(p)); /* the pointer that is used must be the one that was checked */
	if (__builtin_expect(p + n <= end_of(skb), 1))
		return p;
	if (bpf_skb_pull_data(skb, off + n))
		return NULL;
	p = data_of(skb) + off;
	asm volatile("" : "+r"(p));
	return p + n <= end_of(skb) ? p : NULL;
}

/* report_asked tells the agent of a pod whose link address is asked for, by ARP (RFC 826) or
 * neighbour solicitation (RFC 4861 section 4.3): where nobody answers, as the default network
 * fails, no packet to it gets here. */
GLOBAL int report_asked(struct __sk_buff *skb)
{
	struct addr a = {};
	__u8 *b;

	if (skb->protocol == bpf_htons(ETH_P_ARP)) {
		b = pull(skb, ETH_HLEN, 28);
		if (!b || b[7] != 1)
			return 0;
		__builtin_memcpy(&a, b + 24, 4);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		b = pull(skb, ETH_HLEN, sizeof(struct ipv6hdr) + 24);
		if (!b || b[6] != IPPROTO_ICMPV6 || b[sizeof(struct ipv6hdr)] != 135)
			return 0;
		__builtin_memcpy(&a, b + sizeof(struct ipv6hdr) + 8, 16);
	} else {
		return 0;
	}
	if (!peer_hint(&a))
		report_miss(&a);
	return 0;
}

/* parse_l4 reads ports and flags. Packets of other protocols are not steerable. */
static __always_inline void parse_l4(struct __sk_buff *skb, struct packet *p)
{
	__u32 hlen = 8;
	__u8 *b;

	if (p->fragment)
		return;
	if (p->proto == IPPROTO_TCP) {
		b = pull(skb, p->l4, sizeof(struct tcphdr));
		if (!b)
			return;
		p->sport = b[0] << 8 | b[1];
		p->dport = b[2] << 8 | b[3];
		p->opens = (b[13] & 0x12) == 0x02;
		p->accepts = (b[13] & 0x12) == 0x12;
		p->closes = (b[13] & 1 ? CLOSED_IN : 0) | (b[13] & 4 ? CLOSED_RESET : 0);
		hlen = (b[12] >> 4) * 4;
	} else if (p->proto == IPPROTO_UDP) {
		b = pull(skb, p->l4, 8);
		if (!b)
			return;
		p->sport = b[0] << 8 | b[1];
		p->dport = b[2] << 8 | b[3];
		p->opens = 1;
	} else if (p->proto == (p->v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		b = pull(skb, p->l4, 8);
		if (!b)
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
	p->wants_reply = p->opens || (p->proto == IPPROTO_TCP && (skb->gso_size || skb->len > p->l4 + hlen));
	if (skb->gso_size)
		p->seglen = p->l4 - ETH_HLEN + hlen + skb->gso_size;
	p->bucket = flow_bucket(p->sport, p->dport, p->proto);
	p->steerable = 1;
}

/* parse_ip reads the addresses of an Ethernet frame with IPv4 or IPv6. Returns -1 for
 * anything else, and for a header that lies about itself, which the stack drops. Most
 * packets of a pod are of no peer, and end with them. */
static __always_inline int parse_ip(struct __sk_buff *skb, struct packet *p)
{
	p->seglen = skb->len - ETH_HLEN;
	if (__builtin_expect(skb->protocol == bpf_htons(ETH_P_IP), 1)) {
		struct iphdr *ip = pull(skb, ETH_HLEN, sizeof(*ip));
		if (!ip || ip->version != 4 || ip->ihl < 5)
			return -1;
		p->src.w[0] = ip->saddr;
		p->dst.w[0] = ip->daddr;
		p->proto = ip->protocol;
		p->dscp = ip->tos >> 2;
		p->id = bpf_ntohs(ip->id);
		p->l4 = ETH_HLEN + ip->ihl * 4;
		p->non_first = (ip->frag_off & bpf_htons(0x1fff)) != 0;
		p->fragment = (ip->frag_off & bpf_htons(0x3fff)) != 0; /* an offset, or more to come */
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = pull(skb, ETH_HLEN, sizeof(*ip));
		if (!ip || ip->version != 6)
			return -1;
		__builtin_memcpy(&p->src, &ip->saddr, 16);
		__builtin_memcpy(&p->dst, &ip->daddr, 16);
		p->v6 = 1;
		p->proto = ip->nexthdr; /* extension headers, fragments among them: not steerable */
		p->dscp = (bpf_ntohs(*(__be16 *)ip) >> 6) & 0x3f;
		p->id = bpf_ntohs(*((__be16 *)ip + 1));
		p->l4 = ETH_HLEN + sizeof(*ip);
	} else {
		return -1;
	}
	return 0;
}

/* The same, each looked at by the verifier once: what follows is not looked at again for each
 * kind of packet, which is most of the time that it takes to load the programs. */
GLOBAL int parse_ip_once(struct __sk_buff *skb, struct packet *p)
{
	return p ? parse_ip(skb, p) : -1;
}

GLOBAL int parse_l4_once(struct __sk_buff *skb, struct packet *p)
{
	if (p)
		parse_l4(skb, p);
	return 0;
}

static __always_inline int parse(struct __sk_buff *skb, struct packet *p)
{
	if (parse_ip_once(skb, p) < 0)
		return -1;
	parse_l4_once(skb, p);
	return 0;
}

/* The kernel's own packet, as far as it is read; offsets are relocated. */
struct sk_buff {
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

enum { CHECKSUM_NONE, CHECKSUM_UNNECESSARY, CHECKSUM_COMPLETE, CHECKSUM_PARTIAL };

/* Of Linux 6.2; the verifier makes it a mere assignment. */
extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* The headers of a packet on the fast path; what is rewritten reaches to the checksum. */
struct fast_headers {
	__u16 pad; /* aligns what follows the frame's header */
	struct ethhdr eth;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((aligned(8)));
#define FAST_HEADERS (sizeof(struct iphdr) + sizeof(struct tcphdr))
#define FAST_REWRITTEN (sizeof(struct iphdr) + offsetof(struct tcphdr, check) + 2)

/* parse_fast reads what is most common: TCP over IPv4, whole, without IP options, of a
 * connection that neither begins nor ends. Each program is compiled twice, for these and for
 * any, as its time goes by how much code and memory it touches. Returns 0 for others. */
static __always_inline int parse_fast(struct __sk_buff *skb, struct packet *p)
{
	void *data = data_of(skb) + ETH_HLEN;

	asm volatile("" : "+r"(data)); /* as in pull */
	if (skb->protocol != bpf_htons(ETH_P_IP) || data + FAST_HEADERS > end_of(skb))
		return 0;
	struct iphdr *ip = data;
	__u8 *tcp = data + sizeof(*ip);
	if (*(__u8 *)data != 0x45 || ip->protocol != IPPROTO_TCP || ip->frag_off & bpf_htons(0x3fff) || tcp[13] & 0x07)
		return 0;
	p->ip_summed = BPF_CORE_READ_BITFIELD((struct sk_buff *)bpf_cast_to_kern_ctx(skb), ip_summed);
	if (p->ip_summed == CHECKSUM_COMPLETE)
		return 0;
	__u32 hlen = (tcp[12] >> 4) * 4;
	p->src.w[0] = ip->saddr;
	p->dst.w[0] = ip->daddr;
	p->proto = IPPROTO_TCP;
	p->dscp = ip->tos >> 2;
	p->id = bpf_ntohs(ip->id);
	p->l4 = ETH_HLEN + sizeof(*ip);
	p->sport = tcp[0] << 8 | tcp[1];
	p->dport = tcp[2] << 8 | tcp[3];
	p->bucket = flow_bucket(p->sport, p->dport, p->proto);
	p->wants_reply = skb->gso_size || skb->len > p->l4 + hlen;
	p->seglen = skb->gso_size ? sizeof(*ip) + hlen + skb->gso_size : skb->len - ETH_HLEN;
	p->steerable = p->fast = 1;
	return 1;
}

#endif
