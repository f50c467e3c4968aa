/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profilestore: profiles that came in, stored and queried.
 *
 * A profile is taken apart when it comes in. What its stacks refer to (strings, functions, mappings,
 * locations, stacks as a trie) is interned once for all profiles: the *metadata store*, in SQLite through
 * `db`, and in memory. The rest is, for each *series* (a profile type and a set of labels), a row with a time
 * and a list of stacks and values. A mapping is stored as a binary, known by its build ID, and an address as
 * that of the ELF file, so that the same code is the same location in every process.
 *
 * Profiles are merged by adding up values by stack in one array; five minutes, hours, six hours and days of a series are
 * added up beforehand (*rollups*).
 *
 * A location has names from its profile, or gets them later (`naming`): that changes the location, and so
 * every profile.
 *
 *   profilestore.h  opening, adding, queries
 *   selector.h      the language of selectors
 *   names.h         names for locations that came in without
 *   type.h          names of profile types
 *
 * Many threads may use a profile store. Readers do not wait for writers, nor writers for readers.
 */
#pragma once

#include <errno.h>
#include "base/map.h"
#include "profile/tree.h"
#include "profilestore/selector.h"

struct profilestore;

struct profilestore_options {
	const char *dir;       /* created if need be; has "profiles.db" and its companions */
	int64_t max_age_ms;    /* how long profiles are kept. 0: for ever */
	uint64_t max_size;     /* bytes of profiles; the oldest are deleted first. 0: no limit */
	uint32_t max_series;   /* 0: 100 000 */
	uint32_t sender_share; /* per cent of both limits for one sender, once half is in use. 0: 25 */
	struct budget *memory; /* borrowed: of the second copy that a sweep makes; NULL: no limit */
	bool no_names;         /* addresses get no names here: none is counted as pending */
	uint64_t max_metadata; /* bytes of memory for the metadata store; more is ERR_LIMIT. 0: 1 GiB */
	/* Tells what happened to the data: profiles deleted, files set aside. NULL: nobody */
	void (*notice)(void *arg, enum log_level level, const char *text);
	void *notice_arg;
	/* For tests: the wall clock, NULL: the real one; the monotonic one, NULL: it goes with now_ms */
	int64_t (*now_ms)(void), (*mono_ms)(void);
};
/*
 * A database that is damaged is set aside, and its sound rows are copied into a new one: notice() and the
 * statistics report it. ERR_DAMAGED only if that fails, too.
 */
int profilestore_open(const struct profilestore_options *o, struct profilestore **ret, struct err *err);
/* Profiles given to profilestore_add() are written before. Takes NULL. */
void profilestore_close(struct profilestore *s);

/* ---- taking in ---- */

#define PROFILESTORE_MAX_LABELS      64u
#define PROFILESTORE_MAX_LABEL_NAME  256u  /* [a-zA-Z_][a-zA-Z0-9_.]* */
#define PROFILESTORE_MAX_LABEL_VALUE 4096u /* UTF-8 without control characters */
#define PROFILESTORE_MAX_LABEL_SETS  1000u /* of the samples of one profile */
#define PROFILESTORE_MAX_TYPE_TEXT   256u  /* bytes of the name of a type, and of each of its parts */
/* A profile whose time is further in the future is ERR_INVALID. */
#define PROFILESTORE_MAX_AHEAD_MS (10 * 60 * 1000)

struct profilestore_label {
	struct str name, value;
};

struct profilestore_receipt {
	/* one for each sample type and set of labels; those without any value are not stored */
	uint32_t n_profiles;
	uint64_t n_samples;
	bool duplicate;   /* the same profile is stored already: nothing was added, which is not an error */
	int64_t first_id; /* of its profiles; 0: none */
	uint32_t n_mended, n_dropped; /* labels: see mends_labels */
};

