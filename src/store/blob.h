/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam below the store: named bytes, each put as a whole.
 *
 * It asks only for operations that object storage in a network has too: put, get by range, list with a
 * cursor, delete, versions. No rename, no append, no lock held from one call to the next. Two operations say what is
 * meant, since the condition that one implementation uses is not to be had in another: put() names the content that a
 * record needs, and collect() removes contents that no record needs.
 * Implementations: blob_memory.c for tests, blob_dir.c.
 *
 * Names are "A/BB/C": two slashes, A and BB of lower-case letters and digits, C of these and '.', '-'. Each
 * call is atomic with respect to all others on that name, from any process. All calls may come from any
 * thread.
 */
#pragma once

#include <errno.h>
#include "base/sha256.h"
#include "io/io.h"

enum {
	BLOB_MISSING = 1,
	BLOB_CHANGED = 2, /* it is not the expected one any more: nothing was done */
	BLOB_YOUNGER = 3, /* it was put or touched after that time: nothing was done */
	BLOB_UNMET = 4,   /* the content that a record needs is gone, or about to go: nothing was put */
	BLOB_UNSURE = 5,  /* contents are left that may not be on disk */
};

/*
 * The blobs are elsewhere, and cannot be reached now (or refuse): all such failures of all calls and sources. It says
 * nothing of what is there, so it is never BLOB_MISSING, nor damage.
 */
static inline bool blob_is_away(const struct err *err)
{
	return err->kind == ERR_IO && err->os == ENOTCONN;
}

/* Of the name of a content, with the end: "data/01/<SHA-256>.zst". */
#define BLOB_CONTENT_NAME_SIZE (5 + 3 + 2 * SHA256_SIZE + 4 + 1)

/* Identifies one version of a blob. Zeroed: no blob. */
struct blob_stamp {
	uint64_t id, size;
	int64_t time_ns; /* wall time of the last put or touch */
};

/*
 * A staging file: a content is gathered in it until its name is known. It is a local file, wherever the blobs
 * are. It ends with its process, at the latest when another one sweeps; but a file with a name and a note
 * stays, so that the upload can go on, until gc.c or the server removes it by its name.
 */
struct staging {
	int fd;
	uint64_t size;
	char *path;      /* of staging_dir.c; NULL: no path */
	char *note_path; /* of its note; NULL: no notes */
	bool has_hash;   /* the note has a hash of the content that was left */
	uint64_t hash;
	void *parts; /* of blob_bucket.c: its upload; NULL: none */
};
#define STAGING_MAX_NAME 1024u

/* The note of a staging file with a name. */
struct staging_note {
	struct str name;  /* any text of up to STAGING_MAX_NAME bytes, without line feeds */
	uint64_t size;    /* of the staging file: bytes after it are ignored */
	uint64_t content; /* bytes of the content in that */
	uint64_t all;     /* ... and of the whole content */
	bool has_hash;
	uint64_t hash;  /* hash64 of the staging file's bytes, seed 0: for raw bytes, which have no check sums
			   of their own */
	int64_t time_s; /* wall time of the note; set by notes() */
};

/* A content without a record. */
struct blob_garbage {
	char name[BLOB_CONTENT_NAME_SIZE];
	int outcome; /* set by collect(): 0: removed; BLOB_MISSING; BLOB_YOUNGER */
};

typedef int blob_list_fn(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err);

/*
 * A record may have several versions for a while, where blobs cannot be replaced in one step: the present one, which all other
 * calls are about, and others beside it.
 */
enum blob_place {
	BLOB_PRESENT,
	BLOB_BESIDE,   /* its writer may be at work */
	BLOB_REPLACED, /* left over: the present one has taken its place */
	BLOB_RIVAL, /* left over: of a writer that met that of the present one. Either may be acknowledged */
};

/* One version of a record, read by a scan. */
struct blob_scanned {
	const char *name;
	struct blob_stamp stamp;
	enum blob_place place;
	int outcome; /* of reading it, as of get(); negative: *why */
	struct bytes content;
	const struct err *why;
	const char *needs; /* as put() was told; NULL: that is not known but from the record */
};
typedef int blob_scan_fn(void *arg, const struct blob_scanned *s, struct err *err);

