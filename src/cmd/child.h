/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other programs, run for what they print.
 */
#pragma once

#include "cmd/internal.h"

/* Beside FILE_MISSING: it is more than is taken, or than there is memory for. */
enum { CHILD_TOO_MUCH = 2 };

struct child {
	const char *const *argv; /* the program is looked for in $PATH; its stdin is empty */
	size_t max;              /* of what it prints */
	int64_t patience_ms;     /* 0: it may take as long as it takes */
	int said;                /* gets its stderr; -1: nobody wants it */
};

/*
 * 0: it has ended, *ret_status as waitpid() has it, and what it printed is appended to @ret. FILE_MISSING:
 * there is no such program. CHILD_TOO_MUCH, and failures: it is killed if it runs.
 */
int child_run(const struct child *c, struct buf *ret, int *ret_status, struct err *err);

/* Append all that comes up to the end of @fd, a pipe or a terminal; max and patience as above. */
int child_read(int fd, size_t max, int64_t patience_ms, struct buf *ret, struct err *err);
