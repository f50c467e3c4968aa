/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of profilestore.
 *
 *   column.h, meta.h   the metadata store in memory: read by all, written by the writer's thread
 *   meta_location.c    its locations and lines, packed; slots.h: its hash tables
 *   segment.c          the metadata store on disk: rows that are appended
 *   series.c           the series
 *   samples.c          a list of stacks and values as bytes; sums of many
 *   add.c              a profile taken apart
 *   writer.c           the one thread that writes: takes all waiting jobs, commits once
 *   wal.c              a bound for the WAL
 *   connect.c          connections to the database, whose file may be replaced
 *   damage.c           damage that is found while the store is in use
 *   remake.c           the database made anew while the store is in use
 *   load.c             reading it all back
 *   epoch.c            readers, and memory that they may still see
 *   read.c             connections of readers; a range, by rollups and profile by profile
 *   query.c, merge*.c  queries
 *   rollup.c, retain.c housekeeping
 *   sweep.c            the metadata store without entries that no profile needs
 *   names.c            names for locations
 */
#pragma once

#include <pthread.h>
#include "base/age_clock.h"
#include "base/sparse.h"
#include "db/db.h"
#include "profilestore/damage.h"
#include "profilestore/meta.h"
#include "profilestore/names.h"

/* ---- series ---- */

#define ROLLUP_LEVELS 4
/* The duration of a rollup of each level; each a multiple of the one before. */
extern const int64_t rollup_ms[ROLLUP_LEVELS];

enum { SERIES_NAME, SERIES_TYPE, SERIES_UNIT, SERIES_PERIOD_TYPE, SERIES_PERIOD_UNIT, SERIES_N_TEXTS };

/* Freed when it has no profiles, and no reader sees it (series_sweep.c). Only the atomic fields change. */
struct series {
	uint32_t id;
	uint32_t slot;         /* its place in profilestore.series */
	atomic_bool saved;     /* it is on disk: before, no reader sees it */
	struct sender *sender; /* with whose profile it began; NULL: not known */
	bool delta;
	struct str texts[SERIES_N_TEXTS];
	struct str type;         /* "NAME:TYPE:UNIT:PERIODTYPE:PERIODUNIT[:delta]" */
	struct str profile_type; /* its ID: type.h */
	size_t n_labels;
	struct profilestore_label *labels; /* by name */
	struct bytes key;
	_Atomic int64_t first_ms, last_ms; /* of its profiles: bounds, not exact. None: first > last */
	_Atomic int64_t rolled_ms;         /* its rollups are before this */
	_Atomic int64_t groom_ms;          /* rollups may be due from here on */
};

/* The key of a series: its texts, and its labels by name, each a uleb size and bytes. */
void series_key(struct buf *out, const struct str texts[SERIES_N_TEXTS], bool delta,
		const struct profilestore_label *labels, size_t n);
struct series *series_of_key(struct bytes key, uint32_t id, struct err *err); /* NULL: the key is damaged */
void series_free(struct series *x);
uint64_t series_memory(const struct series *x);                         /* with its place in the maps */
struct series *series_of_id(const struct profilestore *s, uint32_t id); /* NULL: none */
struct reader;
/* *ret: the series of a profile; NULL: there is no such profile. */
int series_of_profile(struct reader *rd, int64_t id, const struct series **ret, struct err *err);
/*
 * The series that match @r: the next one from *it on, NULL: no more. The range is compared with first_ms and
 * last_ms.
 */
struct series *series_next(const struct profilestore *s, const struct profilestore_range *r, uint32_t *it);
/*
 * All series that match @r. They must be of one type, so that values can be added up; else ERR_INVALID. *ret
 * is heap.
 */
int series_list(const struct profilestore *s, const struct profilestore_range *r, struct series ***ret,
		size_t *ret_n, struct err *err);
