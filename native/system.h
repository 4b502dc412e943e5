/*
 * What the programs that are more than a signal loop need of the kernel: entry point, system calls, structures. For amd64
 * and arm64, which are both little endian and share every structure below. No libc, no headers of it.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

enum {
	EPERM = 1,
	ENOENT = 2,
	EINTR = 4,
	EIO = 5,
	E2BIG = 7,
	EAGAIN = 11,
	EACCES = 13,
	EBUSY = 16,
	EEXIST = 17,
	EXDEV = 18,
	ENOTDIR = 20,
	EISDIR = 21,
	EINVAL = 22,
	ENOTEMPTY = 39,
	ELOOP = 40,
	ETIMEDOUT = 110,
	EINPROGRESS = 115,
	ECANCELED = 125,
};

enum {
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_STREAM = 1,
	SOCK_DGRAM = 2,
	SOCK_NONBLOCK = 04000,
	SOCK_CLOEXEC = 02000000,
	SOL_SOCKET = 1,
	SO_ERROR = 4,
	SO_LINGER = 13,
	SCM_RIGHTS = 1,
	SCM_CREDENTIALS = 2,
	MSG_NOSIGNAL = 0x4000,
	SHUT_WR = 1,
	POLLIN = 1,
	POLLOUT = 4,
	POLLERR = 8,
	POLLHUP = 16,
	POLLNVAL = 32,
	F_SETFL = 4,
	O_RDONLY = 0,
	O_WRONLY = 1,
	O_CREAT = 0100,
	O_EXCL = 0200,
	O_NONBLOCK = 04000,
	O_CLOEXEC = 02000000,
	O_PATH = 010000000,
	AT_FDCWD = -100,
	AT_SYMLINK_NOFOLLOW = 0x100,
	AT_REMOVEDIR = 0x200,
	AT_EMPTY_PATH = 0x1000,
	S_IFMT = 0170000,
	S_IFCHR = 0020000,
	S_IFDIR = 0040000,
	S_IFBLK = 0060000,
	S_IFREG = 0100000,
	S_IFLNK = 0120000,
	WNOHANG = 1,
	WEXITED = 4,
	WNOWAIT = 0x01000000,
	P_PID = 1,
	CLD_EXITED = 1,
	CLOCK_MONOTONIC = 1,
	CLONE_NEWNET = 0x40000000,
	PR_SET_PDEATHSIG = 1,
	SIG_BLOCK = 0,
	SIG_SETMASK = 2,
	PROT_READ = 1,
	PROT_WRITE = 2,
	MAP_PRIVATE = 2,
	MAP_ANONYMOUS = 32,
	SIGHUP = 1,
	SIGINT = 2,
	SIGKILL = 9,
	SIGPIPE = 13,
	SIGTERM = 15,
	SIGCHLD = 17,
};

struct timespec {
	long seconds;
	long nanoseconds;
};

/* What waitid fills. */
struct child_status {
	int signal;
	int error;
	/* CLD_EXITED, or that a signal ended it. */
	int code;
	int padding;
	int process;
	u32 user;
	int status;
	u8 rest[100];
};

struct pollfd {
	int fd;
	short events;
	short revents;
};

/* Large enough for both families; `port` is in network order. */
struct address {
	u16 family;
	u16 port;
	u8 rest[24];
};

struct buffer {
	const void *data;
	unsigned long size;
};

struct message {
	void *name;
	u32 name_size;
	struct buffer *buffers;
	unsigned long buffer_count;
	void *control;
	unsigned long control_size;
	int flags;
};

/* A control message that carries one file descriptor, padded as the kernel wants it. */
struct descriptor_control {
	unsigned long size;
	int level;
	int type;
	int descriptor;
	int padding;
};

#if defined __x86_64__

