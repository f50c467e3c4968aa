/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a scan, a search is: one line on stderr, written over, with what is done, how fast, and how long it
 * will still take.
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

static void put(const struct buf *b)
{
	fprintf(stderr, "\r\033[K%.*s", (int)MIN(b->size, columns() - 1), (const char *)b->p);
	fflush(stderr);
}

static void add_bar(struct buf *b, double part)
{
	int filled = (int)((double)BAR * MIN(part, 1.0));

	buf_printf(b, "[%.*s%*s]", filled, "####################", BAR - filled, "");
}

/*
 * How long a search still takes: by the bytes where all sizes are known, else by the number of files, as far
 * as some are done.
 */
static double left_s(const struct client_progress *p, double elapsed_s)
{
	if (!p->n_unsized && p->bytes)
		return p->bytes_expected > p->bytes
			       ? elapsed_s * (double)(p->bytes_expected - p->bytes) / (double)p->bytes
			       : -1;
	return p->n_done ? elapsed_s * (double)(p->n - p->n_done) / (double)p->n_done : -1;
}

void progress_show_find(const struct client_progress *p, int64_t started_mono_ms)
{
	double elapsed_s = (double)MAX(clock_mono_ms() - started_mono_ms, (int64_t)1) / 1000.0;
	double left = left_s(p, elapsed_s);
	bool by_bytes = !p->n_unsized && p->bytes_expected;
	AUTO(buf_done) struct buf b = { 0 };
	char a[32], c[32];

	add_bar(&b, by_bytes ? (double)p->bytes / (double)p->bytes_expected
			     : (double)p->n_done / (double)MAX(p->n, (size_t)1));
	buf_printf(&b, " %zu of %zu, %s", p->n_done, p->n, size_text(p->bytes, a));
	if (p->bytes_expected > p->bytes)
		buf_printf(&b, " of %s%s", p->n_unsized ? "at least " : "", size_text(p->bytes_expected, c));
	if (p->bytes)
		buf_printf(&b, ", %s/s", size_text((uint64_t)((double)p->bytes / elapsed_s), a));
	if (left >= 0) {
		buf_printf(&b, ", ");
		add_time(&b, left);
		buf_printf(&b, " left");
	}
	if (p->n_done > p->n_found)
		buf_printf(&b, ", %zu not found", p->n_done - p->n_found);
	put(&b);
}

void progress_show(const struct scan_progress *p)
{
	double elapsed_s = (double)(clock_mono_ms() - p->started_mono_ms) / 1000.0;
	uint64_t done = MIN(p->bytes_done, p->bytes_total);
	double rate = elapsed_s > 0.5 ? (double)done / elapsed_s : 0;
	AUTO(buf_done) struct buf b = { 0 };
	char a[32], c[32];

	if (p->n_packages) {
		add_bar(&b, p->bytes_total ? (double)done / (double)p->bytes_total : 0);
		buf_printf(&b, " %llu of %llu packages, %s of %s", (unsigned long long)p->n_packages_deep,
			   (unsigned long long)p->n_packages, size_text(done, a),
			   size_text(p->bytes_total, c));
	} else
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
	put(&b);
}

void progress_clear(void)
{
	fprintf(stderr, "\r\033[K");
	fflush(stderr);
}
