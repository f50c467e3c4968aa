/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index: build ID -> file or package member, path -> package.
 *
 * The database has only the keys of look-ups; the content of a package is in its map (pkg.h), one blob. There is
 * no row for each source file: a package has a row for each *directory* with regular files (by hash), and its
 * map has the rest.
 *
 * A `struct index` is one connection and belongs to one thread. There is one writer at a time; readers see
 * whole transactions.
 */
#pragma once

#include "db/db.h"
#include "pkg/pkg.h"

enum { INDEX_MISSING = 1 };

enum index_kind {
	INDEX_PLAIN = 1, /* an ELF file on disk (perhaps compressed: .ko.xz) */
	INDEX_PACKAGE = 2,
};

enum index_state {
	INDEX_HEADER =
		1, /* a package whose headers were read: its build IDs are known, the members are not */
	INDEX_SCANNED = 2, /* scanned completely, without errors */
	INDEX_FAILED = 3,  /* see reason; tried again at next_try_s */
	INDEX_QUEUED = 4,  /* found, nothing read yet */
};

struct index_file {
	int64_t id;
	struct str path; /* absolute */
	enum index_kind kind;
	enum index_state state;
	uint64_t size;
	int64_t mtime_ns;
	uint64_t inode, dev;
	struct str reason; /* of the failure */
	enum err_kind reason_kind;
	uint32_t tries;
	int64_t next_try_s;    /* wall; 0: not until it changes */
	int64_t scanned_s;     /* wall */
	enum codec_kind inner; /* compression of plain files */
	uint64_t inner_size;
	uint64_t points_size; /* of the resume points file; 0: none */
	uint64_t generation;  /* changes with every new content; part of the names of cached data */
};

/*
 * The next try of a failed file has come: its time has, or the clock was set back since it failed, so that this time may be
 * wrong by years.
 */
bool index_is_retried(const struct index_file *f, int64_t now_s);
/* Size, time and identity of the file at the scan, as stat(2) has them. */
void index_file_stat(const struct index_file *f, struct stat *ret);

/* A file or member with a build ID. */
#define INDEX_NO_MEMBER UINT32_MAX
struct index_artifact {
	struct build_id build_id;
	uint32_t flags;  /* enum elf_flags; 0 if only the header pass has seen it */
	uint32_t member; /* pkg_entry.number, or INDEX_NO_MEMBER: a plain file, or not known yet */
};
/* Another identity of a file: docs/decisions/0031-identities.md. */
struct index_alias {
	struct build_id alias, build_id;
};
struct index_hit {
	struct index_artifact artifact;
	struct index_file file; /* strings are in the arena given */
};

struct index_options {
	bool read_only;
};

struct index;
/*
 * Opens, creates, migrates. A damaged database is ERR_DAMAGED, one of a newer lode or of another program ERR_INVALID,
 * both with advice.
 */
int index_open(const char *path, const struct index_options *opts, struct index **ret, struct err *err);
void index_close(struct index *ix);
/*
 * Set a damaged index aside, durably: *ret_aside is its new path (heap), and @err the reason; NULL: it is sound, or there
 * is none. A scan makes it anew. Nobody else may have it open. Of an index of more than 512 MiB only the pages are
 * checked that opening it reads.
 */
int index_mend(const char *path, char **ret_aside, struct err *err);

/*
 * ---- damage that is found in use ----
 *
 * @fn is called, on the thread that meets it and within that call, when a connection of this process to the same path
 * has met a damaged page; it must not block or use the index. NULL: none.
 */
void index_on_damage(struct index *ix, void (*fn)(void *arg), void *arg);
bool index_is_damaged(const struct index *ix);
/*
 * Set the index aside and begin an empty one in its place, which all connections of this process use from their next
 * statement on. Of the one thread that writes, between transactions; not in memory. *ret_aside: the new path of the old
 * one, heap. ERR_LIMIT: it was done too often since the start.
 */
int index_remake(struct index *ix, char **ret_aside, struct err *err);

/*
 * ---- copies for other nodes ----
 *
 * Write a copy of the index @path, with the rows of files in buckets only, to the file @to, which is replaced. Others may
 * read and write the index meanwhile; the copy is that of one moment.
 */
int index_export(const char *path, const char *to, struct err *err);
/* Whether a row is wanted. */
typedef bool index_keep_fn(void *arg, const struct index_file *f);
/*
 * The copy @from, with the rows that @keep wants, becomes the index @path, durably; there is none yet. Each page is compared
 * with its digest. Identifiers and generations are those of the copy. On failure @from may have been changed.
 */
