/*
 * Mounts, where mount(8) and umount(8) may not be installed.
 *     helper mount-memory PATH OPTIONS   a file system in memory
 *     helper mount-open PATH             what is open as descriptor 3, so that no process can replace it
 *     helper unmount PATH                takes the uppermost away of what is mounted there
 * Exit code 1: standard error has the number of the error.
 */
#include "helper.h"

enum {
	errors = 2,
	given = 3,
	bind = 4096,
	unmount_no_follow = 8,
};

static _Noreturn void end_with(long error)
{
	struct short_text text = with_number("error ", (u64)-error);

	if (error >= 0)
		end(0);
	system_call(SYS_write, errors, (long)text.text, (long)text_size(text.text), 0, 0);
	end(1);
}

_Noreturn void mounts_memory(char *const *words)
{
	if (words[0] == 0 || words[1] == 0)
		end(2);
	end_with(system_call(SYS_mount, (long)"tmpfs", (long)words[0], (long)"tmpfs", 0, (long)words[1]));
}

_Noreturn void mounts_open(char *const *words)
{
	if (words[0] == 0)
		end(2);
	end_with(system_call(SYS_mount, (long)path_of(given).text, (long)words[0], 0, bind, 0));
}

_Noreturn void unmounts(char *const *words)
{
	if (words[0] == 0)
		end(2);
	end_with(system_call(SYS_umount2, (long)words[0], unmount_no_follow, 0, 0, 0));
}
