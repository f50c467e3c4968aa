/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations shared by the files of scan.
 *
 *   scan.c      threads, beginning and end; calls all others
 *   walk.c      finds candidates             -> candidates queue  (walking thread)
 *   folder.c    the names in a folder
 *   walk_s3.c   the same as walk.c in a bucket
 *   unlisted.c  folders and buckets that could not be listed
 *   away.c      roots that are not mounted
 *   watch.c     inotify: changed paths       -> the walking thread
 *   probe.c     classifies one candidate     -> writer queue      (probing threads)
 *   job*.c      deep passes (job.h)          -> writer queue      (deep threads)
 *   deep.c      one package's deep pass: a function from a source to facts and blobs
 *   inner.c     memory of compressed kernel modules
 *   sought.c    requests for build IDs that may be in anything unread
 *   groom.c     finds files that are gone    -> writer queue      (grooming thread)
 *   writer.c    all changes of the index, in batches              (writer thread)
 *   state.c     state shared by the threads
 *   change.c    one change of the index
 *   ignored.c   files without anything to index
 *   stats.c     metrics
 */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include "base/budget.h"
#include "scan/scan.h"

#define SCAN_MAX_INNER MIB(512) /* size of a decoded kernel module, while it is classified */
/* Resume points up to this size are kept in the package map, not in a file of their own. */
#define SCAN_INLINE_POINTS KIB(16)
#define SCAN_LANDMARK_SIZE MIB(8) /* members from this size on get a resume point of their own */
#define SCAN_MAX_WAITERS   4096u
#define SCAN_BATCH         512u /* changes in a transaction */
#define SCAN_RETRY_FIRST_S 60
#define SCAN_RETRY_LAST_S  86400
#define SCAN_MAX_IGNORED   (4u << 20) /* files in memory; 20 bytes each */
#define SCAN_MAX_DIRTY     65536u     /* changed paths; with more the roots are walked */

/* ---- deep.c ---- */

/* The callbacks of a deep pass, on its thread. */
struct deep_tap {
	void *arg;
	/* @done compressed bytes were read. Non-zero: stop, ERR_CANCELLED. */
	int (*progress)(void *arg, uint64_t done);
	/* 0: no waiters. Else the number of waiters there ever were: `seen` is called for each ELF file, and,
	 * after this number has changed, for all files that have gone by. */
	unsigned (*wanted)(void *arg);
	/* An ELF file has gone by completely. true: make a snapshot (`partial`) now. */
	bool (*seen)(void *arg, const struct elf_facts *facts);
	/* The map and the points so far; the callee copies them or takes them (and zeroes them). */
	void (*partial)(void *arg, struct buf *map, struct buf *points);
	/* Does a request wait now, for this package or for any? Then the pass has the usual priority. NULL: never. */
	bool (*is_urgent)(void *arg);
};

struct deep_result {
	struct pkg_identity identity;
	struct buf map, points; /* points: empty if there are none */
	struct index_artifact *artifacts;
	struct str *paths; /* of each artifact: the installed path if it is a program, else empty */
	size_t n_artifacts;
	struct index_alias *aliases;
	size_t n_aliases, room_aliases; /* from malloc */
	uint64_t *dirs;
	size_t n_dirs;
	size_t n_left_out;  /* members that may be ELF files: reading them again costs too much */
	struct arena arena; /* of artifacts, paths and dirs */
};
void deep_result_done(struct deep_result *r);

struct deep_input {
	struct source *src; /* borrowed */
	const struct stat *st;
	struct str name;       /* of the package's file */
	unsigned threads;      /* helper threads that the codec may start */
	int nice, urgent_nice; /* of these and of the calling thread; the second while a request waits */
};
/* The deep pass. It uses no index and writes no files: its whole output is *ret. @tap may be NULL. */
int deep_pass(const struct deep_input *in, const struct deep_tap *tap, struct deep_result *ret,
	      struct err *err);

/* ---- inner.c ---- */

/* The memory of one compressed module; its holder calls budget_hold_done(). */
void inner_begin(struct budget_hold *ret);
/* Unpack it into @ret, which is empty. ERR_BUSY: there was no memory within ten minutes: try again later. */
int inner_unpack(enum codec_kind kind, struct bytes raw, struct budget_hold *hold, struct buf *ret,
		 struct err *err);

/* ---- change.c ---- */

