/*
 * The root file system of a container in a user namespace of its pod. Docker has mounted an overlay for it, whose files
 * belong to ids of the node.
 *     helper mapped-root DIRECTORY ROOT USER GROUP USERS GROUPS OPTIONS UPPER WORK LOWER...
 * mounts an overlay of the same layers at DIRECTORY/root, in which the ids 0 to USERS of the layers are those from USER on,
 * and binds it over ROOT in the place of Docker's. The lower directories are mapped by the kernel (Linux 5.19); the
 * upper one cannot be, because overlay makes files of its own in it: what is in it is given to the mapped ids, once, which
 * an extended attribute of it remembers.
 * OPTIONS: further options of the overlay, each behind a comma.
 *     helper kept-root DIRECTORY ROOT GROUP
 * binds such an overlay, which Docker has kept at ROOT from one start to the next, to DIRECTORY/root.
 *     helper unmapped-root DIRECTORY
 * takes all of it away. All may be repeated, and go on where a killed one ended.
 * Exit code 1: standard error has what could not be done, and the number of the error.
 */
#include "helper.h"

enum {
	errors = 2,
	path_size = 4096,
	level_limit = 64,
	clone_new_user = 0x10000000,
	open_tree_clone = 1,
	move_mount_empty_path = 4,
	mount_bind = 4096,
	unmount_detach = 2,
	SYS_open_tree = 428,
	SYS_move_mount = 429,
	SYS_mount_setattr = 442,
	ENODATA = 61,
	S_ISUID_and_S_ISGID = 06000,
	mode_bits = 07777,
};

#if defined __x86_64__
enum { SYS_fsetxattr = 190, SYS_fgetxattr = 193 };
#else
enum { SYS_fsetxattr = 7, SYS_fgetxattr = 10 };
#endif

/* How far the upper directory is: a letter. */
static const char attribute[] = "trusted.dockershim";
static const char begun[] = "b", done[] = "d";

struct mount_attributes {
	u64 set;
	u64 clear;
	u64 propagation;
	u64 users;
};

struct text {
	char bytes[path_size];
	unsigned long size;
};

/* The ids of one kind: 0 to size are those from first on. */
struct ids {
	u32 first;
	u32 size;
};

static const u64 attribute_idmap = 0x00100000;

static _Noreturn void fail(const char *action, long error)
{
	struct short_text number = with_number(": error ", (u64)-error);

	system_call(SYS_write, errors, (long)action, (long)text_size(action), 0, 0);
	system_call(SYS_write, errors, (long)number.text, (long)text_size(number.text), 0, 0);
	end(1);
}

static long check(const char *action, long result)
{
	if (result < 0)
		fail(action, result);
	return result;
}

static void add(struct text *text, const char *words)
{
	unsigned long size = text_size(words);

	if (text->size + size >= sizeof text->bytes)
		fail("mount the layers", -E2BIG);
	memcpy(text->bytes + text->size, words, size + 1);
	text->size += size;
}

static u32 number_in(const char *text)
{
	u32 number = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		number = number * 10 + (u32)(*text - '0');
	return number;
}

static void write_map(int process, const char *name, struct ids ids)
{
	struct text path, map;
	long file;

	path.size = map.size = 0;
	add(&path, with_number("/proc/", (u64)process).text);
	add(&path, name);
	add(&map, with_number("0 ", ids.first).text);
	add(&map, with_number(" ", ids.size).text);
	file = check("open the map of a user namespace",
		     system_call(SYS_openat, AT_FDCWD, (long)path.bytes, O_WRONLY | O_CLOEXEC, 0, 0));
	check("map a user namespace", system_call(SYS_write, file, (long)map.bytes, (long)map.size, 0, 0));
	close_descriptor((int)file);
}

