/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan's own: what its files ask of each other.
 *
 *   walk.c     finds candidates          -> looks queue
 *   look.c     classifies one candidate  -> writer queue      (looking threads)
 *   deep.c     one package's deep pass: a function from a source to facts and blobs
 *   job.c      which package is next; who waits for it        (deep threads)
 *   writer.c   all changes of the index, in batches           (one thread)
 *   watch.c    inotify                                        (one thread)
 *   groom.c    what is gone                                   (one thread)
 *   scan.c     puts them together
 */
#pragma once

#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include "scan/scan.h"

#define SCAN_MAX_INNER MIB(512) /* a compressed kernel module, decoded, while it is classified */
/* Resume points up to here lie in the package map, not in a file of their own. */
#define SCAN_INLINE_POINTS KIB(16)
#define SCAN_LANDMARK_SIZE MIB(8) /* members from here on get a resume point of their own */
#define SCAN_MAX_WAITERS   4096u
#define SCAN_BATCH         512u /* changes a transaction */
#define SCAN_RETRY_FIRST_S 60
#define SCAN_RETRY_LAST_S  86400
/* Files that hold nothing, remembered so that they are not opened again. */
#define SCAN_MAX_NOTHING (4u << 20)

/* ---- deep.c ---- */

/* What a deep pass tells while it runs; called on its thread. */
struct deep_tap {
	void *arg;
	/* More was read: @done compressed bytes. Non-zero: stop, ERR_CANCELLED. */
	int (*progress)(void *arg, uint64_t done);
	/* 0: nobody waits. Else how many ever did: `seen` is called for each ELF file, and after a change for
	 * all that went by */
	unsigned (*wanted)(void *arg);
	/* An ELF file has gone by, whole. true: make a snapshot (`partial`) now. */
	bool (*seen)(void *arg, const struct elf_facts *what);
	/* The map and the points so far; both to be copied or taken (zeroed). */
	void (*partial)(void *arg, struct buf *map, struct buf *points);
};

struct deep_result {
	struct pkg_identity identity;
	struct buf map, points; /* points: empty where there are none */
	struct index_artifact *artifacts;
	size_t n_artifacts;
	uint64_t *dirs;
	size_t n_dirs;
	struct arena arena; /* of both lists */
};
void deep_result_done(struct deep_result *r);

/*
 * The deep pass over @src (borrowed), whose file name is @name. @threads: helper threads that the codec may
 * start. No index, no files: all that it makes is in @ret.
 */
int deep_pass(struct source *src, const struct stat *st, struct str name, unsigned threads,
	      const struct deep_tap *tap, struct deep_result *ret, struct err *err);

/* ---- writer.c ---- */

enum change_kind { CHANGE_PUT, CHANGE_FAIL, CHANGE_MAP, CHANGE_TOUCH, CHANGE_DEL, CHANGE_TIDY, CHANGE_FENCE };

/* One change of the index. Owned by the queue once pushed; `done` is called on the writer's thread after its
 * commit. */
struct change {
	enum change_kind kind;
	struct arena arena; /* of all that it points to */
	struct index_file file;
	struct index_artifact *artifacts;
	size_t n_artifacts;
	struct deep_result *deep; /* CHANGE_MAP: owned */
	struct err why;           /* CHANGE_FAIL */
	int64_t next_try_s;
	bool fail_after_put; /* CHANGE_FAIL of a file that is not in the index yet: put it first */
	bool only_if_same;   /* CHANGE_PUT: only if the row is still the one that `file` was taken from */
	bool all;            /* CHANGE_TIDY */
	void (*done)(void *arg, bool ok);
	void *arg;
};
struct change *change_new(enum change_kind kind);
void change_free(struct change *c);

struct writer;
int writer_start(const struct scan_options *opts, struct writer **ret, struct err *err);
void writer_push(struct writer *w, struct change *c); /* takes; waits for room */
void writer_fence(struct writer *w);    /* returns when all that was pushed before is committed */
unsigned writer_lost(struct writer *w); /* changes that could not be stored since the last call */
void writer_stop(struct writer *w);     /* commits what is queued; takes NULL */
/* Last of all connections: only one that may write puts the WAL away when nobody else has the database open.
 * Takes NULL. */
void writer_free(struct writer *w);

/* ---- look.c ---- */

/* One candidate, as the walk saw it. */
struct look {
	char *path;
	struct stat st;
	int64_t old; /* its row as it was, 0: none */
	uint64_t old_generation;
	uint64_t old_points_size;
	bool by_name;   /* package by its suffix */
	uint32_t tries; /* of a failed one that is tried again */
};
void look_free(struct look *l);
/* Classify and read headers; pushes a change, or finds that it holds nothing (false). */
bool look_run(struct scan *s, const struct look *l);

