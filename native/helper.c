/*
 * What the server cannot do by itself without a cost or a risk: it starts programs, which is a copy of a process, and
 * does what may hang, in processes of their own that can be killed.
 *     helper                                     starts programs, and the verbs below: run-programs.c
 *     helper host-paths DEVICES [ENTRY]...       looks at paths of the node: host-paths.c
 *     helper disk-usage DIRECTORY MILLISECONDS   sizes a directory: disk-usage.c
 *     helper play-files DIRECTORY PREFIX         makes files of play on an engine's host: play-files.c
 *     helper mapped-root DIRECTORY ROOT ...      maps the root of a container: mapped-root.c
 *     helper kept-root DIRECTORY ROOT GROUP      the same for one that is mapped: mapped-root.c
 *     helper unmapped-root DIRECTORY             takes that away: mapped-root.c
 *     helper notify SOCKET PROCESS MESSAGE       tells systemd something: notify.c
 *     helper mount-memory PATH OPTIONS           mounts: mounts.c; as mount-open PATH and unmount PATH
 * Exit code 2: the words are none of these.
 */
#define HELPER_MAIN
#include "helper.h"

struct verb {
	const char *name;
	void (*perform)(char *const *words);
};

static int is_same(const char *one, const char *other)
{
	while (*one != 0 && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

_Noreturn void perform(char *const *words)
{
	static const struct verb verbs[] = {
		{"host-paths", host_paths},
		{"disk-usage", disk_usage},
		{"play-files", play_files},
		{"mapped-root", mapped_root},
		{"kept-root", kept_root},
		{"unmapped-root", unmapped_root},
		{"notify", notify},
		{"mount-memory", mounts_memory},
		{"mount-open", mounts_open},
		{"unmount", unmounts},
	};

	for (unsigned index = 0; index < sizeof verbs / sizeof *verbs; index++)
		if (is_same(words[0], verbs[index].name))
			verbs[index].perform(words + 1);
	end(2);
}

_Noreturn void run(const long *arguments)
{
	if (arguments[0] < 2)
		run_programs();
	perform((char *const *)(arguments + 2));
}
