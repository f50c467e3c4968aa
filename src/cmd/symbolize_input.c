/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of standard input as they come: whoever writes them may wait for each answer.
 */
#include <errno.h>
#include <unistd.h>
#include "cmd/symbolize.h"

#define INPUT_SIZE MIB(1) /* at once; a longer line is taken for several */

static int read_some(char *p, size_t room, size_t *ret_got, struct err *err)
{
	ssize_t n;

	do
		n = read(STDIN_FILENO, p, room);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_os(err, errno, "standard input");
	*ret_got = (size_t)n;
	return 0;
}

int symbolize_input(void (*line)(void *arg, struct str line), int (*pause)(void *arg, struct err *err),
		    void *arg, struct err *err)
{
	AUTO(mem_freep) char *lines = mem_alloc(INPUT_SIZE);
	size_t have = 0;

	for (;;) {
		struct str left;
		size_t got;

		if (read_some(lines + have, INPUT_SIZE - have, &got, err) < 0)
			return -1;
		have += got;
		left = (struct str){ lines, have };
		/* Whole lines; what is left at the end, and a line without end, too. */
		while (left.size && (memchr(left.p, '\n', left.size) || !got || left.size == INPUT_SIZE))
			line(arg, str_cut(&left, '\n'));
		if (pause(arg, err) < 0)
			return -1;
		if (!got)
			return 0;
		memmove(lines, left.p ? left.p : lines, left.size);
		have = left.size;
	}
}