/* The times of all profiles, within the bounds that the series have. None: first_ms INT64_MAX, last_ms INT64_MIN. */
struct series_span {
	int64_t first_ms, last_ms;
};
struct series_span series_span(const struct profilestore *s);
/* Rollups may be due from @ms on, if not from earlier on. */
void series_groom_from(struct series *x, int64_t ms);
struct str series_label(const struct series *x, struct str name); /* empty: none */
/* derived.c: labels with those that a range may ask for (profilestore_range.derived). */
#define SERIES_MAX_LABELS (PROFILESTORE_MAX_LABELS + 8)
struct str series_profile_type(const struct series *x);                         /* heap */
struct str series_value(const struct series *x, bool derived, struct str name); /* empty: none */
/* By name; @ret has room for SERIES_MAX_LABELS, which are views. Returns their number. */
size_t series_labels(const struct series *x, bool derived, struct profilestore_label *ret);
bool series_matches(const struct series *x, const struct profilestore_range *r); /* its selector */
/* The series of this key, or a new one; NULL: @err. Of the writer's thread. */
struct series *series_get(struct profilestore *s, struct bytes key, struct err *err);
/* Takes @x. false: no memory, and @x is the caller's. */
bool series_put(struct profilestore *s, struct series *x);
/* The series at a place of profilestore.series; NULL: none. */
static inline struct series *series_at(const struct column *series, uint32_t slot)
{
	return __atomic_load_n((struct series **)column_at(series, slot), __ATOMIC_ACQUIRE);
}
/* Remove some of the series without profiles, in the thread of grooming. *ret_more: there may be more. */
int series_sweep(struct profilestore *s, bool *ret_more, struct err *err);
int series_write(struct profilestore *s, struct err *err);
int series_insert(struct profilestore *s, const struct series *x, struct err *err);
void series_commit(struct profilestore *s, bool done);

/* ---- label.c ---- */

int label_check(struct profilestore_label l, struct err *err);
int label_name_check(struct str name, struct err *err); /* @err may be NULL */
/*
 * The nearest name that is right, in @a; @before stands before it in memory, and both together are short enough.
 * A first '.' is kept after a '_'.
 */
struct str label_fit_name(struct arena *a, struct str s, struct str before);
/* The nearest right value: cut between characters; bytes that are not UTF-8 become question marks. */
struct str label_fit_value(struct arena *a, struct str s);
/* The size of the character at the beginning of @s in bytes; 0: not UTF-8, or a control character. */
size_t label_char_size(struct str s);

/* ---- samples ---- */

struct sample {
	uint32_t stack;
	int64_t value;
};
/* @v by rising stack, each once, no value 0. */
void samples_write(const struct sample *v, size_t n, struct buf *out);

/* Values by number of stack, and the totals of the rows that were added. */
struct sums {
	const struct meta *meta;
	uint32_t n; /* stacks that there is room for */
	int64_t *values;
	uint64_t *seen; /* a bit for each */
	/* A bit for each word of `seen` that is not 0: most parts of a range have few of many stacks. */
	uint64_t *words;
	uint64_t n_profiles, n_samples;
	int64_t total, duration_ms, period, first_ms;
	struct budget_hold *hold; /* NULL: none; `held` of it are of these arrays */
	uint64_t held;
};
int sums_init(struct sums *x, const struct meta *meta, struct budget_hold *hold, struct err *err);
int sums_grow(struct sums *x, uint32_t n, struct err *err); /* room for @n stacks */
void sums_done(struct sums *x);                             /* takes the zeroed */
void sums_clear(struct sums *x);
int sums_add(struct sums *x, struct bytes samples, struct err *err);
void sums_write(const struct sums *x, struct buf *out);
static inline bool sums_has(const struct sums *x, uint32_t stack)
{
	return x->seen[stack / 64] >> stack % 64 & 1;
}
static inline void sums_see(struct sums *x, uint32_t stack)
{
	x->seen[stack / 64] |= UINT64_C(1) << stack % 64;
	x->words[stack / 4096] |= UINT64_C(1) << stack / 64 % 64;
}
/* Let @w be the next word of `seen` that is not 0, from @w on; false: there is none. */
static inline bool sums_next_word(const struct sums *x, size_t *w)
{
	return sparse_next(x->words, x->n / 64, w);
}
/* Likewise the last one before @w. */
static inline bool sums_word_before(const struct sums *x, size_t *w)
{
	return sparse_before(x->words, w);
}
/* A walk over the words that are not 0. */
#define sums_each_word(x, w) for (size_t w = 0; sums_next_word((x), &(w)); (w)++)