/*
 * Add @p with @labels. Its types become series "NAME:TYPE:UNIT:PERIODTYPE:PERIODUNIT[:delta]" (":delta": it
 * has a duration); NAME is the label __name__, or `name`, or "profile". Text labels of its samples become labels too
 * (with "exported_" before the name if there is one of the same name); numeric labels are left out. Addresses
 * become those of the ELF file as far as the mapping tells (see mapping_offset in names.h).
 *
 * Bad labels (without mends_labels), or a time that is far ahead: ERR_INVALID; too many: ERR_LIMIT; both at once. Else 0,
 * and @done is called once, from another thread: err NULL, it is on disk. @p must stay until then; it is not changed. An
 * error at @done is never the fault of the profile alone: ERR_LIMIT, the store is full (or, with err->os, memory or
 * descriptors are scarce; with PROFILESTORE_TOO_MANY_SERIES it would begin one series too many, by its labels, so to send
 * it again is of no use); ERR_IO; ERR_DAMAGED.
 */
#define PROFILESTORE_TOO_MANY_SERIES E2BIG
/*
 * Profiles that came in one request: two that are equal are of two senders, such as idle processes of one program, whose
 * numbers are no labels. So none is a duplicate of another; each may be one of a profile of another request.
 */
struct profilestore_batch {
	/* the writer's; zeroed at first */
	int64_t first_id; /* of its profiles */
	struct map own;   /* digests of its profiles */
};
void profilestore_batch_done(struct profilestore_batch *b);
struct profilestore_upload {
	const struct profile *p;
	const struct profilestore_label *labels;
	size_t n_labels;
	struct str sender; /* whose share of the limits it counts for; empty: nobody's */
	struct str name;   /* NAME without the label __name__; empty: "profile" */
	/*
	 * Bad labels are made to fit instead of refusing the profile: other characters in names become '_', in values
	 * '?', and texts that are too long are cut. Two labels never become one: '_' is added to a name that another label has.
	 * Of labels with one name the first stays. The receipt has the numbers.
	 */
	bool mends_labels;
	bool no_delta;                    /* its types are without ":delta", as Pyroscope has them (type.h) */
	struct profilestore_batch *batch; /* borrowed until @done. NULL: it came alone */
};
int profilestore_add(struct profilestore *s, const struct profilestore_upload *u,
		     void (*done)(void *arg, const struct profilestore_receipt *r, const struct err *err),
		     void *arg, struct err *err);
/* The same, waiting for the result. */
int profilestore_add_wait(struct profilestore *s, const struct profile *p,
			  const struct profilestore_label *labels, size_t n_labels,
			  struct profilestore_receipt *ret, struct err *err);

/* ---- asking ---- */

/* Times are milliseconds since 1970, from inclusive, to exclusive. */
struct profilestore_range {
	const struct selector *sel; /* matches series of a type; NULL: all types, where that makes sense */
	int64_t from_ms, to_ms;
	int64_t profile_id; /* not 0: this one profile, whatever the other fields say */
	/* Borrowed: after it, queries of this range fail with ERR_CANCELLED. NULL: none. */
	struct deadline *deadline;
	/*
	 * Each series also has the labels that clients of Pyroscope expect: __profile_type__ (its ID, see type.h) and the
	 * parts of it as __name__, __type__, __unit__, __period_type__, __period_unit__; and service_name (without a
	 * label of that name: the label service, else "unknown_service"). profilestore_types() lists IDs.
	 */
	bool derived;
};

/* Lists are on the heap in one piece: free() them. Sorted, without repetition. */
struct profilestore_list {
	size_t n;
	struct str *v;
};
int profilestore_types(struct profilestore *s, const struct profilestore_range *r,
		       struct profilestore_list **ret, struct err *err);
int profilestore_label_names(struct profilestore *s, const struct profilestore_range *r,
			     struct profilestore_list **ret, struct err *err);
int profilestore_label_values(struct profilestore *s, const struct profilestore_range *r, struct str name,
			      struct profilestore_list **ret, struct err *err);

