/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The bucket of a flow: flow.Bucket in C, for the data plane and the telemetry. */
#ifndef FLOW_BUCKET_H
#define FLOW_BUCKET_H

/* Per pair of pods, in rows: a flow has a bucket of the same place in each. */
enum { BUCKETS = 64, ROWS = 2, ROW_WIDTH = BUCKETS / ROWS };

/* flow_bucket is that of the first row, the same in both directions; ports are in host order. */
static __always_inline __u32 flow_bucket(__u16 sport, __u16 dport, __u8 proto)
{
	__u32 h = (__u32)(__u16)(sport ^ dport) * 0x9E3779B1u + proto * 0x85EBCA6Bu;

	h ^= h >> 16;
	return h & (ROW_WIDTH - 1);
}

/* row_bucket is the bucket of the same place in another row. */
static __always_inline __u32 row_bucket(__u32 bucket, __u32 row)
{
	__u32 b = (bucket & (ROW_WIDTH - 1)) + (row & (ROWS - 1)) * ROW_WIDTH;

	/* So that verifiers know that forget what an OR leaves, as in Linux 6.8. */
	asm volatile("%0 &= %1" : "+r"(b) : "i"(ROWS * ROW_WIDTH - 1));
	return b;
}

#endif
