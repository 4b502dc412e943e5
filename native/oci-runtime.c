/*
 * The OCI runtime of containers of which Docker's API cannot say everything. Docker starts it in place of runc:
 *     oci-runtime [--dockershim-sockets=DIRECTORY] [--dockershim-runtime=PATH] WORD...
 * It asks the server to change the specification of a container that is about to be made (create, run, restore), and
 * executes runc with the same words. All other commands go to runc at once. Without an answer the container is not made.
 * It runs in the namespaces of Docker's containerd, with nothing of the server but a socket.
 *
 * Each server has DIRECTORY/NAME/socket. They are asked at once until one knows the container. Numbers are in the order
 * of this machine:
 *     question: u32 size, of all of it; u32 version (1); u32 process; u32 length; the id; config.json of the bundle
 *     answer:   u32 size, of all of it; u32 kind; bytes
 *         1 changed  the specification to use
 *         2 refused  why, as the inside of a JSON string
 *         3 unknown  nothing
 *
 * A refusal goes to the file of --log, in the form in which Docker reads runc's errors, and to standard error.
 */
#include "system.h"

enum {
	errors = 2,
	O_TRUNC = 01000,
	O_APPEND = 02000,
	question_head = 16,
	answer_head = 8,
	version = 1,
	path_size = 4096,
	specification_limit = 16 << 20,
	/* The server gives an answer in 20 seconds in any case. */
	patience = 30000,
	pause_between_tries = 20,
	server_limit = 64,
};

enum kind {
	changed = 1,
	refused = 2,
	unknown = 3,
};

static const char default_sockets[] = "/run/dockershim/oci-runtime";

struct socket_path {
	u16 family;
	char path[108];
};

struct text {
	char bytes[path_size];
	unsigned long size;
};

struct words {
	char **first;
	/* The command and all behind it; null without one. */
	char **command;
	const char *log;
};

struct question {
	const char *id;
	u8 *bytes;
	unsigned long size;
};

struct answer {
	enum kind kind;
	const u8 *bytes;
	unsigned long size;
};

