/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a WAL into its database without SQLite.
 */
#include "db/wal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

/* A file that was to become shorter has old rows in the pages after its end. */
static int cut_to_pages(int out, uint64_t n, uint32_t page_size, struct err *err)
{
	struct stat st;

	if (fstat(out, &st) != 0 ||
	    ((uint64_t)st.st_size > n * page_size && ftruncate(out, (off_t)(n * page_size)) != 0))
		return err_os(err, errno, "cut");
	return 0;
}

static int write_back(struct wal_file *f, const struct db_pages *pages, int out, struct err *err)
{
	struct wal_scan scan = { 0 };
	struct wal_sum before = f->sum;
	uint64_t n_pages = 0; /* after the last commit; 0: not known */

	if (wal_scan(f, true, &scan, err) < 0)
		return -1;
	for (uint64_t i = 1; i <= scan.last_commit; i++) {
		struct wal_frame frame;
		struct wal_sum sum;

		if (wal_read_frame(f, i, before, &frame, &sum, err) < 0)
			return -1;
		before = frame.sum;
		/* The header of a frame that was damaged is not right, either. */
		n_pages = pages->has_digests && !db_page_is_marked(f->data, f->page_size) ? frame.n_pages : 0;
		/* Each page that is new has a frame. */
		if (frame.page > pages->n + f->n_frames)
			continue;
		if (pages->has_digests)
			db_page_put_digest(f->data, f->page_size, frame.page);
		if (fd_pwrite(out, f->data, f->page_size, (uint64_t)(frame.page - 1) * f->page_size, err) < 0)
			return -1;
	}
	if (n_pages && cut_to_pages(out, n_pages, f->page_size, err) < 0)
		return -1;
	return fsync(out) == 0 ? 0 : err_os(err, errno, "fsync");
}

int db_wal_write_back(const char *path, const struct db_pages *pages, struct err *err)
{
	AUTO(mem_freep) char *name = mem_printf("%s-wal", path);
	AUTO(fd_close) int fd = open(name, O_RDONLY | O_CLOEXEC);
	AUTO(fd_close) int out = open(path, O_WRONLY | O_CLOEXEC);
	const struct wal_expected none = { 0 };
	struct wal_file f = { .fd = fd, .db = -1 };
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s", name);
	if (out < 0)
		return err_os(err, errno, "%s", path);
	r = wal_read_header(&f, &none, err);
	if (r > 0 && f.page_size == pages->size)
		r = write_back(&f, pages, out, err);
	free(f.data);
	return r < 0 ? err_in(err, "copying %s into the database", name) : 0;
}