int index_import(const char *from, const char *path, index_keep_fn *keep, void *arg, struct err *err);

/*
 * ---- writing: many calls between begin and commit; each call alone is a transaction of its own ----
 * A call that fails within a transaction spoils it: only index_rollback() is possible then. A call for a file
 * that is not there is INDEX_MISSING, and nothing was done.
 */
int index_begin(struct index *ix, struct err *err);
int index_commit(struct index *ix, struct err *err);
void index_rollback(struct index *ix);

/* Insert the file, or replace the row of this path: artifacts, map and directories are deleted. Writes its id
 * and a new generation into @f. */
int index_put(struct index *ix, struct index_file *f, struct err *err);
int index_add_artifacts(struct index *ix, int64_t file, const struct index_artifact *list, size_t n,
			struct err *err);
int index_add_aliases(struct index *ix, int64_t file, const struct index_alias *list, size_t n,
		      struct err *err);
/*
 * Store the result of the deep pass: replace the artifacts of the header pass, store the map and the hashes
 * of the directories, set INDEX_SCANNED. A transaction of its own if none is open.
 */
struct index_content {
	struct bytes map;
	uint64_t points_size;
	const struct index_artifact *artifacts;
	size_t n_artifacts;
	const uint64_t *dirs;
	size_t n_dirs;
	const struct index_alias *aliases;
	size_t n_aliases;
};
int index_set_map(struct index *ix, int64_t file, const struct index_content *c, struct err *err);
/* Note a failure. Rows of the header pass stay. @next_try_s 0: no retry until the file changes. */
int index_fail(struct index *ix, int64_t file, const struct err *why, int64_t next_try_s, struct err *err);
/*
 * The map of a scanned package, or its resume points, cannot be used: back to INDEX_HEADER, with a new generation, so
 * that it gets another deep pass. Its artifacts stay until then.
 */
int index_reset(struct index *ix, int64_t file, struct err *err);
int index_touch(struct index *ix, int64_t file, int64_t mtime_ns, uint64_t inode, uint64_t dev,
		struct err *err); /* same content, moved or copied */
int index_del(struct index *ix, int64_t file, struct err *err);
int index_del_damaged(struct index *ix, int64_t file, struct err *err); /* only if its row cannot be read */
/* Vacuum incrementally, checkpoint the WAL; @all: VACUUM. Not within a transaction. */
int index_tidy(struct index *ix, bool all, struct err *err);

/* ---- reading ---- */
int index_find(struct index *ix, const struct build_id *id, struct arena *a, struct index_hit **ret,
	       size_t *ret_n, struct err *err); /* newest mtime first; INDEX_MISSING */
/*
 * The build ID of the file with this other identity; of several files that of the one that came last. INDEX_MISSING, also
 * if it is the build ID of a file.
 */
int index_alias(struct index *ix, const struct build_id *alias, struct build_id *ret, struct err *err);
/* Every build ID and alias in the index, in rising order, each once. A non-zero return of @fn ends it and is
 * returned. */
int index_build_ids(struct index *ix, int (*fn)(void *arg, const struct build_id *id), void *arg,
		    struct err *err);
/* The build ID that begins with these bytes. INDEX_MISSING: there is none, or more than one. */
int index_complete(struct index *ix, struct bytes prefix, struct build_id *ret, struct err *err);
/* false only if it is certain that no file has it as build ID. */
bool index_owns(struct index *ix, const struct build_id *id);
/* false only if it is certain that no file has it, as build ID or alias. */
bool index_has(struct index *ix, const struct build_id *id);
int index_file_by_path(struct index *ix, struct str path, struct arena *a, struct index_file *ret,
		       struct err *err);
int index_file_by_id(struct index *ix, int64_t id, struct arena *a, struct index_file *ret, struct err *err);
int index_artifacts_of(struct index *ix, int64_t file, struct arena *a, struct index_artifact **ret,
		       size_t *ret_n, struct err *err);
int index_map(struct index *ix, int64_t file, struct pkg_map **ret, struct err *err); /* INDEX_MISSING */
/* Packages with a regular file in this directory (canonical, no leading slash): index_dir_hash(). May return
 * one without. */
uint64_t index_dir_hash(struct str dir);
int index_find_dir(struct index *ix, uint64_t hash, struct arena *a, struct index_file **ret, size_t *ret_n,
		   struct err *err);
