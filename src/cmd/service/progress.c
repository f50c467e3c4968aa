/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress of a scan as one line: packages done of found, rate, time left.
 */
#include "cmd/service/service.h"

void scan_progress_line(const struct scan_progress *p, struct buf *out)
{
	double elapsed_s = (double)(clock_mono_ms() - p->started_mono_ms) / 1000.0;
	uint64_t done = MIN(p->bytes_done, p->bytes_total);
	double rate = elapsed_s > 0.5 ? (double)done / elapsed_s : 0;
	char a[32], b[32];

	if (p->n_packages) {
		progress_add_bar(out, p->bytes_total ? (double)done / (double)p->bytes_total : 0);
		buf_printf(out, " %llu of %llu packages, %s of %s", (unsigned long long)p->n_packages_deep,
			   (unsigned long long)p->n_packages, size_text(done, a),
			   size_text(p->bytes_total, b));
	} else {
		buf_printf(out, "%llu of %llu files", (unsigned long long)p->n_files_done,
			   (unsigned long long)p->n_seen);
	}
	if (p->walking)
		buf_printf(out, ", looking for more");
	if (rate > 0 && p->n_packages)
		buf_printf(out, ", %s/s", size_text((uint64_t)rate, a));
	if (rate > 0 && !p->walking && p->bytes_total > done)
		progress_add_left(out, (double)(p->bytes_total - done) / rate);
	if (p->n_failed)
		buf_printf(out, ", %llu failed", (unsigned long long)p->n_failed);
}