/* A namespace lives as long as its descriptor: the process is only needed to make it. */
static long open_users(struct ids users, struct ids groups)
{
	struct text path;
	long parent = system_call(SYS_getpid, 0, 0, 0, 0, 0), file;
	long process = check("make a user namespace", system_call(SYS_clone, clone_new_user | SIGCHLD, 0, 0, 0, 0));

	path.size = 0;
	if (process == 0) {
		/* The parent may have been killed before it was asked for. */
		if (system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
		    system_call(SYS_getppid, 0, 0, 0, 0, 0) == parent)
			await(0, 0, -1);
		end(0);
	}
	write_map((int)process, "/uid_map", users);
	write_map((int)process, "/gid_map", groups);
	add(&path, with_number("/proc/", (u64)process).text);
	add(&path, "/ns/user");
	file = check("open a user namespace",
		     system_call(SYS_openat, AT_FDCWD, (long)path.bytes, O_RDONLY | O_CLOEXEC, 0, 0));
	system_call(SYS_kill, process, SIGKILL, 0, 0, 0);
	system_call(SYS_wait4, process, 0, 0, 0, 0);
	return file;
}

/* Mounts a lower directory once more, with its ids mapped, on a directory here. */
static void map_layer(const char *layer, const char *name, long users)
{
	struct mount_attributes attributes = {attribute_idmap, 0, 0, (u64)users};
	long tree = check("open a layer", system_call(SYS_open_tree, AT_FDCWD, (long)layer, open_tree_clone | O_CLOEXEC, 0, 0));

	check("map the ids of a layer: its file system or the kernel cannot",
	      system_call(SYS_mount_setattr, tree, (long)"", AT_EMPTY_PATH, (long)&attributes, sizeof attributes));
	check("make a directory", system_call(SYS_mkdirat, AT_FDCWD, (long)name, 0711, 0, 0));
	check("mount a layer", system_call(SYS_move_mount, tree, (long)"", AT_FDCWD, (long)name, move_mount_empty_path));
	close_descriptor((int)tree);
}

static u32 mapped(u32 id, struct ids ids)
{
	return id < ids.size ? ids.first + id : id;
}

static void give(long directory, const char *name, const struct file_status *status, struct ids users, struct ids groups)
{
	check("give a file to the mapped ids",
	      system_call(SYS_fchownat, directory, (long)name, mapped(status->user, users), mapped(status->group, groups),
			  name[0] == 0 ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW));
	/* The kernel has taken these away. */
	if ((status->mode & S_IFMT) == S_IFREG && (status->mode & S_ISUID_and_S_ISGID) != 0)
		check("restore the mode of a file",
		      system_call(SYS_fchmodat, directory, (long)name, status->mode & mode_bits, 0, 0));
}

static void give_all(long directory, struct ids users, struct ids groups, int level)
{
	u8 entries[1024] __attribute__((aligned(8)));
	struct file_status status;
	long size;

	if (level == level_limit)
		fail("read the upper layer", -ELOOP);
	while ((size = check("read the upper layer",
			     system_call(SYS_getdents64, directory, (long)entries, sizeof entries, 0, 0))) > 0)
		for (const u8 *entry = entries; entry < entries + size; entry += *(const u16 *)(entry + 16)) {
			const char *name = (const char *)entry + 19;

			if (is_dots(name))
				continue;
			check("read the upper layer", stat_at(directory, name, AT_SYMLINK_NOFOLLOW, &status));
			if (is_directory(&status)) {
				long below = check("open a directory of the upper layer",
						   system_call(SYS_openat, directory, (long)name,
							       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0));

				give_all(below, users, groups, level + 1);
				close_descriptor((int)below);
			}
			give(directory, name, &status, users, groups);
		}
}

/*
 * Nothing of the container has run when this begins. It goes on where a killed one ended, by the ids of the files, unless
 * the ids before and after overlap: then nothing tells them apart.
 */
