//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Packets that the kernel throws away, by its reason and namespace. The program
 * runs for dropped packets alone, and counts them while the window lasts.
 *
 * Needs Linux 5.17 and BTF of the kernel: the tracepoint kfree_skb has a reason
 * since then. It is an object of its own, as older kernels refuse it.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define MAX_DROPS 4096

/* The kernel's own structures, as far as they are read; offsets are relocated. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct sock_common {
	possible_net_t skc_net;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
} __attribute__((preserve_access_index));

/* Go reads it too. */
struct drop {
	__u32 netns; /* inode */
	__u32 reason;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_DROPS);
	__type(key, struct drop);
	__type(value, __u64);
} pw_drops SEC(".maps");

/* 1 while the window lasts. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pw_dropping SEC(".maps");

SEC("tp_btf/kfree_skb")
int pw_drop(__u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	struct drop k = {.reason = (__u32)ctx[2]};
	__u32 zero = 0, *on = bpf_map_lookup_elem(&pw_dropping, &zero);
	struct sock *sk = skb->sk;
	__u64 one = 1, *n;

	if (!on || !*on)
		return 0;
	/* Of packets in a socket's queue the device's place holds something else. */
	if (sk)
		k.netns = sk->__sk_common.skc_net.net->ns.inum;
	else if (skb->dev)
		k.netns = skb->dev->nd_net.net->ns.inum;
	n = bpf_map_lookup_elem(&pw_drops, &k);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&pw_drops, &k, &one, BPF_NOEXIST);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
