/*
 * Starts programs for the program that started it. To start one, a process is copied, with the tables of its memory:
 * that takes milliseconds of a server with 100 MB, and nearly nothing here.
 *
 * Standard input: requests, numbers in the order of this machine:
 *     u32 size, of all of it; u32 id; u32 kind; then
 *         1 run    u32 paths; u32 words; u32 variables; and so many texts, each with a NUL: where the program may be,
 *                  its arguments with the name of the program, its environment. Without paths the words are a verb of
 *                  this program, which gets no input
 *         2 input  all that the program gets on standard input, which is closed behind it
 *         3 kill   nothing: kills the process group of the program, unless the program has ended
 *         4 leave  nothing: closes the pipes of the program, which goes on
 * Requests about a run that has ended are dropped.
 *
 * Standard output: answers, numbers in the order of this machine:
 *     u32 size, of all of it; u32 id; u32 kind; u32 value; bytes
 *         1 started  value: process id; bytes: /proc/PID/stat, which tells when the process was started. It is about to
 *                    become the program
 *         2 failed   value: error number; the last answer to this run
 *         3 output   bytes of standard output
 *         4 errors   bytes of standard error
 *         5 ended    value: status as wait4 gives it; all that the program has written was sent before
 *         6 closed   the program has ended, and its pipes are closed: the last answer to this run
 *
 * A program is the leader of a session and a process group of its own. It has no file but its three pipes, no blocked
 * signal, and this process's directory. It gets no input before the parent sends it: the parent records the process
 * first. The pipes of programs never block this process. The parent may: it reads at all times, and what it reads is in
 * its memory, so a program that writes much is slowed down by the parent and by nothing else. Most programs write some
 * bytes and end: such output is sent with the end that follows, or some milliseconds later.
 *
 * Ends with its input and with the parent. Programs go on then, and processes with a verb are killed.
 */
#include "helper.h"

enum {
	input = 0,
	output = 1,
	/* Of programs, and as many processes with a verb: those may hang at a volume, and programs must start then. */
	kind_limit = 512,
	slot_count = 2 * kind_limit,
	request_head = 12,
	run_head = 12,
	request_limit = 1 << 30,
	answers_size = 64 * 1024,
	/* Less is not worth a read. */
	least_room = 4096,
	/* What a pipe holds, unless the program has changed that. */
	pipe_size = 64 * 1024,
	reads_limit = 16,
	/* How long the output of a program may wait for its end, and its zombie to be removed. */
	hold_milliseconds = 2,
	zombie_limit = 16,
	/* Exit code, as that of a shell. */
	not_started = 127,
};

enum request_kind {
	run_program = 1,
	take_input = 2,
	kill_program = 3,
	leave_program = 4,
};

enum answer_kind {
	started = 1,
	failed = 2,
	program_output = 3,
	program_errors = 4,
	ended = 5,
	closed = 6,
};

enum pipe {
	input_pipe,
	output_pipe,
	error_pipe,
	pipe_count,
};

/* Of one run; free without `taken`. */
struct slot {
	int taken;
	int is_verb;
	u32 id;
	/* 0 when it has ended and this was said. */
	int process;
	/* It could not be started, and this was said. */
	int has_failed;
	/* It has written something short since so many flushes, and is not looked at before the next one. */
	u32 rests_at;
	/* This end of each pipe, or -1. */
	int ends[pipe_count];
	/* What the program has not read yet. */
	u8 *content;
	unsigned long content_size;
	unsigned long written;
};

struct answer {
	u32 size;
	u32 id;
	u32 kind;
	u32 value;
};

/* Why a process could not become the program. */
struct failure {
	u32 id;
	u32 error;
};

struct request {
	u32 size;
	u32 id;
	u32 kind;
};

/* What the descriptor at the same index of the polled ones is. */
struct place {
	struct slot *slot;
	enum pipe pipe;
};

static struct slot slots[slot_count];
static struct pollfd polled[2 + slot_count * pipe_count];
static struct place places[2 + slot_count * pipe_count];
/* Behind the last one that is taken. */
static struct slot *slots_end = slots;
static u8 answers[answers_size];
static unsigned long answered;
/* What is in `answers` can wait for `hold_milliseconds`. */
static int is_held;
static u32 flushes = 1;
/* Processes whose end was told, and that were not waited for. */
static int zombies;
/* Both ends of a pipe of all processes that are to become programs, which close theirs by that. */
static int failures[2];

