/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Digests of pages: a layer (VFS) between SQLite and the file of a database.
 *
 * A database that reserves DIGEST_SIZE bytes at the end of each page has there hash64() of the rest of the page,
 * with the page's number as the seed. The digest is written with the page, and compared whenever the page is read
 * from the file, so no damage of the file becomes an answer: neither of rows nor of indexes nor of free pages.
 * Pages in the WAL have SQLite's own check sums. It compares them after a crash only, so the layer does when a page is read
 * from there.
 *
 * A commit does not begin the WAL anew beside a checkpoint: see lock_readers_out().
 *
 * All files of a database pass this layer, for their I/O errors: SQLite takes EIO for damage ("database disk image is
 * malformed"), though the file is sound and the next read may be right.
 *
 * A database without reserved bytes was made by an older version, and has no digests.
 */
#include "db/internal.h"

#include <pthread.h>
#include <stdlib.h>

#define HEADER_SIZE 100
#define FIRST_PAGE  1
#define READ_TRIES  3 /* of a read that fails with an I/O error */
#define NO_FRAME    INT64_MAX

/* Locks in the index of a WAL (https://sqlite.org/walformat.html, section 2.3). */
enum { LOCK_CHECKPOINT = 1, LOCK_READERS = 4, N_READERS = 4 };

struct digest_file {
	sqlite3_file base;
	sqlite3_file *real; /* after this struct, in the same memory */
	uint32_t page_size; /* 0: not known yet */
	bool has_digests;
	bool unchecked;     /* pages are not compared */
	uint64_t bad_page;  /* the last one that differed; 0: none */
	uint8_t *page;      /* a copy of the page that is written; heap */
	bool copying;       /* see db_set_copying() */
	bool in_checkpoint; /* this connection has the lock of a checkpoint */
	bool begins_anew;   /* it has that lock to begin the WAL anew */

	/* ---- of a WAL ---- */
	struct digest_file *db; /* its database; NULL: not a WAL */
	/*
	 * A transaction that writes a page twice writes over its first frame, and computes the check sums from there on when it
	 * commits: until then this connection does not compare them.
	 */
	sqlite3_int64 unsummed_from;
	sqlite3_int64 header_end; /* of the header whose page is written next */
};

static sqlite3_vfs digest_vfs, *real_vfs;

static struct digest_file *digest_of(sqlite3_file *f)
{
	return (struct digest_file *)f;
}

/* ---- pages ---- */

static void learn_header(struct digest_file *f, const uint8_t *p)
{
	struct db_header h;

	db_header_read(p, &h);
	if (!h.page_size || !h.has_magic)
		return;
	if (h.page_size != f->page_size) {
		free(f->page);
		f->page = NULL;
	}
	f->page_size = h.page_size;
	f->has_digests = h.has_digests;
}

static bool is_page(const struct digest_file *f, int size, sqlite3_int64 off)
{
	return f->page_size && (uint32_t)size == f->page_size && off % size == 0;
}

/* ---- methods of a file ---- */

static int digest_close(sqlite3_file *f)
{
	free(digest_of(f)->page);
	return digest_of(f)->real->pMethods->xClose(digest_of(f)->real);
}

static int bad_page(struct digest_file *f, sqlite3_int64 off)
{
	f->bad_page = (uint64_t)off / f->page_size + 1;
	return SQLITE_IOERR_DATA;
}

/*
 * An I/O error may pass (a path of the storage that is switched, a time-out of a network file system), so the read is
 * tried again at once. SQLITE_IOERR_CORRUPTFS is its name for EIO, which its statements turn into SQLITE_CORRUPT.
 */
static int read_real(struct digest_file *f, void *p, int size, sqlite3_int64 off)
{
	int code = SQLITE_OK;

	for (int i = 0; i < READ_TRIES; i++) {
		code = f->real->pMethods->xRead(f->real, p, size, off);
		if (code != SQLITE_IOERR_CORRUPTFS && code != SQLITE_IOERR_READ)
			return code;
	}
	return SQLITE_IOERR_READ;
}

/* Of a journal, which has no digests. */
static int journal_read(sqlite3_file *file, void *p, int size, sqlite3_int64 off)
{
	return read_real(digest_of(file), p, size, off);
}

/*
 * How many pages the file has by its own header. A transaction may read pages after these: with auto_vacuum, CREATE TABLE
 * moves a page that the transaction has added, for the root of the table, and reads the old place, which is nowhere yet.
 * UINT64_MAX: the first page is damaged.
 */
static uint64_t pages_by_header(struct digest_file *f)
{
	uint64_t n = UINT64_MAX;
	uint8_t *page = mem_alloc(f->page_size);

	/* Again, since another connection may be writing it. */
	for (int i = 0; i < READ_TRIES && n == UINT64_MAX; i++) {
		struct db_header h;

		if (read_real(f, page, (int)f->page_size, 0) != SQLITE_OK ||
		    !db_page_is_sound(page, f->page_size, FIRST_PAGE))
			continue;
		db_header_read(page, &h);
		n = h.n_pages;
	}
	free(page);
	return n;
}

static int digest_read(sqlite3_file *file, void *p, int size, sqlite3_int64 off)
{
	struct digest_file *f = digest_of(file);
	int code = read_real(f, p, size, off);

	/* SQLite takes the missing bytes of a file that was cut for zeros. */
	if (code == SQLITE_IOERR_SHORT_READ && f->has_digests && !f->unchecked && is_page(f, size, off) &&
	    (uint64_t)off / f->page_size < pages_by_header(f))
		return bad_page(f, off);
	if (code != SQLITE_OK)
		return code;
	if (off == 0 && size >= HEADER_SIZE)
		learn_header(f, p);
	if (!is_page(f, size, off) || f->unchecked)
		return SQLITE_OK;
	if (f->has_digests)
		return db_page_is_sound(p, f->page_size, (uint64_t)off / f->page_size + 1) ? SQLITE_OK
											   : bad_page(f, off);
	return off == 0 && db_page_lost_digests(p, f->page_size) ? bad_page(f, off) : SQLITE_OK;
}

/* ---- frames of a WAL ---- */

/* The page of a frame, without its header. */
static bool is_frame(int size, sqlite3_int64 off)
{
	sqlite3_int64 at = off - DB_WAL_HEADER - DB_FRAME_HEADER;

	return db_is_page_size((uint32_t)size) && at >= 0 && at % (size + DB_FRAME_HEADER) == 0;
}

static struct wal_sum load_sum(const uint8_t *p)
{
	return (struct wal_sum){ { db_load_be(p), db_load_be(p + 4) } };
}

/* SQLITE_IOERR_DATA: the page at @off differs from the check sum of its frame. */
static int check_frame(struct digest_file *f, const uint8_t *page, int size, sqlite3_int64 off)
{
	sqlite3_int64 start = off - DB_FRAME_HEADER;
	uint8_t header[DB_FRAME_HEADER], before[sizeof(struct wal_sum)];
	int code = read_real(f, header, sizeof(header), start);

	/* Of the header of the file, or of the frame before. */
	if (code == SQLITE_OK)
		code = read_real(f, before, sizeof(before),
				 (start == DB_WAL_HEADER ? DB_WAL_HEADER : start - size) -
					 (int)sizeof(before));
	if (code != SQLITE_OK)
		return code;
	for (int big = 0; big < 2; big++) {
		struct wal_sum sum = wal_sum_of(load_sum(before), big, header, 8);

		if (wal_same_sum(wal_sum_of(sum, big, page, (size_t)size), load_sum(header + 16)))
			return SQLITE_OK;
	}
	return SQLITE_IOERR_DATA;
}

static int wal_read(sqlite3_file *file, void *p, int size, sqlite3_int64 off)
{
	struct digest_file *f = digest_of(file);
	int code = read_real(f, p, size, off);

	if (code != SQLITE_OK || !f->db || !f->db->has_digests || (uint32_t)size != f->db->page_size ||
	    !is_frame(size, off) || off >= f->unsummed_from)
		return code;
	code = db_page_is_marked(p, (uint32_t)size) ? SQLITE_IOERR_DATA : check_frame(f, p, size, off);
	if (code != SQLITE_IOERR_DATA || (!f->db->unchecked && !f->db->copying))
		return code;
	db_page_mark_damaged(p, (uint32_t)size);
	return SQLITE_OK;
}

static bool header_has_sum(const uint8_t *header)
{
	static const uint8_t none[DB_FRAME_HEADER - 8];

	return memcmp(header + 8, none, sizeof(none)) != 0;
}

static int wal_write(sqlite3_file *file, const void *p, int size, sqlite3_int64 off)
{
	struct digest_file *f = digest_of(file);

	if (size == DB_FRAME_HEADER) {
		f->header_end = off + size;
		/* A header has a sum again from the first frame on that had none, or in a later transaction. */
		f->unsummed_from = header_has_sum(p) ? NO_FRAME : MIN(f->unsummed_from, f->header_end);
	} else {
		if (is_frame(size, off) && off != f->header_end)
			f->unsummed_from = MIN(f->unsummed_from, off);
		f->header_end = 0;
	}
	return f->real->pMethods->xWrite(f->real, p, size, off);
}

/* ---- writing ---- */

/* Another connection may have made the database, or its digests, since it was opened here. */
static void learn_from_file(struct digest_file *f)
{
	uint8_t header[HEADER_SIZE];

	if (f->real->pMethods->xRead(f->real, header, sizeof(header), 0) == SQLITE_OK)
		learn_header(f, header);
}

static int digest_write(sqlite3_file *file, const void *p, int size, sqlite3_int64 off)
{
	struct digest_file *f = digest_of(file);

	if (off == 0 && size >= HEADER_SIZE)
		learn_header(f, p);
	else if (!f->has_digests)
		learn_from_file(f);
	if (!f->has_digests || !is_page(f, size, off))
		return f->real->pMethods->xWrite(f->real, p, size, off);
	if (!f->page)
		f->page = malloc(f->page_size);
	if (!f->page)
		return SQLITE_IOERR_NOMEM;
	memcpy(f->page, p, f->page_size);
	db_page_put_digest(f->page, f->page_size, (uint64_t)off / f->page_size + 1);
	return f->real->pMethods->xWrite(f->real, f->page, size, off);
}

#define PASS(name, parameters, arguments)                               \
	static int digest_##name parameters                             \
	{                                                               \
		return digest_of(f)->real->pMethods->x##name arguments; \
	}
#define REAL digest_of(f)->real

PASS(Write, (sqlite3_file * f, const void *p, int size, sqlite3_int64 off), (REAL, p, size, off))
PASS(Truncate, (sqlite3_file * f, sqlite3_int64 size), (REAL, size))
PASS(Sync, (sqlite3_file * f, int flags), (REAL, flags))
PASS(FileSize, (sqlite3_file * f, sqlite3_int64 *ret), (REAL, ret))
PASS(Lock, (sqlite3_file * f, int lock), (REAL, lock))
PASS(Unlock, (sqlite3_file * f, int lock), (REAL, lock))
PASS(CheckReservedLock, (sqlite3_file * f, int *ret), (REAL, ret))
PASS(FileControl, (sqlite3_file * f, int op, void *arg), (REAL, op, arg))
PASS(SectorSize, (sqlite3_file * f), (REAL))
PASS(DeviceCharacteristics, (sqlite3_file * f), (REAL))
PASS(ShmMap, (sqlite3_file * f, int i, int size, int extend, void volatile **ret),
     (REAL, i, size, extend, ret))
PASS(ShmUnmap, (sqlite3_file * f, int delete_it), (REAL, delete_it))

static void digest_ShmBarrier(sqlite3_file *f)
{
	REAL->pMethods->xShmBarrier(REAL);
}

/* ---- locks ---- */

static int lock_shm(struct digest_file *f, int off, int n, int flags)
{
	return f->real->pMethods->xShmLock(f->real, off, n, flags);
}

static void give_back_lock(struct digest_file *f)
{
	if (f->begins_anew)
		(void)lock_shm(f, LOCK_CHECKPOINT, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
	f->begins_anew = false;
}

/*
 * A commit begins the WAL anew when all of it is copied and nobody reads it, and locks readers out for that moment. SQLite
 * before 3.51.3 does so beside a checkpoint that has read the length of the WAL just before and then takes frames of the new
 * one for copied: they are lost (https://sqlite.org/wal.html#walresetbug). So the commit must get the lock of a checkpoint, too.
 * If another connection has it, the commit is added to the WAL, and a later one begins it anew.
 */
static int lock_readers_out(struct digest_file *f, int flags)
{
	int code;

	if (!f->in_checkpoint) {
		code = lock_shm(f, LOCK_CHECKPOINT, 1, flags);
		if (code != SQLITE_OK)
			return code;
		f->begins_anew = true;
	}
	code = lock_shm(f, LOCK_READERS, N_READERS, flags);
	if (code != SQLITE_OK)
		give_back_lock(f);
	return code;
}

static int digest_ShmLock(sqlite3_file *file, int off, int n, int flags)
{
	struct digest_file *f = digest_of(file);
	bool readers = off == LOCK_READERS && n == N_READERS;
	int code;

	if (readers && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE))
		return lock_readers_out(f, flags);
	code = lock_shm(f, off, n, flags);
	if (code == SQLITE_OK && off == LOCK_CHECKPOINT)
		f->in_checkpoint = flags & SQLITE_SHM_LOCK;
	if (readers)
		give_back_lock(f);
	return code;
}

/* Version 2: without xFetch, which would pass pages by that nobody has checked. */
#define METHODS(read, write)                                                                              \
	{                                                                                                 \
		.iVersion = 2, .xClose = digest_close, .xRead = read, .xWrite = write,                    \
		.xTruncate = digest_Truncate, .xSync = digest_Sync, .xFileSize = digest_FileSize,         \
		.xLock = digest_Lock, .xUnlock = digest_Unlock,                                           \
		.xCheckReservedLock = digest_CheckReservedLock, .xFileControl = digest_FileControl,       \
		.xSectorSize = digest_SectorSize, .xDeviceCharacteristics = digest_DeviceCharacteristics, \
		.xShmMap = digest_ShmMap, .xShmLock = digest_ShmLock, .xShmBarrier = digest_ShmBarrier,   \
		.xShmUnmap = digest_ShmUnmap,                                                             \
	}

static const sqlite3_io_methods digest_methods = METHODS(digest_read, digest_write);
static const sqlite3_io_methods wal_methods = METHODS(wal_read, wal_write);
static const sqlite3_io_methods plain_methods = METHODS(journal_read, digest_Write);

/* ---- the layer ---- */

static int digest_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	struct digest_file *f = digest_of(file);
	int code;

	*f = (struct digest_file){ .real = (sqlite3_file *)(f + 1), .unsummed_from = NO_FRAME };
	code = real_vfs->xOpen(real_vfs, name, f->real, flags, ret_flags);
	/* SQLite closes a file that has methods. */
	if (!f->real->pMethods)
		return code;
	f->base.pMethods = flags & SQLITE_OPEN_MAIN_DB ? &digest_methods
			   : flags & SQLITE_OPEN_WAL   ? &wal_methods
						       : &plain_methods;
	if (flags & SQLITE_OPEN_WAL) {
		sqlite3_file *db = sqlite3_database_file_object(name);

		f->db = db && db->pMethods == &digest_methods ? digest_of(db) : NULL;
	}
	return code;
}