static int is_same(const char *one, const char *other)
{
	while (*one != 0 && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

/* What `word` has behind `start`, or null. */
static const char *behind(const char *word, const char *start)
{
	while (*start != 0)
		if (*word++ != *start++)
			return 0;
	return word;
}

/* Nothing is cut in the middle: a path that is too long is empty, and is not found. */
static void add(struct text *text, const char *words)
{
	unsigned long size = text_size(words);

	if (text->size + size >= sizeof text->bytes) {
		text->size = sizeof text->bytes;
		text->bytes[0] = 0;
		return;
	}
	memcpy(text->bytes + text->size, words, size + 1);
	text->size += size;
}

/* 0, or a negative error. */
static long write_all(long file, const void *bytes, unsigned long size)
{
	const u8 *at = bytes;

	while (size > 0) {
		long written = system_call(SYS_write, file, (long)at, (long)size, 0, 0);

		if (written == -EINTR)
			continue;
		if (written <= 0)
			return written == 0 ? -EIO : written;
		at += written;
		size -= (unsigned long)written;
	}
	return 0;
}

/* `reason` is the inside of a JSON string. */
static _Noreturn void refuse(const char *log, const void *reason, unsigned long size)
{
	static const char before[] = "{\"level\":\"error\",\"msg\":\"dockershim: ";
	static const char after[] = "\"}\n";

	if (log != 0) {
		long file = system_call(SYS_openat, AT_FDCWD, (long)log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600, 0);

		write_all(file, before, sizeof before - 1);
		write_all(file, reason, size);
		write_all(file, after, sizeof after - 1);
	}
	write_all(errors, "dockershim: ", 12);
	write_all(errors, reason, size);
	write_all(errors, "\n", 1);
	end(1);
}

static _Noreturn void refuse_for(const char *log, const char *reason)
{
	refuse(log, reason, text_size(reason));
}

static _Noreturn void fail(const char *log, const char *action, long error)
{
	static struct text text;

	add(&text, action);
	add(&text, with_number(": error ", (u64)-error).text);
	refuse_for(log, text.bytes);
}

/* Options of runc before the command whose value is a word of its own. */
static int takes_word(const char *word)
{
	static const char *const options[] = {"--log", "--log-format", "--root", "--criu", "--rootless"};

	for (unsigned index = 0; index < sizeof options / sizeof *options; index++)
		if (is_same(word, options[index]))
			return 1;
	return 0;
}

static struct words words_of(char **first)
{
	struct words words = {first, 0, 0};

	for (char **word = first + 1; *word != 0 && words.command == 0; word++) {
		const char *log = behind(*word, "--log=");

		if ((*word)[0] != '-') {
			words.command = word;
		} else if (log != 0) {
			words.log = log;
		} else if (takes_word(*word) && word[1] != 0) {
			if (is_same(*word, "--log"))
				words.log = word[1];
			word++;
		}
	}
	return words;
}

static const char *bundle_in(const struct words *words)
{
	for (char **word = words->command + 1; *word != 0; word++) {
		const char *bundle = behind(*word, "--bundle=");

		if (bundle != 0)
			return bundle;
		if (is_same(*word, "--bundle") || is_same(*word, "-b"))
			return word[1] == 0 ? "" : word[1];
	}
	return "";
}

static const char *id_in(const struct words *words)
{
	char **word = words->command;

	while (word[1] != 0)
		word++;
	return word == words->command ? "" : *word;
}

static u8 *map(const char *log, unsigned long size)
{
	long memory = map_memory(size);

	if (memory < 0 && memory > -4096)
		fail(log, "get memory", memory);
	return (u8 *)memory;
}

static void put(u8 *bytes, u32 number)
{
	memcpy(bytes, &number, sizeof number);
}

static u32 get(const u8 *bytes)
{
	u32 number;

	memcpy(&number, bytes, sizeof number);
	return number;
}

static struct question read_question(const struct words *words, long bundle)
{
	struct question question = {id_in(words), 0, 0};
	unsigned long id_size = text_size(question.id), at;
	struct file_status status;
	long file = system_call(SYS_openat, bundle, (long)"config.json", O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0, 0), error;

	if (file < 0)
		fail(words->log, "open config.json", file);
	error = system_call(SYS_newfstatat, file, (long)"", (long)&status, AT_EMPTY_PATH, 0);
	if (error < 0)
		fail(words->log, "read config.json", error);
	if (status.size > specification_limit)
		refuse_for(words->log, "config.json has more than 16 MiB");
	at = question_head + id_size;
	question.size = at + status.size;
	question.bytes = map(words->log, question.size);
	put(question.bytes, (u32)question.size);
	put(question.bytes + 4, version);
	put(question.bytes + 8, (u32)system_call(SYS_getpid, 0, 0, 0, 0, 0));
	put(question.bytes + 12, (u32)id_size);
	memcpy(question.bytes + question_head, question.id, id_size);
	while (at < question.size) {
		long got = system_call(SYS_read, file, (long)(question.bytes + at), (long)(question.size - at), 0, 0);

		if (got == -EINTR)
			continue;
		if (got <= 0)
			fail(words->log, "read config.json", got);
		at += (unsigned long)got;
	}
	close_descriptor((int)file);
	return question;
}

/* A server that is asked. */
struct conversation {
	struct socket_path with;
	enum { unconnected, connected, ended } state;
	long socket;
	unsigned long sent;
	unsigned long got;
	u8 head[answer_head];
	struct answer answer;
};

static int name_server(struct conversation *conversation, const char *directory, const char *name)
{
	static struct text path;

	path.size = 0;
	add(&path, directory);
	add(&path, "/");
	add(&path, name);
	add(&path, "/socket");
	if (path.size >= sizeof conversation->with.path)
		return 0;
	conversation->with.family = AF_UNIX;
	memcpy(conversation->with.path, path.bytes, path.size);
	return 1;
}

/* 0, or a negative error; -EAGAIN: its backlog is full, as when a thousand containers start at once. */
static long connect_to(struct conversation *conversation)
{
	long error, socket = system_call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, 0, 0);

	if (socket < 0)
		return socket;
	error = system_call(SYS_connect, socket, (long)&conversation->with, sizeof conversation->with, 0, 0);
	if (error < 0) {
		close_descriptor((int)socket);
		return error;
	}
	conversation->socket = socket;
	conversation->state = connected;
	return 0;
}

static void begin_answer(const char *log, struct conversation *from)
{
	unsigned long size = get(from->head);

	if (size < answer_head || size > answer_head + 2 * specification_limit)
		refuse_for(log, "the server's answer has an impossible size");
	from->answer = (struct answer){(enum kind)get(from->head + 4), map(log, size), size - answer_head};
}

/* 0 when the answer is complete, or a negative error; -EAGAIN: when the server goes on. */
static long talk(const char *log, struct conversation *with, const struct question *question)
{
	while (with->sent < question->size) {
		/* A signal must not end this without a word. */
		long sent = system_call(SYS_sendto, with->socket, (long)(question->bytes + with->sent),
					(long)(question->size - with->sent), MSG_NOSIGNAL, 0);

		if (sent > 0)
			with->sent += (unsigned long)sent;
		else if (sent != -EINTR)
			return sent;
	}
	for (;;) {
		int has_head = with->got >= answer_head;
		unsigned long end = has_head ? answer_head + with->answer.size : answer_head;
		u8 *into = has_head ? (u8 *)with->answer.bytes + (with->got - answer_head) : with->head + with->got;
		long got;

		if (has_head && with->got == end)
			return 0;
		got = system_call(SYS_read, with->socket, (long)into, (long)(end - with->got), 0, 0);
		if (got == -EINTR)
			continue;
		if (got <= 0)
			return got == 0 ? -EIO : got;
		with->got += (unsigned long)got;
		if (with->got == answer_head && !has_head)
			begin_answer(log, with);
	}
}

static unsigned find_servers(const char *directory, struct conversation *found)
{
	u8 entries[2048] __attribute__((aligned(8)));
	long servers = system_call(SYS_openat, AT_FDCWD, (long)directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0), size;
	unsigned count = 0;

	while (servers >= 0 && (size = system_call(SYS_getdents64, servers, (long)entries, sizeof entries, 0, 0)) > 0)
		for (const u8 *entry = entries; entry < entries + size && count < server_limit;
		     entry += *(const u16 *)(entry + 16)) {
			const char *name = (const char *)entry + 19;

			if (name[0] != '.')
				count += (unsigned)name_server(&found[count], directory, name);
		}
	return count;
}

/* Of the server that knows the container. All are asked at once: one that hangs, or ends, may be another's. */
static struct answer ask_servers(const char *log, const char *directory, const struct question *question)
{
	static struct conversation all[server_limit];
	struct pollfd polled[server_limit];
	unsigned count = find_servers(directory, all), listening, asked = 0;
	long deadline = now() + patience, failure = 0;

	do {
		long wait = deadline - now();

		listening = 0;
		for (unsigned index = 0; index < count; index++) {
			struct conversation *one = &all[index];
			long error = one->state == unconnected ? connect_to(one) : 0;

			if (error < 0 && error != -EAGAIN)
				one->state = ended;
			if (error == 0 && one->state == connected) {
				error = talk(log, one, question);
				if (error == 0 && one->answer.kind != unknown)
					return one->answer;
				if (error != -EAGAIN) {
					asked++;
					failure = error < 0 ? error : failure;
					close_descriptor((int)one->socket);
					one->state = ended;
				}
			}
			if (one->state == unconnected && wait > pause_between_tries)
				wait = pause_between_tries;
			if (one->state == connected)
				polled[listening++] = (struct pollfd){
					(int)one->socket, one->sent < question->size ? POLLOUT : POLLIN, 0};
			else if (one->state == unconnected)
				polled[listening++] = (struct pollfd){-1, 0, 0};
		}
		if (listening > 0 && wait > 0)
			await(polled, (int)listening, wait);
	} while (listening > 0 && now() < deadline);
	if (listening > 0)
		failure = -ETIMEDOUT;
	if (failure < 0)
		fail(log, "ask the server about the container", failure);
	refuse_for(log, asked == 0 ? "no server of dockershim listens, and the container needs one to start"
				   : "no server of dockershim knows this container");
}

static void replace(const char *log, long bundle, const struct answer *answer)
{
	static const char next[] = ".dockershim-config.json";
	long file, error;

	system_call(SYS_unlinkat, bundle, (long)next, 0, 0, 0);
	file = system_call(SYS_openat, bundle, (long)next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600, 0);
	if (file < 0)
		fail(log, "write config.json", file);
	error = write_all(file, answer->bytes, answer->size);
	close_descriptor((int)file);
	if (error == 0)
		error = system_call(SYS_renameat, bundle, (long)next, bundle, (long)"config.json", 0);
	if (error == 0)
		return;
	system_call(SYS_unlinkat, bundle, (long)next, 0, 0, 0);
	fail(log, "write config.json", error);
}

static void change(const struct words *words, const char *sockets)
{
	long bundle = system_call(SYS_openat, AT_FDCWD, (long)bundle_in(words), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
	struct question question;
	struct answer answer;

	if (bundle < 0)
		fail(words->log, "open the bundle", bundle);
	question = read_question(words, bundle);
	answer = ask_servers(words->log, sockets, &question);
	if (answer.kind == refused)
		refuse(words->log, answer.bytes, answer.size);
	if (answer.kind != changed)
		refuse_for(words->log, "the server's answer is of an unknown kind");
	replace(words->log, bundle, &answer);
	close_descriptor((int)bundle);
}

/* Where Docker's containerd looks for runc. */
static void execute_found(char **words, char **environment)
{
	static struct text path;
	const char *searched = 0;

	for (char **variable = environment; *variable != 0; variable++)
		if (behind(*variable, "PATH=") != 0)
			searched = behind(*variable, "PATH=");
	while (searched != 0 && *searched != 0) {
		unsigned long size = 0;

		while (searched[size] != 0 && searched[size] != ':')
			size++;
		if (size > 0 && size < sizeof path.bytes - 8) {
			memcpy(path.bytes, searched, size);
			path.bytes[size] = 0;
			path.size = size;
			add(&path, "/runc");
			system_call(SYS_execve, (long)path.bytes, (long)words, (long)environment, 0, 0);
		}
		searched += size + (searched[size] == ':');
	}
}

_Noreturn void run(const long *arguments)
{
	static char name[] = "runc";
	const char *sockets = default_sockets, *runtime = 0;
	char **first = (char **)(arguments + 1), **environment = first + arguments[0] + 1;
	struct words words;

	for (; arguments[0] > 0 && first[1] != 0; first++) {
		const char *directory = behind(first[1], "--dockershim-sockets=");
		const char *program = behind(first[1], "--dockershim-runtime=");

		if (directory == 0 && program == 0)
			break;
		if (directory != 0)
			sockets = directory;
		else
			runtime = program;
	}
	if (arguments[0] < 1)
		end(2);
	first[0] = name;
	words = words_of(first);
	if (words.command != 0 && (is_same(*words.command, "create") || is_same(*words.command, "run") ||
				   is_same(*words.command, "restore")))
		change(&words, sockets);
	if (runtime != 0)
		system_call(SYS_execve, (long)runtime, (long)first, (long)environment, 0, 0);
	else
		execute_found(first, environment);
	refuse_for(words.log, runtime == 0 ? "there is no runc in PATH" : "the program of --dockershim-runtime cannot be started");
}