enum change_kind {
	CHANGE_PUT,
	CHANGE_FAIL,
	CHANGE_MAP,
	CHANGE_TOUCH,
	CHANGE_AGAIN,
	CHANGE_DEL,
	CHANGE_DEL_DAMAGED, /* by its id */
	CHANGE_TIDY,
	CHANGE_FENCE
};

/* One change of the index. Once pushed it belongs to the queue; `done` is called on the writer's thread after
 * the commit. */
struct change {
	enum change_kind kind;
	struct arena arena; /* of all memory that it points to */
	struct index_file file;
	struct index_artifact *artifacts;
	size_t n_artifacts;
	struct index_alias aliases[ELF_MAX_ALIASES]; /* of a file on disk */
	size_t n_aliases;
	struct deep_result *deep; /* CHANGE_MAP: owned */
	struct err why;           /* CHANGE_FAIL */
	int64_t next_try_s;
	bool fail_after_put; /* CHANGE_FAIL of a file that is not in the index yet: put it first */
	bool only_if_same;   /* CHANGE_PUT: only if the row still has the generation of `file` */
	bool all;            /* CHANGE_TIDY */
	void (*done)(void *arg, bool ok);
	void *arg;
};
struct change *change_new(enum change_kind kind);
void change_set_file(struct change *c, const struct index_file *f); /* copies it */
void change_free(struct change *c);
/* When a file that has failed @tries times is tried again, from @now_s. */
int64_t retry_at(int64_t now_s, uint32_t tries);

/* ---- writer.c ---- */

struct scan_writer;
/* @remakes is called before a damaged index is made anew, and after it. */
int writer_start(const struct scan_options *opts, void (*remakes)(void *arg, bool begins), void *remakes_arg,
		 struct scan_writer **ret, struct err *err);
void writer_push(struct scan_writer *w, struct change *c); /* takes; waits for room */
void writer_fence(struct scan_writer *w);    /* returns when all changes pushed before are committed */
unsigned writer_lost(struct scan_writer *w); /* changes that could not be stored since the last call */
/* The files of which no row could be stored, likewise. Those of changes before a fence are among them after it. */
unsigned writer_lost_files(struct scan_writer *w);
void writer_stop(struct scan_writer *w); /* commits the queued changes; takes NULL */
/* After all other connections: only a connection that may write removes the WAL, when it is the last one.
 * Takes NULL. */
void writer_free(struct scan_writer *w);

/* ---- probe.c ---- */

/* One file, as the walk found it. */
struct candidate {
	char *path;
	struct stat st;
	int64_t old; /* its row in the index, 0: none */
	uint64_t old_generation;
	uint64_t old_points_size;
	bool by_name;   /* a package by its suffix */
	uint32_t tries; /* of a failed file that is tried again */
};
/* Classify the file and read headers. true: a change was pushed, or the file may be read later. false: there
 * is nothing to index in it. */
bool probe_run(struct scan *s, const struct candidate *c);

/* ---- digest.c ---- */

/* ERR_INVALID: @info has a digest of the payload, and the payload has another. @tick is called between two
 * chunks; its failure ends the check. */
int digest_check(const struct pkg_info *info, struct source *src, int (*tick)(void *arg, struct err *err),
		 void *arg, struct err *err);

/* ---- job.c, job_list.c, sought.c ---- */

struct jobs;
struct jobs *jobs_new(struct scan *s);
int jobs_start(struct jobs *j, unsigned n_threads, struct err *err);
void jobs_stop(struct jobs *j);       /* joins the threads; finished results stay with the writer */
void jobs_free(struct jobs *j);       /* after the writer has stopped, which ends jobs */
void jobs_kick(struct jobs *j);       /* packages may be due in the index */
bool jobs_idle(struct jobs *j);       /* no job runs, and none was due at the last check */
bool jobs_unfinished(struct jobs *j); /* a pass runs, or one that may begin by itself is due */
int jobs_want(struct jobs *j, const struct scan_wanted *what, void (*wake)(void *arg), void *arg);
int jobs_partial(struct jobs *j, const struct scan_wanted *what, struct scan_partial *ret, struct err *err);
/* scan_seek(); the caller has found that something is unread. */
int jobs_seek(struct jobs *j, const struct scan_sought *what, void (*wake)(void *arg), void *arg);
void jobs_found(struct jobs *j,
		const struct build_id *id); /* it is committed: wake the requests that seek it */
