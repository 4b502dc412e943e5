/*
 * Files that `dockershim play` makes on an engine's host, where containers mount them:
 *     helper play-files DIRECTORY PREFIX
 * DIRECTORY has the engine's volumes. Paths of requests are relative to it, begin with PREFIX and have no part `.` or
 * `..`. No symbolic link in them is followed, so that no path leads elsewhere, whatever containers do in their volumes.
 *
 * Standard input: requests, numbers in the order of this machine:
 *     u32 size, of all of it; u32 id; u32 operation; u32 numbers[3]; u64 large; text; NUL; text; NUL; data
 * Standard output: their answers, in the order of the requests:
 *     u32 size, of all of it; u32 id; u32 error number, 0 for success; u32 0; data
 * Ends with its input.
 */
#include "helper.h"

enum {
	input = 0,
	output = 1,
	/* Of data in one request or answer. */
	data_limit = 512 * 1024,
	/* Two paths, and a third one in the data. */
	request_limit = data_limit + 16 * 1024,
	/* Of directories within each other that are open at once. */
	depth_limit = 200,
	/* Over a directory that is emptied while something writes there. */
	pass_limit = 1000,
	path_limit = 4096,
};

enum operation {
	/* u64 mode, size, device and inode of the path itself */
	look = 1,
	/* names, a NUL behind each; `.` and `..` are not among them */
	list = 2,
	/* `large`: offset; numbers[0]: bytes; empty at the end of the file. EINVAL for what is no file */
	read_part = 3,
	read_link = 4,
	/* numbers[0]: mode */
	make_directory = 5,
	/* The data, at offset `large`; numbers[0]: 0 an existing file, 1 a new one; [1]: its mode; [2]: 1 ends the file there */
	write_part = 6,
	/* The first text becomes the second. */
	rename_entry = 7,
	/* The second text is a link to the first, which may be any text. */
	make_link = 8,
	unlink_entry = 9,
	remove_directory = 10,
	/* With all below it; ENOENT when it is missing, EBUSY where something is mounted */
	remove_tree = 11,
	/* numbers[0]; ELOOP for a link */
	change_mode = 12,
	/* numbers[0], [1]: user and group */
	change_owner = 13,
	/* u64 bytes on disk of a directory, without other file systems below it */
	size_directory = 14,
	/*
	 * numbers[0]: group, which may read and write all below from then on; E2BIG for too many levels. [1]: 1 when a root that is
	 * so already proves it for all
	 */
	give_to_group = 15,
	/* A file system in memory, options as the second text */
	mount_memory = 16,
	/*
	 * as `look`, for the second text below the first, a volume; makes missing directories for numbers[0], [1]: user and
	 * group, but in a set-group-id directory for its group. EXDEV: a link leaves the volume
	 */
	find_sub_path = 17,
	/* The same, mounted at the path in the data, which is a file or a directory */
	bind_sub_path = 18,
	/* The uppermost of what is mounted there */
	unmount = 19,
	/* The text of /proc/self/mountinfo */
	mounts = 20,
	/* u64 size of the path's file system */
	space = 21,
};

enum {
	RESOLVE_NO_XDEV = 1,
	RESOLVE_NO_MAGICLINKS = 2,
	RESOLVE_NO_SYMLINKS = 4,
	RESOLVE_BENEATH = 8,
	/* For paths and parts of play; and for what a volume may have, which containers write. */
	strictly = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	within = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	MS_BIND = 4096,
	UMOUNT_NOFOLLOW = 8,
	/* A path may change while it is followed. */
	resolve_attempts = 32,
};

struct request {
	u32 size;
	u32 id;
	u32 operation;
	u32 numbers[3];
	u64 large;
};

struct answer {
	u32 size;
	u32 id;
	u32 error;
	u32 zero;
	u8 data[data_limit];
};

/* Of the clock of `now`. */
static const long usage_ms = 60000;

static int volumes;
static const char *prefix;
static struct answer answer;

static long open_as(long directory, const char *path, long flags, u64 resolve)
{
	const u64 how[3] = {(u64)flags | O_CLOEXEC, 0, resolve};
	long result = -EAGAIN;

	for (int attempt = 0; result == -EAGAIN && attempt < resolve_attempts; attempt++)
		result = system_call(SYS_openat2, directory, (long)path, (long)how, sizeof how, 0);
	return result;
}

static long stat_of(long directory, const char *path, struct file_status *status)
{
	return stat_at(directory, path, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, status);
}

