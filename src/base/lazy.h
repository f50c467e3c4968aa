/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that are loaded when they are first needed.
 *
 * One that brings thirty others with it costs every start of the program milliseconds, also those that answer
 *out of a cache and are through in less. So the file that calls it lists the functions that it uses, LAZY(X)
 *with X(name) for each, makes a table of them, static struct { LIST(LAZY_FIELD) } table; and has each name
 *mean the table's: #define name table.name
 */
#pragma once

#include <stddef.h>
#include "base/err.h"

#define LAZY_FIELD(name) __typeof__(name) *name;
#define LAZY_NAME(name)  #name,

/*
 * Load @soname and fill @table, of @n pointers, with the functions of @names. Failure says which Debian
 * package has it. The library stays for good. Call it once, by pthread_once() where there are threads.
 */
int lazy_load(const char *soname, const char *package, const char *const *names, void *table, size_t n,
	      struct err *err);
