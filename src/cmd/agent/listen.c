/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of an agent, for a Prometheus on the same machine. Not the server's transport: that would bring its threads
 * and memory for one page. Requests are answered by the agent's thread, which must not wait: a client that has not sent its
 * request is asked again in the next turn, until newer ones need its place, and the whole answer fits into the
 * socket's buffer.
 */
#include "cmd/agent/agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTEN_BACKLOG 64
#define AT_ONCE        64 /* connections taken in one turn */
#define MAX_SILENT     8  /* connections whose request has not come */
#define MAX_ANSWER     KIB(256)

struct agent_listener {
	int fd;
	int silent[MAX_SILENT]; /* -1: none */
	unsigned next;          /* the oldest one, to be replaced next */
};

int agent_listener_open(const char *port, struct agent_listener **ret, struct err *err)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	AUTO(fd_close) int fd = -1;
	uint64_t number;
	int on = 1;

	if (!str_to_u64(str_of(port), &number) || !number || number > UINT16_MAX)
		return err_set(err, ERR_INVALID, "--listen '%s': not a port; the address is always 127.0.0.1",
			       port);
	a.sin_port = htons((uint16_t)number);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return err_os(err, errno, "--listen %s", port);
	*ret = NEW(struct agent_listener);
	(*ret)->fd = TAKE_FD(fd);
	for (unsigned i = 0; i < MAX_SILENT; i++)
		(*ret)->silent[i] = -1;
	return 0;
}

/* False: its request has not come yet. */
static bool answer_metrics(int fd)
{
	AUTO(buf_done) struct buf body = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	int room = MAX_ANSWER;
	struct err ignored = { 0 };
	char text[2048];
	bool found;
	ssize_t n = recv(fd, text, sizeof(text), 0);

	if (n <= 0)
		return n == 0 || errno != EAGAIN;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	found = str_starts((struct str){ text, (size_t)n }, STR("GET /metrics "));
	if (found)
		metrics_write(&body);
	else
		buf_add_str(&body, STR("only GET /metrics is here\n"));
	buf_printf(&out,
		   "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n"
		   "Connection: close\r\n\r\n",
		   found ? "200 OK" : "404 Not Found", body.size);
	buf_add_str(&out, buf_str(&body));
	(void)fd_write(fd, out.p, out.size, &ignored);
	return true;
}

static void ask_silent(struct agent_listener *l)
{
	for (unsigned i = 0; i < MAX_SILENT; i++)
		if (l->silent[i] >= 0 && answer_metrics(l->silent[i]))
			fd_close(&l->silent[i]);
}

void agent_listener_poll(struct agent_listener *l)
{
	if (!l)
		return;
	ask_silent(l);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		AUTO(fd_close) int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (answer_metrics(fd))
			continue;
		fd_close(&l->silent[l->next]);
		l->silent[l->next] = TAKE_FD(fd);
		l->next = (l->next + 1) % MAX_SILENT;
	}
}

void agent_listener_close(struct agent_listener *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < MAX_SILENT; i++)
		fd_close(&l->silent[i]);
	fd_close(&l->fd);
	free(l);
}
