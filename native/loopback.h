/* A connection to a port of this network namespace: 127.0.0.1, or ::1 when that refuses. */

struct attempt {
	/* The connection that is being made; -1 when there is none. */
	int socket;
	/* A socket for ::1, made at the same time because it belongs to the namespace that it was made in. -1: none. */
	int fallback;
	u16 port;
	/* Of 127.0.0.1: what ::1 answers to a service that is not there says less. */
	int first_error;
};

static int new_socket(int family)
{
	return (int)system_call(SYS_socket, family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, 0, 0);
}

static long begin_connect(int socket, int family, u16 port)
{
	struct address address = {.family = (u16)family, .port = (u16)(port << 8 | port >> 8)};
	unsigned long size = family == AF_INET ? 16 : 28;

	if (family == AF_INET) {
		/* After family and port: the address. */
		address.rest[0] = 127;
		address.rest[3] = 1;
	} else {
		/* After them: the flow label, 4 bytes; the address, 16 bytes. */
		address.rest[19] = 1;
	}
	return -system_call(SYS_connect, socket, (long)&address, (long)size, 0, 0);
}

/*
 * What became of a connect that answered `error`: EINPROGRESS to wait for, 0 for a connection in `socket`, else why there
 * is none. Goes on with ::1 when 127.0.0.1 failed.
 */
static int settle(struct attempt *attempt, long error)
{
	while (error != 0 && error != EINPROGRESS) {
		if (attempt->first_error == 0)
			attempt->first_error = (int)error;
		close_descriptor(attempt->socket);
		attempt->socket = attempt->fallback;
		attempt->fallback = -1;
		if (attempt->socket < 0)
			return attempt->first_error;
		error = begin_connect(attempt->socket, AF_INET6, attempt->port);
	}
	if (error == 0) {
		close_descriptor(attempt->fallback);
		attempt->fallback = -1;
	}
	return (int)error;
}

static int begin(struct attempt *attempt, u16 port)
{
	attempt->port = port;
	attempt->first_error = 0;
	attempt->socket = new_socket(AF_INET);
	attempt->fallback = new_socket(AF_INET6);
	if (attempt->socket < 0)
		return settle(attempt, -attempt->socket);
	return settle(attempt, begin_connect(attempt->socket, AF_INET, port));
}

/* To be called when the socket has become writable. */
static int proceed(struct attempt *attempt)
{
	int error = 0;
	u32 size = sizeof error;
	long result =
		system_call(SYS_getsockopt, attempt->socket, SOL_SOCKET, SO_ERROR, (long)&error, (long)&size);

	return settle(attempt, result < 0 ? -result : error);
}
