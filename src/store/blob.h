/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam below the store: named bytes, each put as a whole.
 *
 * What it asks for is what an object storage in the network has too: put, get by range, list with a cursor,
 * delete, conditions on put and delete. No rename, no append, no lock that is held from one call to the next.
 * Implementations: blob_memory.c for tests, blob_dir.c.
 *
 * Names are "A/BB/C": two slashes, A and BB of lower-case letters and digits, C of these and '.', '-'. Each
 * call is atomic beside all others on that name, of whatever process. All calls may come from any thread.
 */
#pragma once

#include "io/io.h"

enum {
	BLOB_MISSING = 1,
	BLOB_CHANGED = 2, /* it is not what was expected any more: nothing was done */
	BLOB_YOUNGER = 3, /* it was put or touched since: nothing was done */
};

/* Which one it is. Zeroed: there is none. */
struct blob_stamp {
	uint64_t id, size;
	int64_t time_ns; /* wall time of the last put or touch */
};

/*
 * Where a content is gathered until its name is known: a local file, whatever the blobs lie in. It goes with
 * the process that made it, at the latest when another one sweeps; but one that has a name and a note stays
 * for STAGING_KEEP_S, for who goes on with it.
 */
struct staging {
	int fd;
	uint64_t size;
	char *path;      /* staging_dir.c's; NULL: it has none */
	char *note_path; /* of its note; NULL: it cannot have one */
	bool has_hash;   /* of what was left in it: as noted */
	uint64_t hash;
};
#define STAGING_KEEP_S   7200
#define STAGING_MAX_NAME 1024u

/* What is noted of a staging that has a name. */
struct staging_note {
	struct str name;  /* whose it is: any text of up to STAGING_MAX_NAME bytes, without line feeds */
	uint64_t size;    /* of the staging: what comes behind was not noted */
	uint64_t content; /* bytes that went into that */
	uint64_t all;     /* ... of so many */
	bool has_hash;
	uint64_t hash;  /* hash64 of the staging's bytes, seed 0: of those that do not tell by themselves that
			   they are whole */
	int64_t time_s; /* wall time of the note; given back */
};

typedef int blob_list_fn(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err);

struct blobs;
struct blobs_ops {
	/*
	 * With a @name (else empty): the one that was left under it, with its bytes, or a new one. One name
	 * is one writer's: another gets a staging that has none. Implementations that keep nothing give such to
	 * all.
	 */
	int (*staging)(struct blobs *b, struct str name, struct staging *ret, struct err *err);
	void (*staging_done)(struct blobs *b, struct staging *s,
			     bool keep); /* takes the zeroed with fd -1. @keep it, if it has a note */
	/* Note how far it is. Not durable: who goes on must see for himself that the bytes are right. */
	int (*staging_note)(struct blobs *b, struct staging *s, const struct staging_note *note,
			    struct err *err);
	/* The notes of all stagings, also of those that are being written. */
	int (*notes)(struct blobs *b, int (*fn)(void *arg, const struct staging_note *note), void *arg,
		     struct err *err);
	/*
	 * The staging's content under @name, durable when this returns. If one of that size is there it stays,
	 * and is as good as put now. The staging stays the caller's, and may be put again.
	 */
	int (*put_staged)(struct blobs *b, const char *name, struct staging *s, struct err *err);
	/* The same with bytes at hand, in place of what was there: if that is still @expect (else
	 * BLOB_CHANGED). */
	int (*put)(struct blobs *b, const char *name, struct bytes content, const struct blob_stamp *expect,
		   struct err *err);
	/* What is there is durable when this returns, whoever put it. BLOB_MISSING. */
	int (*settle)(struct blobs *b, const char *name, struct err *err);
	/* At random. What is removed or replaced meanwhile can still be read. BLOB_MISSING. */
	int (*open)(struct blobs *b, const char *name, struct source **ret, struct err *err);
	/* All of it, if it is not longer than @max (ERR_LIMIT); *ret_stamp is of these very bytes.
	 * BLOB_MISSING. */
	int (*get)(struct blobs *b, const char *name, size_t max, struct buf *ret,
		   struct blob_stamp *ret_stamp, struct err *err);
	int (*stat)(struct blobs *b, const char *name, struct blob_stamp *ret,
		    struct err *err); /* BLOB_MISSING */
	/* As if it were put now. BLOB_MISSING. */
	int (*touch)(struct blobs *b, const char *name, struct err *err);
	/* Unless it was put or touched after @not_after_ns (BLOB_YOUNGER). BLOB_MISSING. */
	int (*remove)(struct blobs *b, const char *name, int64_t not_after_ns, struct err *err);
	/*
	 * In the order of their bytes, those that begin with @prefix (at least "A/") and come behind @after
	 * (may be empty). What comes or goes meanwhile is told or not. fn's non-zero return ends it and is
	 * returned.
	 */
	int (*list)(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn, void *arg,
		    struct err *err);
	/* Bytes in all stagings that are no blobs yet. */
	int (*staged)(struct blobs *b, uint64_t *ret_bytes, struct err *err);
	/* Remove the stagings of processes that are gone. */
	int (*sweep)(struct blobs *b, uint64_t *ret_n, struct err *err);
	void (*close)(struct blobs *b);
};
struct blobs {
	const struct blobs_ops *ops;
};

/* 0 and *ret; one that is not there is made with @create, else ERR_IO; what is no store is ERR_INVALID. */
int blobs_open_dir(const char *dir, bool create, struct blobs **ret, struct err *err);
struct blobs *blobs_open_memory(void);

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
/* Of what is in it now. */
int staging_source(const struct staging *s, const char *name, struct source **ret, struct err *err);