void jobs_all_read(struct jobs *j);         /* wake all requests that seek */
size_t jobs_pending(struct jobs *j);
void jobs_progress(struct jobs *j, struct scan_progress *p);
bool jobs_reading(struct jobs *j, const struct build_id *id, struct scan_reading *ret);

/* ---- walk.c ---- */

/* Walk a root, or a path below one. New and changed files become candidates. */
void walk_root(struct scan *s, const char *path);
void walk_path(struct scan *s, const char *path);
/* A file or object of a walk: a candidate, if it may be indexed and is new or changed. */
void walk_candidate(struct scan *s, const char *path, const struct stat *st);
/* Do name and options allow this file? */
bool walk_admits(struct scan *s, const char *path, bool groom);
/* Follow a change of @path: probe a file, walk a folder, delete the row of a file that is gone. */
void walk_changed(struct scan *s, const char *path);

/* ---- folder.c ---- */

/* The names in the folder, sorted, in @a; the caller frees the list. 0, or the errno; then these are some of them. */
int folder_names(const char *path, struct arena *a, char ***ret, size_t *ret_n);

/* ---- unlisted.c ---- */

/* Folders and buckets that could not be listed. Any thread. */
struct unlisted;
struct unlisted *unlisted_new(void);
void unlisted_free(struct unlisted *u);
/* A walk of @path, and of all below it, begins; UNLISTED_ALL: of all roots; or, with NULL, unlisted_set_away() for all roots. */
#define UNLISTED_ALL ""
void unlisted_begin(struct unlisted *u, const char *path);
/*
 * @path, below the root @root, could not be listed. A walk of another root above @root does not end that. true: it is new, and to be
 * logged.
 */
bool unlisted_add(struct unlisted *u, const char *path, const char *root, const char *why);
/*
 * Files are not in the index @path, though they were found. Only a walk of all roots ends that, between unlisted_begin() and
 * unlisted_end() with this path. true: it is new, and to be logged.
 */
bool unlisted_add_index(struct unlisted *u, const char *path, const char *why);
bool unlisted_has_index(struct unlisted *u, const char *path);
/* The walk of @path has ended: what was not added since its beginning is listed again. Returns the number of these places. */
size_t unlisted_end(struct unlisted *u, const char *path);
/* Is this root known not to be mounted? */
bool unlisted_is_away(struct unlisted *u, const char *path);
/* The root @path is not mounted, and the index has so many files of it; 0: it is there. */
enum away_change {
	AWAY_SAME,     /* as before */
	AWAY_NEW,      /* since now */
	AWAY_TOO_LONG, /* for AWAY_DAYS now: it does not count any more, and its rows are not kept */
	AWAY_OVER,     /* it is there again */
};
enum away_change unlisted_set_away(struct unlisted *u, const char *path, size_t n_files);
/* Nothing is known of the root @path now: if it was not mounted, that stays so. */
void unlisted_keep_away(struct unlisted *u, const char *path);
unsigned unlisted_count(const struct unlisted *u);
/* One of them, and why. */
void unlisted_why(struct unlisted *u, char *ret, size_t size);
/* Whether @path is one of them, or below one. */
bool unlisted_covers(struct unlisted *u, const char *path);
int64_t unlisted_next_ms(struct unlisted *u); /* of the next try; monotonic */
/* One whose next try has come by then, on the heap; NULL: none. Its next try is in the future. */
char *unlisted_take_due(struct unlisted *u, int64_t by_ms);
/* What to do against this errno. */
const char *unlisted_advice(int number);
/* Whether @path is @folder, or below it. */
bool path_is_below(const char *path, const char *folder);

/* ---- away.c ---- */

#define AWAY_DAYS 7u /* the rows of a root that is not mounted are kept so long */

struct root_place {
	char path[PATH_MAX];
	uint64_t dev; /* of its file system; if it is missing, of the nearest folder above it that is there */
};
/*
 * A file of the index that showed, when a root was judged last, that it is there: as long as it does, the rows of all missing files
 * need not be read for each of them.
 */