struct blobs;
struct blobs_ops {
	/*
	 * With a @name (else empty): the file that was left under it, with its bytes, or a new one. A name
	 * has one writer: a second one gets a file without a name, as do all in implementations that keep
	 * nothing.
	 */
	int (*staging)(struct blobs *b, struct str name, struct staging *ret, struct err *err);
	void (*staging_done)(struct blobs *b, struct staging *s,
			     bool keep); /* accepts a zeroed one with fd -1. @keep it, if it has a note */
	/* Note the progress. Not durable: the process that goes on must check the bytes. */
	int (*staging_note)(struct blobs *b, struct staging *s, const struct staging_note *note,
			    struct err *err);
	/*
	 * The staging file, of which about @all bytes are expected, will be put under @name, unless it turns out to be another
	 * content: implementations that are far away may begin to carry over its bytes, up to each note. May be NULL.
	 */
	void (*staging_expect)(struct blobs *b, struct staging *s, const char *name, uint64_t all);
	/* The notes of all staging files, including those being written. */
	int (*notes)(struct blobs *b, int (*fn)(void *arg, const struct staging_note *note), void *arg,
		     struct err *err);
	/*
	 * Put the content of the staging file under @name, durable when this returns. With @keep, a blob of
	 * that size stays, and counts as put now, unless a sync of it has failed; without it, a blob is
	 * replaced. The staging file stays the caller's, and may be put again.
	 */
	int (*put_staged)(struct blobs *b, const char *name, struct staging *s, bool keep, struct err *err);
	/*
	 * The same for bytes in memory, replacing the blob if it is still @expect (else BLOB_CHANGED). @needs: the
	 * name of the content that these bytes are the record of, which was put before; NULL: none. If collect()
	 * has removed it, or may be about to: BLOB_UNMET; put the content again, then the record. Implementations
	 * in which a put or touch keeps collect() away need not look.
	 */
	int (*put)(struct blobs *b, const char *name, struct bytes content, const char *needs,
		   const struct blob_stamp *expect, struct err *err);
	/*
	 * Make the blob durable, whichever process put it; or, if there is none, its removal: BLOB_MISSING.
	 * After a failed sync the pages count as clean though they are not on disk, so another sync proves
	 * nothing: it is an error until the blob is put again.
	 */
	int (*settle)(struct blobs *b, const char *name, struct err *err);
	/*
	 * The same for all blobs and all removals up to now. BLOB_UNSURE: but for contents whose last sync has failed, since
	 * they may be large; settle() knows which.
	 */
	int (*settle_all)(struct blobs *b, struct err *err);
	/* For reading at random. A blob that is removed or replaced meanwhile can still be read.
	 * BLOB_MISSING. */
	int (*open)(struct blobs *b, const char *name, struct source **ret, struct err *err);
	/* The whole blob, up to @max bytes (ERR_LIMIT); *ret_stamp is of exactly these bytes.
	 * BLOB_MISSING. */
	int (*get)(struct blobs *b, const char *name, size_t max, struct buf *ret,
		   struct blob_stamp *ret_stamp, struct err *err);
	int (*stat)(struct blobs *b, const char *name, struct blob_stamp *ret,
		    struct err *err); /* BLOB_MISSING */
	/* Set its time to now. BLOB_MISSING. */
	int (*touch)(struct blobs *b, const char *name, struct err *err);
	/* Only that version, untouched since (else BLOB_CHANGED); @seen NULL: any. BLOB_MISSING. */
	int (*remove)(struct blobs *b, const char *name, const struct blob_stamp *seen, struct err *err);
	/*
	 * Remove contents without a record, as the caller found after @not_after_ns: those put or touched later stay
	 * (BLOB_YOUNGER), and so do those that a record may have come to need since.
	 */
	int (*collect)(struct blobs *b, struct blob_garbage *v, size_t n, int64_t not_after_ns,
		       struct err *err);
	/*
	 * Blobs in the order of their names' bytes, those that begin with @prefix (at least "A/") and are
	 * greater than @after (may be empty). Blobs that are added or removed meanwhile may be reported or
	 * not. A non-zero return of @fn ends it and is returned.
	 */
	int (*list)(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		    struct err *err);
	/*
	 * This thread is about to put an object, and asks for these blobs before: ask for all of them at once. Until look_end()
	 * its questions may be answered from that, and from what it puts. Nested looks are one. Both NULL: asking costs
	 * nothing.
	 */
	void (*look)(struct blobs *b, const char *const *names, size_t n);
	void (*look_end)(struct blobs *b);
	/*
	 * As list(), of records only, with the content of each, at most @max bytes (else its outcome is ERR_LIMIT): blobs
	 * that are far away are read many at a time. Of each name the present version is reported first. NULL: blobs_scan()
	 * reads one after the other.
	 */
	int (*scan)(struct blobs *b, struct str prefix, struct str after, size_t max, blob_scan_fn *fn,
		    void *arg, struct err *err);
	/*
	 * Read, and remove, the version @seen of a record, which is left over as a scan has said. BLOB_MISSING.
	 * BLOB_CHANGED: it is the present one, and stays. NULL where there are no others.
	 */
	int (*get_beside)(struct blobs *b, const char *name, const struct blob_stamp *seen, size_t max,
			  struct buf *ret, struct err *err);
	int (*remove_beside)(struct blobs *b, const char *name, const struct blob_stamp *seen,
			     struct err *err);
	/* Bytes in all staging files that are no blobs yet. */
	int (*staged)(struct blobs *b, uint64_t *ret_bytes, struct err *err);
	/* Remove the staging files of processes that have ended, except those with a note. */
	int (*sweep)(struct blobs *b, uint64_t *ret_n, struct err *err);
	void (*close)(struct blobs *b);
};
struct blobs {
	const struct blobs_ops *ops;
	bool remote; /* each call may take long, and reading costs: nothing is read without need */
};