/* The identity of a row of samples; it is a checksum, too. */
uint64_t samples_digest(uint32_t series, int64_t time_ms, int64_t duration_ms, struct bytes samples);

/* ---- segments: the metadata store on disk ---- */

enum segment_kind {
	SEGMENT_STRINGS = 1,
	SEGMENT_FUNCTIONS,
	SEGMENT_LINES,
	SEGMENT_BINARIES,
	SEGMENT_PARTS,
	SEGMENT_LOCATIONS,
	SEGMENT_STACKS,
	SEGMENT_NAMES,  /* the names of locations that were looked up; the last entry of a location counts */
	SEGMENT_REUSED, /* stacks that got a number that was free */
	SEGMENT_N_KINDS
};
struct segments {
	uint32_t saved[SEGMENT_N_KINDS];   /* entries that are on disk */
	uint32_t written[SEGMENT_N_KINDS]; /* entries on disk with this transaction */
	struct buf names;                  /* entries of SEGMENT_NAMES, to be written */
	uint32_t n_names;
};
/* Write it with this transaction. The caller changes the location itself after the commit. */
void segments_init(struct segments *g, struct meta *m); /* of new tables: nothing is on disk */
void segment_add_names(struct segments *g, uint32_t location, struct meta_names n, uint64_t elf_addr);
/*
 * Write the entries of @m that are not on disk, up to about @max_bytes of them: *ret_more, if there are more. The
 * caller calls segments_commit() after the transaction.
 */
int segments_write(struct db *db, const struct meta *m, struct segments *g, uint64_t max_bytes,
		   bool *ret_more, struct err *err);
/* Delete the rows of the current generation, and write them again from memory. */
int segments_rewrite(struct profilestore *s, struct err *err);
void segments_commit(struct meta *m, struct segments *g, bool done);
/* Append the entries of a row to @m. ERR_DAMAGED: they do not fit to the ones that are there. */
int segment_read(struct meta *m, enum segment_kind kind, uint32_t n, struct bytes data, struct err *err);
/* Load all segments, in the order in which they refer to each other. */
int segments_load(struct profilestore *s, struct db *db, struct err *err);
/* Join a few small segments. *ret_more: there are more. */
int segments_groom(struct profilestore *s, bool *ret_more, struct err *err);
/* Delete some of the rows that are not of the current generation. *ret_more: there may be more. */
int segments_clean(struct profilestore *s, bool *ret_more, struct err *err);
/* The range [from, to) of the keys of a generation, in tables whose keys have it above @bits bits. */
struct generation_keys {
	int64_t from, to;
};
#define SEGMENT_KEY_BITS 44
#define NAMING_KEY_BITS  32
/* The key of a row of segment: its generation, its kind, and the number of its first entry. */
#define SEGMENT_FIRST_BITS 40
static inline int64_t segment_key(uint32_t generation, enum segment_kind kind, uint32_t first)
{
	return (int64_t)generation << SEGMENT_KEY_BITS | (int64_t)kind << SEGMENT_FIRST_BITS | first;
}
/* Of any number: it may be no kind. */
static inline int64_t segment_kind_of(int64_t key)
{
	return key >> SEGMENT_FIRST_BITS & ((1 << (SEGMENT_KEY_BITS - SEGMENT_FIRST_BITS)) - 1);
}
static inline int64_t segment_first_of(int64_t key)
{
	return key & (((int64_t)1 << SEGMENT_FIRST_BITS) - 1);
}
static inline uint64_t segment_digest(enum segment_kind kind, struct bytes data)
{
	return hash64(data.p, data.size, kind);
}
static inline struct generation_keys generation_keys(uint32_t generation, unsigned bits)
{
	return (struct generation_keys){ (int64_t)generation << bits, ((int64_t)generation + 1) << bits };
}

/* ---- the writer ---- */

