/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a WAL and the header of its index, sound or damaged: see wal_file.h.
 */
#include "db/wal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

#define INDEX_HEADER 48 /* of -shm; twice, then the number of frames that are copied */
#define INDEX_SUMMED 40 /* bytes of it that have a check sum */

struct wal_sum wal_sum_of(struct wal_sum s, bool big, const uint8_t *p, size_t size)
{
	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint32_t x[2];

		memcpy(x, p + i, sizeof(x));
		s.s[0] += (big ? be32toh(x[0]) : le32toh(x[0])) + s.s[1];
		s.s[1] += (big ? be32toh(x[1]) : le32toh(x[1])) + s.s[0];
	}
	return s;
}

int wal_read_expected(const char *path, struct wal_expected *ret, struct err *err)
{
	AUTO(mem_freep) char *name = mem_printf("%s-shm", path);
	AUTO(fd_close) int fd = open(name, O_RDONLY | O_CLOEXEC);
	uint8_t p[2 * INDEX_HEADER + 4];
	struct wal_sum sum = { { 0, 0 } };
	uint32_t w[INDEX_HEADER / 4];
	size_t got;

	*ret = (struct wal_expected){ 0 };
	if (fd < 0)
		return errno == ENOENT ? 0 : err_os(err, errno, "%s", name);
	if (fd_pread(fd, p, sizeof(p), 0, &got, err) < 0)
		return err_in(err, "%s", name);
	if (got < sizeof(p) || memcmp(p, p + INDEX_HEADER, INDEX_HEADER) != 0)
		return 0;
	memcpy(w, p, sizeof(w));
	/* In the order of this machine. */
	for (size_t i = 0; i < INDEX_SUMMED / 4; i += 2) {
		sum.s[0] += w[i] + sum.s[1];
		sum.s[1] += w[i + 1] + sum.s[0];
	}
	if (w[0] != WAL_VERSION || sum.s[0] != w[10] || sum.s[1] != w[11])
		return 0;
	ret->page_size = db_index_page_size(w);
	ret->n_frames = w[DB_INDEX_LAST_FRAME];
	ret->n_pages = w[5];
	memcpy(ret->salts, p + 32, sizeof(ret->salts));
	memcpy(&ret->n_copied, p + 2 * INDEX_HEADER, sizeof(ret->n_copied));
	ret->known = db_is_page_size(ret->page_size);
	return 0;
}

int wal_read_db_header(const struct wal_file *f, struct db_header *ret, struct err *err)
{
	uint8_t start[DB_HEADER_START];
	size_t got;

	if (f->db < 0)
		return 0;
	if (fd_pread(f->db, start, sizeof(start), 0, &got, err) < 0)
		return -1;
	if (got < sizeof(start))
		return 0;
	db_header_read(start, ret);
	return 1;
}

/* The header is damaged, and there is no index: the first frame has the salts of the header. */
static int learn_from_first_frame(struct wal_file *f, struct err *err)
{
	uint8_t p[DB_FRAME_HEADER];
	struct db_header h;
	size_t got;
	int r = wal_read_db_header(f, &h, err);

	if (r <= 0)
		return r;
	if (fd_pread(f->fd, p, sizeof(p), DB_WAL_HEADER, &got, err) < 0)
		return -1;
	if (!h.has_magic || got < sizeof(p))
		return 0;
	f->big = false;
	f->page_size = h.page_size;
	memcpy(f->salts, p + 8, sizeof(f->salts));
	return 0;
}

uint64_t wal_frame_off(const struct wal_file *f, uint64_t i)
{
	return DB_WAL_HEADER + (i - 1) * (f->page_size + DB_FRAME_HEADER);
}

int wal_read_frame(struct wal_file *f, uint64_t i, struct wal_sum before, struct wal_frame *ret,
		   struct wal_sum *ret_sum, struct err *err)
{
	uint8_t p[DB_FRAME_HEADER];
	size_t got, got_data;

	if (fd_pread(f->fd, p, sizeof(p), wal_frame_off(f, i), &got, err) < 0 ||
	    fd_pread(f->fd, f->data, f->page_size, wal_frame_off(f, i) + DB_FRAME_HEADER, &got_data, err) < 0)
		return -1;
	if (got < sizeof(p) || got_data < f->page_size)
		return err_set(err, ERR_IO, "the WAL has become shorter");
	*ret = (struct wal_frame){ .page = db_load_be(p),
				   .n_pages = db_load_be(p + 4),
				   .sum = { { db_load_be(p + 16), db_load_be(p + 20) } } };
	memcpy(ret->salts, p + 8, sizeof(ret->salts));
	*ret_sum = wal_sum_of(wal_sum_of(before, f->big, p, 8), f->big, f->data, f->page_size);
	return 0;
}

