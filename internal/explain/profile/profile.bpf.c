//go:build ignore

// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Where the CPUs are when a timer looks, and how large the packets are.
 *
 * pw_sample runs at every tick of a perf event on every CPU and counts
 * stacks of the kernel where they happen, so that nothing runs in user space
 * while the window lasts. pw_recv runs for every packet that enters the
 * stack and notes whose namespace the CPU is working for: in a softirq the
 * current task is the one that was interrupted. It and pw_sent, which runs for
 * every packet that a device is given, look closer at one packet in 16.
 *
 * Needs Linux 5.8 and BTF of the kernel: raw tracepoints with BTF (5.5),
 * bpf_get_stack with perf events (4.20), global data (5.2).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* The default of kernel.perf_event_max_stack. */
#define MAX_FRAMES 127
#define MAX_STACKS 16384
#define MAX_COUNTS 65536
#define MAX_DEVICES 4096
#define SIZES 18 /* packet sizes by log2: up to 2^17, more than 64 KiB GSO */

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

struct nsproxy {
	struct net *net_ns;
} __attribute__((preserve_access_index));

struct task_struct {
	struct task_struct *group_leader;
	struct nsproxy *nsproxy;
	char comm[16];
} __attribute__((preserve_access_index));

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned char *head;
	unsigned int end;
} __attribute__((preserve_access_index));

struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
} __attribute__((preserve_access_index));

/* The keys and values that Go reads too. */
struct where {
	__u64 stack; /* hash of the frames; 0: user mode */
	__u32 cpu;
	__u32 task_netns;   /* inode; of the current task */
	__u32 packet_netns; /* inode; of the last packet that this CPU received */
	__u32 zero;
	char process[16]; /* of the thread group's leader */
};

struct frames {
	__u64 ip[MAX_FRAMES + 1]; /* leaf first; 0 ends */
};

struct device_key {
	__u32 netns; /* inode */
	__u32 ifindex;
	__u32 received; /* 1: entered the stack, 0: given to the device */
	__u32 zero;
};

struct device_value {
	__u64 packets;
	__u64 bytes;
	__u64 segments; /* what GSO packets would be on a wire */
	__u64 sizes[SIZES];
};

struct cpu {
	__u32 netns; /* inode; of the last packet received */
	__u32 random;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STACKS);
	__type(key, __u64);
	__type(value, struct frames);
} pw_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_COUNTS);
	__type(key, struct where);
	__type(value, __u64);
} pw_samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_DEVICES);
	__type(key, struct device_key);
	__type(value, struct device_value);
} pw_devices SEC(".maps");

/* Per CPU: no other program runs between a sample's reading and its counting. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frames);
} pw_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} pw_cpus SEC(".maps");

/* 1 while the window lasts. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} pw_measuring SEC(".maps");

/* Samples for which there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pw_lost SEC(".maps");

static __always_inline void lose(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&pw_lost, &zero);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* The frames of this sample in scratch, and their hash (FNV-1a by words). */
static __always_inline __u64 collect(void *ctx, struct frames *f)
{
	__u64 hash = 0xcbf29ce484222325;
	long n = bpf_get_stack(ctx, f->ip, MAX_FRAMES * sizeof(__u64), 0);

	if (n <= 0)
		return 0;
	for (int i = 0; i < MAX_FRAMES; i++) {
		if (i * (long)sizeof(__u64) >= n) {
			f->ip[i] = 0;
			break;
		}
		hash = (hash ^ f->ip[i]) * 0x100000001b3;
		hash ^= hash >> 29;
	}
	return hash ? hash : 1;
}

SEC("perf_event")
int pw_sample(void *ctx)
{
	struct where w = {};
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 zero = 0;
	struct cpu *c = bpf_map_lookup_elem(&pw_cpus, &zero);
	struct frames *f = bpf_map_lookup_elem(&pw_scratch, &zero);
	__u64 one = 1, *n;

	if (!f || !c)
		return 0;
	w.stack = collect(ctx, f);
	w.cpu = bpf_get_smp_processor_id();
	w.packet_netns = c->netns;
	w.task_netns = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
	BPF_CORE_READ_INTO(&w.process, task, group_leader, comm);
	n = bpf_map_lookup_elem(&pw_samples, &w);
	if (n) {
		__sync_fetch_and_add(n, 1);
		return 0;
	}
	if (w.stack && !bpf_map_lookup_elem(&pw_stacks, &w.stack) &&
	    bpf_map_update_elem(&pw_stacks, &w.stack, f, BPF_ANY)) {
		lose();
		return 0;
	}
	if (bpf_map_update_elem(&pw_samples, &w, &one, BPF_ANY))
		lose();
	return 0;
}

static __always_inline void count(struct sk_buff *skb, struct net_device *dev, __u32 received)
{
	struct device_key k = {.received = received};
	struct device_value *v, fresh = {};
	struct skb_shared_info *info = (void *)(skb->head + skb->end);
	__u16 segments = BPF_CORE_READ(info, gso_segs), size = BPF_CORE_READ(info, gso_size);
	__u32 len = skb->len, class = 0;

	k.netns = dev->nd_net.net->ns.inum;
	k.ifindex = dev->ifindex;
	v = bpf_map_lookup_elem(&pw_devices, &k);
	if (!v) {
		if (bpf_map_update_elem(&pw_devices, &k, &fresh, BPF_NOEXIST))
			return;
		v = bpf_map_lookup_elem(&pw_devices, &k);
		if (!v)
			return;
	}
	/* A forwarded packet may know its segments' size only. */
	if (!segments)
		segments = size ? (len + size - 1) / size : 1;
	for (int i = 1; i < SIZES; i++)
		if (len >> i)
			class = i;
	v->packets++;
	v->bytes += len;
	v->segments += segments;
	if (class < SIZES)
		v->sizes[class]++;
}

static __always_inline int on(void)
{
	__u32 zero = 0, *is = bpf_map_lookup_elem(&pw_measuring, &zero);

	return is && *is;
}

/* One packet in 16, at random: every 16th could always be an acknowledgement.
 * The generator is that of Numerical Recipes; its high bits are the good ones. */
static __always_inline int chosen(struct cpu *c)
{
	c->random = c->random * 1664525 + 1013904223;
	return c->random >> 28 == 0;
}

SEC("tp_btf/net_dev_start_xmit")
int pw_sent(__u64 *ctx)
{
	__u32 zero = 0;
	struct cpu *c = bpf_map_lookup_elem(&pw_cpus, &zero);

	if (c && on() && chosen(c))
		count((struct sk_buff *)ctx[0], (struct net_device *)ctx[1], 0);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int pw_recv(__u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	__u32 zero = 0;
	struct cpu *c = bpf_map_lookup_elem(&pw_cpus, &zero);

	if (!c || !on())
		return 0;
	c->netns = skb->dev->nd_net.net->ns.inum;
	if (chosen(c))
		count(skb, skb->dev, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