/*
 * Sums over time, each of one set of values of the labels @by (n_by 0: each series by itself). All must be of
 * types of one ID (type.h): a range with several is ERR_INVALID.
 */
struct profilestore_series_options {
	int64_t step_ms;      /* of a point; 0: such that there are about 200 */
	int64_t origin_ms;    /* points begin at this time plus multiples of the step */
	const struct str *by; /* names of labels; one that stands twice counts once */
	size_t n_by;
	bool one;       /* add up all series */
	uint32_t limit; /* series, the largest first; 0: none, only the totals */
	/* Borrowed: grants all points, and those of the list until its owner gives them back. NULL: not counted. */
	struct budget_hold *memory;
};
struct profilestore_series {
	const struct profilestore_label *labels;
	size_t n_labels;
	int64_t total;
	uint64_t n_profiles;
	const int64_t *points;  /* n_points of profilestore_series_list */
	const uint32_t *counts; /* profiles in each point */
};
struct profilestore_series_list {
	int64_t from_ms, step_ms;
	size_t n_points, n, n_left_out;
	int64_t total;      /* of all series, also of those that are left out */
	uint64_t n_damaged; /* see profilestore_merged */
	struct profilestore_series *v;
	struct str type, unit; /* empty: no series */
};
int profilestore_series(struct profilestore *s, const struct profilestore_range *r,
			const struct profilestore_series_options *o, struct profilestore_series_list **ret,
			struct err *err);

/*
 * The different sets of values that the labels @by have (n_by 0: all labels), by names and values; without the empty set.
 * More than @limit: ERR_LIMIT.
 */
struct profilestore_label_set {
	const struct profilestore_label *labels;
	size_t n;
};
struct profilestore_label_sets {
	size_t n;
	struct profilestore_label_set *v;
};
int profilestore_label_sets(struct profilestore *s, const struct profilestore_range *r, const struct str *by,
			    size_t n_by, size_t limit, struct profilestore_label_sets **ret, struct err *err);

/* Profiles one by one, the latest first. */
struct profilestore_entry {
	int64_t id, time_ms, duration_ms, total;
	uint64_t n_samples;
	const struct profilestore_label *labels;
	size_t n_labels;
};
struct profilestore_entries {
	uint64_t n_damaged; /* see profilestore_merged */
	size_t n;
	struct profilestore_entry *v;
};
/* The latest @limit profiles; 0: none. */
int profilestore_profiles(struct profilestore *s, const struct profilestore_range *r, uint32_t limit,
			  struct profilestore_entries **ret, struct err *err);

/* The parts of the merged profiles that are kept. NULL or zeroed: no label, all addresses. */
struct profilestore_merged;
struct profilestore_shape {
	struct str label; /* samples have it, if their series has it; empty: none */
	/*
	 * What makes locations with names different. Fewer take less memory: those that are equal then become
	 * one, with the address 0 and addr_dropped. profile_filter_needs() says what patterns need.
	 */
	enum profilestore_detail {
		PROFILESTORE_ADDRESSES,
		PROFILESTORE_LINES,    /* lines, and all that is of a function */
		PROFILESTORE_FUNCTIONS /* functions, their files and binaries; lines are 0 */
	} detail;
	/*
	 * If the range has at least `lend_from` stacks, the profile gets neither stacks nor samples. Instead, this is called
	 * with the stacks as the store has them, which takes a quarter of the memory; @m is the result so far. With a
	 * label it is called for each value of the label that has samples, and `labels` of @in is its set.
	 * Negative: the merge fails. NULL: the profile has its stacks and samples, however many.
	 */
	int (*stacks)(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
		      struct err *err);
	/*
	 * Called once after all stacks, also if there are none: the profile gets no locations either, and what they refer to
	 * while @l is read. They are as they are with PROFILESTORE_ADDRESSES. @m is the result. NULL: the profile has them.
	 */
	int (*locations)(void *arg, const struct profilestore_merged *m,
			 const struct profile_lent_locations *l, struct err *err);
	/*
	 * Borrowed, with stacks(): the other side of a comparison. Stacks are lent with the
	 * values of both sides, if these have at least `lend_from` stacks together. There are two results then, one for
	 * each side; if stacks were lent, the second one has an empty profile, and no pending locations. NULL: there is none.
	 */
	const struct profilestore_range *base;
	/*
	 * After the last call of stacks(), or without one, while all stacks that were lent can still be read. NULL: not
	 * called
	 */
	int (*end)(void *arg, struct err *err);
	/* The merge begins, perhaps again, if the tables were replaced during the query. NULL: nobody wants to know */
	void (*begin)(void *arg);
	void *arg;
	uint32_t lend_from;
};