/* Whether the path is one of play's: `prefix`…, without empty parts, `.` and `..`. */
static int is_own(const char *path)
{
	for (unsigned long index = 0; prefix[index] != 0; index++)
		if (path[index] != prefix[index])
			return 0;
	while (*path != 0) {
		unsigned long size = 0;

		while (path[size] != 0 && path[size] != '/')
			size++;
		if (size == 0 || (path[0] == '.' && (size == 1 || (size == 2 && path[1] == '.'))))
			return 0;
		path += size;
		if (*path == '/' && *++path == 0)
			return 0;
	}
	return 1;
}

static long open_path(const char *path, long flags)
{
	return is_own(path) ? open_as(volumes, path, flags, strictly) : -EINVAL;
}

/* The directory of the last part of `path`, which `name` becomes. */
static long open_parent(char *path, const char **name)
{
	long slash = -1, result;

	if (!is_own(path))
		return -EINVAL;
	for (long index = 0; path[index] != 0; index++)
		if (path[index] == '/')
			slash = index;
	*name = path + slash + 1;
	if (slash < 0)
		return open_as(volumes, ".", O_PATH | O_DIRECTORY, strictly);
	path[slash] = 0;
	result = open_as(volumes, path, O_PATH | O_DIRECTORY, strictly);
	path[slash] = '/';
	return result;
}

/* Calls `visit` for each entry but dots, until it answers an error. */
#define each_entry(directory, name, size, entries)                                                                      \
	while (((size) = system_call(SYS_getdents64, (directory), (long)(entries), sizeof(entries), 0, 0)) > 0)            \
		for (const u8 *entry = (entries); entry < (entries) + (size); entry += *(const u16 *)(entry + 16))            \
			if (name = (const char *)entry + 19, !is_dots(name))

static long answer_names(long directory)
{
	static u8 entries[32 * 1024] __attribute__((aligned(8)));
	const char *name;
	unsigned long used = 0;
	long size;

	if (directory < 0)
		return directory;
	each_entry(directory, name, size, entries)
	{
		unsigned long length = text_size(name) + 1;

		if (used + length > data_limit)
			return -E2BIG;
		memcpy(answer.data + used, name, length);
		used += length;
	}
	answer.size += (u32)used;
	return size;
}

static long answer_bytes(const void *data, unsigned long size)
{
	memcpy(answer.data, data, size);
	answer.size += (u32)size;
	return 0;
}

static long answer_stat(long directory, const char *path)
{
	struct file_status stat;
	long error = stat_of(directory, path, &stat);
	const u64 numbers[] = {stat.mode, stat.size, stat.device, stat.inode};

	return error < 0 ? error : answer_bytes(numbers, sizeof numbers);
}

/* Reads until `limit` bytes are there, or the end. */
static long answer_content(long file, unsigned long limit, u64 offset)
{
	long count = 1;

	while (limit > 0 && count > 0) {
		count = system_call(SYS_pread64, file, (long)(answer.data + answer.size - 16), (long)limit, (long)offset, 0);
		if (count < 0)
			return count;
		answer.size += (u32)count;
		limit -= (unsigned long)count;
		offset += (u64)count;
	}
	return 0;
}

static long read_file(const char *path, unsigned long limit, u64 offset)
{
	struct file_status stat;
	/* A pipe must not hold it up. */
	long file = open_path(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW), error;

	if (file < 0)
		return file;
	error = stat_of(file, "", &stat);
	if (error == 0 && (stat.mode & S_IFMT) != S_IFREG)
		error = -EINVAL;
	if (error == 0)
		error = answer_content(file, limit < data_limit ? limit : data_limit, offset);
	close_descriptor((int)file);
	return error;
}

static long write_file(const struct request *request, long parent, const char *name, const char *data, u64 size)
{
	const u32 *numbers = request->numbers;
	long flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (numbers[0] != 0 ? O_CREAT | O_EXCL : 0);
	long file = system_call(SYS_openat, parent, (long)name, flags, numbers[1], 0), error = file < 0 ? file : 0;
	u64 offset = request->large;

	while (error == 0 && size > 0) {
		long count = system_call(SYS_pwrite64, file, (long)data, (long)size, (long)offset, 0);

		if (count < 0)
			error = count;
		if (count <= 0)
			break;
		data += count;
		offset += (u64)count;
		size -= (u64)count;
	}
	if (error == 0 && numbers[2] != 0)
		error = system_call(SYS_ftruncate, file, (long)offset, 0, 0, 0);
	if (file >= 0)
		close_descriptor((int)file);
	return error;
}

static long empty(long directory, long top, int depth);

