/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of standard input as they come: the program that writes them may wait for each answer. But answers in
 * batches cost a third of single ones, so each batch is as large as the available input.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include "cmd/symbolize/symbolize.h"

#define INPUT_SIZE MIB(4) /* of a batch; a longer line is read as several lines */

/* A program that has written this much at once does not wait for an answer: more input follows, or the
 * end. */
#define MUCH       KIB(16)
#define MORE_IN_MS 2

static int read_stdin(char *p, size_t room, size_t *ret_got, struct err *err)
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

/* Read the available input. *ret_end: it has ended. */
static int read_batch(char *p, size_t room, size_t *ret_got, bool *ret_end, struct err *err)
{
	struct pollfd more = { .fd = STDIN_FILENO, .events = POLLIN };
	size_t have = 0, got;

	do {
		if (read_stdin(p + have, room - have, &got, err) < 0)
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

		if (read_batch(lines + have, INPUT_SIZE - have, &got, &end, err) < 0)
			return -1;
		have += got;
		left = (struct str){ lines, have };
		/* Whole lines; and a line without its newline at the end of the input, or if it is too
		 * long. */
		while (left.size && (memchr(left.p, '\n', left.size) || end || left.size == INPUT_SIZE))
			line(arg, str_cut(&left, '\n'));
		if (pause(arg, err) < 0)
			return -1;
		memmove(lines, left.p ? left.p : lines, left.size);
		have = left.size;
	}
	return 0;
}
