/*
 * Tells the service manager what NOTIFY_SOCKET is for. Node.js has no datagram sockets of files.
 *     helper notify SOCKET PROCESS MESSAGE
 * SOCKET: a path, or @ and an abstract name. The message comes from PROCESS, so that systemd takes it where it listens to
 * the main process of a service alone (NotifyAccess=main). Only root may say so: else it comes from this process.
 * Exit code 1: it was not sent, standard error has the number of the error.
 */
#include "helper.h"

enum {
	errors = 2,
	path_size = 108,
};

struct socket_path {
	u16 family;
	char path[path_size];
};

/* A control message with the process, user and group of the sender, padded as the kernel wants it. */
struct credentials_control {
	unsigned long size;
	int level;
	int type;
	int process;
	u32 user;
	u32 group;
	int padding;
};

static int number_in(const char *text)
{
	int number = 0;

	for (; *text >= '0' && *text <= '9' && number < 1 << 27; text++)
		number = number * 10 + (*text - '0');
	return number;
}

static _Noreturn void refuse(long error)
{
	struct short_text text = with_number("error ", (u64)-error);

	system_call(SYS_write, errors, (long)text.text, (long)text_size(text.text), 0, 0);
	end(1);
}

_Noreturn void notify(char *const *words)
{
	struct socket_path to = {AF_UNIX, {0}};
	struct credentials_control control;
	struct buffer buffer;
	struct message message;
	unsigned long size;
	long socket, sent;

	if (words[0] == 0 || words[1] == 0 || words[2] == 0)
		end(2);
	size = text_size(words[0]);
	/* Whole, the path has a NUL behind it; an abstract name has none. */
	if (size == 0 || size >= path_size)
		refuse(-EINVAL);
	memcpy(to.path, words[0], size);
	if (to.path[0] == '@')
		to.path[0] = 0;
	socket = system_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0);
	if (socket < 0)
		refuse(socket);
	buffer = (struct buffer){words[2], text_size(words[2])};
	control = (struct credentials_control){
		sizeof control - sizeof control.padding,
		SOL_SOCKET,
		SCM_CREDENTIALS,
		number_in(words[1]),
		(u32)system_call(SYS_geteuid, 0, 0, 0, 0, 0),
		(u32)system_call(SYS_getegid, 0, 0, 0, 0, 0),
		0,
	};
	message = (struct message){&to, (u32)(sizeof to.family + size), &buffer, 1, &control, sizeof control, 0};
	sent = system_call(SYS_sendmsg, socket, (long)&message, MSG_NOSIGNAL, 0, 0);
	if (sent == -EPERM) {
		message.control = 0;
		message.control_size = 0;
		sent = system_call(SYS_sendmsg, socket, (long)&message, MSG_NOSIGNAL, 0, 0);
	}
	if (sent < 0)
		refuse(sent);
	end(0);
}
