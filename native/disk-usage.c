/*
 * The disk usage of a directory, counted as du does, beside what else the machine does:
 *     helper disk-usage DIRECTORY MILLISECONDS
 * Standard output: the bytes, the number of files, and `whole`, or `partial` when the time was up or the directory has
 * more. Nothing when there is no such directory. Exit code 1: it cannot be read.
 *
 * No link is followed and no other file system entered, also when a container changes its tree meanwhile. One that a
 * container makes large costs time alone: the memory is that of the way down.
 */
#include "helper.h"

enum {
	output = 1,
	block_size = 512,
	/* Directories of the way down that stay open; the way back from deeper ones leads through `..`. */
	held_levels = 64,
	level_limit = 1 << 20,
	/* Entries between two looks at the clock. */
	batch = 256,
	/* A file has a part of its size and of its number for each of its names; containers cannot give it one elsewhere. */
	fraction_bits = 16,
	PRIO_PROCESS = 0,
	/* Of a core that others want, too, a tenth: on a busy node it must end in time. */
	background = 10,
	IOPRIO_WHO_PROCESS = 1,
	IOPRIO_IDLE = 3 << 13,
};

/* A directory that was left for one in it. */
struct level {
	u64 inode;
	/* Where its next entry is. */
	long next;
};

static void count(struct usage *usage, const struct file_status *status)
{
	u64 links = is_directory(status) || status->links == 0 ? 1 : status->links;

	usage->bytes += (status->blocks * block_size << fraction_bits) / links;
	usage->files += (1UL << fraction_bits) / links;
}

static int is_at(long directory, const struct file_status *root, u64 inode)
{
	struct file_status status;

	return directory >= 0 && stat_at(directory, "", AT_EMPTY_PATH, &status) == 0 && status.device == root->device &&
	       status.inode == inode;
}

static long open_directory(long directory, const char *name)
{
	return system_call(SYS_openat, directory, (long)name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0);
}

/* Removed meanwhile, or replaced by a file or a link. What cannot be read for another reason is missing in the sum. */
static int is_gone(long error)
{
	return error == -ENOENT || error == -ENOTDIR || error == -ELOOP;
}

static u64 rounded(u64 sum)
{
	return (sum + (1UL << (fraction_bits - 1))) >> fraction_bits;
}

long measure(long directory, long deadline, struct usage *usage)
{
	static struct level *levels;
	int held[held_levels];
	u8 entries[2048] __attribute__((aligned(8)));
	struct file_status root, status;
	long error = stat_at(directory, "", AT_EMPTY_PATH, &root), depth = 0, looked = 0;
	u64 inode = root.inode;

	if (levels == 0 && error == 0) {
		long memory = map_memory(level_limit * sizeof *levels);

		error = memory < 0 && memory > -4096 ? memory : 0;
		if (error == 0)
			levels = (struct level *)memory;
	}
	if (error == 0)
		count(usage, &root);
	while (error == 0) {
		long size = system_call(SYS_getdents64, directory, (long)entries, sizeof entries, 0, 0), below = -1;

		for (const u8 *entry = entries; entry < entries + size && below < 0; entry += *(const u16 *)(entry + 16)) {
			const char *name = (const char *)entry + 19;

			if (++looked % batch == 0 && now() > deadline) {
				usage->is_partial = 1;
				error = 1;
				break;
			}
			if (is_dots(name))
				continue;
			long failure = stat_at(directory, name, AT_SYMLINK_NOFOLLOW, &status);

			usage->is_partial |= failure != 0 && !is_gone(failure);
			if (failure != 0 || status.device != root.device)
				continue;
			count(usage, &status);
			if (!is_directory(&status))
				continue;
			below = open_directory(directory, name);
			usage->is_partial |= below < 0 && !is_gone(below);
			levels[depth] = (struct level){inode, *(const long *)(entry + 8)};
			/* Removed, or another one is in its place. */
			if (below >= 0 && (depth + 1 == level_limit || !is_at(below, &root, status.inode))) {
				usage->is_partial |= depth + 1 == level_limit;
				close_descriptor((int)below);
				below = -1;
			}
		}
		if (below >= 0) {
			if (depth < held_levels)
				held[depth] = (int)directory;
			else
				close_descriptor((int)directory);
			depth++;
			directory = below;
			inode = status.inode;
		} else if (size <= 0) {
			long left = directory;

			usage->is_partial |= size < 0 && size != -ENOENT;
			if (depth-- == 0)
				break;
			directory = depth < held_levels ? held[depth] : open_directory(left, "..");
			close_descriptor((int)left);
			if (depth >= held_levels && !is_at(directory, &root, levels[depth].inode)) {
				/* The one that was left, or one above it, was moved. */
				usage->is_partial = 1;
				close_descriptor((int)directory);
				depth = held_levels - 1;
				directory = held[depth];
			}
			inode = levels[depth].inode;
			system_call(SYS_lseek, directory, levels[depth].next, 0, 0, 0);
		}
	}
	while (--depth >= 0)
		if (depth < held_levels)
			close_descriptor(held[depth]);
	close_descriptor((int)directory);
	usage->bytes = rounded(usage->bytes);
	usage->files = rounded(usage->files);
	return error < 0 ? error : 0;
}

static void say(const char *text)
{
	system_call(SYS_write, output, (long)text, (long)text_size(text), 0, 0);
}

_Noreturn void disk_usage(char *const *words)
{
	struct usage usage = {0, 0, 0};
	long directory, milliseconds = 0;

	if (words[0] == 0 || words[1] == 0)
		end(2);
	for (const char *digit = words[1]; *digit != 0; digit++)
		milliseconds = milliseconds * 10 + (*digit - '0');
	system_call(SYS_setpriority, PRIO_PROCESS, 0, background, 0, 0);
	system_call(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE, 0, 0);
	directory = open_directory(AT_FDCWD, words[0]);
	if (is_gone(directory))
		end(0);
	if (directory < 0 || measure(directory, now() + milliseconds, &usage) < 0)
		end(1);
	say(with_number("", usage.bytes).text);
	say(with_number(" ", usage.files).text);
	say(usage.is_partial ? " partial\n" : " whole\n");
	end(0);
}
