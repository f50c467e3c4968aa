/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of an agent, for a Prometheus on the same machine. Not the server's transport: that would bring its threads
 * and memory for one page. One request is answered at a time, by the agent's thread, and a client that does not send its
 * request at once or does not read the answer is dropped.
 */
#include "cmd/agent/agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTEN_BACKLOG 4
#define AT_ONCE        4  /* requests answered in one turn */
#define PATIENCE_MS    50 /* for the request, and for the answer */

struct agent_listener {
	int fd;
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
	return 0;
}

static void answer_metrics(int fd)
{
	AUTO(buf_done) struct buf body = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	struct timeval patience = { .tv_usec = PATIENCE_MS * 1000 };
	struct err ignored = { 0 };
	char text[2048];
	bool found;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	n = recv(fd, text, sizeof(text), 0);
	if (n <= 0)
		return;
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
}

void agent_listener_poll(struct agent_listener *l)
{
	for (unsigned i = 0; l && i < AT_ONCE; i++) {
		AUTO(fd_close) int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return;
		answer_metrics(fd);
	}
}

void agent_listener_close(struct agent_listener *l)
{
	if (!l)
		return;
	fd_close(&l->fd);
	free(l);
}
