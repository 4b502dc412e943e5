/*
 * The process that keeps a pod sandbox alive: it holds the namespaces and, where the pod shares its PID namespace,
 * is PID 1 for all of the pod's processes. It reaps orphans, ends with 0 on SIGTERM and SIGINT, and does nothing else.
 *
 * Freestanding: no libc, no headers, no writable data. build.mjs has the compiler and the flags.
 */

enum {
	SIGINT = 2,
	SIGTERM = 15,
	SIGCHLD = 17,
	SIG_BLOCK = 0,
	WNOHANG = 1,
	EINTR = 4,
};

/* The kernel's signal set, not libc's: bit n-1 stands for signal n. */
typedef unsigned long signal_set;

#if defined __x86_64__

enum {
	SYS_rt_sigprocmask = 14,
	SYS_wait4 = 61,
	SYS_rt_sigtimedwait = 128,
	SYS_exit_group = 231,
};

static long syscall4(long number, long a, long b, long c, long d)
{
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

#elif defined __aarch64__

enum {
	SYS_exit_group = 94,
	SYS_rt_sigprocmask = 135,
	SYS_rt_sigtimedwait = 137,
	SYS_wait4 = 260,
};

static long syscall4(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

#else
#error "no system calls known for this architecture"
#endif

static _Noreturn void end(long status)
{
	for (;;)
		syscall4(SYS_exit_group, status, 0, 0, 0);
}

static void reap_all(void)
{
	while (syscall4(SYS_wait4, -1, 0, WNOHANG, 0) > 0)
		;
}

_Noreturn void _start(void)
{
	const signal_set awaited = 1UL << (SIGINT - 1) | 1UL << (SIGTERM - 1) | 1UL << (SIGCHLD - 1);

	/*
	 * A blocked signal stays pending even for PID 1, which the kernel otherwise spares those without a handler,
	 * and whatever disposition the parent left. So there is no handler, and no moment at which a signal is lost.
	 */
	if (syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&awaited, 0, sizeof awaited) != 0)
		end(1);
	for (;;) {
		long signal;

		/* One SIGCHLD may stand for many children, and some may have died before it was blocked. */
		reap_all();
		signal = syscall4(SYS_rt_sigtimedwait, (long)&awaited, 0, 0, sizeof awaited);
		if (signal == SIGINT || signal == SIGTERM)
			end(0);
		/* EINTR: stopped and continued. Anything else would repeat for ever and burn a processor. */
		if (signal < 0 && signal != -EINTR)
			end(1);
	}
}
