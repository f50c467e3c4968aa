/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a scan is: one line on stderr, written over, with what is done, how fast, and how long it will
 * still take.
 */
#include <sys/ioctl.h>
#include <unistd.h>
#include "cmd/internal.h"

#define BAR 20

static size_t columns(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 10 ? w.ws_col : 80;
}

static void add_time(struct buf *b, double s)
{
	if (s < 100)
		buf_printf(b, "%.0f s", s);
	else if (s < 6000)
		buf_printf(b, "%.0f min", s / 60);
	else
		buf_printf(b, "%.1f h", s / 3600);
}

void progress_show(const struct scan_progress *p)
{
	double elapsed_s = (double)(clock_mono_ms() - p->started_mono_ms) / 1000.0;
	uint64_t done = MIN(p->bytes_done, p->bytes_total);
	double rate = elapsed_s > 0.5 ? (double)done / elapsed_s : 0;
	int filled = p->bytes_total ? (int)((double)BAR * (double)done / (double)p->bytes_total) : 0;
	AUTO(buf_done) struct buf b = { 0 };
	char a[32], c[32];

	if (p->n_packages)
		buf_printf(&b, "[%.*s%*s] %llu of %llu packages, %s of %s", filled, "####################",
			   BAR - filled, "", (unsigned long long)p->n_packages_deep,
			   (unsigned long long)p->n_packages, size_text(done, a),
			   size_text(p->bytes_total, c));
	else
		buf_printf(&b, "%llu of %llu files", (unsigned long long)p->n_files_done,
			   (unsigned long long)p->n_seen);
	if (p->walking)
		buf_printf(&b, ", walking");
	if (rate > 0 && p->n_packages)
		buf_printf(&b, ", %s/s", size_text((uint64_t)rate, a));
	if (rate > 0 && !p->walking && p->bytes_total > done) {
		buf_printf(&b, ", ");
		add_time(&b, (double)(p->bytes_total - done) / rate);
		buf_printf(&b, " left");
	}
	if (p->n_failed)
		buf_printf(&b, ", %llu failed", (unsigned long long)p->n_failed);
	fprintf(stderr, "\r\033[K%.*s", (int)MIN(b.size, columns() - 1), (const char *)b.p);
	fflush(stderr);
}

void progress_clear(void)
{
	fprintf(stderr, "\r\033[K");
	fflush(stderr);
}
