/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress on a terminal: one line on stderr that is written over.
 */
#include <sys/ioctl.h>
#include <unistd.h>
#include "cmd/internal.h"

#define BAR 20

static size_t terminal_columns(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 10 ? w.ws_col : 80;
}

void progress_add_bar(struct buf *line, double part)
{
	int filled = (int)((double)BAR * MIN(part, 1.0));

	buf_printf(line, "[%.*s%*s]", filled, "####################", BAR - filled, "");
}

void progress_add_left(struct buf *line, double seconds)
{
	if (seconds < 100)
		buf_printf(line, ", %.0f s left", seconds);
	else if (seconds < 6000)
		buf_printf(line, ", %.0f min left", seconds / 60);
	else
		buf_printf(line, ", %.1f h left", seconds / 3600);
}

void progress_show(const struct buf *line)
{
	fprintf(stderr, "\r\033[K%.*s", (int)MIN(line->size, terminal_columns() - 1), (const char *)line->p);
	fflush(stderr);
}

void progress_clear(void)
{
	fprintf(stderr, "\r\033[K");
	fflush(stderr);
}