enum { JOB_REFUSED = 1 };
struct job {
	struct job *next;
	/*
	 * In the writer's thread, within a transaction. JOB_REFUSED: nothing was written, @err says why not.
	 * An error: the transaction is rolled back, with the other jobs in it.
	 */
	int (*apply)(struct profilestore *s, struct job *j, struct err *err);
	/*
	 * In the writer's thread, after the commit; @err NULL: it is on disk. The job is not touched
	 * afterwards.
	 */
	void (*done)(struct profilestore *s, struct job *j, const struct err *err);
	struct err err;
	bool refused;
	bool alone;   /* in a transaction of its own */
	bool outside; /* alone, and without a transaction */
	bool again;   /* apply() may be called again after its transaction has failed */
	/* A refusal for a limit waits until room was made, or could not be made. */
	bool may_wait;
	int64_t held_until_ms; /* monotonic; 0: it was not held yet */
};
/* Write the totals of the store, within a transaction of the writer's thread. */
int totals_write(struct profilestore *s, struct err *err);
int profilestore_writer_start(struct profilestore *s, struct err *err);
void profilestore_writer_stop(struct profilestore *s); /* runs the waiting jobs */
/* Waits for room in the queue. */
void profilestore_writer_submit(struct profilestore *s, struct job *j);
/* Submit it and wait: the result that done() gets, which may be NULL. */
int profilestore_writer_run(struct profilestore *s, struct job *j, struct err *err);

/* ---- reading ---- */

/*
 * A snapshot of the database. For housekeeping, which is done by one thread: for queries, see struct reader.
 */
struct db *reader_take(struct profilestore *s, struct err *err); /* NULL: failed */
void reader_give(struct profilestore *s, struct db *db);

/*
 * epoch.c: a reader of the tables in memory. The tables and series that it sees are not freed until
 * reader_end(), and the numbers in its snapshot of the database are those of its tables.
 */
struct reader {
	struct profilestore *s;
	struct db *db; /* NULL: reader_hold(), or reader_rest() */
	const struct meta *meta;
	bool stale;        /* reader_renew() failed since a sweep has replaced the tables: begin again */
	uint64_t n_mended; /* of the store's damage, before it began */
	/* the rest is epoch.c's */
	uint64_t epoch;
	uint32_t n_renewals; /* of the store, when its snapshot began */
	struct reader *next, **at;
};
int reader_begin(struct profilestore *s, struct reader *r, struct err *err);
void reader_hold(struct profilestore *s, struct reader *r); /* no snapshot: only the tables and series */
bool reader_end(struct reader *r);                          /* takes the zeroed; returns `stale` */
/*
 * End a reader of a query with the result @res and @err, also if reader_begin() has failed. true: begin again, since
 * the tables were swept, or since damage that the query met was mended.
 */
bool reader_again(struct profilestore *s, struct reader *r, int res, struct err *err);
/*
 * At a point of a query where it reads no row: if the WAL has become long, begin a new snapshot, so that the WAL
 * can begin anew. Rows of another time may be newer then. @r NULL: nothing to do.
 */
int reader_renew(struct reader *r, struct err *err);
/*
 * Likewise: end the snapshot, since nothing is read for a while; the WAL can begin anew meanwhile, however long that is. The
 * tables stay. reader_renew() begins the next one.
 */
void reader_rest(struct reader *r);
/* @object was taken out of the tables: free it with @release when no reader sees it any more. */
void epoch_retire(struct profilestore *s, void *object, void (*release)(void *object));
void epoch_release(struct profilestore *s); /* frees those that no reader sees any more */

/* Add up all profiles of a range and its series in @sums. */
struct range_options {
	/* Of two ranges, before all parts: one of the series of each; NULL: it has none. NULL: not called */
	int (*begin)(void *arg, const struct series *const first[2], struct err *err);
	/*
	 * Called once for each value of @label (empty: once for all), in order: @sums is of the series that
	 * have it, and @x is one of them. It has to clear @sums. NULL: the sums stay.
	 */
	int (*part)(void *arg, const struct series *x, struct sums *sums, struct err *err);
	struct str label;
	void *arg;
};
int range_sums(struct reader *rd, const struct profilestore_range *r, const struct range_options *o,
	       struct sums *sums, struct err *err);