/* ---- the file of a connection ---- */

static sqlite3_file *file_of_connection(struct db *db)
{
	sqlite3_file *f = NULL;

	if (sqlite3_file_control(db->sq, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f ||
	    !f->pMethods)
		return NULL;
	return f;
}

static struct digest_file *digest_of_connection(struct db *db)
{
	sqlite3_file *f = file_of_connection(db);

	return f && f->pMethods == &digest_methods ? digest_of(f) : NULL;
}

sqlite3_file *db_file(struct db *db)
{
	struct digest_file *f = digest_of_connection(db);

	return f ? f->real : file_of_connection(db);
}

void db_reserve(struct db *db, int n)
{
	(void)sqlite3_file_control(db->sq, "main", SQLITE_FCNTL_RESERVE_BYTES, &n);
}

void db_pages_known(struct db *db, struct db_pages *ret)
{
	struct digest_file *f = digest_of_connection(db);
	sqlite3_int64 size = 0;

	*ret = (struct db_pages){ 0 };
	if (!f || !f->page_size || f->real->pMethods->xFileSize(f->real, &size) != SQLITE_OK)
		return;
	*ret = (struct db_pages){ f->page_size, (uint64_t)size / f->page_size, f->has_digests };
}

uint64_t db_take_bad_page(struct db *db)
{
	struct digest_file *f = digest_of_connection(db);
	uint64_t page = f ? f->bad_page : 0;

	if (f)
		f->bad_page = 0;
	return page;
}

void db_set_unchecked(struct db *db, bool on)
{
	struct digest_file *f = digest_of_connection(db);

	if (f)
		f->unchecked = on;
}

void db_set_copying(struct db *db, bool on)
{
	struct digest_file *f = digest_of_connection(db);

	if (f)
		f->copying = on;
}

static void register_layer(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	if (!real_vfs)
		return;
	digest_vfs = *real_vfs;
	digest_vfs.pNext = NULL;
	digest_vfs.zName = DB_VFS;
	digest_vfs.szOsFile = (int)sizeof(struct digest_file) + real_vfs->szOsFile;
	digest_vfs.xOpen = digest_open;
	(void)sqlite3_vfs_register(&digest_vfs, 0);
}

void db_register_digests(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_layer);
}
