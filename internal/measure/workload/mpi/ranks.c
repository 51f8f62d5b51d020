//go:build ignore

// What every rank runs: all-to-all, ping-pong or a stream of messages, timed by
// the monotonic clock that all processes of the machine share.
//
//   ranks KIND SIZE WARMUP DURATION READY      times in nanoseconds
//
// When all ranks are connected, rank 0 writes the window's beginning to the file
// READY. At the end it prints "latency NANOSECONDS" for each operation that
// began in the window, or "stream BYTES NANOSECONDS" for each sending rank.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GO, STOP, WINDOW = 64, LIMIT = 4 << 20 };

static int rank, ranks, size;
static int64_t begin, end;

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *room(size_t n) {
	void *p = calloc(n ? n : 1, 1);
	if (!p) {
		fprintf(stderr, "ranks: out of memory\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return p;
}

static void must(int ok, const char *what) {
	if (!ok) {
		fprintf(stderr, "ranks: %s\n", what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

// times of operations, as many as there is room for.
static int64_t *times;
static int count;

static void keep(int64_t from, int64_t took) {
	if (from >= begin && from < end) {
		must(count < LIMIT, "too many operations for the memory set aside: choose a shorter window");
		times[count++] = took;
	}
}

// connect makes every pair of ranks that will talk do so once, then agrees on
// the window and tells those who wait for it.
static void ready(int64_t warmup, int64_t duration, const char *file) {
	char *a = room((size_t)ranks * size), *b = room((size_t)ranks * size);
	MPI_Alltoall(a, size, MPI_BYTE, b, size, MPI_BYTE, MPI_COMM_WORLD);
	free(a), free(b);
	begin = now() + warmup + 30000000;
	MPI_Bcast(&begin, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
	end = begin + duration;
	if (rank)
		return;
	char part[4096];
	must(snprintf(part, sizeof part, "%s.part", file) < (int)sizeof part, "the path is too long");
	FILE *f = fopen(part, "w");
	must(f && fprintf(f, "%lld\n", (long long)begin) > 0 && !fclose(f) && !rename(part, file), "cannot write the beginning");
}

// alltoall times MPI_Alltoall, as the mean over the ranks. Between two the ranks
// agree whether to go on, which also makes them start together.
static void alltoall(void) {
	char *out = room((size_t)ranks * size), *in = room((size_t)ranks * size);
	for (double go[2] = {0}; !go[1];) {
		memset(out, rank + 1, (size_t)ranks * size);
		int64_t from = now();
		MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
		int64_t at = now();
		for (int r = 0; r < ranks; r++)
			must(in[(size_t)r * size] == (char)(r + 1), "a message holds something else than was sent");
		double mine[2] = {at - from, at >= end};
		MPI_Allreduce(mine, go, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		if (!rank)
			keep(from, go[0] / ranks);
	}
}

// pingpong: ranks of the first half send and wait for the answer of their peer.
static void pingpong(int peer, int first) {
	char *buf = room(size);
	for (char n = 0;; n++) {
		MPI_Status s;
		int64_t from = now();
		if (first) {
			int stop = from >= end;
			buf[0] = n;
			MPI_Send(buf, size, MPI_BYTE, peer, stop ? STOP : GO, MPI_COMM_WORLD);
			if (stop)
				return;
			MPI_Recv(buf, size, MPI_BYTE, peer, GO, MPI_COMM_WORLD, &s);
			keep(from, now() - from);
			must(buf[0] == n, "an answer is not what was sent");
		} else {
			MPI_Recv(buf, size, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
			if (s.MPI_TAG == STOP)
				return;
			MPI_Send(buf, size, MPI_BYTE, peer, GO, MPI_COMM_WORLD);
		}
	}
}

// stream sends WINDOW messages at once and waits for a word, as osu_bw does.
static void stream(int peer, int first, int64_t told[2]) {
	char *buf = room((size_t)WINDOW * size), word = 0;
	MPI_Request all[WINDOW];
	int64_t since = 0, until = 0, bytes = 0;
	for (;;) {
		int64_t from = now();
		int stop = first && from >= end;
		if (first)
			MPI_Send(&word, 1, MPI_BYTE, peer, stop ? STOP : GO, MPI_COMM_WORLD);
		else {
			MPI_Status s;
			MPI_Recv(&word, 1, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
			stop = s.MPI_TAG == STOP;
		}
		if (stop)
			break;
		for (int i = 0; i < WINDOW; i++) {
			char *at = buf + (size_t)i * size;
			if (first)
				MPI_Isend(at, size, MPI_BYTE, peer, GO, MPI_COMM_WORLD, &all[i]);
			else
				MPI_Irecv(at, size, MPI_BYTE, peer, GO, MPI_COMM_WORLD, &all[i]);
		}
		MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
		if (first)
			MPI_Recv(&word, 1, MPI_BYTE, peer, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(&word, 1, MPI_BYTE, peer, GO, MPI_COMM_WORLD);
		if (from >= begin && from < end) {
			since = since ? since : from;
			until = now();
			bytes += (int64_t)WINDOW * size;
		}
	}
	told[0] = bytes, told[1] = until - since;
}

// print gathers n numbers of every rank at rank 0.
static void print(const char *what, int64_t *v, int n, int columns) {
	int *counts = room(ranks * sizeof *counts), *at = room(ranks * sizeof *at), all = 0;
	MPI_Gather(&n, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		at[r] = all, all += counts[r];
	int64_t *got = room((rank ? 0 : all) * sizeof *got);
	MPI_Gatherv(v, n, MPI_INT64_T, got, counts, at, MPI_INT64_T, 0, MPI_COMM_WORLD);
	for (int i = 0; !rank && i < all; i += columns) {
		printf("%s", what);
		for (int c = 0; c < columns; c++)
			printf(" %lld", (long long)got[i + c]);
		printf("\n");
	}
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	must(argc == 6 && (size = atoi(argv[2])) > 0, "expected KIND SIZE WARMUP DURATION READY");
	times = room(LIMIT * sizeof *times); // the kernel gives the memory when it is used
	ready(atoll(argv[3]), atoll(argv[4]), argv[5]);
	int first = rank < ranks / 2, peer = first ? rank + ranks / 2 : rank - ranks / 2;
	if (!strcmp(argv[1], "alltoall"))
		alltoall();
	else if (!strcmp(argv[1], "pingpong"))
		pingpong(peer, first);
	else {
		int64_t told[2];
		stream(peer, first, told);
		print("stream", told, first ? 2 : 0, 2);
	}
	print("latency", times, count, 1);
	return MPI_Finalize();
}
