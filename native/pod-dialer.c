/*
 * Connects to ports of pods for the program that started it, and hands the connections over, so that no byte of them
 * comes by here. It enters the network namespace of each pod, which a program with many threads cannot do, and leaves
 * it at once: a namespace lives as long as a process is in it, with the pod's interfaces and address.
 *
 * Standard input: requests of 16 bytes, in the order of this machine:
 *     u32 id, u32 namespace, u32 port, u32 milliseconds
 * `namespace` is a file descriptor of the parent process, which keeps it open until the answer; 0xffffffff withdraws
 * the request of that id.
 *
 * Descriptor 3 is the channel of Node.js between a parent and a child: lines of JSON. A line of a connection carries it
 * as SCM_RIGHTS, in the form in which Node.js sends sockets. The line after it says that it was sent: a parent without
 * room for another file gets no connection, and Node.js makes nothing of the first line then. A request without a
 * connection is one line:
 *     {"cmd":"NODE_HANDLE","type":"net.Socket","msg":{"id":7}}
 *     {"id":7,"sent":true}
 *     {"id":7,"step":"connect","errno":111}
 *     {"id":7,"step":"withdraw","errno":125}
 * Each request is answered once, be it withdrawn or not; a withdrawal that comes after the answer is not answered. What
 * Node.js writes into the channel is read and dropped.
 *
 * Ends with its input, with the channel, and with the parent.
 */
#include "system.h"
#include "loopback.h"

enum {
	input = 0,
	channel = 3,
	slot_count = 256,
	request_size = 16,
};

static const u32 withdrawal = 0xffffffff;

struct request {
	u32 id;
	u32 namespace;
	u32 port;
	u32 milliseconds;
};

struct slot {
	int taken;
	u32 id;
	long deadline;
	struct attempt attempt;
};

struct text {
	char bytes[128];
	unsigned long size;
};

static void add(struct text *text, const char *words)
{
	while (*words != 0 && text->size < sizeof text->bytes - 1)
		text->bytes[text->size++] = *words++;
	text->bytes[text->size] = 0;
}

static void add_number(struct text *text, const char *words, u32 number)
{
	add(text, with_number(words, number).text);
}

/* Whole lines at once: the channel blocks, and they are far shorter than what it takes in one piece. */
static void answer(const struct text *lines, int descriptor)
{
	struct descriptor_control control = {
		.size = 20, .level = SOL_SOCKET, .type = SCM_RIGHTS, .descriptor = descriptor, .padding = 0};
	struct buffer buffer = {.data = lines->bytes, .size = lines->size};
	struct message message = {
		.name = 0,
		.name_size = 0,
		.buffers = &buffer,
		.buffer_count = 1,
		.control = descriptor < 0 ? 0 : &control,
		.control_size = descriptor < 0 ? 0 : sizeof control,
		.flags = 0,
	};
	long sent;

	do
		sent = system_call(SYS_sendmsg, channel, (long)&message, MSG_NOSIGNAL, 0, 0);
	while (sent == -EINTR);
	if (sent != (long)lines->size)
		end(1);
}

static void answer_failure(u32 id, const char *step, long error)
{
	struct text line = {.size = 0};

	add_number(&line, "{\"id\":", id);
	add(&line, ",\"step\":\"");
	add(&line, step);
	add_number(&line, "\",\"errno\":", (u32)error);
	add(&line, "}\n");
	answer(&line, -1);
}

static void give_up(struct attempt *attempt)
{
	close_descriptor(attempt->socket);
	close_descriptor(attempt->fallback);
	attempt->socket = attempt->fallback = -1;
}

/* Answers when the attempt has ended. */
static void conclude(struct slot *slot, int error)
{
	struct text lines = {.size = 0};

	if (error == EINPROGRESS)
		return;
	slot->taken = 0;
	if (error == 0) {
		add(&lines, "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Socket\",\"msg\":{\"id\":");
		add_number(&lines, "", slot->id);
		add_number(&lines, "}}\n{\"id\":", slot->id);
		add(&lines, ",\"sent\":true}\n");
		answer(&lines, slot->attempt.socket);
	} else {
		answer_failure(slot->id, "connect", error);
	}
	give_up(&slot->attempt);
}

/* A descriptor of the namespace that this process was started in, or why it could not come back there. */
static long open_home(void)
{
	long file, result;

	file = system_call(SYS_openat, AT_FDCWD, (long)"/proc/self/ns/net", O_RDONLY | O_CLOEXEC, 0, 0);
	if (file < 0)
		return file;
	/* To enter a pod's and to enter this one are different permissions. */
	result = system_call(SYS_setns, file, CLONE_NEWNET, 0, 0, 0);
	if (result == 0)
		return file;
	close_descriptor((int)file);
	return result;
}