/* Moves what lies too deep up to `top`, whose next pass finds it. */
static long move_up(long directory, const char *name, long top)
{
	static u32 count;
	char target[] = ".removed-00000000";
	long error;

	do {
		u32 rest = ++count;

		for (int digit = 0; digit < 8; digit++, rest /= 16)
			target[sizeof target - 2 - (unsigned)digit] = "0123456789abcdef"[rest % 16];
		error = system_call(SYS_renameat, directory, (long)name, top, (long)target, 0);
	} while (error == -EEXIST || error == -ENOTEMPTY);
	return error;
}

static long remove_at(long directory, const char *name, long top, int depth)
{
	long below, error;

	if (depth == depth_limit)
		return move_up(directory, name, top);
	below = open_as(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, strictly | RESOLVE_NO_XDEV);
	if (below < 0)
		return below == -EXDEV ? -EBUSY : below;
	error = empty(below, top < 0 ? below : top, depth + 1);
	close_descriptor((int)below);
	return error < 0 ? error : system_call(SYS_unlinkat, directory, (long)name, AT_REMOVEDIR, 0, 0);
}

/* Removes what is in a directory. Entries may be passed over while others are removed, so that it takes two passes. */
static long empty(long directory, long top, int depth)
{
	u8 entries[2048] __attribute__((aligned(8)));
	const char *name;
	long size;

	for (int pass = 0; pass < pass_limit; pass++) {
		int found = 0;

		system_call(SYS_lseek, directory, 0, 0, 0, 0);
		each_entry(directory, name, size, entries)
		{
			long error = system_call(SYS_unlinkat, directory, (long)name, 0, 0, 0);

			found = 1;
			if (error == -EISDIR)
				error = remove_at(directory, name, top, depth);
			if (error < 0 && error != -ENOENT)
				return error;
		}
		if (size < 0 || !found)
			return size;
	}
	return -ENOTEMPTY;
}

static long remove_all(long parent, const char *name)
{
	long error = system_call(SYS_unlinkat, parent, (long)name, 0, 0, 0);

	return error == -EISDIR ? remove_at(parent, name, -1, 0) : error;
}

static long answer_usage(long directory)
{
	struct usage usage = {0, 0, 0};
	/* Requests wait for each other: a directory that grows as fast as it is walked must not hold them up. */
	long error = directory < 0 ? directory : measure(directory, now() + usage_ms, &usage);

	/* A part of a sum would hide what is over a limit. */
	if (error == 0 && usage.is_partial)
		error = -EIO;
	return error < 0 ? error : answer_bytes(&usage.bytes, sizeof usage.bytes);
}

/* `file` is the place alone, so that pipes and devices do not hold it up; links keep their owners. */
static long give(long file, u32 group, int depth)
{
	u8 entries[2048] __attribute__((aligned(8)));
	struct file_status stat;
	const char *name;
	u32 mode;
	long size, directory, error = stat_of(file, "", &stat);

	if (depth > depth_limit)
		return -E2BIG;
	if (error < 0 || (stat.mode & S_IFMT) == S_IFLNK)
		return error;
	mode = ((u32)stat.mode | (is_directory(&stat) ? 02770 : 0660)) & 07777;
	if (stat.group != group)
		error = system_call(SYS_fchownat, file, (long)"", -1, group, AT_EMPTY_PATH);
	/* A change of the owner takes set-id bits away. */
	if (error == 0 && (stat.group != group || mode != (stat.mode & 07777)))
		error = system_call(SYS_fchmodat, AT_FDCWD, (long)path_of(file).text, mode, 0, 0);
	if (error < 0 || !is_directory(&stat))
		return error;
	directory = open_as(file, ".", O_RDONLY | O_DIRECTORY, strictly);
	if (directory < 0)
		return directory;
	each_entry(directory, name, size, entries)
	{
		long below = open_as(directory, name, O_PATH | O_NOFOLLOW, strictly | RESOLVE_NO_XDEV);

		/* Removed by another pod, a link, or mounted. */
		if (below == -ENOENT || below == -ELOOP || below == -EXDEV)
			continue;
		error = below < 0 ? below : give(below, group, depth + 1);
		close_descriptor((int)below);
		if (error < 0)
			break;
	}
	close_descriptor((int)directory);
	return error < 0 ? error : size;
}