/*
 * The header is damaged, and the index may be from before the WAL began anew, since a power cut does not leave the last one.
 * The first frames have other salts then: those in the header, or of two frames that continue each other.
 */
static int learn_new_salts(struct wal_file *f, const uint8_t *of_header, struct err *err)
{
	struct wal_sum before = f->stored_sum;
	uint8_t salts[sizeof(f->salts)];

	memcpy(salts, of_header, sizeof(salts));
	for (uint64_t i = 1; i <= MIN(f->n_frames, UINT64_C(2)); i++) {
		struct wal_frame frame;
		struct wal_sum sum;

		if (wal_read_frame(f, i, before, &frame, &sum, err) < 0)
			return -1;
		if (frame.page && wal_same_sum(sum, frame.sum) &&
		    memcmp(frame.salts, salts, sizeof(salts)) == 0) {
			memcpy(f->salts, salts, sizeof(salts));
			return 0;
		}
		memcpy(salts, frame.salts, sizeof(salts));
		before = frame.sum;
	}
	return 0;
}

int wal_read_header(struct wal_file *f, const struct wal_expected *x, struct err *err)
{
	uint8_t p[DB_WAL_HEADER];
	struct stat st;
	bool sound;
	size_t got;

	if (fstat(f->fd, &st) != 0)
		return err_os(err, errno, "WAL");
	if (fd_pread(f->fd, p, sizeof(p), 0, &got, err) < 0)
		return -1;
	if (got < sizeof(p))
		memset(p + got, 0, sizeof(p) - got);
	f->big = db_load_be(p) == WAL_BIG;
	f->page_size = db_load_be(p + 8);
	f->sum = wal_sum_of((struct wal_sum){ { 0, 0 } }, f->big, p, 24);
	f->stored_sum = (struct wal_sum){ { db_load_be(p + 24), db_load_be(p + 28) } };
	sound = (db_load_be(p) & ~1u) == WAL_LITTLE && db_is_page_size(f->page_size) &&
		wal_same_sum(f->sum, f->stored_sum);
	memcpy(f->salts, p + 16, sizeof(f->salts));
	if (!sound && x->known) {
		f->big = false;
		f->page_size = x->page_size;
		memcpy(f->salts, x->salts, sizeof(f->salts));
	} else if (!sound && learn_from_first_frame(f, err) < 0) {
		return -1;
	}
	if (db_is_page_size(f->page_size)) {
		f->n_frames = st.st_size > DB_WAL_HEADER ? ((uint64_t)st.st_size - DB_WAL_HEADER) /
								   (f->page_size + DB_FRAME_HEADER)
							 : 0;
		f->data = mem_alloc(f->page_size);
	}
	if (!sound && x->known && learn_new_salts(f, p + 16, err) < 0)
		return -1;
	return sound;
}

int wal_scan(struct wal_file *f, bool header_is_sound, struct wal_scan *ret, struct err *err)
{
	struct wal_sum before = f->sum;
	bool within = header_is_sound;
	uint64_t n_commits = 0; /* of this chain */

	*ret = (struct wal_scan){ .sum = f->sum };
	for (uint64_t i = 1; i <= f->n_frames; i++) {
		struct wal_frame frame;
		struct wal_sum sum;
		bool sound;

		if (wal_read_frame(f, i, before, &frame, &sum, err) < 0)
			return -1;
		sound = frame.page && memcmp(frame.salts, f->salts, sizeof(f->salts)) == 0 &&
			wal_same_sum(sum, frame.sum);
		if (sound && within) {
			ret->n_sound = i;
			ret->sum = sum;
		}
		within &= sound;
		/* Frames may be damaged in several places. Remains of other transactions have other salts, or no commit. */
		if (!sound)
			n_commits = 0;
		if (sound && frame.n_pages) {
			ret->n_pages = frame.n_pages;
			ret->most_pages = MAX(ret->most_pages, frame.n_pages);
			if (within)
				ret->last_commit = i;
			else
				ret->chain_commit = i;
			n_commits += !within;
			ret->most_commits = MAX(ret->most_commits, n_commits);
		}
		before = frame.sum;
	}
	return 0;
}