/* 0, or why this process is not in the namespace of the parent's descriptor. */
static long enter(u32 descriptor)
{
	struct text path = {.size = 0};
	long file, result;

	add_number(&path, "/proc/", (u32)system_call(SYS_getppid, 0, 0, 0, 0, 0));
	add_number(&path, "/fd/", descriptor);
	file = system_call(SYS_openat, AT_FDCWD, (long)path.bytes, O_RDONLY | O_CLOEXEC, 0, 0);
	if (file < 0)
		return -file;
	result = system_call(SYS_setns, file, CLONE_NEWNET, 0, 0, 0);
	close_descriptor((int)file);
	return -result;
}

static void withdraw(struct slot *slots, u32 id)
{
	for (int index = 0; index < slot_count; index++) {
		if (slots[index].taken && slots[index].id == id) {
			slots[index].taken = 0;
			give_up(&slots[index].attempt);
			answer_failure(id, "withdraw", ECANCELED);
		}
	}
}

static void take(struct slot *slots, const struct request *request, long home)
{
	struct slot *slot = slots;
	long error;

	if (request->namespace == withdrawal) {
		withdraw(slots, request->id);
		return;
	}
	while (slot < slots + slot_count && slot->taken)
		slot++;
	if (slot == slots + slot_count) {
		answer_failure(request->id, "accept", EAGAIN);
		return;
	}
	/* After a failure this process is in its own namespace: no socket may be made there. */
	error = home < 0 ? -home : enter(request->namespace);
	if (error != 0) {
		answer_failure(request->id, "enter", error);
		return;
	}
	slot->taken = 1;
	slot->id = request->id;
	slot->deadline = now() + request->milliseconds;
	/* The sockets belong to the pod's namespace wherever this process is: it need not stay for the answers. */
	error = begin(&slot->attempt, (u16)request->port);
	if (system_call(SYS_setns, home, CLONE_NEWNET, 0, 0, 0) != 0)
		end(1);
	conclude(slot, (int)error);
}

/* Until the next deadline, in milliseconds; -1: there is none. */
static long until_deadline(const struct slot *slots)
{
	long time = now(), wait = -1;

	for (int index = 0; index < slot_count; index++) {
		long left = slots[index].deadline - time;

		if (!slots[index].taken)
			continue;
		if (left < 0)
			left = 0;
		if (wait < 0 || left < wait)
			wait = left;
	}
	return wait;
}

static void look_after(struct slot *slots, const struct pollfd *polled)
{
	long time = now();

	for (int index = 0; index < slot_count; index++) {
		struct slot *slot = slots + index;

		if (!slot->taken)
			continue;
		if (polled[index].fd >= 0 && polled[index].revents != 0)
			conclude(slot, proceed(&slot->attempt));
		if (slot->taken && slot->deadline <= time) {
			slot->taken = 0;
			give_up(&slot->attempt);
			answer_failure(slot->id, "connect", ETIMEDOUT);
		}
	}
}

/* Ends the program at the end of its input. */
static unsigned long read_some(int descriptor, void *data, unsigned long size)
{
	long count = system_call(SYS_read, descriptor, (long)data, (long)size, 0, 0);

	if (count == -EINTR || count == -EAGAIN)
		return 0;
	if (count <= 0)
		end(0);
	return (unsigned long)count;
}

_Noreturn void run(const long *arguments)
{
	struct slot slots[slot_count];
	struct pollfd polled[slot_count + 2];
	union {
		u8 bytes[64 * request_size];
		struct request requests[64];
	} received;
	u8 dropped[4096];
	unsigned long size = 0;
	long home;

	(void)arguments;
	block_signals();
	if (system_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		end(1);
	home = open_home();
	memset(slots, 0, sizeof slots);
	for (;;) {
		int count = 2;
		long ready;

		polled[0] = (struct pollfd){input, POLLIN, 0};
		polled[1] = (struct pollfd){channel, POLLIN, 0};
		/* As far as the last that is taken: the kernel refuses more entries than a process may have files. */
		for (int index = 0; index < slot_count; index++) {
			int waited_for = slots[index].taken ? slots[index].attempt.socket : -1;

			polled[2 + index] = (struct pollfd){waited_for, POLLOUT, 0};
			if (slots[index].taken)
				count = 2 + index + 1;
		}
		ready = await(polled, count, until_deadline(slots));
		if (ready == -EINTR)
			continue;
		if (ready < 0)
			end(1);
		look_after(slots, polled + 2);
		if (polled[1].revents != 0)
			read_some(channel, dropped, sizeof dropped);
		if (polled[0].revents == 0)
			continue;
		size += read_some(input, received.bytes + size, sizeof received.bytes - size);
		for (unsigned long index = 0; index < size / request_size; index++)
			take(slots, received.requests + index, home);
		/* The begin of a request whose rest is to come. */
		for (unsigned long index = size - size % request_size, to = 0; index < size; index++, to++)
			received.bytes[to] = received.bytes[index];
		size %= request_size;
	}
}
