/*
 * The program in the place of those in images: `scripts/play-workloads.mjs` says what for.
 *
 *     stand-in [tcp:PORT | udp:PORT]... [exit] [-- what the manifest says, ignored]
 *
 * It listens, answers HTTP with 200 and gRPC health checks with SERVING, and ends with 0 at SIGTERM, SIGINT and, with
 * "exit", at once. Under another name it is what a probe or a hook runs: "cat" prints files, all others end with 0.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 256, ROOM = 8192 };
static struct pollfd polled[MOST];
static struct { int isListener, isDatagram, isHttp2; size_t length; unsigned char data[ROOM]; } state[MOST];
static nfds_t count;

static void end(int signal) { (void)signal; _exit(0); }

static int add(int fd, int isListener, int isDatagram) {
  if (fd < 0 || count == MOST) return close(fd), 0;
  memset(&state[count], 0, sizeof state[count]);
  state[count].isListener = isListener;
  state[count].isDatagram = isDatagram;
  polled[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
  return 1;
}

static void drop(nfds_t i) {
  close(polled[i].fd);
  polled[i] = polled[--count];
  state[i] = state[count];
}

static void listen_at(int port, int isDatagram) {
  /* An IPv6 socket takes IPv4, too; where there is no IPv6, IPv4 alone. */
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  int type = isDatagram ? SOCK_DGRAM : SOCK_STREAM, on = 1;
  int fd = socket(AF_INET6, type, 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || bind(fd, (struct sockaddr *)&six, sizeof six) != 0) {
    close(fd);
    fd = socket(AF_INET, type, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&four, sizeof four) != 0) { perror("bind"); close(fd); return; }
  }
  if (!isDatagram && listen(fd, 64) != 0) { perror("listen"); close(fd); return; }
  add(fd, !isDatagram, isDatagram);
}

static void say(int fd, const void *data, size_t length) { if (write(fd, data, length) < 0) return; }

static void frame(int fd, int type, int flags, const unsigned char *stream, const void *data, size_t length) {
  unsigned char head[9] = {0, (unsigned char)(length >> 8), (unsigned char)length, (unsigned char)type, (unsigned char)flags};
  memcpy(head + 5, stream, 4);
  say(fd, head, 9);
  say(fd, data, length);
}

/* The answer of grpc.health.v1.Health/Check to whatever has been asked. */
static void serving(int fd, const unsigned char *stream) {
  static const char head[] = "\x88\x00\x0c" "content-type\x10" "application/grpc";
  static const unsigned char body[] = {0, 0, 0, 0, 2, 8, 1};
  static const char tail[] = "\x00\x0b" "grpc-status\x01" "0";
  frame(fd, 1, 4, stream, head, sizeof head - 1);
  frame(fd, 0, 0, stream, body, sizeof body);
  frame(fd, 1, 5, stream, tail, sizeof tail - 1);
}

static int take_frames(nfds_t i) {
  static const unsigned char connection[4];
  unsigned char *data = state[i].data;
  for (;;) {
    if (state[i].length < 9) return 1;
    size_t length = (size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2];
    if (length + 9 > ROOM) return 0;
    if (length + 9 > state[i].length) return 1;
    int type = data[3], flags = data[4];
    if (type <= 1 && flags & 1) serving(polled[i].fd, data + 5);
    if (type == 4 && !(flags & 1)) frame(polled[i].fd, 4, 1, connection, "", 0);
    if (type == 6 && !(flags & 1)) frame(polled[i].fd, 6, 1, connection, data + 9, length);
    state[i].length -= length + 9;
    memmove(data, data + length + 9, state[i].length);
  }
}

static int answer(nfds_t i) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
  const size_t size = sizeof preface - 1;
  if (state[i].length == ROOM) return 0;
  ssize_t got = read(polled[i].fd, state[i].data + state[i].length, ROOM - state[i].length);
  if (got <= 0) return 0;
  state[i].length += (size_t)got;
  if (!state[i].isHttp2 && state[i].length >= size && memcmp(state[i].data, preface, size) == 0) {
    static const unsigned char connection[4];
    state[i].isHttp2 = 1;
    state[i].length -= size;
    memmove(state[i].data, state[i].data + size, state[i].length);
    frame(polled[i].fd, 4, 0, connection, "", 0);
  }
  if (state[i].isHttp2) return take_frames(i);
  if (state[i].length >= 4 && memcmp(state[i].data + state[i].length - 4, "\r\n\r\n", 4) == 0) {
    say(polled[i].fd, ok, sizeof ok - 1);
    return 0;
  }
  return 1;
}

static int cat(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] == '-') continue;
    int fd = open(argv[i], O_RDONLY);
    if (fd < 0) return perror(argv[i]), 1;
    for (ssize_t got; (got = read(fd, state[0].data, ROOM)) > 0;) say(1, state[0].data, (size_t)got);
    close(fd);
  }
  return 0;
}

int main(int argc, char **argv) {
  const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
  if (strcmp(name, "cat") == 0) return cat(argc, argv);
  if (strcmp(name, "stand-in") != 0) return 0;
  signal(SIGTERM, end);
  signal(SIGINT, end);
  signal(SIGPIPE, SIG_IGN);
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "exit") == 0) return 0;
    if (strncmp(argv[i], "tcp:", 4) == 0) listen_at(atoi(argv[i] + 4), 0);
    if (strncmp(argv[i], "udp:", 4) == 0) listen_at(atoi(argv[i] + 4), 1);
  }
  for (;;) {
    if (poll(polled, count, -1) < 0) continue;
    for (nfds_t i = count; i-- > 0;) {
      if (polled[i].revents == 0) continue;
      if (state[i].isListener) add(accept(polled[i].fd, NULL, NULL), 0, 0);
      else if (state[i].isDatagram) { if (read(polled[i].fd, state[i].data, ROOM) < 0) continue; }
      else if (!answer(i)) drop(i);
    }
  }
}