static void *map(unsigned long size)
{
	long memory = map_memory(size);

	/* Without memory the parent is better off with another process. */
	if (memory < 0 && memory > -4096)
		end(1);
	return (void *)memory;
}

static void unmap(void *memory, unsigned long size)
{
	if (size > 0)
		system_call(SYS_munmap, (long)memory, (long)size, 0, 0, 0);
}

static void flush_answers(void)
{
	unsigned long at = 0;

	while (at < answered) {
		long written = system_call(SYS_write, output, (long)(answers + at), (long)(answered - at), 0, 0);

		if (written == -EINTR)
			continue;
		if (written <= 0)
			end(1);
		at += (unsigned long)written;
	}
	answered = 0;
	is_held = 0;
	flushes++;
}

static void answer(u32 id, enum answer_kind kind, u32 value)
{
	struct answer head = {sizeof head, id, kind, value};

	if (answered + sizeof head > sizeof answers)
		flush_answers();
	memcpy(answers + answered, &head, sizeof head);
	answered += sizeof head;
	is_held = 0;
}

static void close_end(struct slot *slot, enum pipe pipe)
{
	close_descriptor(slot->ends[pipe]);
	slot->ends[pipe] = -1;
}

static void close_input(struct slot *slot)
{
	close_end(slot, input_pipe);
	unmap(slot->content, slot->content_size);
	slot->content_size = 0;
}

/* Ends the run when nothing of it is left. */
static void conclude(struct slot *slot)
{
	if (slot->process != 0 || slot->ends[output_pipe] >= 0 || slot->ends[error_pipe] >= 0)
		return;
	if (!slot->has_failed)
		answer(slot->id, closed, 0);
	slot->taken = 0;
	while (slots_end > slots && !slots_end[-1].taken)
		slots_end--;
}

static void fail(struct slot *slot, u32 error)
{
	slot->has_failed = 1;
	answer(slot->id, failed, error);
	for (enum pipe pipe = 0; pipe < pipe_count; pipe++)
		close_end(slot, pipe);
	close_input(slot);
}

static void answer_started(const struct slot *slot)
{
	struct answer head = {sizeof head, slot->id, started, (u32)slot->process};
	struct short_text path = with_number("/proc/", head.value);
	long file, count = -1;

	memcpy(path.text + text_size(path.text), "/stat", sizeof "/stat");
	if (answered + sizeof head + least_room > sizeof answers)
		flush_answers();
	file = system_call(SYS_openat, AT_FDCWD, (long)path.text, O_RDONLY | O_CLOEXEC, 0, 0);
	if (file >= 0) {
		count = system_call(SYS_read, file, (long)(answers + answered + sizeof head), least_room, 0, 0);
		close_descriptor((int)file);
	}
	if (count > 0)
		head.size += (u32)count;
	memcpy(answers + answered, &head, sizeof head);
	answered += head.size;
	is_held = 0;
}

static void write_input(struct slot *slot)
{
	long written = system_call(SYS_write, slot->ends[input_pipe], (long)(slot->content + slot->written),
				   (long)(slot->content_size - slot->written), 0, 0);

	if (written == -EAGAIN || written == -EINTR)
		return;
	if (written > 0)
		slot->written += (unsigned long)written;
	/* A program that does not read says more by its end. */
	if (written < 0 || slot->written == slot->content_size)
		close_input(slot);
}

/* 1 when there was something. */
static int read_output(struct slot *slot, enum pipe pipe)
{
	struct answer head = {0, slot->id, pipe == output_pipe ? program_output : program_errors, 0};
	unsigned long room;
	long count;

	if (answered + sizeof head + least_room > sizeof answers)
		flush_answers();
	room = sizeof answers - answered - sizeof head;
	count = system_call(SYS_read, slot->ends[pipe], (long)(answers + answered + sizeof head), (long)room, 0, 0);
	if (count == -EAGAIN || count == -EINTR)
		return 0;
	if (count <= 0) {
		close_end(slot, pipe);
		conclude(slot);
		return 0;
	}
	head.size = (u32)(sizeof head + (unsigned long)count);
	memcpy(answers + answered, &head, sizeof head);
	is_held = count < least_room && (answered == 0 || is_held);
	if (count < least_room)
		slot->rests_at = flushes;
	answered += head.size;
	return 1;
}

/* A process that it has left behind may write without end: no more than the program can have written. */
static void read_rest(struct slot *slot, enum pipe pipe)
{
	for (int reads = 0; slot->ends[pipe] >= 0 && reads < pipe_size / least_room; reads++)
		if (!read_output(slot, pipe))
			return;
}

