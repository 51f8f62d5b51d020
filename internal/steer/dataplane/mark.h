/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The mark of steered packets: a class that shows, and a tag that only the data planes
 * of the pair can make. */
#ifndef MARK_H
#define MARK_H

#define ROTL(x, n) (((x) << (n)) | ((x) >> (64 - (n))))

#define SIP_ROUND                                                                                    \
	do {                                                                                         \
		v0 += v1; v1 = ROTL(v1, 13); v1 ^= v0; v0 = ROTL(v0, 32);                            \
		v2 += v3; v3 = ROTL(v3, 16); v3 ^= v2;                                               \
		v0 += v3; v3 = ROTL(v3, 21); v3 ^= v0;                                               \
		v2 += v1; v1 = ROTL(v1, 17); v1 ^= v2; v2 = ROTL(v2, 32);                            \
	} while (0)

/* siphash is SipHash-1-3 of seven bytes, as the kernel's hsiphash is where words have 64
 * bits (include/linux/siphash.h): short keyed input, and nobody sees more of it than a
 * part. */
static __always_inline __u64 siphash(const struct key *key, __u64 seven)
{
	__u64 k0 = key->k[0], k1 = key->k[1], m = seven | 7ull << 56;
	__u64 v0 = k0 ^ 0x736f6d6570736575ull, v1 = k1 ^ 0x646f72616e646f6dull;
	__u64 v2 = k0 ^ 0x6c7967656e657261ull, v3 = k1 ^ 0x7465646279746573ull;

	v3 ^= m;
	SIP_ROUND;
	v0 ^= m;
	v2 ^= 0xff;
	SIP_ROUND;
	SIP_ROUND;
	SIP_ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

/* siphash_noinline is siphash out of line, for all but the fast path. */
GLOBAL __u64 siphash_noinline(__u64 k0, __u64 k1, __u64 seven)
{
	struct key key = { { k0, k1 } };

	return siphash(&key, seven);
}

/* tag_input is what a tag is of. */
static __always_inline __u64 tag_input(const struct packet *p, __u32 lower, __u32 kind)
{
	return (__u64)p->sport | (__u64)p->dport << 16 | (__u64)p->proto << 32 | (__u64)kind << 40 | (__u64)lower << 48;
}

/* flow_tag is the tag of a flow's packet on a path, by its sender: lower is whether that has the lower stable
 * address. A packet of one direction, or of one network, which has a key of its own, is
 * none of another. It does not cover what segmentation changes. */
static __always_inline __u64 flow_tag(const struct key *key, const struct packet *p, __u32 lower)
{
	__u64 seven = tag_input(p, lower, TAG_DATA);

	return p->fast ? siphash(key, seven) : siphash_noinline(key->k[0], key->k[1], seven);
}

/* word_tags are the tags of what is said on the default network, from TAG_OPEN in the lowest 16
 * bits, for a flow (tag_input of kind 0). They differ in what segments and OTHERS leave of a
 * tag: of hashes alike (one flow in 11,000 has two, one with OTHERS in 450), the later is counted up.
 * Else one would be taken for the other, for as long as the flow lasts. */
#define WORDS (TAG_FORGOTTEN - TAG_OPEN + 1)
#define WORD_TAG(tags, kind) ((__u16)((tags) >> 16 * ((kind) - TAG_OPEN)))
GLOBAL __u64 word_tags(__u64 k0, __u64 k1, __u64 seven)
{
	struct key key = { { k0, k1 } };
	__u64 tags = 0;

	for (__u32 n = 0; n < WORDS; n++) {
		__u16 t = siphash(&key, seven | (__u64)(n + TAG_OPEN) << 40);
		for (__u32 i = 0; i < n * n; i++) { /* each of those before may be met again */
			__u16 is = tags >> 16 * (i % n);
			t += !((is ^ t) & ((1 << OTHERS_SHIFT) - 1));
		}
		tags |= (__u64)t << 16 * n;
	}
	return tags;
}

/* runs_over is whether a segment of a packet, which counts the tag up, says another word than the
 * first. others is what is added for OTHERS, where the upper bits tell words not apart. */
static __always_inline int runs_over(__u64 tags, __u32 kind, __u32 segments, __u32 others)
{
	__u16 most = others ? (1 << OTHERS_SHIFT) - 1 : 0xffff, tag = WORD_TAG(tags, kind);

	for (__u32 k = TAG_OPEN; k <= TAG_FORGOTTEN; k++)
		if (k != kind && (__u16)((WORD_TAG(tags, k) - tag) & most) < segments)
			return 1;
	return 0;
}

/* How a packet's tag matches: that of the first segment exactly, those that follow it
 * counted up. Of OTHERS, the DSCP is in the upper bits. */
enum { FORGED, GENUINE, EXACT, FOUND_SHIFT = 8, HOW = (1 << FOUND_SHIFT) - 1 };

static __always_inline int match_tag(const struct packet *p, __u16 want)
{
	__u16 ahead = p->id - want, other = 0;

	if (!p->fast && p->dscp == OTHERS) { /* the fast path leaves these to the other one */
		other = ahead >> OTHERS_SHIFT;
		if (!(OTHER_DSCPS >> other & 1))
			return FORGED;
		ahead &= (1 << OTHERS_SHIFT) - 1;
	}
	if (!ahead)
		return EXACT | other << FOUND_SHIFT;
	return !p->v6 && ahead < SEGMENTS ? GENUINE | other << FOUND_SHIFT : FORGED;
}

/* is_repeated is whether a key is the first one again, as where fewer are accepted (Keys.accepted). */
static __always_inline int is_repeated(const struct keys *accept, int i)
{
	return i && accept->k[i].k[0] == accept->k[0].k[0];
}

/* verify_tag_next tries the keys but the first: seven is what the tag is of, id is the
 * packet's, and kind whether it is IPv6, and one of OTHERS. whole is the tag where it has
 * room, else 0. */
enum { KIND_V6 = 1, KIND_OTHERS = 2 };
GLOBAL int verify_tag_next(const struct keys *accept, __u64 seven, __u32 id, __u32 kind, __u64 whole)
{
	struct packet p = { .id = id, .v6 = kind & KIND_V6, .dscp = kind & KIND_OTHERS ? OTHERS : 0 };

	if (!accept)
		return FORGED;
	for (int i = 1; i < KEYS; i++) {
		const struct key *k = &accept->k[i];
		if (is_repeated(accept, i))
			continue;
		__u64 t = siphash_noinline(k->k[0], k->k[1], seven);
		int found = whole ? (t == whole ? EXACT : FORGED) : match_tag(&p, t);
		if (found)
			return found;
	}
	return FORGED;
}

static __always_inline int verify_tag(const struct packet *p, const struct keys *accept, __u32 lower)
{
	int found = match_tag(p, flow_tag(&accept->k[0], p, lower));

	if (__builtin_expect(found, 1))
		return found;
	return verify_tag_next(accept, tag_input(p, lower, TAG_DATA), p->id,
			       (p->v6 ? KIND_V6 : 0) | (!p->fast && p->dscp == OTHERS ? KIND_OTHERS : 0), 0);
}

/* dscp_mark is the mark for an application's DSCP, and in the upper half what is added to
 * the tag; 0 where there is none: such packets are not steered. */
GLOBAL int dscp_mark(__u32 dscp)
{
	for (int i = 0; i < 8; i++)
		if (dscp == (__u8)(CLASSES >> 8 * i))
			return i << 3 | MARK;
	return OTHER_DSCPS >> (dscp & 63) & 1 ? OTHERS | dscp << (16 + OTHERS_SHIFT) : 0;
}

/* app_dscp is the DSCP that the application gave, by the mark and what match_tag found. */
static __always_inline __u32 app_dscp(__u32 mark, __u32 found)
{
	return found >> FOUND_SHIFT ? found >> FOUND_SHIFT : CLASS_DSCP(mark);
}

#endif
