/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to the index. One thread at a time uses a connection; there are as many as threads have used
 * the index at the same time.
 */
#include "resolve/internal.h"

#include <stdlib.h>

static int conn_open(const char *path, struct conn **ret, struct err *err)
{
	struct conn *conn = NEW(struct conn);
	struct index_options opts = { .read_only = true };

	if (index_open(path, &opts, &conn->ix, err) < 0) {
		free(conn);
		return -1;
	}
	*ret = conn;
	return 0;
}

int conns_init(struct conns *c, const char *path, struct err *err)
{
	c->path = mem_strdup(path);
	c->free = NULL;
	pthread_mutex_init(&c->lock, NULL);
	return conn_open(path, &c->free, err);
}

void conns_done(struct conns *c)
{
	while (c->free) {
		struct conn *conn = c->free;

		c->free = conn->next;
		index_close(conn->ix);
		free(conn);
	}
	pthread_mutex_destroy(&c->lock);
	free(c->path);
}

int conn_take(struct conns *c, struct conn **ret, struct err *err)
{
	struct conn *conn;

	pthread_mutex_lock(&c->lock);
	conn = c->free;
	if (conn)
		c->free = conn->next;
	pthread_mutex_unlock(&c->lock);
	if (!conn && conn_open(c->path, &conn, err) < 0)
		return -1;
	*ret = conn;
	return 0;
}

void conn_give(struct conns *c, struct conn *conn)
{
	pthread_mutex_lock(&c->lock);
	conn->next = c->free;
	c->free = conn;
	pthread_mutex_unlock(&c->lock);
}