enum {
	SYS_read = 0,
	SYS_write = 1,
	SYS_close = 3,
	SYS_rt_sigprocmask = 14,
	SYS_socket = 41,
	SYS_connect = 42,
	SYS_sendto = 44,
	SYS_sendmsg = 46,
	SYS_shutdown = 48,
	SYS_setsockopt = 54,
	SYS_getsockopt = 55,
	SYS_fcntl = 72,
	SYS_geteuid = 107,
	SYS_getegid = 108,
	SYS_getppid = 110,
	SYS_prctl = 157,
	SYS_clock_gettime = 228,
	SYS_exit_group = 231,
	SYS_openat = 257,
	SYS_ppoll = 271,
	SYS_setns = 308,
	SYS_getpid = 39,
	SYS_clone = 56,
	SYS_wait4 = 61,
	SYS_waitid = 247,
	SYS_kill = 62,
	SYS_umask = 95,
	SYS_getdents64 = 217,
	SYS_mkdirat = 258,
	SYS_newfstatat = 262,
	SYS_readlinkat = 267,
	SYS_signalfd4 = 289,
	SYS_lseek = 8,
	SYS_pread64 = 17,
	SYS_pwrite64 = 18,
	SYS_ftruncate = 77,
	SYS_chdir = 80,
	SYS_fchdir = 81,
	SYS_fstatfs = 138,
	SYS_mount = 165,
	SYS_umount2 = 166,
	SYS_fchownat = 260,
	SYS_unlinkat = 263,
	SYS_renameat = 264,
	SYS_symlinkat = 266,
	SYS_fchmodat = 268,
	SYS_openat2 = 437,
	SYS_mmap = 9,
	SYS_munmap = 11,
	SYS_execve = 59,
	SYS_setsid = 112,
	SYS_dup3 = 292,
	SYS_pipe2 = 293,
	O_DIRECTORY = 0200000,
	O_NOFOLLOW = 0400000,
	SYS_setpriority = 141,
	SYS_ioprio_set = 251,
};

/* What newfstatat fills. */
struct file_status {
	u64 device;
	u64 inode;
	u64 links;
	u32 mode;
	u32 user;
	u32 group;
	u32 padding;
	u64 node;
	u64 size;
	u64 block_size;
	u64 blocks;
	u64 rest[9];
};

static long system_call(long number, long a, long b, long c, long d, long e)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

