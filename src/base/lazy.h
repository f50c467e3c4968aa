/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that are loaded when they are first needed.
 *
 * A library that brings thirty others costs every start of the program milliseconds, also a start that
 * answers out of a cache. So the one file that calls it lists its functions in a header beside it, X(name)
 * for each; they make a table, struct { LIST(LAZY_FIELD) }, and each name is redefined as the table's:
 * #define name table.name
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

#define LAZY_FIELD(name) __typeof__(name) *name;
#define LAZY_NAME(name)  #name,

/* One library; static, and never shared between libraries. */
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
 * Load @soname and fill @table, of @n pointers, with the functions of @names. Later calls, from any thread,
 * return the result of the first. The error names the Debian package. The library is never unloaded.
 */
int lazy_load(struct lazy *l, const char *soname, const char *package, const char *const *names, void *table,
	      size_t n, struct err *err);
/* lazy_load() was called and succeeded. */
bool lazy_is_loaded(struct lazy *l);