static struct slot *find(u32 id)
{
	for (struct slot *slot = slots; slot < slots_end; slot++)
		if (slot->taken && slot->id == id)
			return slot;
	return 0;
}

static void read_failures(void)
{
	struct failure failure;
	struct slot *slot;

	while (system_call(SYS_read, failures[0], (long)&failure, sizeof failure, 0, 0) == (long)sizeof failure)
		if ((slot = find(failure.id)) != 0)
			fail(slot, failure.error);
}

static void take_end(struct slot *slot, int status)
{
	if (status == not_started << 8)
		read_failures();
	/* The parent waits for the pipes only for a while after the end. */
	read_rest(slot, output_pipe);
	read_rest(slot, error_pipe);
	slot->process = 0;
	/* A process that it has left behind gets nothing. */
	close_input(slot);
	if (!slot->has_failed)
		answer(slot->id, ended, (u32)status);
	conclude(slot);
}

/*
 * Tells of processes that have ended by themselves, and leaves them zombies for a while. The kernel tells of the end before
 * the last thread of a program has left /proc. A parent that removes the zombie then waits busily for the thread, which
 * may wait for this processor. One that was killed is gone when it is told of.
 */
static void take_ends(void)
{
	for (struct slot *slot = slots; slot < slots_end; slot++) {
		struct child_status child = {0};
		int status = 0;

		if (!slot->taken || slot->process == 0)
			continue;
		system_call(SYS_waitid, P_PID, slot->process, (long)&child, WEXITED | WNOHANG | WNOWAIT, 0);
		if (child.process == 0)
			continue;
		if (child.code == CLD_EXITED) {
			zombies++;
			take_end(slot, child.status << 8);
		} else if (system_call(SYS_wait4, slot->process, (long)&status, WNOHANG, 0, 0) == slot->process) {
			take_end(slot, status);
		}
	}
}

static void remove_zombies(void)
{
	for (;;) {
		int status = 0;
		long process = system_call(SYS_wait4, -1, (long)&status, WNOHANG, 0, 0);

		if (process <= 0)
			break;
		/* It has ended since. */
		for (struct slot *slot = slots; slot < slots_end; slot++)
			if (slot->taken && slot->process == process)
				take_end(slot, status);
	}
	zombies = 0;
}

/* 0, or an error; makes the pipes and closes them again after an error. */
static long open_pipes(struct slot *slot, int *others)
{
	for (enum pipe pipe = 0; pipe < pipe_count; pipe++)
		slot->ends[pipe] = others[pipe] = -1;
	for (enum pipe pipe = 0; pipe < pipe_count; pipe++) {
		int both[2];
		long error = system_call(SYS_pipe2, (long)both, O_CLOEXEC, 0, 0, 0);

		if (error != 0) {
			for (enum pipe made = 0; made < pipe; made++) {
				close_end(slot, made);
				close_descriptor(others[made]);
			}
			return -error;
		}
		slot->ends[pipe] = both[pipe == input_pipe];
		others[pipe] = both[pipe != input_pipe];
		/* Each end is an open file of its own: that of the program blocks. */
		system_call(SYS_fcntl, slot->ends[pipe], F_SETFL, O_NONBLOCK, 0, 0);
	}
	return 0;
}

/* What is lost with this process is of no use to another one. */
static _Noreturn void perform_here(const int *others, long parent, char *const *words)
{
	for (enum pipe pipe = 0; pipe < pipe_count; pipe++)
		close_descriptor(others[pipe]);
	system_call(SYS_umask, 0, 0, 0, 0, 0);
	/* The parent may have ended before it was asked for. */
	if (system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 ||
	    system_call(SYS_getppid, 0, 0, 0, 0, 0) != parent)
		end(1);
	perform(words);
}

/* In the process of the program. As execvp does: a file that may not be executed is the reason when there is no other. */
static _Noreturn void execute(u32 id, const int *others, long parent, char *const *paths, char *const *words,
			      char *const *variables)
{
	const unsigned long no_signal = 0;
	long error = -ENOENT;
	int is_denied = 0;
	struct failure failure = {id, 0};

	system_call(SYS_setsid, 0, 0, 0, 0, 0);
	/* The file of this program may be on a volume that hangs. Others get the end of their input all the same. */
	for (struct slot *slot = slots; slot < slots_end; slot++)
		for (enum pipe pipe = 0; slot->taken && pipe < pipe_count; pipe++)
			close_descriptor(slot->ends[pipe]);
	for (enum pipe pipe = input_pipe; pipe < pipe_count; pipe++)
		if ((error = system_call(SYS_dup3, others[pipe], (int)pipe - input_pipe, 0, 0, 0)) < 0)
			goto failure;
	if (*paths == 0)
		perform_here(others, parent, words);
	system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&no_signal, 0, sizeof no_signal, 0);
	for (error = -ENOENT; *paths != 0; paths++) {
		error = system_call(SYS_execve, (long)*paths, (long)words, (long)variables, 0, 0);
		is_denied |= error == -EACCES;
		if (error != -EACCES && error != -ENOENT && error != -ENOTDIR)
			goto failure;
	}
	if (is_denied)
		error = -EACCES;