/*
 * The same of two ranges that are compared: part() is called for each value that one of them has. It has to clear the sums of
 * both.
 */
int range_sums_both(struct reader *rd, const struct profilestore_range *const ranges[2],
		    const struct range_options *o, struct sums *const sums[2], struct err *err);
/* The profiles of one series: from inclusive, to exclusive. */
struct series_read {
	struct reader *rd; /* renewed now and then; NULL: it stays as it is */
	struct db *db;
	const struct series *x;
	int64_t from_ms, to_ms;
	unsigned below;            /* use only rollups of lower levels than this */
	struct deadline *deadline; /* NULL: none */
	struct profilestore *s;    /* for series_sums() */
};
int series_sums(const struct series_read *q, struct sums *sums, struct err *err);

/* Totals over time: only values, no stacks. */
struct series_points {
	int64_t from_ms, step_ms; /* the start of the first point; not later than the range's */
	/* If points is NULL, called before the first profile is added: it sets points and counts. */
	int (*begin)(struct series_points *p, struct err *err);
	int64_t *points;
	uint32_t *counts; /* profiles in each */
	size_t n;         /* up to the end of the range */
	/* sums of all */
	int64_t total;
	uint64_t n_profiles;
};
int series_add_points(const struct series_read *q, struct series_points *p, struct err *err);

/* wal.c: a bound for the WAL, by a gate for snapshots. */
struct wal_gate {
	_Atomic uint64_t max;        /* bytes; a longer WAL is cut off */
	_Atomic uint32_t n_renewals; /* how often readers were asked for new snapshots */
	pthread_cond_t changed;
	/* under readers_lock; only the writer changes it */
	bool shut;
	size_t n_snapshots; /* under readers_lock */
	/* of the writer's thread, monotonic: when the gate opens in any case; when it may be shut again */
	int64_t until_ms, next_ms;
};
void wal_init(struct wal_gate *g);
void wal_done(struct wal_gate *g);
void wal_enter(struct profilestore *s); /* before a snapshot begins: waits at the gate */
void wal_leave(struct profilestore *s); /* after it has ended */
/*
 * In the writer's thread, between two transactions: cut off a long WAL, or prepare to. true: the gate is shut, call
 * it again soon. @end: the last call.
 */
bool wal_bound(struct profilestore *s, bool end);
/*
 * In the writer's thread: shut the gate, and wait until no reader has a snapshot. false: some have, after @wait_ms. The
 * caller calls wal_open() in any case.
 */
bool wal_shut(struct profilestore *s, int64_t wait_ms);
void wal_open(struct profilestore *s);

/* ---- housekeeping ---- */

int rollup_groom(struct profilestore *s, struct series *x, struct sums *sums, bool *ret_more,
		 struct err *err);
int retain_groom(struct profilestore *s, bool *ret_more, struct err *err);
/* One step of deleting the profiles before @before_ms: *ret_n of them; @for_room: not for their age. */
int expire_before(struct profilestore *s, int64_t before_ms, bool for_room, uint64_t *ret_n, struct err *err);
/*
 * One step of deleting the oldest hour of @span to make room, without the profiles from @keep_ms on. There are
 * profiles before @keep_ms.
 */
int expire_oldest(struct profilestore *s, const struct series_span *span, int64_t keep_ms, uint64_t *ret_n,
		  struct err *err);

