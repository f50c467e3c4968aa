/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that use up time or room: clients that send or read too slowly, and too many of them.
 *
 * A time-out for idle connections does not end a request, a body or a reply of which one byte moves now and then; a
 * few thousand of these would use all connections. So each has time to spare, which it uses up while the server waits
 * for its client, and gets back by the bytes that move. The time in which the client waits for the server is not
 * counted.
 */
#pragma once

#include <stdatomic.h>
#include <sys/socket.h>
#include "base/base.h"

struct slow;
struct slow_address;

struct slow_options {
	int64_t head_ms; /* a whole request must arrive within this time of the connection's start or last reply */
	int64_t idle_ms;     /* the most time that a client can have to spare */
	uint64_t rate;       /* bytes a second that bodies and replies have to average; 0: any */
	int64_t body_ms;     /* for a body, and a second for each SLOW_BODY_RATE bytes of it; 0: no limit */
	unsigned max;        /* connections */
	unsigned max_remote; /* connections of one address of another machine; 0: no limit */
	unsigned max_local;  /* the same of a loopback address */
};

/* A connection may be idle for the idle time-out; then the whole request must arrive within as long again. */
#define SLOW_FACTOR    2
#define SLOW_BODY_RATE KIB(16)
#define SLOW_DROP_MS   2000 /* for a body that is dropped */

/* A connection. Its HTTP thread's; atomic fields are read by the thread of slow.c. */
struct slow_conn {
	int fd;
	_Atomic int64_t since_ms;  /* start of the time that counts for a head; INT64_MAX: it is answered */
	_Atomic int64_t fed_ms;    /* time of the last chunk of its body; 0: no body */
	_Atomic int64_t waited_ms; /* for the client, before fed_ms */
	_Atomic uint64_t fed;      /* bytes of the body */
	_Atomic int64_t limit_ms;  /* of waiting for the whole body; INT64_MAX: none */
	atomic_uint n_bodies;
	atomic_bool paused; /* the server has not taken all of the last chunk: the client waits for it */
	/* under slow.c's lock */
	struct slow_conn *prev, *next;           /* of all */
	struct slow_conn *near_prev, *near_next; /* of the same address */
	struct slow_address *address;            /* NULL: not counted */
	bool closing;                            /* was shut down */
	unsigned seen_bodies;
	uint64_t seen_bytes;
	int64_t seen_ms, spare_ms;
	bool replies; /* a reply was unread at the last look */
};

int slow_new(const struct slow_options *opts, struct slow **ret, struct err *err);
void slow_free(struct slow *s); /* after the last slow_del(); takes NULL */
/*
 * The connections that a listening socket may have where @max are admitted: some are still closing. Until they are
 * closed, libmicrohttpd leaves newcomers in the kernel's queue. Of several sockets, at most twice as many are admitted.
 */
unsigned slow_room(unsigned max);
/*
 * May a client of this address connect? If there are too many connections, of all addresses or of this one, the one
 * that has waited longest for a request is shut down, else the one with the least time to spare. false: all are in
 * use.
 */
bool slow_admit(struct slow *s, const struct sockaddr *peer);
/* Takes the zeroed @c. @fd stays the caller's, and open until slow_del(). */
void slow_add(struct slow *s, struct slow_conn *c, int fd, const struct sockaddr *peer);
void slow_del(struct slow *s, struct slow_conn *c);
/* Before slow_del(), of a connection that was answered before its body was read: its socket lingers (http/linger.h). */
void slow_linger(struct slow *s, const struct slow_conn *c);
/* From any thread, without a lock: a whole request has arrived and is being answered; the answer is sent. */
void slow_asked(struct slow_conn *c);
void slow_answered(struct slow_conn *c);
/* A body of @size bytes (UINT64_MAX: not known) begins; @drop: it is not wanted, and has SLOW_DROP_MS. */
void slow_body(struct slow *s, struct slow_conn *c, uint64_t size, bool drop);
/*
 * @n bytes of the body have arrived, of which @all were taken, and more is expected. Until slow_asked(), a connection
 * whose client hangs up is shut down: libmicrohttpd (0.9.75) does not notice a hang-up while the connection is
 * suspended, and would wait for the idle time-out.
 */
void slow_fed(struct slow *s, struct slow_conn *c, size_t n, bool all);
