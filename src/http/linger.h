/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that were answered before their body was read.
 *
 * A socket that is closed with unread bytes resets the connection, and the client may lose the reply that it has not
 * read yet. So a duplicate of the socket stays open for a moment; what still arrives is read and ignored.
 */
#pragma once

#include "base/base.h"

#define LINGER_MAX     128u
#define LINGER_MS      2000
#define LINGER_LOOK_MS 20

/* Zeroed: none. It belongs to one thread, or to those that have a lock. */
struct lingering {
	struct lingerer {
		int fd; /* owned */
		int64_t until_ms;
		uint64_t n; /* bytes that were ignored */
	} v[LINGER_MAX];
	unsigned n;
};

/* Keep a duplicate of @fd, and end the reply. If LINGER_MAX sockets are kept already, @fd is closed as usual. */
void linger_add(struct lingering *l, int fd, int64_t now_ms);
/* Move the sockets of @from to @to, as far as there is room. */
void linger_move(struct lingering *from, struct lingering *to);
/*
 * Read the bytes that have arrived. Closes sockets whose client has hung up or sent too much, and those that were kept for
 * LINGER_MS.
 */
void linger_drain(struct lingering *l, int64_t now_ms);
/* Close all. */
void linger_done(struct lingering *l);
