/* The verbs of the helper, each in a file of its own, and what they share. */
#ifdef HELPER_MAIN
#include "system.h"
#else
#define WITHOUT_ENTRY_POINT
#include "system.h"
#endif

/* What was counted in a directory; `is_partial`: it has at least that. */
struct usage {
	u64 bytes;
	u64 files;
	int is_partial;
};

/* Performs the verb of the first word with the others, of which a null is the last. */
_Noreturn void perform(char *const *words);

_Noreturn void run_programs(void);
_Noreturn void host_paths(char *const *words);
_Noreturn void disk_usage(char *const *words);
_Noreturn void play_files(char *const *words);
_Noreturn void mapped_root(char *const *words);
_Noreturn void kept_root(char *const *words);
_Noreturn void unmapped_root(char *const *words);
_Noreturn void notify(char *const *words);
_Noreturn void mounts_memory(char *const *words);
_Noreturn void mounts_open(char *const *words);
_Noreturn void unmounts(char *const *words);

/* Counts an open directory, which it closes, until `deadline`. 0, or a negative error. */
long measure(long directory, long deadline, struct usage *usage);

/* The path by which the kernel finds an open file again, whatever its name is now. */
__attribute__((unused)) static struct short_text path_of(long descriptor)
{
	/* Of more digits than a descriptor has no path is made: the text has room for ten. */
	return with_number("/proc/self/fd/", (u32)descriptor);
}

__attribute__((unused)) static long stat_at(long directory, const char *path, long flags, struct file_status *status)
{
	return system_call(SYS_newfstatat, directory, (long)path, (long)status, flags, 0);
}

__attribute__((unused)) static int is_directory(const struct file_status *status)
{
	return (status->mode & S_IFMT) == S_IFDIR;
}

__attribute__((unused)) static int is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}
