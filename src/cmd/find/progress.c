/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of `lode find` on servers as one line.
 */
#include "cmd/find/find.h"

/* Seconds that the search still takes: by bytes if all sizes are known, else by files; -1: not known yet. */
static double search_left_s(const struct client_progress *p, double elapsed_s)
{
	if (!p->n_unsized && p->bytes)
		return p->bytes_expected > p->bytes
			       ? elapsed_s * (double)(p->bytes_expected - p->bytes) / (double)p->bytes
			       : -1;
	return p->n_done ? elapsed_s * (double)(p->n - p->n_done) / (double)p->n_done : -1;
}

void find_show_progress(const struct client_progress *p, int64_t started_mono_ms)
{
	double elapsed_s = (double)MAX(clock_mono_ms() - started_mono_ms, (int64_t)1) / 1000.0;
	double left = search_left_s(p, elapsed_s);
	bool by_bytes = !p->n_unsized && p->bytes_expected;
	AUTO(buf_done) struct buf b = { 0 };
	char a[32], c[32];

	if (p->reading && !p->bytes) {
		buf_printf(&b, "%zu of %zu, ", p->n_done, p->n);
		progress_add_waiting(&b, p);
		progress_show(&b);
		return;
	}
	progress_add_bar(&b, by_bytes ? (double)p->bytes / (double)p->bytes_expected
				      : (double)p->n_done / (double)MAX(p->n, (size_t)1));
	buf_printf(&b, " %zu of %zu, %s", p->n_done, p->n, size_text(p->bytes, a));
	if (p->bytes_expected > p->bytes)
		buf_printf(&b, " of %s%s", p->n_unsized ? "at least " : "", size_text(p->bytes_expected, c));
	if (p->bytes)
		buf_printf(&b, ", %s/s", size_text((uint64_t)((double)p->bytes / elapsed_s), a));
	if (left >= 0)
		progress_add_left(&b, left);
	if (p->n_done > p->n_found)
		buf_printf(&b, ", %zu not found", p->n_done - p->n_found);
	progress_show(&b);
}
