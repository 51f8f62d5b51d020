//go:build ignore

/* What a User-mode Linux kernel finds in place of two functions of the C library:
 * the same calls with three of the kernel's shortcomings mended.
 *
 * 1. A User-mode Linux that dies leaves its processes behind, which its host then
 *    lets go on as processes of its own, with its own system calls. They get
 *    PTRACE_O_EXITKILL (Linux 3.8), which ends them with their tracer.
 * 2. User-mode Linux up to 6.12 sets vector registers from a buffer of fixed size.
 *    A host whose processor has more (AMX: 11 kB) takes its full size only and
 *    answers EFAULT, and the guest's init dies. The rest is given as zeros and
 *    marked unused, which it is: a process must ask for AMX first, and User-mode
 *    Linux knows no such call.
 * 3. In a panic it sends itself SIGABRT until it ends, which it never does as the
 *    first process of a process namespace: such a one has no signals by default.
 */

#define SYS_GETPID 39L
#define SYS_KILL 62L
#define SYS_PTRACE 101L
#define SYS_EXIT_GROUP 231L
#define SIGABRT 6
#define PTRACE_PEEKUSR 3L
#define PTRACE_OLDSETOPTIONS 21L
#define PTRACE_SETOPTIONS 0x4200L
#define PTRACE_GETREGSET 0x4204L
#define PTRACE_SETREGSET 0x4205L
#define PTRACE_O_EXITKILL (1L << 20)
#define NT_X86_XSTATE ((void *)0x202)

/* Intel SDM volume 1, section 13.4.2: the header says which parts are in use. */
#define XSTATE_BV_AT 512
#define XSTATE_LEGACY 0x2e7UL /* x87, SSE, AVX, AVX-512, PKRU */

struct iovec {
	unsigned char *base;
	unsigned long len;
};

extern int *__errno_location(void);

/* One thread of the kernel traces, and interrupts do not: one buffer will do. It
 * is too large for a kernel stack. */
static unsigned char area[1 << 16] __attribute__((aligned(64)));
static unsigned long full;

static long system_call(long number, long a, long b, void *c, void *d)
{
	long ret;
	register void *r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

static long call(long request, long pid, void *addr, void *data)
{
	return system_call(SYS_PTRACE, request, pid, addr, data);
}

static long result(long ret)
{
	if (ret >= 0)
		return ret;
	*__errno_location() = -ret;
	return -1;
}

/* widen sets all of the host's registers from the kernel's shorter buffer. */
static long widen(long pid, struct iovec *in)
{
	struct iovec all = {area, full};
	unsigned long i;

	for (i = 0; i < in->len; i++)
		area[i] = in->base[i];
	for (; i < full; i++)
		area[i] = 0;
	*(unsigned long *)(area + XSTATE_BV_AT) &= XSTATE_LEGACY;
	return call(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &all);
}

long ptrace(long request, long pid, void *addr, void *data)
{
	if (request > 0 && request <= PTRACE_PEEKUSR) { /* the C library returns the word */
		long word;
		long ret = call(request, pid, addr, &word);

		if (ret < 0)
			return result(ret);
		*__errno_location() = 0;
		return word;
	}
	if (request == PTRACE_OLDSETOPTIONS || request == PTRACE_SETOPTIONS)
		data = (void *)((long)data | PTRACE_O_EXITKILL);
	if (request == PTRACE_SETREGSET && addr == NT_X86_XSTATE) {
		struct iovec *in = data;

		if (!full) {
			struct iovec all = {area, sizeof(area)};
			long ret = call(PTRACE_GETREGSET, pid, addr, &all);

			if (ret < 0)
				return result(ret);
			full = all.len;
		}
		if (in->len > XSTATE_BV_AT + 64 && in->len < full)
			return result(widen(pid, in));
	}
	return result(call(request, pid, addr, data));
}

int kill(int pid, int signal)
{
	if (signal == SIGABRT && pid == system_call(SYS_GETPID, 0, 0, 0, 0))
		system_call(SYS_EXIT_GROUP, 128 + SIGABRT, 0, 0, 0);
	return result(system_call(SYS_KILL, pid, signal, 0, 0));
}
