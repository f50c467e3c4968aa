/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running other programs for their output.
 */
#pragma once

#include "cmd/internal.h"

/* Beside FILE_MISSING: the output is larger than the limit. */
enum { CHILD_TOO_MUCH = 2 };

struct child {
	const char *const *argv; /* the program is looked for in $PATH; its stdin is empty */
	size_t max;              /* of the output */
	int64_t patience_ms;     /* how long it may run; 0: no limit */
	int said;                /* receives its stderr; -1: thrown away */
};

/*
 * Run the program and append its output to @ret. 0: it has ended, *ret_status is that of waitpid().
 * FILE_MISSING: there is no such program. After CHILD_TOO_MUCH and failures it is killed.
 */
int child_run(const struct child *c, struct buf *ret, int *ret_status, struct err *err);

/* Append the content of @fd, a pipe or a terminal, up to its end; max and patience as above. */
int child_read(int fd, size_t max, int64_t patience_ms, struct buf *ret, struct err *err);