/* The next part of the path, which did not exist. It has the mode of the volume. */
static long make_part(long volume, char *path, char *end, u32 mode, const u32 *owner)
{
	struct file_status stat;
	char *name = end;
	char rest = *end;
	long parent, made, result;

	while (name > path && name[-1] != '/')
		name--;
	*end = 0;
	if (name > path)
		name[-1] = 0;
	parent = open_as(volume, name > path ? path : ".", O_PATH | O_DIRECTORY, within);
	made = parent < 0 ? parent : system_call(SYS_mkdirat, parent, (long)name, mode & 02777, 0, 0);
	/* Another pod may have made it. A link that leads nowhere is no directory. */
	result = made < 0 && made != -EEXIST ? made : open_as(parent, name, O_PATH | O_DIRECTORY, strictly);
	if (made == 0 && result >= 0 && stat_of(result, "", &stat) == 0) {
		/* A new directory has this bit when its parent has it. */
		system_call(SYS_fchownat, result, (long)"", owner[0], stat.mode & 02000 ? (u32)-1 : owner[1], AT_EMPTY_PATH);
		system_call(SYS_fchmodat, AT_FDCWD, (long)path_of(result).text, mode & 02777, 0, 0);
	}
	close_descriptor((int)parent);
	if (name > path)
		name[-1] = '/';
	*end = rest;
	return result;
}

/* The open place of `path` in the volume. Links may stay within the volume; the kernel sees to it at each step. */
static long open_sub_path(const char *volume_path, char *path, const u32 *owner)
{
	struct file_status stat;
	long volume = open_path(volume_path, O_PATH | O_DIRECTORY), result = volume;

	if (volume < 0)
		return volume;
	result = stat_of(volume, "", &stat);
	if (result == 0)
		result = open_as(volume, path, O_PATH, within);
	if (result == -ENOENT) {
		for (char *end = path; *end != 0 && (result >= 0 || result == -ENOENT);) {
			char cut;

			if (result >= 0)
				close_descriptor((int)result);
			while (*end == '/')
				end++;
			while (*end != 0 && *end != '/')
				end++;
			cut = *end;
			*end = 0;
			result = open_as(volume, path, O_PATH, within);
			*end = cut;
			if (result == -ENOENT)
				result = make_part(volume, path, end, (u32)stat.mode, owner);
		}
	}
	close_descriptor((int)volume);
	return result;
}

static long bind(long source, const char *target_path)
{
	long target = open_path(target_path, O_PATH | O_NOFOLLOW), error;

	if (target < 0)
		return target;
	error = system_call(SYS_mount, (long)path_of(source).text, (long)path_of(target).text, 0, MS_BIND, 0);
	close_descriptor((int)target);
	return error;
}

static long answer_mounts(void)
{
	long file = open_as(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY, 0), error;

	if (file < 0)
		return file;
	error = answer_content(file, data_limit, 0);
	close_descriptor((int)file);
	return error == 0 && answer.size == sizeof answer ? -E2BIG : error;
}

static long answer_space(long directory)
{
	u64 found[32];
	long error = directory < 0 ? directory : system_call(SYS_fstatfs, directory, (long)found, 0, 0, 0);

	if (error < 0)
		return error;
	found[2] *= found[1];
	return answer_bytes(found + 2, sizeof found[2]);
}

/* What is done to the open place of a path. */
static long act_on_place(const struct request *request, long place, const char *options)
{
	const u32 *numbers = request->numbers;
	struct file_status stat;
	long error = place < 0 ? place : stat_of(place, "", &stat);

	if (error < 0)
		return error;
	if ((stat.mode & S_IFMT) == S_IFLNK)
		return -ELOOP;
	switch (request->operation) {
	case change_mode:
		return system_call(SYS_fchmodat, AT_FDCWD, (long)path_of(place).text, numbers[0], 0, 0);
	case change_owner:
		return system_call(SYS_fchownat, place, (long)"", numbers[0], numbers[1], AT_EMPTY_PATH);
	case give_to_group:
		if (numbers[1] != 0 && stat.group == numbers[0] && (stat.mode & 02770) == 02770)
			return 0;
		return give(place, numbers[0], 0);
	default:
		return system_call(SYS_mount, (long)"tmpfs", (long)path_of(place).text, (long)"tmpfs", 0, (long)options);
	}
}

