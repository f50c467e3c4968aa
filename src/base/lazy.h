/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that are loaded when they are first needed.
 *
 * One that brings thirty others with it costs every start of the program milliseconds, also those that answer
 * out of a cache and are through in less. So the functions of it that are used are listed in a header beside
 * their one user, X(name) for each, make a table, struct { LIST(LAZY_FIELD) }, and each name comes to mean
 * the table's: #define name table.name
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

#define LAZY_FIELD(name) __typeof__(name) *name;
#define LAZY_NAME(name)  #name,

/* One library; static, and its own. */
struct lazy {
	pthread_mutex_t lock;
	bool tried; /* under the lock, as err */
	struct err err;
};
#define LAZY_INIT                                 \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}

/*
 * Load @soname and fill @table, of @n pointers, with the functions of @names; the second time, by whatever
 * thread, it says only what came of the first. Failure tells which Debian package has it. The library stays
 * for good.
 */
int lazy_load(struct lazy *l, const char *soname, const char *package, const char *const *names, void *table,
	      size_t n, struct err *err);
/* lazy_load() was called, and it is there. */
bool lazy_is_loaded(struct lazy *l);
