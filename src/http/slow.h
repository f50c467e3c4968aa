/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that are slow to ask. A byte now and then is no silence, so a time-out for silence does not end
 * a request that never comes to its end, and a few thousand of them take all connections.
 */
#pragma once

#include "base/base.h"

struct slow;
struct slow_conn;

/* Whoever has not asked, whole, in @max_ms since he came or had his last reply is shut down. */
int slow_new(int64_t max_ms, struct slow **ret, struct err *err);
void slow_free(struct slow *s); /* behind the last slow_del(); takes NULL */
/* @fd stays the caller's, and open until slow_del(). */
struct slow_conn *slow_add(struct slow *s, int fd);
void slow_del(struct slow *s, struct slow_conn *c); /* takes NULL */
/* From any thread, without a lock: it has asked, and is being answered; it has had its answer. */
void slow_asked(struct slow_conn *c);
/*
 * A piece of a body has come, more will. From now until slow_asked(), whoever hangs up is shut down:
 * libmicrohttpd (0.9.75) misses the hang-up of a connection that was suspended when it came, and would wait
 * for silence to become too long.
 */
void slow_fed(struct slow *s, struct slow_conn *c);
void slow_answered(struct slow_conn *c);
