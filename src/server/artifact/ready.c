/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A content that can be sent at once, with its replies; shared by all requests that send it.
 */
#include "server/artifact/artifact.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void content_done(struct content *c)
{
	free(c->file);
	free(c->archive);
	c->file = c->archive = NULL;
}

static struct ready *ready_new(struct server *s, struct content *content)
{
	struct ready *r = NEW(struct ready);
	struct verdict unmodified = { 304, 0, 0 };

	atomic_init(&r->refs, 1);
	r->content = *content;
	content->file = content->archive = NULL;
	r->fd = -1;
	r->unmodified = reply_of_verdict(s, &unmodified, &r->content);
	return r;
}

struct ready *ready_of_mem(struct server *s, struct content *content, void *mem)
{
	struct ready *r = ready_new(s, content);

	r->mem = mem;
	r->whole = http_reply_mem(mem, (size_t)r->content.size, free, mem);
	reply_content_headers(s, r->whole, &r->content);
	return r;
}

struct ready *ready_of_fd(struct server *s, struct content *content, int fd, uint64_t off,
			  const struct stat *plain)
{
	struct ready *r = ready_new(s, content);

	/*
	 * No two requests share a reply of it: when a file cannot be read, libmicrohttpd (0.9.75) cuts the reply, and not only
	 * the connection (response->total_size), so that others would get 200 with too few bytes.
	 */
	r->fd = fd;
	r->fd_off = off;
	r->bare = http_reply_bare(r->content.size);
	reply_content_headers(s, r->bare, &r->content);
	if (plain)
		r->plain = *plain;
	return r;
}

struct ready *ready_ref(struct ready *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

void ready_unref(void *arg)
{
	struct ready *r = arg;

	if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
		return;
	http_reply_unref(r->whole);
	http_reply_unref(r->bare);
	for (size_t i = 0; i < READY_SPARES; i++)
		http_reply_unref(atomic_load(&r->spare[i]));
	http_reply_unref(r->unmodified);
	if (r->fd >= 0)
		close(r->fd);
	content_done(&r->content);
	free(r);
}

struct http_reply *ready_part(const struct server *s, struct ready *r, uint64_t off, uint64_t size)
{
	struct http_reply *part;
	int fd = -1;

	/* Clients that do not read hold no memory of their own. */
	if (r->mem) {
		part = http_reply_mem(r->mem + off, (size_t)size, ready_unref, ready_ref(r));
	} else {
		fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return NULL;
		part = http_reply_fd(fd, r->fd_off + off, size);
	}
	reply_content_headers(s, part, &r->content);
	return part;
}

struct http_reply *ready_lend(const struct server *s, struct ready *r)
{
	for (size_t i = 0; i < READY_SPARES; i++) {
		struct http_reply *spare = atomic_exchange(&r->spare[i], NULL);

		if (spare)
			return spare;
	}
	return ready_part(s, r, 0, r->content.size);
}

void ready_give_back(void *arg, struct http_reply *reply, bool whole)
{
	struct ready *r = arg;

	for (size_t i = 0; whole && i < READY_SPARES; i++) {
		struct http_reply *none = NULL;

		if (atomic_compare_exchange_strong(&r->spare[i], &none, reply)) {
			reply = NULL;
			break;
		}
	}
	http_reply_unref(reply);
	ready_unref(r);
}

bool ready_still_good(const struct ready *r)
{
	struct stat now;

	if (!r->plain.st_nlink || r->fd < 0)
		return true;
	return fstat(r->fd, &now) == 0 && now.st_size == r->plain.st_size &&
	       now.st_mtim.tv_sec == r->plain.st_mtim.tv_sec &&
	       now.st_mtim.tv_nsec == r->plain.st_mtim.tv_nsec;
}