static void give_once(const char *upper, struct ids users, struct ids groups)
{
	long directory = check("open the upper layer",
			       system_call(SYS_openat, AT_FDCWD, (long)upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0));
	struct file_status status;
	char state = 0;
	long error = system_call(SYS_fgetxattr, directory, (long)attribute, (long)&state, 1, 0);

	if (error != -ENODATA)
		check("read the upper layer", error);
	if (state == begun[0] && (users.first < users.size || groups.first < groups.size))
		fail("give the files of a container to the mapped ids once more", -EBUSY);
	if (state != done[0]) {
		check("mark the upper layer", system_call(SYS_fsetxattr, directory, (long)attribute, (long)begun, 1, 0));
		give_all(directory, users, groups, 0);
		check("read the upper layer", stat_at(directory, "", AT_EMPTY_PATH, &status));
		give(directory, "", &status, users, groups);
		check("mark the upper layer", system_call(SYS_fsetxattr, directory, (long)attribute, (long)done, 1, 0));
	}
	close_descriptor((int)directory);
}

static void unmount(const char *path)
{
	system_call(SYS_umount2, (long)path, unmount_detach, 0, 0, 0);
}

/* A directory of mounts, which is gone with its own. The process enters it. */
static void make_place(const char *directory, u32 group)
{
	long error = system_call(SYS_mkdirat, AT_FDCWD, (long)directory, 0711, 0, 0);

	if (error != -EEXIST)
		check("make a directory", error);
	/* Root of the container passes by its group; no other user of the node does, as below the directory of Docker. */
	check("mount a directory", system_call(SYS_mount, (long)"dockershim", (long)directory, (long)"tmpfs", 0,
					       (long)with_number("mode=710,gid=", group).text));
	check("enter a directory", system_call(SYS_chdir, (long)directory, 0, 0, 0, 0));
}

static void make_root_directory(void)
{
	check("make a directory", system_call(SYS_mkdirat, AT_FDCWD, (long)"root", 0755, 0, 0));
}

_Noreturn void kept_root(char *const *words)
{
	for (unsigned index = 0; index < 3; index++)
		if (words[index] == 0)
			end(2);
	unmount(words[0]);
	make_place(words[0], number_in(words[2]));
	make_root_directory();
	check("mount the root of the container",
	      system_call(SYS_mount, (long)words[1], (long)"root", 0, mount_bind, 0));
	end(0);
}

_Noreturn void mapped_root(char *const *words)
{
	static struct text options, place;
	const char *directory = words[0], *root, *upper, *work;
	struct ids users, groups;
	long namespace;
	u64 count = 0;

	for (unsigned index = 0; index < 10; index++)
		if (words[index] == 0)
			end(2);
	root = words[1];
	users = (struct ids){number_in(words[2]), number_in(words[4])};
	groups = (struct ids){number_in(words[3]), number_in(words[5])};
	upper = words[7];
	work = words[8];
	unmount(directory);
	namespace = open_users(users, groups);
	/* The names of layers are short below it: the kernel takes a page of options. */
	make_place(directory, groups.first);
	for (char *const *layer = words + 9; *layer != 0; layer++) {
		struct short_text name = with_number("l", count++);

		map_layer(*layer, name.text, namespace);
		add(&options, count == 1 ? "lowerdir=" : ":");
		add(&options, name.text);
	}
	add(&options, ",upperdir=");
	add(&options, upper);
	add(&options, ",workdir=");
	add(&options, work);
	add(&options, words[6]);
	give_once(upper, users, groups);
	/* Two overlays must not have one upper directory. */
	unmount(root);
	make_root_directory();
	check("mount the layers", system_call(SYS_mount, (long)"overlay", (long)"root", (long)"overlay", 0, (long)options.bytes));
	add(&place, directory);
	add(&place, "/root");
	check("mount the root of the container",
	      system_call(SYS_mount, (long)place.bytes, (long)root, 0, mount_bind, 0));
	while (count > 0)
		unmount(with_number("l", --count).text);
	end(0);
}

_Noreturn void unmapped_root(char *const *words)
{
	long error;

	if (words[0] == 0)
		end(2);
	do
		error = system_call(SYS_umount2, (long)words[0], unmount_detach, 0, 0, 0);
	while (error == 0);
	if (error != -EINVAL && error != -ENOENT)
		fail("unmount the root of a container", error);
	error = system_call(SYS_unlinkat, AT_FDCWD, (long)words[0], AT_REMOVEDIR, 0, 0);
	if (error < 0 && error != -ENOENT)
		fail("remove a directory", error);
	end(0);
}
