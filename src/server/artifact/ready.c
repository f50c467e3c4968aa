/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A content that can be sent at once, with its replies; shared by all requests that send it.
 */
#include "server/artifact/artifact.h"

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
	 * Its replies are not shared: when a file cannot be read, libmicrohttpd (0.9.75) cuts the reply, and not only the
	 * connection (response->total_size), so that others would get 200 with too few bytes.
	 */
	r->fd = fd;
	r->fd_off = off;
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
	http_reply_unref(r->unmodified);
	if (r->fd >= 0)
		close(r->fd);
	content_done(&r->content);
	free(r);
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
