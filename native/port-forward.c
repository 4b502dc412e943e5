/*
 * One connection to a port of the pod whose container this runs in, for a Docker Engine whose host is out of reach:
 *     port-forward PORT
 * carries it over its standard input and output. Docker ends the input of a process as soon as the process closes its
 * output, so an end of stream in one direction alone needs frames: 4 bytes of length, big endian, and as many bytes of
 * data; length 0 is the end of that direction, and length 0xffffffff says that the other side is gone: the connection is
 * then reset. Docker sometimes loses the end of an input whose client is gone. Output begins with 4 bytes, big endian, before the frames: 0 for a
 * connection, else the error number of the failed connect.
 *
 * Ends with 0 when both directions have ended. An input that ends without a frame of length 0 is a reset, too. An output that ends without one means the same of the server.
 */
#include "system.h"
#include "loopback.h"

enum {
	input = 0,
	output = 1,
	data_limit = 65536,
	connect_milliseconds = 10000,
};

static const u32 reset_length = 0xffffffff;

/* Bytes on their way: `data` from `begin` to `end`. */
struct flow {
	u8 data[data_limit + 4];
	u32 begin;
	u32 end;
};

/* The state of the frames that are read. */
struct frames {
	u8 header[4];
	u32 header_size;
	/* Bytes of the present frame that are still to come. */
	u32 left;
	int ended;
};

static void put_number(u8 *bytes, u32 number)
{
	bytes[0] = (u8)(number >> 24);
	bytes[1] = (u8)(number >> 16);
	bytes[2] = (u8)(number >> 8);
	bytes[3] = (u8)number;
}

/* 1 to 65535; 0 for what is not such a number. */
static u32 port_of(const char *text)
{
	u32 port = 0;

	for (; *text != 0; text++) {
		if (*text < '0' || *text > '9')
			return 0;
		port = port * 10 + (u32)(*text - '0');
		if (port > 65535)
			return 0;
	}
	return port;
}

static int connected(u16 port)
{
	struct attempt attempt;
	u8 status[4];
	long deadline = now() + connect_milliseconds;
	int error = begin(&attempt, port);

	while (error == EINPROGRESS) {
		struct pollfd polled = {attempt.socket, POLLOUT, 0};
		long left = deadline - now();

		if (left <= 0)
			error = ETIMEDOUT;
		else if (await(&polled, 1, left) > 0)
			error = proceed(&attempt);
	}
	put_number(status, (u32)error);
	/* The first bytes into a pipe: they fit. */
	if (system_call(SYS_write, output, (long)status, sizeof status, 0, 0) != sizeof status || error != 0)
		end(1);
	return attempt.socket;
}

/* Closes the socket by a reset: the other side learns that the connection did not end properly. */
static _Noreturn void reset(int socket)
{
	const int linger[2] = {1, 0};

	system_call(SYS_setsockopt, socket, SOL_SOCKET, SO_LINGER, (long)linger, sizeof linger);
	end(1);
}

/* From the frames of the input into `flow`, which is empty. */
static void receive(struct frames *frames, struct flow *flow, int socket)
{
	int in_header = frames->left == 0;
	u8 *target = in_header ? frames->header + frames->header_size : flow->data;
	u32 room = in_header ? 4 - frames->header_size : frames->left < data_limit ? frames->left : data_limit;
	long count = system_call(SYS_read, input, (long)target, room, 0, 0);

	if (count == -EINTR || count == -EAGAIN)
		return;
	if (count <= 0)
		reset(socket);
	if (!in_header) {
		frames->left -= (u32)count;
		flow->begin = 0;
		flow->end = (u32)count;
		return;
	}
	frames->header_size += (u32)count;
	if (frames->header_size < 4)
		return;
	frames->header_size = 0;
	frames->left = (u32)frames->header[0] << 24 | (u32)frames->header[1] << 16 |
		       (u32)frames->header[2] << 8 | frames->header[3];
	if (frames->left == reset_length)
		reset(socket);
	if (frames->left == 0) {
		frames->ended = 1;
		system_call(SYS_shutdown, socket, SHUT_WR, 0, 0, 0);
	}
}

static long write_to(int descriptor, const u8 *data, u32 size)
{
	return system_call(SYS_write, descriptor, (long)data, size, 0, 0);
}

static long send_to(int socket, const u8 *data, u32 size)
{
	return system_call(SYS_sendto, socket, (long)data, size, MSG_NOSIGNAL, 0);
}

/* After an attempt to pass on what `flow` holds. */
static void passed_on(struct flow *flow, long count, int socket)
{
	if (count == -EINTR || count == -EAGAIN)
		return;
	if (count < 0)
		reset(socket);
	flow->begin += (u32)count;
}

/* From the connection into `flow`, which is empty, as one frame; whether that was the last one. */
static int fetch(int socket, struct flow *flow)
{
	long count = system_call(SYS_read, socket, (long)flow->data + 4, data_limit, 0, 0);

	if (count == -EINTR || count == -EAGAIN)
		return 0;
	if (count < 0)
		reset(socket);
	put_number(flow->data, (u32)count);
	flow->begin = 0;
	flow->end = (u32)count + 4;
	return count == 0;
}

static _Noreturn void carry(int socket)
{
	static struct flow to_server, to_client;
	static struct frames frames;
	int server_ended = 0;

	/* A client that does not read must not keep what it writes from the server. */
	system_call(SYS_fcntl, output, F_SETFL, O_NONBLOCK, 0, 0);
	for (;;) {
		int sending = to_server.begin < to_server.end;
		int answering = to_client.begin < to_client.end;
		int fetching = !answering && !server_ended;
		struct pollfd polled[3] = {
			/* Also while nothing is read: its end says that the other side is gone. */
			{input, sending ? 0 : POLLIN, 0},
			{answering ? output : -1, POLLOUT, 0},
			{sending || fetching ? socket : -1, (short)((sending ? POLLOUT : 0) | (fetching ? POLLIN : 0)), 0},
		};

		if (frames.ended && server_ended && !sending && !answering)
			end(0);
		if (await(polled, 3, -1) < 0)
			continue;
		if (polled[1].revents != 0)
			passed_on(&to_client, write_to(output, to_client.data + to_client.begin, to_client.end - to_client.begin), socket);
		if (fetching && (polled[2].revents & ~POLLOUT) != 0)
			server_ended = fetch(socket, &to_client);
		if (sending && (polled[2].revents & ~POLLIN) != 0)
			passed_on(&to_server, send_to(socket, to_server.data + to_server.begin, to_server.end - to_server.begin), socket);
		if (polled[0].revents == 0)
			continue;
		if (frames.ended || sending || (polled[0].revents & POLLIN) == 0)
			reset(socket);
		receive(&frames, &to_server, socket);
	}
}

_Noreturn void run(const long *arguments)
{
	u32 port = arguments[0] == 2 ? port_of((const char *)arguments[2]) : 0;

	block_signals();
	if (port == 0)
		end(2);
	carry(connected((u16)port));
}
