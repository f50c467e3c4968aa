/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index: what is where: build ID -> file or package member, path -> package.
 *
 * Only what is looked up is in the database; what a package holds is in its map (pkg.h), one blob. There is
 * no row per source file: a package has a row per *directory* that holds regular files (by hash), and its map
 * knows the rest.
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
	INDEX_HEADER = 1,  /* a package whose headers were read: build IDs are known, places are not */
	INDEX_SCANNED = 2, /* all that there is to know, after a clean end */
	INDEX_FAILED = 3,  /* see reason; tried again at next_try_s */
	INDEX_QUEUED = 4,  /* seen, nothing read yet */
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
	int64_t next_try_s;    /* wall; 0: not again until it changes */
	int64_t scanned_s;     /* wall */
	enum codec_kind inner; /* plain files: compressed by */
	uint64_t inner_size;
	uint64_t points_size; /* of the resume points file; 0: none */
	uint64_t generation;  /* changes with every new content: names cached things */
};

/* What a build ID leads to. */
#define INDEX_NO_MEMBER UINT32_MAX
struct index_artifact {
	struct build_id build_id;
	uint32_t flags;  /* enum elf_flags; 0 where only the header pass has seen it */
	uint32_t member; /* pkg_entry.number, or INDEX_NO_MEMBER: plain, or not known yet */
};
struct index_hit {
	struct index_artifact artifact;
	struct index_file file; /* strings live in the arena given */
};

struct index_options {
	bool read_only;
};

struct index;
/* Opens, creates, migrates. A damaged database or one of a newer lode: ERR_INVALID that says what to do. */
int index_open(const char *path, const struct index_options *opts, struct index **ret, struct err *err);
void index_close(struct index *ix);

/*
 * ---- writing: many calls between begin and commit; each call alone is a transaction of its own ----
 * A call that fails within a transaction spoils it: what is left is index_rollback(). What speaks of a file
 * that is not there is INDEX_MISSING, and nothing was done.
 */
int index_begin(struct index *ix, struct err *err);
int index_commit(struct index *ix, struct err *err);
void index_rollback(struct index *ix);

/* Insert, or replace all about this path: artifacts, map and directories go. Gives it an id and a fresh
 * generation, written into @f. */
int index_put(struct index *ix, struct index_file *f, struct err *err);
int index_add_artifacts(struct index *ix, int64_t file, const struct index_artifact *list, size_t n,
			struct err *err);
/*
 * The deep pass is through: replace the header pass's artifacts by these, store the map and the directories'
 * hashes, state INDEX_SCANNED. One transaction of its own if none is open.
 */
int index_set_map(struct index *ix, int64_t file, struct bytes map, uint64_t points_size,
		  const struct index_artifact *list, size_t n, const uint64_t *dirs, size_t n_dirs,
		  struct err *err);
/* It failed. What the header pass said of it stays. @next_try_s 0: not until it changes. */
int index_fail(struct index *ix, int64_t file, const struct err *why, int64_t next_try_s, struct err *err);
int index_touch(struct index *ix, int64_t file, int64_t mtime_ns, uint64_t inode, uint64_t dev,
		struct err *err); /* same content, moved or copied */
int index_del(struct index *ix, int64_t file, struct err *err);
/* Vacuum incrementally, checkpoint the WAL; @all: VACUUM. Not within a transaction. */
int index_tidy(struct index *ix, bool all, struct err *err);

/* ---- reading ---- */
int index_find(struct index *ix, const struct build_id *id, struct arena *a, struct index_hit **ret,
	       size_t *ret_n, struct err *err); /* newest mtime first; INDEX_MISSING */
/* Every build ID that a file has, in rising order, each once. fn's non-zero return ends it and is returned.
 */
int index_build_ids(struct index *ix, int (*fn)(void *arg, const struct build_id *id), void *arg,
		    struct err *err);
/* The one build ID that begins with these bytes. INDEX_MISSING: none does, or several do. */
int index_complete(struct index *ix, struct bytes prefix, struct build_id *ret, struct err *err);
/* False only when it is certain that nothing has it. */
bool index_has(struct index *ix, const struct build_id *id);
int index_file_by_path(struct index *ix, struct str path, struct arena *a, struct index_file *ret,
		       struct err *err);
int index_file_by_id(struct index *ix, int64_t id, struct arena *a, struct index_file *ret, struct err *err);
int index_artifacts_of(struct index *ix, int64_t file, struct arena *a, struct index_artifact **ret,
		       size_t *ret_n, struct err *err);
int index_map(struct index *ix, int64_t file, struct pkg_map **ret, struct err *err); /* INDEX_MISSING */
/* Packages that hold a regular file in this directory (canonical, no leading slash): index_dir_hash(). May
 * give one that does not. */
uint64_t index_dir_hash(struct str dir);
int index_find_dir(struct index *ix, uint64_t hash, struct arena *a, struct index_file **ret, size_t *ret_n,
		   struct err *err);
/* Files with id > @after in rising order, up to @max; by state, or any with 0. For groom, lists and globs. */
int index_list(struct index *ix, enum index_kind kind, enum index_state state, int64_t after, size_t max,
	       struct arena *a, struct index_file **ret, size_t *ret_n, struct err *err);
/* Packages to be scanned now: QUEUED and HEADER, and FAILED whose next_try has come; up to @max. */
int index_due(struct index *ix, int64_t now_s, size_t max, struct arena *a, struct index_file **ret,
	      size_t *ret_n, struct err *err);

struct index_stats {
	uint64_t n_files /* packages too */, n_packages, n_header_only, n_scanned, n_failed, n_build_ids,
		n_executables, n_debug;
	uint64_t package_bytes, map_bytes, points_bytes, db_bytes;
};
int index_stats(struct index *ix, struct index_stats *ret, struct err *err);

/* Grows with every commit that removed or replaced something, in any process' connection of this one: cached
 * answers older than it are asked anew. */
uint64_t index_epoch(void);
/* Changes whenever another connection, of whichever process, has committed something. Comparable for one and
 * the same @ix only. */
int index_version(struct index *ix, int64_t *ret, struct err *err);
/* As db_mark(): equal ones were taken with no commit between them. Any thread. */
bool index_mark(const struct index *ix, struct db_mark *ret);

/* One result of a metadata query. */
struct index_metadata {
	bool debuginfo; /* else executable; a file that is both is two results */
	struct build_id build_id;
	struct str file;    /* absolute, or the member's path with a leading slash */
	struct str archive; /* empty: plain */
};
/*
 * What "glob" means, for others who have paths: as fnmatch(3) with FNM_PATHNAME in the C locale. No wildcard
 * matches a slash; bytes are compared, whatever they are; the time is at most the product of both lengths.
 */
bool index_glob_match(struct str pattern, struct str s);

/* The query behind /metadata: the build IDs of a path, or the paths of a build ID. */
struct index_metadata_query {
	/*
	 * "file": value is an absolute path. "glob": value is a pattern; its dirname and its basename are matched
	 * separately, each as fnmatch(3) with FNM_PATHNAME. "buildid": value is a build ID in hex.
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
	/* false: the deadline has passed, or packages still wait for their deep pass, so there may be more. */
	bool complete;
};
/* Give @q->fn the results of one page. A cursor or value that is not valid is ERR_INVALID. */
int index_metadata(struct index *ix, const struct index_metadata_query *q, struct index_metadata_page *ret,
		   struct err *err);