/* When a thing that failed @tries times is tried again, from @now_s. */
int64_t retry_at(int64_t now_s, uint32_t tries);

/* ---- digest.c ---- */

/* ERR_INVALID: @info has a digest of the payload, and it is another. @told: between two pieces; its failure
 * ends it. */
int digest_check(const struct pkg_info *info, struct source *src, int (*told)(void *arg, struct err *err),
		 void *arg, struct err *err);

/* ---- job.c ---- */

struct jobs;
struct jobs *jobs_new(struct scan *s);
int jobs_start(struct jobs *j, unsigned n_threads, struct err *err);
void jobs_stop(struct jobs *j);       /* joins the threads; results already made are still the writer's */
void jobs_free(struct jobs *j);       /* after the writer has stopped: it ends jobs */
void jobs_kick(struct jobs *j);       /* the index may have something due */
bool jobs_idle(struct jobs *j);       /* nothing runs and the last look found nothing due */
bool jobs_unfinished(struct jobs *j); /* a pass runs, or one that may begin by itself is due */
int jobs_want(struct jobs *j, int64_t file, const struct build_id *id, uint32_t flags,
	      void (*wake)(void *arg), void *arg, struct err *err);
int jobs_partial(struct jobs *j, int64_t file, const struct build_id *id, uint32_t flags,
		 struct pkg_map **ret_map, uint32_t *ret_number, struct buf *ret_points, struct err *err);
size_t jobs_pending(struct jobs *j);
void jobs_progress(struct jobs *j, struct scan_progress *p);

/* ---- walk.c ---- */

/* Walk a root (or any path below one). Candidates that are new or changed go to the looking threads. @depth:
 * of @path below its root. */
void walk_path(struct scan *s, const char *path, unsigned depth);
/* Is this one for us, by name and options? */
bool walk_admits(struct scan *s, const char *path, bool groom);
/* One path that is known to have changed: look at it if it is a file, walk it if it is a folder, drop it if
 * it is gone. */
void walk_changed(struct scan *s, const char *path);

/* ---- groom.c ---- */
void *groom_main(void *scan); /* the grooming thread */

/* ---- stats.c ---- */
enum scan_role { SCAN_ROLE_SCAN, SCAN_ROLE_WALK, SCAN_ROLE_GROOM };
void stats_busy(enum scan_role role, bool on); /* a piece of work begins, or ends */
void stats_committed(const struct change *c);  /* after its commit */
void stats_groomed(bool stale);
void stats_collect(void *scan); /* for metrics_on_collect() */

/* ---- watch.c ---- */
struct watch;
struct watch *watch_new(struct scan *s); /* NULL: no inotify here; the intervals do it */
void watch_dir(struct watch *w, const char *path);
void watch_stop(struct watch *w);

/* ---- nothing.c ---- */

/* Files that were opened and hold nothing for us, by path, size, mtime and inode. */
struct nothing;
struct nothing *nothing_new(void);
void nothing_free(struct nothing *n);
bool nothing_has(struct nothing *n, const char *path, const struct stat *st);
void nothing_add(struct nothing *n, const char *path, const struct stat *st);

/* ---- scan.c ---- */

struct scan {
	struct scan_options opts; /* strings owned by `arena` */
	struct arena arena;
	regex_t include, exclude;
	bool has_include, has_exclude;

	struct writer *writer;
	struct queue *looks;
	struct jobs *jobs;
	struct watch *watch;
	struct nothing *nothing;
	struct index *walk_index, *groom_index; /* the connections of these two threads */

	pthread_t walk_thread, groom_thread, *look_threads;
	unsigned n_look_threads;
	bool walk_running, groom_running;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_bool stopping;
	bool want_walk, want_groom;    /* lock */
	bool following;                /* lock: what inotify told is being looked at */
	char **dirty;                  /* lock: paths that inotify told of */
	size_t n_dirty;                /* lock */
	struct scan_progress progress; /* lock */
	size_t n_looking;              /* lock: pushed and not yet through */
	bool unsettled;                /* lock: candidates were found that the deep passes were not told of */
};
#define SCAN_MAX_DIRTY 65536u
/* inotify saw this path change (copied). Too many: a whole walk instead. NULL: events were lost. */
void scan_dirty(struct scan *s, const char *path);
/* Hand a candidate to the looking threads; takes it. */
void scan_look(struct scan *s, struct look *l);
void scan_count_failed(struct scan *s);
