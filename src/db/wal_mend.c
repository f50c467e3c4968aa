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
#include "db/wal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/file.h"

#define INDEX_USE_LOCK 128 /* a byte of it */
#define COPY_SIZE      65536
#define COMMITS_SYNCED 2
#define PAGES_LOOKED   64u /* of the database, to know whether pages have digests */

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

	db_store_be(p, WAL_LITTLE);
	db_store_be(p + 4, WAL_VERSION);
	db_store_be(p + 8, f->page_size);
	memcpy(p + 16, f->salts, sizeof(f->salts));
	f->sum = wal_sum_of((struct wal_sum){ { 0, 0 } }, false, p, 24);
	db_store_be(p + 24, f->sum.s[0]);
	db_store_be(p + 28, f->sum.s[1]);
	return fd_pwrite(f->fd, p, sizeof(p), 0, err);
}

/* The page of frame @i, which is in f->data, is not right. */
static int mark_frame(struct wal_file *f, uint64_t i, struct err *err)
{
	db_page_mark_damaged(f->data, f->page_size);
	return fd_pwrite(f->fd, f->data, f->page_size, wal_frame_off(f, i) + DB_FRAME_HEADER, err);
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
		db_store_be(p, page);
		db_store_be(p + 4, i == end && !frame.n_pages ? n_pages : MIN(frame.n_pages, n_pages));
		memcpy(p + 8, f->salts, sizeof(f->salts));
		before = wal_sum_of(wal_sum_of(before, f->big, p, 8), f->big, f->data, f->page_size);
		db_store_be(p + 16, before.s[0]);
		db_store_be(p + 20, before.s[1]);
		if (fd_pwrite(f->fd, p, sizeof(p), wal_frame_off(f, i), err) < 0)
			return -1;
	}
	if (ftruncate(f->fd, (off_t)wal_frame_off(f, end + 1)) != 0 || fsync(f->fd) != 0)
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
	if (fd_pread(f->fd, p, sizeof(p), wal_frame_off(f, i - 1) + 16, &got, err) < 0)
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
	db_store_be(start, frame->page);
	db_store_be(start + 4, frame->n_pages);
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
	int r = wal_read_db_header(f, &h, err);

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

	if (wal_read_expected(path, &x, err) < 0)
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

bool wal_is_in_use(const char *index)
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
	if (wal_is_in_use(index))
		return DB_WAL_SOUND;
	f.db = db = open(path, O_RDONLY | O_CLOEXEC);
	if (db < 0 && errno != ENOENT)
		return err_os(err, errno, "%s", path);
	if (fd < 0) {
		if (wal_read_expected(path, &x, err) < 0)
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