struct root_witness {
	char *path; /* heap; NULL: none */
	uint64_t dev;
};
/* The folder, or the file, that a root was when its last walk began. 0: it was missing. */
struct root_walked {
	uint64_t dev, inode;
};
/* A walk of this root begins. */
void root_note_walk(struct scan *s, const char *root);
/* realpath(3) of a root, also of one that is missing. false: it cannot be found out. */
bool root_place(const char *root, struct root_place *ret);
/* Find out which roots are not mounted, and which are mounted again. @ix: of the walking thread. */
void roots_judge(struct scan *s, struct index *ix);
/*
 * In the first walk: packages that had vanished when they were to be read, and are there now, as a root was mounted and the service
 * started again, are due at once.
 */
void roots_read_again(struct scan *s, struct index *ix);
/*
 * Is the row of this missing file to be kept, since its root is not mounted or its folder could not be listed? Then grooming runs
 * once more when that has ended. @ix: of this thread.
 */
bool roots_keep(struct scan *s, struct index *ix, const char *path);

/* ---- walk_s3.c ---- */

/* The walk over s3://BUCKET/PREFIX. Negative: the bucket could not be listed to its end. */
int walk_bucket(struct scan *s, const char *url, struct err *err);

/* ---- groom.c ---- */
void *groom_main(void *scan); /* the grooming thread */

/* ---- stats.c ---- */
enum scan_role { SCAN_ROLE_SCAN, SCAN_ROLE_WALK, SCAN_ROLE_GROOM };
void stats_busy(enum scan_role role, bool on); /* a piece of work begins, or ends */
void stats_committed(const struct change *c);  /* after the commit */
void stats_groomed(bool stale);
void stats_set(size_t n_pending, bool is_idle, unsigned n_unlisted); /* before metrics are written */

/* ---- watch.c ---- */
struct watch;
struct watch *watch_new(struct scan *s); /* NULL: no inotify; the walks at intervals find changes */
void watch_dir(struct watch *w, const char *path);
void watch_stop(struct watch *w);

/* ---- ignored.c ---- */

/* Files that were opened and hold nothing to index, by path, size, mtime and inode. */
struct ignored_files;
struct ignored_files *ignored_new(void);
void ignored_free(struct ignored_files *g);
bool ignored_has(struct ignored_files *g, const char *path, const struct stat *st);
void ignored_add(struct ignored_files *g, const char *path, const struct stat *st);

/* ---- state.c ---- */

struct scan {
	struct scan_options opts; /* strings owned by `arena` */
	struct arena arena;
	regex_t include, exclude;
	bool has_include, has_exclude;

	struct scan_writer *writer;
	struct queue *candidates;
	struct jobs *jobs;
	struct watch *watch;
	struct ignored_files *ignored;
	struct unlisted *unlisted;
	struct index *walk_index, *groom_index; /* the connections of these two threads */

	pthread_t walk_thread, groom_thread, *probe_threads;
	unsigned n_probe_threads;
	bool walk_running, groom_running;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_bool stopping;
	/* under lock */
	bool want_walk, want_groom;
	bool following; /* changes reported by inotify are being probed, or a part of the roots is walked again */
	char **dirty; /* paths reported by inotify */
	size_t n_dirty, room_dirty;
	struct scan_progress progress;
	size_t n_probing; /* candidates that were pushed and are not yet probed */
	bool was_read;    /* everything was read once */
	/* How often making the index anew has begun, has ended, and was followed by a whole walk. */
	unsigned n_remakes, n_remade, n_remakes_walked;
	struct root_witness *witnesses; /* one for each root */
	struct root_walked *walked;     /* likewise */
	bool groom_kept; /* rows of missing files were kept, below places that could not be listed */
	/* failures in the log: since when, how many, and how many are not there */
	int64_t told_from_ms;
	uint64_t n_told, n_silent;
	bool unsettled; /* candidates were found since the deep passes were last kicked */
};
void candidate_free(struct candidate *c);
/* Hand a candidate to the probing threads; takes it. */
void scan_add_candidate(struct scan *s, struct candidate *c);
/* inotify reported a change of @path (copied). NULL: events were lost; then, or if there are too many, the
 * roots are walked. */
void scan_path_changed(struct scan *s, const char *path);
/* Count the failure, and log it, unless many others were logged before. */
void scan_failed(struct scan *s, struct str path, const struct err *why);
/* A place that could not be listed is listed again, or gone. */
void scan_listed(struct scan *s);
void scan_check_read(struct scan *s); /* if everything is read: wake the requests that seek */