failure:
	failure.error = (u32)-error;
	system_call(SYS_write, failures[1], (long)&failure, sizeof failure, 0, 0);
	end(not_started);
}

/* Puts the addresses of `count` texts and a null behind them into `list`. Null when there are not so many texts. */
static char *list_texts(char *text, const char *limit, unsigned long count, char **list)
{
	for (; count > 0; count--) {
		if (text >= limit)
			return 0;
		*list++ = text;
		while (*text != 0)
			text++;
		text++;
	}
	*list = 0;
	return text;
}

static void start(struct slot *slot, u8 *body, unsigned long size)
{
	u32 counts[run_head / 4];
	char *text = (char *)body + run_head, *limit = (char *)body + size;
	char **paths, **words, **variables;
	unsigned long lists_size;
	int others[pipe_count];
	long error;

	/* The last byte of the last text is its NUL. */
	if (size <= run_head || limit[-1] != 0)
		end(1);
	memcpy(counts, body, sizeof counts);
	if (counts[0] > size || counts[1] == 0 || counts[1] > size || counts[2] > size)
		end(1);
	lists_size = ((unsigned long)counts[0] + counts[1] + counts[2] + 3) * sizeof(char *);
	paths = map(lists_size);
	words = paths + counts[0] + 1;
	variables = words + counts[1] + 1;
	text = list_texts(text, limit, counts[0], paths);
	if (text != 0)
		text = list_texts(text, limit, counts[1], words);
	if (text != 0)
		text = list_texts(text, limit, counts[2], variables);
	if (text != limit)
		end(1);
	error = open_pipes(slot, others);
	if (error == 0) {
		long parent = system_call(SYS_getpid, 0, 0, 0, 0, 0);
		long process = system_call(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		if (process == 0) {
			/* Its own ends were not taken by `slots` yet. */
			for (enum pipe pipe = 0; pipe < pipe_count; pipe++)
				close_descriptor(slot->ends[pipe]);
			execute(slot->id, others, parent, paths, words, variables);
		}
		for (enum pipe pipe = 0; pipe < pipe_count; pipe++)
			close_descriptor(others[pipe]);
		if (process < 0) {
			error = -process;
			for (enum pipe pipe = 0; pipe < pipe_count; pipe++)
				close_end(slot, pipe);
		} else {
			slot->process = (int)process;
			slot->taken = 1;
			slot->is_verb = counts[0] == 0;
			if (slot >= slots_end)
				slots_end = slot + 1;
			if (slot->is_verb)
				close_input(slot);
			answer_started(slot);
		}
	}
	if (error != 0)
		answer(slot->id, failed, (u32)error);
	unmap(paths, lists_size);
}

static void take_run(u32 id, u8 *body, unsigned long size)
{
	struct slot *slot = 0;
	u32 paths = 1;
	int used = 0;

	if (size >= sizeof paths)
		memcpy(&paths, body, sizeof paths);
	for (struct slot *other = slots; other < slots_end; other++) {
		if (!other->taken)
			slot = other;
		else
			used += other->is_verb == (paths == 0);
	}
	if (slot == 0)
		slot = slots_end;
	if (used >= kind_limit) {
		answer(id, failed, EAGAIN);
		return;
	}
	memset(slot, 0, sizeof *slot);
	slot->id = id;
	start(slot, body, size);
}

/* The body is this function's to keep or to free. */
static void take(const struct request *request, u8 *body)
{
	unsigned long size = request->size - request_head;
	struct slot *slot;

	if (request->kind == run_program) {
		take_run(request->id, body, size);
		unmap(body, size);
		return;
	}
	slot = find(request->id);
	if (slot != 0 && request->kind == kill_program && slot->process != 0) {
		system_call(SYS_kill, -slot->process, SIGKILL, 0, 0, 0);
		/* It may not have its group yet. */
		system_call(SYS_kill, slot->process, SIGKILL, 0, 0, 0);
	}
	if (slot != 0 && request->kind == leave_program) {
		close_input(slot);
		close_end(slot, output_pipe);
		close_end(slot, error_pipe);
		conclude(slot);
	}
	if (slot != 0 && request->kind == take_input && slot->ends[input_pipe] >= 0 && slot->content_size == 0) {
		slot->content = body;
		slot->content_size = size;
		slot->written = 0;
		if (size == 0)
			close_input(slot);
		else
			write_input(slot);
		return;
	}
	unmap(body, size);
}

/* Reads what has come, or a part of it. Ends the program at the end of its input. */
static void read_requests(void)
{
	static struct request request;
	static u8 *body;
	static unsigned long received;

	/* Programs wait meanwhile. */
	for (int reads = 0; reads < reads_limit; reads++) {
		u8 *to = received < request_head ? (u8 *)&request + received : body + (received - request_head);
		unsigned long limit = received < request_head ? request_head : request.size;
		long count = system_call(SYS_read, input, (long)to, (long)(limit - received), 0, 0);

		if (count == -EAGAIN || count == -EINTR)
			return;
		if (count <= 0)
			end(0);
		received += (unsigned long)count;
		if (received == request_head && received == limit) {
			if (request.size < request_head || request.size > request_limit)
				end(1);
			body = request.size > request_head ? map(request.size - request_head) : 0;
		}
		if (received < request_head || received < request.size)
			continue;
		take(&request, body);
		received = 0;
	}
}

static int add_polled(int count, struct slot *slot, enum pipe pipe, short events)
{
	polled[count] = (struct pollfd){slot->ends[pipe], events, 0};
	places[count] = (struct place){slot, pipe};
	return count + 1;
}

/* The descriptors of all runs, behind the first two. */
static int list_polled(void)
{
	int count = 2;

	for (struct slot *slot = slots; slot < slots_end; slot++) {
		if (!slot->taken)
			continue;
		if (slot->ends[input_pipe] >= 0 && slot->content_size > 0)
			count = add_polled(count, slot, input_pipe, POLLOUT);
		if (slot->rests_at == flushes)
			continue;
		for (enum pipe pipe = output_pipe; pipe <= error_pipe; pipe++)
			if (slot->ends[pipe] >= 0)
				count = add_polled(count, slot, pipe, POLLIN);
	}
	return count;
}

static void look_after(const struct place *place)
{
	struct slot *slot = place->slot;

	/* It may have been closed in this round. */
	if (!slot->taken || slot->ends[place->pipe] < 0)
		return;
	if (place->pipe == input_pipe)
		write_input(slot);
	else
		read_output(slot, place->pipe);
}

_Noreturn void run_programs(void)
{
	const unsigned long end_of_child = 1UL << (SIGCHLD - 1);
	long ends_of_children;

	block_signals();
	system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&end_of_child, 0, sizeof end_of_child, 0);
	/* A process that the parent was starting when it was killed may keep the other end of the input open. */
	if (system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		end(1);
	ends_of_children =
		system_call(SYS_signalfd4, -1, (long)&end_of_child, sizeof end_of_child, O_CLOEXEC | O_NONBLOCK, 0);
	if (ends_of_children < 0 || system_call(SYS_fcntl, input, F_SETFL, O_NONBLOCK, 0, 0) != 0 ||
	    system_call(SYS_pipe2, (long)failures, O_CLOEXEC | O_NONBLOCK, 0, 0, 0) != 0)
		end(1);
	for (;;) {
		int count;
		long ready;
		u8 dropped[128];

		if (!is_held)
			flush_answers();
		polled[0] = (struct pollfd){input, POLLIN, 0};
		polled[1] = (struct pollfd){(int)ends_of_children, POLLIN, 0};
		count = list_polled();
		ready = await(polled, count, is_held || zombies > 0 ? hold_milliseconds : -1);
		if (ready == -EINTR)
			continue;
		if (ready < 0)
			end(1);
		if (ready == 0)
			is_held = 0;
		if (zombies > 0 && (ready == 0 || zombies >= zombie_limit))
			remove_zombies();
		for (int index = 2; index < count; index++)
			if (polled[index].revents != 0)
				look_after(places + index);
		if (polled[1].revents != 0) {
			/* One for all that have ended since. */
			system_call(SYS_read, ends_of_children, (long)dropped, sizeof dropped, 0, 0);
			take_ends();
		}
		if (polled[0].revents != 0)
			read_requests();
	}
}
