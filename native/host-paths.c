/*
 * Looks at paths of the node for the program that started it. A path may lie on a volume whose server does not answer:
 * the system call then hangs, and no signal may end it. Each request is therefore a process of its own, forked from this
 * one, which touches no path itself. A program with threads would lose one of them, and could not end.
 *
 * Standard input: requests, numbers in the order of this machine:
 *     u32 size, of all of it; u32 id; then entries, each a letter, an absolute path and a NUL:
 *         l  look whether it is there
 *         m  make it as a directory when it is not there
 *         d  find the device nodes of the path, which may be a directory below argument 1 (/dev)
 * A request without entries kills the process of the request of that id.
 *
 * Standard output: answers, numbers in the order of this machine, each written at once because it is shorter than
 * PIPE_BUF:
 *     u32 size, of all of it; u32 id; u32 entry; u32 outcome; u32 error; u32 length; text
 * `entry` counts from 0; entries are answered in their order. `error` is an error number, and `length` says how much of
 * the path the failure is about. The last answer of a request, `ended`, comes from this process: the other one is gone.
 *
 * Ends with its input and with the parent. What hangs then ends when the kernel lets it.
 */
#include "system.h"

enum {
	input = 0,
	output = 1,
	slot_count = 512,
	request_limit = 64 * 1024,
	answer_limit = 4096,
	path_limit = 4096,
	/* Of a directory of devices, with all below it. */
	entry_limit = 10000,
	depth_limit = 16,
	directory_mode = 0755,
};

enum outcome {
	ended = 0,
	present = 1,
	made = 2,
	missing = 3,
	look_failed = 4,
	make_failed = 5,
	/* A symbolic link that leads to nothing is in the place of a directory that is to be made. */
	dangling_link = 6,
	/* Text: paths of device nodes, each with a NUL; more follow. */
	devices = 7,
	devices_end = 8,
	/* A directory that is not below the directory of devices. */
	outside = 9,
	too_many = 10,
	/* No process could be made for the request. */
	not_started = 11,
};

struct header {
	u32 size;
	u32 id;
	u32 entry;
	u32 outcome;
	u32 error;
	u32 length;
};

struct answer {
	struct header header;
	char text[answer_limit - sizeof(struct header)];
};

struct slot {
	int process;
	u32 id;
};

/* Of one request, in the process that it has. */
struct look {
	u32 id;
	u32 entry;
	const char *device_root;
	/* Entries of directories that were seen. */
	int seen;
	struct answer devices;
};

static unsigned long text_size(const char *text)
{
	unsigned long size = 0;

	while (text[size] != 0)
		size++;
	return size;
}

static void write_answer(const struct answer *answer)
{
	long written;

	do
		written = system_call(SYS_write, output, (long)answer, answer->header.size, 0, 0);
	while (written == -EINTR);
	if (written != (long)answer->header.size)
		end(1);
}

static void reply(const struct look *look, enum outcome outcome, long error, unsigned long length)
{
	struct answer answer;

	answer.header = (struct header){sizeof answer.header, look->id, look->entry, outcome, (u32)error, (u32)length};
	write_answer(&answer);
}

static long open_at(int directory, const char *path, int flags)
{
	return system_call(SYS_openat, directory, (long)path, flags | O_CLOEXEC, 0, 0);
}

/* The type of a file (S_IFMT of its mode), or a negative error. */
static long type_of(int directory, const char *path, int flags)
{
	union {
		u8 bytes[256];
		u32 words[64];
	} found;
	long result = system_call(SYS_newfstatat, directory, (long)path, (long)&found, flags, 0);

	return result < 0 ? result : (long)(found.words[stat_mode_offset / 4] & S_IFMT);
}

/* The longest part of `path` that is there, opened; `length` becomes its length. Links in it are followed. */
static long open_existing(char *path, unsigned long *length)
{
	for (;;) {
		long directory;
		char cut;

		while (*length > 0 && path[*length - 1] != '/')
			--*length;
		while (*length > 1 && path[*length - 1] == '/')
			--*length;
		cut = path[*length];
		path[*length] = 0;
		directory = open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY);
		path[*length] = cut;
		if (directory != -ENOENT || *length <= 1)
			return directory;
	}
}

