/* SPDX-License-Identifier: Apache-2.0 */
#include "http/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define IGNORED_MAX MIB(16) /* bytes of a body: most profiles are smaller */

void linger_add(struct lingering *l, int fd, int64_t now_ms)
{
	int copy;

	if (l->n == LINGER_MAX)
		return;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return;
	/* The client sees the end of the reply at once. */
	shutdown(copy, SHUT_WR);
	l->v[l->n++] = (struct lingerer){ copy, now_ms + LINGER_MS, 0 };
}

void linger_move(struct lingering *from, struct lingering *to)
{
	while (from->n && to->n < LINGER_MAX)
		to->v[to->n++] = from->v[--from->n];
}

/* false: there is nothing more to wait for. */
static bool linger_read(struct lingerer *x)
{
	char ignored[KIB(64)];
	ssize_t n;

	while ((n = recv(x->fd, ignored, sizeof(ignored), MSG_DONTWAIT)) > 0) {
		x->n += (uint64_t)n;
		if (x->n > IGNORED_MAX)
			return false;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

void linger_drain(struct lingering *l, int64_t now_ms)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < l->n; i++) {
		if (now_ms < l->v[i].until_ms && linger_read(&l->v[i]))
			l->v[kept++] = l->v[i];
		else
			close(l->v[i].fd);
	}
	l->n = kept;
}

void linger_done(struct lingering *l)
{
	linger_drain(l, INT64_MAX);
}