/* Not every program maps memory. The sixth argument is the offset: 0. */
__attribute__((unused)) static long map_memory(unsigned long size)
{
	long result;
	register long r10 __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS;
	register long r8 __asm__("r8") = -1;
	register long r9 __asm__("r9") = 0;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(SYS_mmap), "D"(0L), "S"(size), "d"((long)(PROT_READ | PROT_WRITE)), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#ifndef WITHOUT_ENTRY_POINT
/* The kernel leaves the count of arguments and their addresses at the stack pointer. */
__asm__(".globl _start\n"
	"_start:\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call run\n");
#endif

#elif defined __aarch64__

enum {
	SYS_fcntl = 25,
	SYS_openat = 56,
	SYS_close = 57,
	SYS_read = 63,
	SYS_write = 64,
	SYS_ppoll = 73,
	SYS_exit_group = 94,
	SYS_clock_gettime = 113,
	SYS_rt_sigprocmask = 135,
	SYS_prctl = 167,
	SYS_getppid = 173,
	SYS_geteuid = 175,
	SYS_getegid = 177,
	SYS_socket = 198,
	SYS_connect = 203,
	SYS_sendto = 206,
	SYS_setsockopt = 208,
	SYS_getsockopt = 209,
	SYS_shutdown = 210,
	SYS_sendmsg = 211,
	SYS_setns = 268,
	SYS_mkdirat = 34,
	SYS_getdents64 = 61,
	SYS_signalfd4 = 74,
	SYS_readlinkat = 78,
	SYS_newfstatat = 79,
	SYS_kill = 129,
	SYS_umask = 166,
	SYS_getpid = 172,
	SYS_clone = 220,
	SYS_wait4 = 260,
	SYS_waitid = 95,
	SYS_unlinkat = 35,
	SYS_symlinkat = 36,
	SYS_renameat = 38,
	SYS_umount2 = 39,
	SYS_mount = 40,
	SYS_fstatfs = 44,
	SYS_ftruncate = 46,
	SYS_chdir = 49,
	SYS_fchdir = 50,
	SYS_fchmodat = 53,
	SYS_fchownat = 54,
	SYS_lseek = 62,
	SYS_pread64 = 67,
	SYS_pwrite64 = 68,
	SYS_openat2 = 437,
	SYS_dup3 = 24,
	SYS_pipe2 = 59,
	SYS_setsid = 157,
	SYS_munmap = 215,
	SYS_execve = 221,
	SYS_mmap = 222,
	O_DIRECTORY = 040000,
	O_NOFOLLOW = 0100000,
	SYS_setpriority = 140,
	SYS_ioprio_set = 30,
};

/* What newfstatat fills. */
struct file_status {
	u64 device;
	u64 inode;
	u32 mode;
	u32 links;
	u32 user;
	u32 group;
	u64 node;
	u64 padding;
	u64 size;
	u64 block_size;
	u64 blocks;
	u64 rest[7];
};

static long system_call(long number, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
}

__attribute__((unused)) static long map_memory(unsigned long size)
{
	register long x8 __asm__("x8") = SYS_mmap;
	register long x0 __asm__("x0") = 0;
	register long x1 __asm__("x1") = (long)size;
	register long x2 __asm__("x2") = PROT_READ | PROT_WRITE;
	register long x3 __asm__("x3") = MAP_PRIVATE | MAP_ANONYMOUS;
	register long x4 __asm__("x4") = -1;
	register long x5 __asm__("x5") = 0;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

#ifndef WITHOUT_ENTRY_POINT
__asm__(".globl _start\n"
	"_start:\n"
	"	mov x0, sp\n"
	"	bl run\n");
#endif

#else
#error "no system calls known for this architecture"
#endif

_Noreturn void run(const long *arguments);

__attribute__((unused)) static _Noreturn void end(long status)
{
	for (;;)
		system_call(SYS_exit_group, status, 0, 0, 0, 0);
}

__attribute__((unused)) static void close_descriptor(int descriptor)
{
	if (descriptor >= 0)
		system_call(SYS_close, descriptor, 0, 0, 0, 0);
}

#ifndef WITHOUT_ENTRY_POINT
/* The compiler calls these by itself. Volatile, or it would turn the loops into calls of the functions they are in. */
void *memset(void *data, int value, unsigned long size)
{
	volatile u8 *bytes = data;

	while (size-- > 0)
		*bytes++ = (u8)value;
	return data;
}

void *memcpy(void *target, const void *source, unsigned long size)
{
	volatile u8 *to = target;
	const u8 *from = source;

	while (size-- > 0)
		*to++ = *from++;
	return target;
}
#else
void *memset(void *data, int value, unsigned long size);
void *memcpy(void *target, const void *source, unsigned long size);
#endif

__attribute__((unused)) static unsigned long text_size(const char *text)
{
	unsigned long size = 0;

	while (text[size] != 0)
		size++;
	return size;
}

struct short_text {
	char text[32];
};

/* Words, and a number behind them. */
__attribute__((unused)) static struct short_text with_number(const char *words, u64 number)
{
	struct short_text result;
	unsigned long size = text_size(words);
	char digits[21];
	unsigned position = sizeof digits - 1;

	digits[position] = 0;
	do {
		digits[--position] = (char)('0' + number % 10);
		number /= 10;
	} while (number != 0);
	memcpy(result.text, words, size);
	memcpy(result.text + size, digits + position, sizeof digits - position);
	return result;
}

/* Milliseconds of a clock that never goes back. Not every program has deadlines. */
__attribute__((unused)) static long now(void)
{
	struct timespec time;

	if (system_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&time, 0, 0, 0) != 0)
		end(1);
	return time.seconds * 1000 + time.nanoseconds / 1000000;
}

/* Waits for one of `polled`, without end when `milliseconds` is negative. Not every program waits for more than input. */
__attribute__((unused)) static long await(struct pollfd *polled, int count, long milliseconds)
{
	struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	return system_call(SYS_ppoll, (long)polled, count, milliseconds < 0 ? 0 : (long)&time, 0, 0);
}

/* Ignores signals that end programs: the parent ends this one by closing its input. */
__attribute__((unused)) static void block_signals(void)
{
	const unsigned long blocked =
		1UL << (SIGHUP - 1) | 1UL << (SIGINT - 1) | 1UL << (SIGPIPE - 1) | 1UL << (SIGTERM - 1);

	system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&blocked, 0, sizeof blocked, 0);
}
