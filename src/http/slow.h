/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that send their request too slowly. A time-out for idle connections does not end a request
 * that sends one byte now and then, and a few thousand of these would use all connections.
 */
#pragma once

#include "base/base.h"

struct slow;
struct slow_conn;

/* A connection is shut down if no whole request arrives within @max_ms of its start or of its last reply. */
int slow_new(int64_t max_ms, struct slow **ret, struct err *err);
void slow_free(struct slow *s); /* after the last slow_del(); takes NULL */
/* @fd stays the caller's, and open until slow_del(). */
struct slow_conn *slow_add(struct slow *s, int fd);
void slow_del(struct slow *s, struct slow_conn *c); /* takes NULL */
/* From any thread, without a lock: a whole request has arrived and is being answered; the answer is sent. */
void slow_asked(struct slow_conn *c);
/*
 * A chunk of a body has arrived, and more is expected. Until slow_asked(), a connection whose client hangs
 * up is shut down: libmicrohttpd (0.9.75) does not notice a hang-up while the connection is suspended, and
 * would wait for the idle time-out.
 */
void slow_fed(struct slow *s, struct slow_conn *c);
void slow_answered(struct slow_conn *c);
