/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of standard input as they come: whoever writes them may wait for each answer. But many answers
 * together cost a third of what they cost one by one, so of what comes at once as much as possible is taken.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include "cmd/symbolize/symbolize.h"

#define INPUT_SIZE MIB(4) /* at once; a longer line is taken for several */

/* Who has written as much as this does not wait for an answer: there is more to come, or the end. */
#define MUCH       KIB(16)
#define MORE_IN_MS 2

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

/* As much as there is: *ret_end when there is no more. */
static int read_much(char *p, size_t room, size_t *ret_got, bool *ret_end, struct err *err)
{
	struct pollfd more = { .fd = STDIN_FILENO, .events = POLLIN };
	size_t have = 0, got;

	do {
		if (read_some(p + have, room - have, &got, err) < 0)
			return -1;
		have += got;
	} while (got && have < room && poll(&more, 1, have < MUCH ? 0 : MORE_IN_MS) > 0);
	*ret_got = have;
	*ret_end = !got;
	return 0;
}

int symbolize_input(void (*line)(void *arg, struct str line), int (*pause)(void *arg, struct err *err),
		    void *arg, struct err *err)
{
	AUTO(mem_freep) char *lines = mem_alloc(INPUT_SIZE);
	size_t have = 0;
	bool end = false;

	while (!end) {
		struct str left;
		size_t got;

		if (read_much(lines + have, INPUT_SIZE - have, &got, &end, err) < 0)
			return -1;
		have += got;
		left = (struct str){ lines, have };
		/* Whole lines; what is left at the end, and a line without end, too. */
		while (left.size && (memchr(left.p, '\n', left.size) || end || left.size == INPUT_SIZE))
			line(arg, str_cut(&left, '\n'));
		if (pause(arg, err) < 0)
			return -1;
		memmove(lines, left.p ? left.p : lines, left.size);
		have = left.size;
	}
	return 0;
}