/* What is done in the directory of a path's last part. */
static long act_on_name(const struct request *request, long parent, const char *name, char *second, const char *data,
			u64 size)
{
	const char *target;
	long directory, error;

	switch (request->operation) {
	case look:
		return answer_stat(parent, name);
	case read_link:
		error = system_call(SYS_readlinkat, parent, (long)name, (long)answer.data, path_limit, 0);
		answer.size += error < 0 ? 0 : (u32)error;
		return error;
	case make_directory:
		return system_call(SYS_mkdirat, parent, (long)name, request->numbers[0], 0, 0);
	case write_part:
		return write_file(request, parent, name, data, size);
	case rename_entry:
		directory = open_parent(second, &target);
		if (directory < 0)
			return directory;
		error = system_call(SYS_renameat, parent, (long)name, directory, (long)target, 0);
		close_descriptor((int)directory);
		return error;
	case unlink_entry:
		return system_call(SYS_unlinkat, parent, (long)name, 0, 0, 0);
	case remove_directory:
		return system_call(SYS_unlinkat, parent, (long)name, AT_REMOVEDIR, 0, 0);
	case remove_tree:
		return remove_all(parent, name);
	case unmount:
		/* No descriptor of what is mounted may be open: it would be busy. */
		error = system_call(SYS_fchdir, parent, 0, 0, 0, 0);
		if (error == 0)
			error = system_call(SYS_umount2, (long)name, UMOUNT_NOFOLLOW, 0, 0, 0);
		system_call(SYS_chdir, (long)"/", 0, 0, 0, 0);
		return error;
	default:
		return -EINVAL;
	}
}

/* 0 or a negative error; what it puts into `answer` counts only for 0. */
static long act(const struct request *request, char *first, char *second, const char *data, u64 size)
{
	const char *name;
	long file, error;

	switch (request->operation) {
	case mounts:
		return answer_mounts();
	case read_part:
		return read_file(first, request->numbers[0], request->large);
	case size_directory:
		return answer_usage(open_path(first, O_RDONLY | O_DIRECTORY));
	case list:
	case space:
		file = open_path(first, O_RDONLY | O_DIRECTORY);
		error = request->operation == list ? answer_names(file) : answer_space(file);
		break;
	case change_mode:
	case change_owner:
	case give_to_group:
	case mount_memory:
		file = open_path(first, O_PATH | O_NOFOLLOW);
		error = act_on_place(request, file, second);
		break;
	case find_sub_path:
	case bind_sub_path:
		file = open_sub_path(first, second, request->numbers);
		error = file < 0 ? file : answer_stat(file, "");
		if (error == 0 && request->operation == bind_sub_path)
			error = bind(file, data);
		break;
	case make_link:
		file = open_parent(second, &name);
		error = file < 0 ? file : system_call(SYS_symlinkat, (long)first, file, (long)name, 0, 0);
		break;
	default:
		file = open_parent(first, &name);
		error = file < 0 ? file : act_on_name(request, file, name, second, data, size);
	}
	close_descriptor((int)file);
	return error;
}

static void write_answer(void)
{
	const u8 *data = (const u8 *)&answer;
	unsigned long size = answer.size;

	while (size > 0) {
		long count = system_call(SYS_write, output, (long)data, (long)size, 0, 0);

		if (count == -EINTR)
			continue;
		if (count <= 0)
			end(1);
		data += count;
		size -= (unsigned long)count;
	}
}

/* Ends the program for what is no request. `rest` has all but the header, and is followed by a NUL. */
static void take(const struct request *request, char *rest)
{
	u64 size = request->size - sizeof *request, first = text_size(rest) + 1, second;
	long error;

	if (first > size)
		end(1);
	second = text_size(rest + first) + 1;
	if (first + second > size)
		end(1);
	answer.size = 16;
	answer.id = request->id;
	error = act(request, rest, rest + first, rest + first + second, size - first - second);
	if (error < 0)
		answer.size = 16;
	answer.error = error < 0 ? (u32)-error : 0;
	write_answer();
}

static void read_exactly(void *data, unsigned long size)
{
	u8 *bytes = data;

	while (size > 0) {
		long count = system_call(SYS_read, input, (long)bytes, (long)size, 0, 0);

		if (count == -EINTR)
			continue;
		if (count <= 0)
			end(0);
		bytes += count;
		size -= (unsigned long)count;
	}
}

_Noreturn void play_files(char *const *words)
{
	static char rest[request_limit + 1];
	struct request request;

	block_signals();
	system_call(SYS_umask, 0, 0, 0, 0, 0);
	if (words[0] == 0 || words[1] == 0)
		end(2);
	volumes = (int)open_as(AT_FDCWD, words[0], O_PATH | O_DIRECTORY, 0);
	prefix = words[1];
	if (volumes < 0)
		end(3);
	for (;;) {
		read_exactly(&request, sizeof request);
		if (request.size < sizeof request || request.size - sizeof request > request_limit)
			end(1);
		read_exactly(rest, request.size - sizeof request);
		rest[request.size - sizeof request] = 0;
		take(&request, rest);
	}
}
