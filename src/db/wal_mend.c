/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of a WAL that a crash has left (https://sqlite.org/walformat.html).
 *
 * SQLite ends its recovery at the first frame whose check sum is wrong, since a power cut leaves such frames at the end:
 * transactions after it, which were acknowledged, would be gone without a word. Two things tell them apart:
 *
 * - The index beside the WAL (-shm) has the number of the last frame of the last commit, which is written there after
 *   the frame was synced. It survives the death of the process, though not always a power cut.
 * - The check sum of a frame continues that of the frame before. Frames that continue each other with two commits or
 *   more come from transactions that were synced one after the other, so the damaged frame before them was synced, too.
 *   A single commit may be one whose sync was cut off.
 *
 * If all frames were copied into the database before, it needs none of them; SQLite would read those before the damaged
 * one, which are older than the database. So the WAL is cut off. Without the index the pages have to show it, also those of
 * damaged frames: a power cut may have ended the checkpoint.
 *
 * Otherwise the check sums of frames from the damaged one on are computed anew, so that SQLite reads all of them. The pages
 * in the damaged frames are not right then, and are marked so: only rows with a digest of their own can be believed.
 */
#include "db/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"

#define MAGIC_LITTLE   0x377f0682u
#define MAGIC_BIG      0x377f0683u
#define WAL_VERSION    3007000u
#define INDEX_HEADER   48  /* of -shm; twice, then the number of frames that are copied */
#define INDEX_SUMMED   40  /* bytes of it that have a check sum */
#define INDEX_USE_LOCK 128 /* a byte of it */
#define COPY_SIZE      65536
#define COMMITS_SYNCED 2
#define PAGES_LOOKED   64u /* of the database, to know whether pages have digests */

struct wal_frame {
	uint32_t page, n_pages; /* n_pages not 0: a commit */
	uint8_t salts[8];
	struct wal_sum sum;
};

struct wal_file {
	int fd;
	bool big; /* words of check sums */
	uint32_t page_size;
	uint8_t salts[8];
	struct wal_sum sum; /* computed from the header; stored_sum is in the file */
	struct wal_sum stored_sum;
	bool has_digests;
	uint64_t n_frames; /* that the file has room for */
	uint8_t *data;     /* of one page */
	int db;            /* the database; -1: none */
};

/* From the index. */
struct wal_expected {
	bool known;
	uint32_t n_frames, n_copied, n_pages, page_size;
	uint8_t salts[8];
};

static void store_be(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

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

/* ---- reading ---- */

/* An index that cannot be read for an I/O error is not taken for a missing one: frames would be given up. */
static int read_expected(const char *path, struct wal_expected *ret, struct err *err)
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

/* 1: @ret is the header of the database. 0: there is none. */
static int read_db_header(const struct wal_file *f, struct db_header *ret, struct err *err)
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
	int r = read_db_header(f, &h, err);

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

static uint64_t frame_off(const struct wal_file *f, uint64_t i)
{
	return DB_WAL_HEADER + (i - 1) * (f->page_size + DB_FRAME_HEADER);
}

/* Frame @i, from 1, and what its check sum should be after that of @before. */
static int wal_read_frame(struct wal_file *f, uint64_t i, struct wal_sum before, struct wal_frame *ret,
			  struct wal_sum *ret_sum, struct err *err)
{
	uint8_t p[DB_FRAME_HEADER];
	size_t got, got_data;

	if (fd_pread(f->fd, p, sizeof(p), frame_off(f, i), &got, err) < 0 ||
	    fd_pread(f->fd, f->data, f->page_size, frame_off(f, i) + DB_FRAME_HEADER, &got_data, err) < 0)
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

/* 1: the header is sound. 0: it is not; what @x, or the first frame, says is used then. */
static int wal_read_header(struct wal_file *f, const struct wal_expected *x, struct err *err)
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
	f->big = db_load_be(p) == MAGIC_BIG;
	f->page_size = db_load_be(p + 8);
	f->sum = wal_sum_of((struct wal_sum){ { 0, 0 } }, f->big, p, 24);
	f->stored_sum = (struct wal_sum){ { db_load_be(p + 24), db_load_be(p + 28) } };
	sound = (db_load_be(p) & ~1u) == MAGIC_LITTLE && db_is_page_size(f->page_size) &&
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

struct wal_scan {
	uint64_t n_sound;     /* frames before the first damaged one */
	uint64_t last_commit; /* of them; 0: none */
	struct wal_sum sum;   /* of frame n_sound */
	/* The last commit of frames that continue each other after a damaged one; 0: none. Most commits of such a chain. */
	uint64_t chain_commit, most_commits;
	uint32_t n_pages; /* of the database, at the last commit */
	uint32_t most_pages;
};

static int wal_scan(struct wal_file *f, bool header_is_sound, struct wal_scan *ret, struct err *err)
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

/* ---- repair ---- */

static int wal_copy(const struct wal_file *f, const char *to, struct err *err)
{
	AUTO(fd_close) int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	AUTO(mem_freep) uint8_t *p = mem_alloc(COPY_SIZE);
	size_t got = COPY_SIZE;

	if (out < 0)
		return err_os(err, errno, "%s", to);
	for (uint64_t off = 0; got == COPY_SIZE; off += got)
		if (fd_pread(f->fd, p, COPY_SIZE, off, &got, err) < 0 || fd_pwrite(out, p, got, off, err) < 0)
			return err_in(err, "%s", to);
	return fsync(out) == 0 ? 0 : err_os(err, errno, "%s", to);
}

static int write_header(struct wal_file *f, struct err *err)
{
	uint8_t p[DB_WAL_HEADER] = { 0 };

	store_be(p, MAGIC_LITTLE);
	store_be(p + 4, WAL_VERSION);
	store_be(p + 8, f->page_size);
	memcpy(p + 16, f->salts, sizeof(f->salts));
	f->sum = wal_sum_of((struct wal_sum){ { 0, 0 } }, false, p, 24);
	store_be(p + 24, f->sum.s[0]);
	store_be(p + 28, f->sum.s[1]);
	return fd_pwrite(f->fd, p, sizeof(p), 0, err);
}

/* The page of frame @i, which is in f->data, is not right. */
static int mark_frame(struct wal_file *f, uint64_t i, struct err *err)
{
	db_page_mark_damaged(f->data, f->page_size);
	return fd_pwrite(f->fd, f->data, f->page_size, frame_off(f, i) + DB_FRAME_HEADER, err);
}

/* Frames from the damaged one to @end get the check sums that they should have. */
static int write_sums(struct wal_file *f, const struct wal_scan *x, uint64_t end, uint32_t n_pages,
		      struct err *err)
{
	struct wal_sum before = x->sum, stored_before = x->n_sound ? x->sum : f->stored_sum;
	uint32_t page = 1;

	for (uint64_t i = x->n_sound + 1; i <= end; i++) {
		uint8_t p[DB_FRAME_HEADER];
		struct wal_frame frame;
		struct wal_sum sum;

		if (wal_read_frame(f, i, stored_before, &frame, &sum, err) < 0)
			return -1;
		if (f->has_digests && !wal_same_sum(sum, frame.sum) && mark_frame(f, i, err) < 0)
			return -1;
		stored_before = frame.sum;
		/* A number that no page can have is damaged: the frame after it, or the repair, has the last word. */
		page = frame.page && frame.page <= n_pages ? frame.page : page;
		store_be(p, page);
		store_be(p + 4, i == end && !frame.n_pages ? n_pages : MIN(frame.n_pages, n_pages));
		memcpy(p + 8, f->salts, sizeof(f->salts));
		before = wal_sum_of(wal_sum_of(before, f->big, p, 8), f->big, f->data, f->page_size);
		store_be(p + 16, before.s[0]);
		store_be(p + 20, before.s[1]);
		if (fd_pwrite(f->fd, p, sizeof(p), frame_off(f, i), err) < 0)
			return -1;
	}
	if (ftruncate(f->fd, (off_t)frame_off(f, end + 1)) != 0 || fsync(f->fd) != 0)
		return err_os(err, errno, "WAL");
	return 0;
}

static bool is_index_of(const struct wal_expected *x, const struct wal_file *f)
{
	return x->known && memcmp(x->salts, f->salts, sizeof(f->salts)) == 0;
}

/* The last frame that was committed, as far as is known, and whether that is certain. The index may be older than the WAL. */
static uint64_t committed_frames(const struct wal_file *f, const struct wal_expected *x,
				 const struct wal_scan *scan, bool *ret_certain)
{
	bool is_chain = scan->most_commits >= COMMITS_SYNCED;

	*ret_certain = true;
	if (is_index_of(x, f))
		return MAX((uint64_t)x->n_frames, is_chain ? scan->chain_commit : 0);
	*ret_certain = is_chain;
	return scan->chain_commit;
}

/* ---- frames that were copied ---- */

/* Before frame @i, as it is in the file. */
static int read_sum_before(const struct wal_file *f, uint64_t i, struct wal_sum *ret, struct err *err)
{
	uint8_t p[8];
	size_t got;

	*ret = f->stored_sum;
	if (i == 1)
		return 0;
	if (fd_pread(f->fd, p, sizeof(p), frame_off(f, i - 1) + 16, &got, err) < 0)
		return -1;
	if (got == sizeof(p))
		*ret = (struct wal_sum){ { db_load_be(p), db_load_be(p + 4) } };
	return 0;
}

/*
 * Whether the database has the page of a frame, which is in f->data, after that of @before; @page has room for one. If the
 * frame is damaged, the database has what it was before if that fits the check sum.
 */
static int is_page_copied(const struct wal_file *f, const struct wal_frame *frame, struct wal_sum before,
			  bool sound, uint8_t *page, bool *ret, struct err *err)
{
	size_t size = f->page_size - (f->has_digests ? DIGEST_SIZE : 0), got;
	uint8_t start[8];

	if (fd_pread(f->db, page, f->page_size, (uint64_t)(frame->page - 1) * f->page_size, &got, err) < 0)
		return -1;
	*ret = got == f->page_size && memcmp(page, f->data, size) == 0;
	if (*ret || sound || got != f->page_size)
		return 0;
	memcpy(page + size, f->data + size, f->page_size - size);
	store_be(start, frame->page);
	store_be(start + 4, frame->n_pages);
	before = wal_sum_of(wal_sum_of(before, f->big, start, sizeof(start)), f->big, page, f->page_size);
	*ret = wal_same_sum(before, frame->sum);
	return 0;
}

/*
 * Whether the database has the last frame of each page; *ret_last: the last sound frame, 0: a page differs. Of
 * the first @n_known frames the index says so, and damaged ones are passed over. Of others a checkpoint may have been cut off:
 * the database may lack the page of a damaged frame, or of one after the last sound one. Frames from before the WAL began anew
 * have other salts.
 */
static int compare_frames(struct wal_file *f, uint64_t n_known, uint64_t *ret_last, struct err *err)
{
	AUTO(mem_freep) uint8_t *page = mem_alloc(f->page_size);
	struct map seen = { 0 };
	bool same = true;
	int r = 0;

	*ret_last = 0;
	for (uint64_t i = f->n_frames; r == 0 && same && i; i--) {
		struct wal_frame frame;
		struct wal_sum before, sum;
		bool is_of_this, sound;

		if (read_sum_before(f, i, &before, err) < 0 ||
		    wal_read_frame(f, i, before, &frame, &sum, err) < 0) {
			r = -1;
			break;
		}
		is_of_this = memcmp(frame.salts, f->salts, sizeof(f->salts)) == 0;
		sound = frame.page && is_of_this && wal_same_sum(sum, frame.sum);
		/* The salts of one before a frame of this WAL are damaged. */
		if (!is_of_this && !*ret_last)
			continue;
		if (!frame.page)
			same = i <= n_known;
		else if (!map_put(&seen, bytes_of((const uint8_t *)&frame.page, sizeof(frame.page)), f) &&
			 (sound || i > n_known))
			r = is_page_copied(f, &frame, before, sound, page, &same, err);
		if (sound && !*ret_last) {
			*ret_last = i;
			same &= i <= n_known || frame.n_pages;
		}
	}
	map_done(&seen);
	if (!same)
		*ret_last = 0;
	return r;
}

/*
 * Whether the database needs none of the frames. The number of copied frames in the index has no check sum, so it is
 * believed only if the pages are the same. Without an index, a frame after the last one that SQLite would read shows that
 * all were committed.
 */
static int is_all_copied(struct wal_file *f, const struct wal_expected *x, const struct wal_scan *scan,
			 bool *ret, struct err *err)
{
	bool known = is_index_of(x, f);
	uint64_t last;

	*ret = false;
	if (f->db < 0 || !f->data || (known && x->n_copied != x->n_frames))
		return 0;
	/* Frames that are missing are newer than those that are there. */
	if (known && x->n_frames > f->n_frames) {
		*ret = true;
		return 0;
	}
	if (compare_frames(f, known ? x->n_frames : 0, &last, err) < 0)
		return -1;
	*ret = last && (known ? x->n_frames : last) > scan->last_commit;
	return 0;
}

static int cut_off(struct wal_file *f, struct err *err)
{
	return ftruncate(f->fd, 0) == 0 && fsync(f->fd) == 0 ? 0 : err_os(err, errno, "WAL");
}

/* A damaged header may say that pages have no digests: *ret also if one of the first pages fits its own. Uses f->data. */
static int find_digest(struct wal_file *f, bool *ret, struct err *err)
{
	size_t got = f->page_size;

	for (uint64_t page = 1; page <= PAGES_LOOKED && got == f->page_size && !*ret; page++) {
		if (fd_pread(f->db, f->data, f->page_size, (page - 1) * f->page_size, &got, err) < 0)
			return -1;
		*ret = got == f->page_size && db_page_is_sound(f->data, f->page_size, page);
	}
	return 0;
}

/* Whether the pages of the database have digests, and so room for a mark. Without the magic of the header, they may have. */
static int read_has_digests(struct wal_file *f, struct err *err)
{
	struct db_header h;
	int r = read_db_header(f, &h, err);

	if (r <= 0)
		return r;
	f->has_digests = !h.has_magic || h.has_digests;
	return find_digest(f, &f->has_digests, err);
}

static int mend_file(struct wal_file *f, const char *path, const char *aside, struct db_wal_damage *ret,
		     struct err *err)
{
	struct wal_expected x;
	struct wal_scan scan = { 0 };
	uint64_t end;
	bool certain, copied = false;
	int header;

	if (read_expected(path, &x, err) < 0)
		return -1;
	header = wal_read_header(f, &x, err);
	if (header < 0 || (f->data && wal_scan(f, header, &scan, err) < 0))
		return -1;
	end = committed_frames(f, &x, &scan, &certain);
	if (scan.n_sound == f->n_frames && end <= scan.last_commit)
		return DB_WAL_SOUND;
	if (f->data && read_has_digests(f, err) < 0)
		return err_in(err, "%s", path);
	if (is_all_copied(f, &x, &scan, &copied, err) < 0)
		return -1;
	if (end <= scan.last_commit && !copied)
		return DB_WAL_SOUND;
	*ret = (struct db_wal_damage){ .frame = scan.n_sound + 1,
				       .n_committed = end,
				       .n_there = MIN(end, f->n_frames) };
	if (wal_copy(f, aside, err) < 0)
		return -1;
	/* A checkpoint that was killed may not have synced what it copied. */
	if (copied && fsync(f->db) != 0)
		return err_os(err, errno, "%s", path);
	if (copied)
		return cut_off(f, err) < 0 ? -1 : DB_WAL_COPIED;
	if (!certain)
		return DB_WAL_UNSURE;
	/* The database is newer than the rest of a WAL that was cut off. */
	if (is_index_of(&x, f) && x.n_copied <= x.n_frames && x.n_copied > ret->n_there)
		return cut_off(f, err) < 0 ? -1 : DB_WAL_DAMAGED;
	/* It ends where it ends. */
	if (ret->n_there <= scan.n_sound)
		return DB_WAL_DAMAGED;
	if (!header) {
		if (write_header(f, err) < 0)
			return -1;
		scan.sum = f->sum;
	}
	if (write_sums(f, &scan, ret->n_there, MAX(x.known ? x.n_pages : 0, MAX(scan.most_pages, 1u)), err) <
	    0)
		return -1;
	return DB_WAL_DAMAGED;
}

/* Every connection of another process holds this lock on the index. */
static bool is_in_use(const char *index)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = INDEX_USE_LOCK, .l_len = 1
	};
	AUTO(fd_close) int fd = open(index, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int db_wal_mend(const char *path, const char *aside, struct db_wal_damage *ret, struct err *err)
{
	AUTO(mem_freep) char *name = mem_printf("%s-wal", path);
	AUTO(mem_freep) char *index = mem_printf("%s-shm", path);
	AUTO(fd_close) int fd = open(name, O_RDWR | O_CLOEXEC);
	AUTO(fd_close) int db = -1;
	struct wal_file f = { .fd = fd };
	struct wal_expected x;
	int r;

	*ret = (struct db_wal_damage){ 0 };
	if (is_in_use(index))
		return DB_WAL_SOUND;
	f.db = db = open(path, O_RDONLY | O_CLOEXEC);
	if (db < 0 && errno != ENOENT)
		return err_os(err, errno, "%s", path);
	if (fd < 0) {
		if (read_expected(path, &x, err) < 0)
			return -1;
		if (access(name, F_OK) == 0 || !x.known || x.n_frames <= x.n_copied)
			return DB_WAL_SOUND;
		/* The index would not be there without the WAL. */
		*ret = (struct db_wal_damage){ .frame = 1, .n_committed = x.n_frames };
		return DB_WAL_DAMAGED;
	}
	r = mend_file(&f, path, aside, ret, err);
	free(f.data);
	/* It is made anew from the WAL. */
	if (r == DB_WAL_DAMAGED || r == DB_WAL_COPIED)
		unlink(index);
	return r < 0 ? err_in(err, "%s", name) : r;
}

/* ---- copying ---- */

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
