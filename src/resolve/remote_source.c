/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes fetched so far, as a source. A reader calls remote_arrived() first; a read never waits.
 */
#include "resolve/internal.h"

#include <stdlib.h>

struct remote_source {
	struct source base;
	struct remote *m; /* referenced */
};

static struct remote *remote_of(struct source *s)
{
	return CONTAINER_OF(s, struct remote_source, base)->m;
}

static int remote_source_read(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
			      size_t *ret_got, struct err *err)
{
	struct remote *m = remote_of(s);
	uint64_t have;

	pthread_mutex_lock(&m->lock);
	have = remote_visible(m);
	pthread_mutex_unlock(&m->lock);
	if (off >= have)
		return err_set(err, ERR_INTERNAL, "%s: read at %llu, %llu bytes have come", s->name,
			       (unsigned long long)off, (unsigned long long)have);
	return fd_pread(m->fd, buf, (size_t)MIN((uint64_t)n, have - off), off, ret_got, err);
}

static void remote_source_close(struct source *s)
{
	struct remote *m = remote_of(s);

	remote_left(m);
	remote_unref(m);
	source_fini(s);
	free(CONTAINER_OF(s, struct remote_source, base));
}

static bool remote_source_raw_fd(struct source *s, int *ret_fd, uint64_t *ret_off)
{
	*ret_fd = remote_of(s)->fd;
	*ret_off = 0;
	return true;
}

static const struct source_ops ops = { remote_source_read, remote_source_close, remote_source_raw_fd, NULL };

struct source *remote_source_new(struct remote *m)
{
	struct remote_source *s = NEW(struct remote_source);
	AUTO(mem_freep) char *name = mem_printf(STR_FMT, STR_ARG(m->url));

	source_init(&s->base, &ops, m->size, m->mtime, name);
	s->m = remote_ref(m);
	m->n_followers++;
	return &s->base;
}

int remote_arrived(struct source *s, uint64_t off, void (*wake)(void *arg), void *arg, uint64_t *ret_have,
		   struct err *err)
{
	struct remote *m = remote_of(s);
	int r = 0;

	pthread_mutex_lock(&m->lock);
	if (m->state == REMOTE_OVER) {
		*err = m->err;
		r = -1;
	} else if (off < remote_visible(m) || m->state == REMOTE_WHOLE) {
		*ret_have = remote_visible(m);
	} else {
		remote_await(m, off, (struct resolve_wake){ wake, arg });
		r = RESOLVE_WAIT;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}