/* Makes what is missing of `path`. Each part is made in the directory that is open, so that no link leads elsewhere. */
static void make(const struct look *look, char *path)
{
	unsigned long from = text_size(path);
	long directory = open_existing(path, &from);
	enum outcome outcome = present;

	if (directory < 0) {
		reply(look, look_failed, -directory, from);
		return;
	}
	for (;;) {
		unsigned long to;
		long error, next;
		char cut;

		while (path[from] == '/')
			from++;
		if (path[from] == 0)
			break;
		to = from;
		while (path[to] != 0 && path[to] != '/')
			to++;
		cut = path[to];
		path[to] = 0;
		error = system_call(SYS_mkdirat, directory, (long)(path + from), directory_mode, 0, 0);
		if (error == 0)
			outcome = made;
		/* Another process may make it at the same time. */
		if (error != 0 && error != -EEXIST) {
			reply(look, make_failed, -error, to);
			return;
		}
		next = open_at((int)directory, path + from, O_PATH | O_DIRECTORY | O_NOFOLLOW);
		if (next < 0) {
			int is_link = type_of((int)directory, path + from, AT_SYMLINK_NOFOLLOW) == S_IFLNK;

			reply(look, is_link ? dangling_link : make_failed, -next, to);
			return;
		}
		path[to] = cut;
		close_descriptor((int)directory);
		directory = next;
		from = to;
	}
	close_descriptor((int)directory);
	reply(look, outcome, 0, 0);
}

static void find(const struct look *look, char *path, int makes)
{
	long type = type_of(AT_FDCWD, path, 0);

	if (type >= 0)
		reply(look, present, 0, 0);
	else if (type != -ENOENT)
		reply(look, look_failed, -type, text_size(path));
	else if (makes)
		make(look, path);
	else
		reply(look, missing, 0, 0);
}

static void flush_devices(struct look *look)
{
	struct header *header = &look->devices.header;

	if (header->size > sizeof *header)
		write_answer(&look->devices);
	*header = (struct header){sizeof *header, look->id, look->entry, devices, 0, 0};
}

static void add_device(struct look *look, const char *path)
{
	unsigned long size = text_size(path) + 1;

	if (look->devices.header.size + size > sizeof look->devices)
		flush_devices(look);
	memcpy((char *)&look->devices + look->devices.header.size, path, size);
	look->devices.header.size += (u32)size;
}

/*
 * Answers the device nodes in the directory and below it. Types are looked at, and not taken from the directory: in
 * containers devices are bound over plain files. 0, or an error; E2BIG for more than the limits allow.
 */
static long expand(struct look *look, long directory, char *path, unsigned long length, int depth)
{
	char entries[2048] __attribute__((aligned(8)));
	long size;

	if (directory < 0)
		return -directory;
	if (depth > depth_limit)
		return E2BIG;
	path[length++] = '/';
	while ((size = system_call(SYS_getdents64, directory, (long)entries, sizeof entries, 0, 0)) > 0) {
		for (long at = 0; at < size; at += *(const u16 *)(entries + at + 16)) {
			const char *name = entries + at + 19;
			long type, error = 0;

			if (name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0)))
				continue;
			if (++look->seen > entry_limit || length + text_size(name) > path_limit / 2)
				return E2BIG;
			memcpy(path + length, name, text_size(name) + 1);
			type = type_of((int)directory, name, AT_SYMLINK_NOFOLLOW);
			if (type == S_IFCHR || type == S_IFBLK) {
				add_device(look, path);
			} else if (type == S_IFDIR) {
				long below = open_at((int)directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

				error = expand(look, below, path, length + text_size(name), depth + 1);
			} else if (type < 0) {
				error = -type;
			}
			/* It was removed after it was listed. */
			if (error != 0 && error != ENOENT)
				return error;
		}
	}
	close_descriptor((int)directory);
	return -size;
}

/* Whether `path` is `directory` or below it, as text. */
static int is_within(const char *path, const char *directory)
{
	while (*directory != 0 && *path == *directory) {
		path++;
		directory++;
	}
	return *directory == 0 && (*path == 0 || *path == '/');
}

/* Where the descriptor leads, without a link in it. */
static long real_path(long descriptor, char *path, unsigned long limit)
{
	char link[32] = "/proc/self/fd/", digits[11];
	unsigned position = sizeof digits - 1;
	long size;

	digits[position] = 0;
	do {
		digits[--position] = (char)('0' + descriptor % 10);
		descriptor /= 10;
	} while (descriptor != 0);
	memcpy(link + text_size(link), digits + position, sizeof digits - position);
	size = system_call(SYS_readlinkat, AT_FDCWD, (long)link, (long)path, (long)(limit - 1), 0);
	if (size >= 0)
		path[size] = 0;
	return size;
}

static void find_devices(struct look *look, const char *given)
{
	char path[path_limit], real[path_limit];
	unsigned long length = text_size(given);
	long file = open_at(AT_FDCWD, given, O_PATH), error;

	error = file < 0 ? file : type_of((int)file, "", AT_EMPTY_PATH);
	if (error >= 0 && error != S_IFDIR) {
		reply(look, present, 0, 0);
		return;
	}
	if (error >= 0)
		error = real_path(file, real, sizeof real);
	if (error < 0) {
		reply(look, look_failed, -error, length);
		return;
	}
	if (!is_within(real, look->device_root)) {
		reply(look, outside, 0, 0);
		return;
	}
	if (length > path_limit / 2) {
		reply(look, too_many, 0, 0);
		return;
	}
	memcpy(path, given, length + 1);
	flush_devices(look);
	look->seen = 0;
	error = expand(look, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY), path, length, 0);
	if (error != 0) {
		reply(look, error == E2BIG ? too_many : look_failed, error, length);
		return;
	}
	flush_devices(look);
	reply(look, devices_end, 0, 0);
}