/*
 * All profiles of the range merged into one, with one sample type and of this shape. It has the names that are stored by
 * now; nothing is waited for. An empty range: an empty profile. The caller owns it. More than @limits: ERR_LIMIT. @ret: of
 * one result, or of two with shape->base.
 */
struct profilestore_merged {
	struct profile *profile; /* profile_free() it */
	uint64_t n_profiles, n_samples;
	uint64_t n_pending; /* its locations that may get names within seconds */
	/* its locations that failed, and may get names when a file turns up, or much later */
	uint64_t n_waiting;
	/* Profiles of the range that were damaged and set aside when the store was opened or since; their times may not be known */
	uint64_t n_damaged;
};
int profilestore_merge(struct profilestore *s, const struct profilestore_range *r,
		       const struct profilestore_shape *shape, const struct profile_limits *limits,
		       struct profilestore_merged *ret, struct err *err);

/* ---- housekeeping ---- */

/*
 * One step of compaction, rollups and retention; *ret_more: there is more to do. For a thread of low
 * priority.
 */
int profilestore_groom(struct profilestore *s, bool *ret_more, struct err *err);

/*
 * Check all pages of the database against their digests, and repair those that are damaged. @rest (NULL: none) is called
 * after each piece of the work; true: end with ERR_CANCELLED.
 */
int profilestore_check(struct profilestore *s, bool (*rest)(void *arg), void *arg, struct err *err);
/* Do that in the background, a minute after the start and then once a day. */
void profilestore_check_start(struct profilestore *s);

/*
 * Set a function to be called, from the store's thread, when a limit is met and grooming should make room at once.
 * Without it nobody grooms, and profiles that meet a limit are refused at once. NULL: none.
 */
void profilestore_on_full(struct profilestore *s, void (*fn)(void *arg), void *arg);

struct profilestore_stats {
	uint64_t n_profiles, n_samples, n_series, n_locations, n_unnamed, n_stacks, n_functions, n_strings,
		n_binaries;
	uint64_t data_size;                                   /* bytes on disk */
	uint64_t metadata_size;                               /* bytes of memory */
	uint64_t n_added, n_duplicates, n_refused, n_expired; /* since it was opened */
	uint64_t n_sweeps;                                    /* likewise */
	uint64_t n_labels_mended, n_labels_dropped;           /* of added profiles: see mends_labels */
	int64_t oldest_ms, latest_ms;
	unsigned n_set_aside;    /* databases, or pages of one, that were damaged, and were set aside */
	char set_aside_why[512]; /* of the latest */
	/* since it was opened: profiles that were set aside (also then); damaged pages that were repaired, and that stay */
	uint64_t n_lost, n_mended, n_unmended;
	char unmended_why[512]; /* of the latest page that stays damaged */
};
void profilestore_stats(struct profilestore *s, struct profilestore_stats *ret);
/* Counts the times that names came, or that a look or a try ended, for callers that wait for names. */
uint64_t profilestore_n_namings(struct profilestore *s);
unsigned profilestore_n_set_aside(struct profilestore *s);
bool profilestore_is_damaged(struct profilestore *s); /* damage was found since it was opened */