/* sender.c: shares of senders. */
struct blamed_label {
	char text[160]; /* "": not looked for yet */
	int64_t until_ms;
};
struct sender {
	char *name;
	uint32_t n_series;
	uint64_t series_size; /* bytes of memory of its series */
	uint64_t metadata;    /* bytes of memory */
	uint64_t begun_at;    /* memory before the profile that is being added */
	bool unsaved;
	struct blamed_label blamed;
};
struct sender *sender_of(struct profilestore *s, struct str name); /* NULL: no name */
void senders_done(struct profilestore *s);
int senders_load(struct profilestore *s, struct err *err);
int senders_write(struct profilestore *s, struct err *err);
void senders_unsave(struct profilestore *s);                           /* the next transaction writes all */
void senders_swept(struct profilestore *s, uint64_t was, uint64_t is); /* bytes of memory before and after */
/* Around the adding of a profile of @name. */
void sender_begin(struct profilestore *s, struct str name);
void sender_end(struct profilestore *s);
bool sender_may_add_series(struct profilestore *s, struct err *err);
/* A series of @size bytes of memory, for which there is room. */
bool sender_may_add_labels(struct profilestore *s, uint64_t size, struct err *err);
/* Too many series of @x (NULL: of all): with the label that has the most values. @alone: a larger share would be no use. */
void series_err_limit(struct profilestore *s, struct sender *x, bool alone, struct err *err);
bool sender_is_limited(const struct profilestore *s); /* by its share of metadata */
void sender_err(struct profilestore *s, struct err *err);

/* room.c: making room in a full store. */
struct room {
	_Atomic bool wanted;    /* a limit was met */
	_Atomic bool over_size; /* the profiles of the last hour are larger than max_size */
	_Atomic int64_t
		full_until_ms; /* monotonic: there is nothing to delete, profiles are refused at once */
	/* of grooming */
	uint64_t swept_at,
		n_samples_swept; /* n_expired and n_samples_expired when the last sweep was asked for */
	uint64_t n_to_delete;
	bool swept; /* since room was wanted, or since the last deletion */
	bool told;
	/* under readers_lock */
	void (*fn)(void *arg);
	void *arg;
};
int room_groom(struct profilestore *s, bool *ret_more, struct err *err);
/* In the writer's thread: a job has met a limit. false: it is to be refused; true: it may be held for a while. */
bool room_wait(struct profilestore *s);
/* Profiles from here on are not deleted to make room. @now_ms: of store_time(). */
int64_t room_keep_ms(int64_t now_ms);

/* Profiles that retention has deleted since it had nothing to do. */
struct expired {
	uint64_t n, bytes;
	int64_t first_ms, last_ms;
	bool for_room;
	int64_t last_id; /* the latest that was ever deleted */
};

/* ---- all of it ---- */

struct names; /* names.c's own */

/* connect.c: the file of the database, which remake.c may replace. */
#define STORE_PAGE_SIZE 8192 /* holds two profiles of 1000 samples, and wastes less than 4096 would */
extern const struct db_options store_db_options;
struct store_files {
	/* Held while files are opened by name, or closed, and for writing while they are renamed. */
	pthread_rwlock_t lock;
	_Atomic uint32_t number; /* of the file that is at the path */
};
int store_connect(struct profilestore *s, const struct db_options *o, struct db **ret, struct err *err);
void store_disconnect(struct profilestore *s, struct db *db);        /* takes NULL */
bool store_is_replaced(struct profilestore *s, const struct db *db); /* it has an older file */
/*
 * In the writer's thread, with an empty WAL and no reader: the database at @new_path takes the place of the store's, and
 * s->db is its connection. The old file gets the name @aside; NULL: it is removed. An error: nothing has changed.
 */
int store_replace(struct profilestore *s, const char *new_path, const char *aside, struct err *err);

struct retired {
	void *object;
	void (*release)(void *object);
	uint64_t epoch;
};

struct profilestore {
	/*
	 * Replaced as a whole by a sweep (sweep.c), in the writer's thread, under readers_lock and the lock of
	 * names. Read in the writer's thread, in that of grooming, under one of these locks, or by struct reader.
	 */
	struct meta *meta;
	struct column series; /* struct series *, or NULL; the writer changes it */
	_Atomic uint32_t n_series;
	_Atomic uint64_t series_size; /* bytes of memory of all series */
	char *dir, *path;
	struct store_files files;
	int64_t max_age_ms;
	uint64_t max_size;
	uint32_t max_series;
	uint64_t max_series_size;
	uint32_t sender_share; /* per cent */
	bool no_names, is_open;
	struct budget *memory;
	int64_t (*now_ms)(void), (*mono_ms)(void);
	struct age_clock clock;
	/* of grooming */
	int64_t clock_saved_ms;  /* the time in its file */
	int64_t steady_saved_ms; /* in the file of a doubted clock */
	bool doubt_saved;        /* that file may be there */
	void (*notice)(void *arg, enum log_level level, const char *text);
	void *notice_arg;