/* 0 and *ret. A missing folder is created with @create, else it is ERR_IO; a folder that is no store is
 * ERR_INVALID. */
int blobs_open_dir(const char *dir, bool create, struct blobs **ret, struct err *err);
struct blobs *blobs_open_memory(void);

/* ---- blob_scan.c ---- */

int blobs_scan(struct blobs *b, struct str prefix, struct str after, size_t max, blob_scan_fn *fn, void *arg,
	       struct err *err);

/* ---- blob_cache.c: a cache of whole contents in a folder, in front of blobs that are far away ---- */

struct blob_cache_options {
	const char *dir;   /* made if need be; for one process at a time */
	uint64_t budget;   /* bytes of files; a content that is larger than a quarter is not kept */
	size_t max_files;  /* 0: 65536 */
	struct room *room; /* borrowed; NULL: none */
};
/*
 * A record that was there when the blobs could be reached last is answered from memory for this long, while they cannot be.
 * It may have been replaced meanwhile, or removed.
 */
#define BLOB_CACHE_RECORD_S 900
/* Takes @under, also on failure. ERR_BUSY: another process has the folder. */
int blobs_open_cache(struct blobs *under, const struct blob_cache_options *o, struct blobs **ret,
		     struct err *err);
struct blob_cache_figures {
	uint64_t size, n_files, budget;
	uint64_t n_kept, n_fetched,
		n_passed; /* contents that were opened: from a file, after a fetch, without one */
	uint64_t n_stale; /* records from memory */
	uint64_t n_evicted, n_damaged; /* files */
};
/* The record as it was at most BLOB_CACHE_RECORD_S ago, without a question to the other side. */
bool blobs_recall(struct blobs *b, const char *name, size_t max, struct buf *ret,
		  struct blob_stamp *ret_stamp);
bool blobs_cache_figures(struct blobs *b, struct blob_cache_figures *ret); /* false: @b is no cache */

/* ---- blob_dir_make.c: the marker of a store ---- */

#define BLOB_MARKER      "lode-store"
#define BLOB_MARKER_TEXT "lode store 1\n"
/* "lode store N\n", of a later version; any other text is a damaged marker, or none. */
bool blob_marker_is_newer(struct str text);

/* ---- staging_dir.c: stagings in the folder tmp/ of the store at @dir ---- */

int staging_dir_open(const char *dir, struct str name, struct staging *ret, struct err *err);
void staging_dir_done(struct staging *s, bool keep);
int staging_dir_note(struct staging *s, const struct staging_note *note, struct err *err);
int staging_dir_notes(const char *dir, int (*fn)(void *arg, const struct staging_note *note), void *arg,
		      struct err *err);
int staging_dir_staged(const char *dir, uint64_t *ret_bytes, struct err *err);
int staging_dir_sweep(const char *dir, uint64_t *ret_n, struct err *err);

/* ---- staging.c ---- */

int staging_write(struct staging *s, struct bytes b, struct err *err);
/* A source over its present content. */
int staging_source(const struct staging *s, const char *name, struct source **ret, struct err *err);
