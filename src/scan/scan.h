/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan: keeps the index up to date. It walks the roots, classifies files, reads the headers of packages at
 * once and their content once, notices changes and removals, and retries failures.
 *
 *   walk         finds new and changed files (size, mtime, inode), at intervals, by inotify, on request
 *   header pass  reads the build IDs in a package's headers: they can be found at once
 *   deep pass    decodes the payload once, streaming, without temporary files: package map and resume points
 *   groom        checks that the files in the index exist, deletes rows of others; never blocks a request
 *
 * One writer thread owns the index's writing connection. The other threads hand it their results, which it
 * commits in batches.
 */
#pragma once

#include "index/index.h"

struct scan;

struct scan_options {
	const char *index_path;
	const char *points_dir;   /* for large sets of resume points: one file a package, "<file
				     id>.<generation hex>" */
	size_t max_inline_points; /* of a set that is kept in the package map itself; 0: 16 KiB */
	const struct str *roots;  /* files, directories, or s3://BUCKET/PREFIX (of s3_shared()) */
	size_t n_roots;
	bool files; /* ELF files (-F) */
	/* ".deb", ...; pkg_kind_by_name() if n is 0 and packages is set */
	const struct str *package_suffixes;
	size_t n_package_suffixes;
	bool packages;
	const char *include_regex, *exclude_regex; /* POSIX ERE over the real path; NULL: none */
	bool regex_groom;                          /* the regexes also apply to grooming */
	bool follow_links;                         /* and cross devices */
	unsigned max_depth;                        /* 0: none */
	unsigned threads;                          /* 0: as many as CPUs */
	int64_t rescan_s, groom_s;                 /* 0: only at the start */
	bool watch;                                /* inotify */
	bool header_only;                          /* deep passes only on request */
	bool tidy_all;                             /* -G */
	bool passive;                              /* read only: no scanning at all */
	/*
	 * May be NULL. Called on the writer's thread after its commit, and must be quick: a file or package
	 * with this build ID can be found now, perhaps could before. @path: of a plain file, or the installed one of a
	 * program in a package; empty: another file of a package.
	 */
	void (*indexed)(void *arg, const struct build_id *id, struct str path);
	void *indexed_arg;
	/*
	 * s3://BUCKET/PREFIX/ of a store: its objects are no files to index, and resume points of packages in buckets that are
	 * not in points_dir are there, perhaps: no reason to scan again. NULL: none.
	 */
	const char *store;
};

int scan_new(const struct scan_options *opts, struct scan **ret, struct err *err);
/* Start the threads. After this the index exists (created, migrated). */
int scan_start(struct scan *s, struct err *err);
/* Stop: running deep passes are cancelled between two chunks; committed changes stay. Then free. Takes
 * NULL. */
void scan_free(struct scan *s);

void scan_rescan(struct scan *s); /* USR1: walk now */
void scan_groom(struct scan *s);  /* USR2 */

struct scan_progress {
	bool passive;        /* the option: then all other fields stay as at the start */
	bool walking, ready; /* ready: the first walk and its header passes are done */
	bool settled;        /* ready, and nothing that was found since is without its header pass */
	bool grooming;
	uint64_t n_seen, n_files_done; /* of this walk */
	uint64_t n_packages, n_packages_headers,
		n_packages_deep; /* of this walk: found, header pass done, deep pass done (or not needed) */
	uint64_t bytes_total, bytes_done; /* compressed, of packages with a deep pass */
	uint64_t n_failed;
	/* Folders and buckets that could not be listed, and an index that lacks files; not 0: it is not settled. */
	unsigned n_unlisted;
	char unlisted[256]; /* one of them, and why */
	int64_t started_mono_ms;
	int64_t walked_mono_ms; /* the end of the last complete walk; 0: none yet */
	int64_t worked_mono_ms; /* when the last file or package was done; 0: none */
};
void scan_progress(struct scan *s, struct scan_progress *ret);
/* Wait until all files found by the walks are scanned, at most @timeout_ms (negative: for ever). true: they
 * are. */
bool scan_wait_idle(struct scan *s, int64_t timeout_ms);
/*
 * Something that was found is not completely in the index yet: a build ID that is missing there may be in it.
 * Packages that wait for their next try, or for a request (header_only), do not count. Quick.
 */
bool scan_unfinished(struct scan *s);

/* An ELF file in a package. */
struct scan_wanted {
	int64_t file; /* the package's row in the index */
	const struct build_id *id;
	uint32_t flags; /* ELF_IS_*: any of these */
};
/*
 * A request waits for @what. The deep pass of its package begins before all others, unless it runs already.
 * @wake(arg) is called once, from a scanning thread, when the file has gone by or the pass has ended; the
 * caller then asks the index, or scan_partial(), again. SCAN_BUSY: too many waiters.
 */
enum { SCAN_BUSY = 1 };
int scan_want(struct scan *s, const struct scan_wanted *what, void (*wake)(void *arg), void *arg);
/*
 * A request waits for a build ID that may be in anything that is not read yet. @wake(arg) is called once: when a file
 * with that build ID has gone by or is committed, when everything is read, at some time after @until_ms, or when its
 * place is needed and @wanted(arg) says that the request has gone. SCAN_BUSY: @max
 * requests wait already. SCAN_READ: everything is read.
 */
enum { SCAN_READ = 3 };
struct scan_sought {
	const struct build_id *id;
	uint32_t flags;   /* ELF_IS_*: any of these */
	int64_t likely;   /* the row of the package whose deep pass begins first; 0: any */
	int64_t until_ms; /* monotonic */
	unsigned max;
	bool (*wanted)(void *arg); /* called under a lock; NULL: always */
};
int scan_seek(struct scan *s, const struct scan_sought *what, void (*wake)(void *arg), void *arg);
/*
 * The package that requests for @id wait for: the one that has it or is likeliest to, else the largest whose deep pass runs.
 * false: none is being read.
 */
#define SCAN_NAME_MAX 128u
struct scan_reading {
	char name[SCAN_NAME_MAX]; /* of its file; printable ASCII */
	uint64_t done, size;      /* compressed bytes */
};
bool scan_reading(struct scan *s, const struct build_id *id, struct scan_reading *ret);

/*
 * While the deep pass runs: the map and the points so far, for pkg_entry_open(), and the number of the entry
 * of @what, if it has gone by. SCAN_NOT_YET: it has not, or no pass runs. The caller frees map and points. With file 0:
 * of any package in which a request's scan_seek() has found it.
 */
enum { SCAN_NOT_YET = 2 };
struct scan_partial {
	int64_t file; /* the package */
	struct pkg_map *map;
	uint32_t number;
	struct buf points;
};
int scan_partial(struct scan *s, const struct scan_wanted *what, struct scan_partial *ret, struct err *err);

/*
 * The index's map of this package is damaged: forget it, and queue the package for another deep pass. Returns when
 * the index says so.
 */
void scan_again(struct scan *s, const struct index_file *f);

/* Whether exclude_regex leaves out the file of this real path. Any thread. */
bool scan_excludes(const struct scan *s, const char *path);

/* The path of the file with a package's resume points. */
void scan_points_path(const char *points_dir, const struct index_file *f, struct buf *ret);

/*
 * The deep pass of one package by itself, without any index: its map and its resume points (empty: none),
 * which the caller frees. @threads: helper threads that it may start.
 */
int scan_one(const char *path, unsigned threads, struct pkg_map **ret_map, struct buf *ret_points,
	     struct err *err);