/* In the process of the request. `entries` may be written to. */
static _Noreturn void take_entries(u32 id, char *entries, const char *limit, const char *device_root)
{
	struct look look;

	look.id = id;
	look.device_root = device_root;
	look.devices.header.size = 0;
	for (look.entry = 0; entries < limit; look.entry++) {
		char *path = entries + 1;
		char letter = *entries;

		/* `make` and others write into the path. */
		entries = path + text_size(path) + 1;
		if (letter == 'd')
			find_devices(&look, path);
		else
			find(&look, path, letter == 'm');
	}
	end(0);
}

static void take(struct slot *slots, u32 id, char *entries, const char *limit, const char *device_root)
{
	struct slot *slot = slots;
	long parent = system_call(SYS_getpid, 0, 0, 0, 0, 0), process = -EAGAIN;

	if (entries == limit) {
		for (; slot < slots + slot_count; slot++)
			if (slot->process != 0 && slot->id == id)
				system_call(SYS_kill, slot->process, SIGKILL, 0, 0, 0);
		return;
	}
	while (slot < slots + slot_count && slot->process != 0)
		slot++;
	if (slot < slots + slot_count)
		process = system_call(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (process == 0) {
		close_descriptor(input);
		if (system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
			end(1);
		/* The parent may have ended before it was asked for. */
		if (system_call(SYS_getppid, 0, 0, 0, 0, 0) != parent)
			end(1);
		take_entries(id, entries, limit, device_root);
	}
	if (process < 0) {
		struct look look = {.id = id, .entry = 0};

		reply(&look, not_started, -process, 0);
		return;
	}
	slot->process = (int)process;
	slot->id = id;
}

static void reap(struct slot *slots)
{
	for (;;) {
		long process = system_call(SYS_wait4, -1, 0, WNOHANG, 0, 0);

		if (process <= 0)
			return;
		for (struct slot *slot = slots; slot < slots + slot_count; slot++) {
			struct look look = {.id = slot->id, .entry = 0};

			if (slot->process != process)
				continue;
			slot->process = 0;
			reply(&look, ended, 0, 0);
		}
	}
}

/* 0 when nothing has come; ends the program at the end of what it reads. */
static unsigned long read_some(int descriptor, void *data, unsigned long size)
{
	long count = system_call(SYS_read, descriptor, (long)data, (long)size, 0, 0);

	if (count == -EINTR || count == -EAGAIN)
		return 0;
	if (count <= 0)
		end(0);
	return (unsigned long)count;
}

/* Signals of ended processes, to be read; without it one that ends before it is waited for would be missed. */
static long open_child_signals(void)
{
	const unsigned long ends = 1UL << (SIGCHLD - 1);

	system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&ends, 0, sizeof ends, 0);
	return system_call(SYS_signalfd4, -1, (long)&ends, sizeof ends, O_CLOEXEC | O_NONBLOCK, 0);
}

_Noreturn void run(const long *arguments)
{
	static struct slot slots[slot_count];
	static char received[request_limit] __attribute__((aligned(8)));
	const char *device_root = arguments[0] > 1 ? (const char *)arguments[2] : "/dev";
	u8 dropped[128];
	unsigned long size = 0;
	long signals;

	block_signals();
	if (system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		end(1);
	system_call(SYS_umask, 0, 0, 0, 0, 0);
	signals = open_child_signals();
	if (signals < 0)
		end(1);
	for (;;) {
		struct pollfd polled[2] = {{input, POLLIN, 0}, {(int)signals, POLLIN, 0}};
		unsigned long at = 0;
		long ready = await(polled, 2, -1);

		if (ready == -EINTR)
			continue;
		if (ready < 0)
			end(1);
		if (polled[1].revents != 0) {
			read_some((int)signals, dropped, sizeof dropped);
			reap(slots);
		}
		if (polled[0].revents == 0)
			continue;
		size += read_some(input, received + size, sizeof received - size);
		while (size - at >= 8) {
			u32 head[2];

			memcpy(head, received + at, sizeof head);
			if (head[0] < 8 || head[0] > sizeof received)
				end(1);
			if (size - at < head[0])
				break;
			/* The last byte of the last entry is its NUL. */
			if (head[0] > 8 && received[at + head[0] - 1] != 0)
				end(1);
			take(slots, head[1], received + at + 8, received + at + head[0], device_root);
			at += head[0];
		}
		/* The begin of a request whose rest is to come. */
		for (unsigned long index = at; index < size; index++)
			received[index - at] = received[index];
		size -= at;
	}
}
