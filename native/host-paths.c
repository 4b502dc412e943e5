/*
 * Looks at paths of the node, which may lie on volumes whose servers do not answer: the system call then hangs, and no
 * signal may end it. So each container that has such paths gets a process.
 *     helper host-paths DEVICES [ENTRY]...
 * DEVICES: the directory below which directories of devices may be (/dev). ENTRY: a letter and an absolute path:
 *     l  look whether it is there
 *     m  make it as a directory when it is not there
 *     d  find the device nodes of the path, which may be a directory
 *
 * Standard output: answers, numbers in the order of this machine:
 *     u32 size, of all of it; u32 entry; u32 outcome; u32 error; u32 length; text
 * `entry` counts from 0; entries are answered in their order. `error` is an error number, and `length` says how much of
 * the path the failure is about.
 */
#include "helper.h"

enum {
	output = 1,
	answer_limit = 4096,
	path_limit = 4096,
	/* Of a directory of devices, with all below it. */
	entry_limit = 10000,
	depth_limit = 16,
	directory_mode = 0755,
};

enum outcome {
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
};

struct header {
	u32 size;
	u32 entry;
	u32 outcome;
	u32 error;
	u32 length;
};

struct answer {
	struct header header;
	char text[answer_limit - sizeof(struct header)];
};

struct look {
	u32 entry;
	const char *device_root;
	/* Entries of directories that were seen. */
	int seen;
	struct answer devices;
};

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

	answer.header = (struct header){sizeof answer.header, look->entry, outcome, (u32)error, (u32)length};
	write_answer(&answer);
}

static long open_at(int directory, const char *path, int flags)
{
	return system_call(SYS_openat, directory, (long)path, flags | O_CLOEXEC, 0, 0);
}

/* The type of a file (S_IFMT of its mode), or a negative error. */
static long type_of(long directory, const char *path, int flags)
{
	struct file_status status;
	long error = stat_at(directory, path, flags, &status);

	return error < 0 ? error : (long)(status.mode & S_IFMT);
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
			int is_link = type_of(directory, path + from, AT_SYMLINK_NOFOLLOW) == S_IFLNK;

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
	*header = (struct header){sizeof *header, look->entry, devices, 0, 0};
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

			if (is_dots(name))
				continue;
			if (++look->seen > entry_limit || length + text_size(name) > path_limit / 2)
				return E2BIG;
			memcpy(path + length, name, text_size(name) + 1);
			type = type_of(directory, name, AT_SYMLINK_NOFOLLOW);
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
	long size = system_call(SYS_readlinkat, AT_FDCWD, (long)path_of(descriptor).text, (long)path, (long)(limit - 1), 0);

	if (size >= 0)
		path[size] = 0;
	return size;
}

static void find_devices(struct look *look, const char *given)
{
	char path[path_limit], real[path_limit];
	unsigned long length = text_size(given);
	long file = open_at(AT_FDCWD, given, O_PATH), error;

	error = file < 0 ? file : type_of(file, "", AT_EMPTY_PATH);
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

_Noreturn void host_paths(char *const *words)
{
	struct look look;

	if (words[0] == 0)
		end(2);
	look.device_root = *words++;
	look.devices.header.size = 0;
	for (look.entry = 0; *words != 0; look.entry++, words++) {
		char letter = **words;
		/* `make` and others write into the path. */
		char *path = *words + 1;

		if (letter == 'd')
			find_devices(&look, path);
		else
			find(&look, path, letter == 'm');
	}
	end(0);
}