/* Files with id > @after in rising order, up to @max; of this kind and state, 0: of any. */
struct index_range {
	enum index_kind kind;
	enum index_state state;
	int64_t after;
	size_t max;
};
int index_list(struct index *ix, const struct index_range *range, struct arena *a, struct index_file **ret,
	       size_t *ret_n, struct err *err);
/* The first file after @after whose row has a value that lode does not write, so that no list goes past it. INDEX_MISSING. */
int index_first_damaged(struct index *ix, int64_t after, int64_t *ret, struct err *err);
/*
 * Call @fn for each file of this kind and state (0: of any), in rising order of ids. @fn may delete the file. A return of
 * @fn other than 0 ends it and is returned. What @f points to is valid during the call.
 */
typedef int index_each_fn(void *arg, const struct index_file *f, struct err *err);
int index_each(struct index *ix, enum index_kind kind, enum index_state state, index_each_fn *fn, void *arg,
	       struct err *err);
/* The same for each file at or below this path, which ends in no slash, in any order; @fn may not delete it. */
int index_each_below(struct index *ix, struct str path, index_each_fn *fn, void *arg, struct err *err);
/* Packages that are due for a deep pass: QUEUED and HEADER, and FAILED for which index_is_retried(); up to
 * @max. */
int index_due(struct index *ix, int64_t now_s, size_t max, struct arena *a, struct index_file **ret,
	      size_t *ret_n, struct err *err);
/*
 * Packages that wait for their first deep pass and whose header lists no build IDs, so that any build ID may be in them;
 * newest first, of the newest @max packages that wait. *ret_all: no others wait.
 */
int index_unlisted(struct index *ix, size_t max, struct arena *a, struct index_file **ret, size_t *ret_n,
		   bool *ret_all, struct err *err);

struct index_stats {
	uint64_t n_files /* includes packages */, n_packages, n_header_only, n_scanned, n_failed, n_build_ids,
		n_executables, n_debug;
	uint64_t package_bytes, map_bytes, points_bytes, db_bytes;
};
int index_stats(struct index *ix, struct index_stats *ret, struct err *err);

/* Grows with every commit on any connection of this process that removed or replaced a file: cached answers
 * that are older must be looked up again. */
uint64_t index_epoch(void);
/* Changes when another connection, of any process, has committed. Comparable only for the same @ix. */
int index_version(struct index *ix, int64_t *ret, struct err *err);
/* As db_mark(): two equal marks were taken with no commit between them. Any thread. */
bool index_mark(const struct index *ix, struct db_mark *ret);

/* One result of a metadata query. */
struct index_metadata {
	bool debuginfo; /* else executable; a file that is both is two results */
	struct build_id build_id;
	struct build_id go, hash; /* its aliases; size 0: none is known */
	struct str file;          /* absolute, or the member's path with a leading slash */
	struct str archive;       /* empty: plain */
};
/*
 * The meaning of "glob", for other modules that match paths: as fnmatch(3) with FNM_PATHNAME in the C locale.
 * No wildcard matches a slash; bytes are compared, whatever they are; the time is at most the product of both
 * lengths.
 */
bool index_glob_match(struct str pattern, struct str s);

/* The query of /metadata: the build IDs of a path, or the paths of a build ID. */
struct index_metadata_query {
	/*
	 * "file": value is an absolute path. "glob": value is a pattern; its dirname and its basename are
	 * matched separately, each as fnmatch(3) with FNM_PATHNAME. "buildid": value is a build ID in hex.
	 */
	struct str key, value;
	struct str cursor;        /* where this page begins; empty: the first page */
	size_t max;               /* results of a page; above 0 */
	int64_t deadline_mono_ms; /* the search stops then; 0: no deadline */
	/* Called for each result. A return other than 0 ends the query and is its return. */
	int (*fn)(void *arg, const struct index_metadata *m);
	void *arg;
};
struct index_metadata_page {
	/* The cursor of the next page; empty: there are no more results. The caller frees it. */
	struct buf next;
	/* false: the deadline has passed, or packages still wait for their deep pass, so there may be
	 * more. */
	bool complete;
};
/* Give @q->fn the results of one page. A cursor or value that is not valid is ERR_INVALID. */
int index_metadata(struct index *ix, const struct index_metadata_query *q, struct index_metadata_page *ret,
		   struct err *err);