	/* of the writer's thread */
	struct db *db;
	struct map series_by_key;
	struct segments segments;
	struct map senders;
	struct sender *sender; /* of the profile that is being added */
	struct blamed_label blamed;
	bool metadata_alone; /* others have brought next to no metadata */
	bool share_met;      /* it was refused for its share, while others have theirs */
	bool senders_unsaved;
	struct {
		struct series **v;
		size_t n, room;
	} unsaved_series; /* to be written with the next transaction */
	struct {
		uint32_t *v;
		size_t n, room;
	} free_series; /* places without a series */
	uint32_t next_series;
	int64_t next_id;
	struct store_writer *writer;
	struct remake *remake; /* NULL: none */
	unsigned n_remakes;
	uint64_t remake_at_once; /* bytes of the largest database that is made anew in one step */

	pthread_mutex_t readers_lock;
	struct db *readers[8]; /* idle ones, under the lock */
	size_t n_readers;
	struct wal_gate wal;
	struct reader *active; /* under the lock, as are the next */
	uint64_t epoch;
	struct {
		struct retired *v;
		size_t n, room;
	} retired;

	pthread_mutex_t groom_lock; /* one grooms at a time */
	struct db *copier;          /* of grooming: its connection for checkpoints */
	uint32_t groom_series;      /* the next series to groom, under the lock */
	size_t groom_waiting; /* the next call is for the parts from this one on; 0: for all; under the lock */
	size_t groom_turn;    /* the part whose turn is next then, under the lock */
	struct sweep *sweep;  /* under the lock */
	uint32_t sweep_series;  /* the next place to look for a series without profiles, under the lock */
	struct expired expired; /* under the lock, too */
	struct room room;
	struct damage damage;
	_Atomic bool remake_runs;
	struct background *check; /* NULL: none */

	_Atomic uint64_t n_profiles, n_samples;                       /* stored now */
	_Atomic uint64_t n_added, n_duplicates, n_refused, n_expired; /* since it was opened */
	_Atomic uint64_t n_samples_expired;                           /* likewise */
	_Atomic uint64_t n_labels_mended, n_labels_dropped;           /* likewise */
	_Atomic uint64_t n_published; /* transactions whose entries in the tables are complete */
	_Atomic uint64_t n_sweeps;    /* since it was opened */
	struct names *names;
};

int profilestore_load(struct profilestore *s, struct err *err);
/* clock.c: the time is in its file so often, unless the clock is doubted */
#define CLOCK_SAVE_EVERY_MS INT64_C(120000)
/* The time by which ages are counted. */
struct age_time store_time(struct profilestore *s);
/* The time in the file of the clock, which was reached for certain; INT64_MIN: none. */
int64_t clock_saved_ms(const struct profilestore *s);
/* How long the clock, which is at @wall_ms, went on steadily in earlier processes that doubted it; 0: it was not doubted. */
int64_t clock_steady_ms(const struct profilestore *s, int64_t wall_ms);
/* Write the files of the clock if they are out of date. Under groom_lock, or at the end. */
void clock_save(struct profilestore *s, bool closing);
void store_notice(struct profilestore *s, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
extern const struct db_migration profilestore_migrations[];
extern const unsigned profilestore_n_migrations;

/* names.c: the state of naming. names_open() comes after the segments. */
int names_open(struct profilestore *s, struct db *db, struct err *err);
void names_close(struct profilestore *s);
/*
 * names_added(): in the writer's thread, a location was added that wants a name; names_committed(): it is on
 * disk.
 */
void names_added(struct profilestore *s, uint32_t binary);
void names_committed(struct profilestore *s);
/*
 * Whether a location may get a name: soon, or later, since a failure is tried again later, or when a file
 * turns up.
 */
enum names_hope { NAMES_NONE, NAMES_SOON, NAMES_LATER };
enum names_hope names_hope(const struct reader *rd, uint32_t location);
uint64_t names_n_unnamed(struct profilestore *s); /* locations without a name */
