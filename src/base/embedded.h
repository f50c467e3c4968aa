/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are part of the program: pages, scripts, styles. src/embed.py makes a table of them.
 */
#pragma once

#include <stdlib.h>
#include "base/view.h"

struct embedded {
	const char *name; /* path from the folder; NULL: the end of the table */
	struct bytes data;
};

/* @name must be in the table. */
static inline struct bytes embedded_get(const struct embedded *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table->data;
	abort();
}
