/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile: sampled stacks in one form, from any format and to any format.
 *
 * The form is that of pprof's profile.proto in columns: tables of strings, functions, mappings, locations,
 * and samples that are a stack, a set of labels and one value for each sample type. Two things that
 * profile.proto repeats are shared: stacks are a trie, each a location and the stack of its callers, and each
 * set of labels is stored once. A caller's stack always has a smaller number than its callee's, so a walk
 * over the tree of calls is one loop over an array, up or down, without recursion.
 *
 *   profile.h  the form; pprof in and out; building, merging, comparing
 *   input.h    other formats in
 *   tree.h     the tree of calls: groups, top, callers and callees
 *   filter.h   filters: which samples patterns select
 *   output.h   other formats out
 *   name.h     naming bare addresses
 *
 * A profile belongs to one thread; while no thread changes it many may read it.
 */
#pragma once

#include "io/io.h"

#define PROFILE_NONE UINT32_MAX /* no mapping */

/* Limits of one reader. Zeros mean these. */
#define PROFILE_MAX_SIZE   ((uint64_t)1 << 30) /* decoded bytes */
#define PROFILE_MAX_MEMORY ((uint64_t)4 << 30) /* of the resulting profile */
#define PROFILE_MAX_DEPTH  65536u              /* locations of one stack */
#define PROFILE_MAX_TYPES  256u                /* sample types */
#define PROFILE_MAX_LABELS 4096u               /* of one sample */
struct profile_limits {
	uint64_t max_size, max_memory;
	struct budget_hold
		*memory; /* borrowed: grants it as it grows; lives longer than the profile. NULL: none */
	struct deadline *deadline; /* borrowed: of trees of calls (tree.h); NULL: none */
};

/* A growing array with indices 0 to n - 1. Indices are 32 bits wide. */
#define PROFILE_TABLE(type)       \
	struct {                  \
		type *p;          \
		uint32_t n, room; \
	}

/* Numbers called so are indices in the table of strings; 0 is the empty string. */
struct profile_type {
	uint32_t type, unit;
};

enum {
	PROFILE_HAS_FUNCTIONS = 1 << 0,
	PROFILE_HAS_FILENAMES = 1 << 1,
	PROFILE_HAS_LINES = 1 << 2,
	PROFILE_HAS_INLINES = 1 << 3,
};
struct profile_mapping {
	/* addresses [start, limit) are mapped from the file's offset `offset` */
	uint64_t start, limit, offset;
	uint32_t file, build_id; /* strings; build IDs as they came: mostly lower-case hex */
	uint32_t flags;          /* that hold for all its locations */
};

struct profile_function {
	uint32_t name, system_name, file; /* strings */
	int64_t start_line;
};

struct profile_line {
	uint32_t function;
	int64_t line, column; /* 0: not known */
};

struct profile_location {
	uint64_t addr;
	uint32_t mapping;             /* PROFILE_NONE: none */
	uint32_t first_line, n_lines; /* innermost first: each is inlined into the next */
	bool folded;                  /* the linker folded other functions at this address into it */
	bool addr_dropped; /* it has functions, and `addr` is 0 as nobody needs the address (profilestore.h) */
};

struct profile_stack {
	uint32_t parent, location; /* unused in stack 0, the empty one */
};

struct profile_label {
	uint32_t key, str, unit; /* str 0: the label is num, in unit */
	int64_t num;
};
struct profile_label_set {
	uint32_t first, n;
};

struct profile_index; /* finds equal entries of the tables */

struct profile {
	struct arena arena; /* the strings' bytes */
	PROFILE_TABLE(struct str) strings;
	PROFILE_TABLE(struct profile_type) types; /* of values */
	PROFILE_TABLE(struct profile_mapping) mappings;
	PROFILE_TABLE(struct profile_function) functions;
	PROFILE_TABLE(struct profile_line) lines;
	PROFILE_TABLE(struct profile_location) locations;
	PROFILE_TABLE(struct profile_stack) stacks;
	PROFILE_TABLE(struct profile_label) labels;
	PROFILE_TABLE(struct profile_label_set) label_sets; /* 0 is the empty one */

	/* One row a sample: its stack, its labels, and types.n values. */
	uint32_t n_samples, room_samples;
	uint32_t *sample_stack, *sample_labels;
	int64_t *values;

	uint32_t drop_frames, keep_frames, default_type, doc_url; /* strings */
	int64_t time_ns, duration_ns, period;
	struct profile_type period_type;
	PROFILE_TABLE(uint32_t) comments;

	uint64_t memory, max_memory; /* bytes of all tables, and their limit */
	struct budget_hold *hold;    /* that grants them, NULL: none; `held` of them so far */
	uint64_t held;
	struct err refusal;          /* the last one of `hold` */
	struct profile_index *index; /* NULL: not needed so far */
};

struct profile *profile_new(const struct profile_limits *limits); /* empty; @limits may be NULL */
void profile_free(struct profile *p);                             /* takes NULL */
void profile_freep(struct profile **p);

static inline struct str profile_str(const struct profile *p, uint32_t string)
{
	return p->strings.p[string];
}
static inline int64_t profile_value(const struct profile *p, uint32_t sample, uint32_t type)
{
	return p->values[(size_t)sample * p->types.n + type];
}

/*
 * The type with this name, "cpu"; empty: the profile's default if it is a type, else its last type. PROFILE_NONE: there
 * is none.
 */
uint32_t profile_type_find(const struct profile *p, struct str name);
/* The sum of a type's values. */
int64_t profile_total(const struct profile *p, uint32_t type);

/* ---- pprof ---- */

/*
 * Read a whole profile.proto, compressed (gzip, zstd, xz or bzip2) or not. Unknown fields are ignored. A
 * reference to an entry that is missing is ERR_INVALID.
 */
int profile_read_pprof(struct bytes in, const struct profile_limits *limits, struct profile **ret,
		       struct err *err);
/* IDs of mappings, functions and locations are their indices, from 1. */
int profile_write_pprof(const struct profile *p, bool gzip, struct buf *out, struct err *err);

/* ---- stacks that another module keeps ---- */

struct profile_trie {
	uint32_t n;           /* stacks; 0 is the root, and callers have smaller numbers */
	const uint64_t *seen; /* a bit for each stack that has a value, and for its callers */
	/*
	 * A bit for each word of `seen` that is not 0; the others are not read (trie.h): a value of a label may have few of
	 * many stacks. NULL: all are read
	 */
	const uint64_t *words;
	int64_t *values; /* of each; a tree overwrites them */
	/* For a tree that compares: the values of the base, times `scale`. `seen` has both. NULL: none */
	int64_t *base;
	double scale;
	int64_t total, base_total; /* with `base`: of both sides, with all values of the label */
	/* Its caller and its location, which is one of the profile. Not called for the root. */
	struct profile_stack (*stack)(const void *arg, uint32_t stack);
	const void *arg;
	uint32_t labels; /* set of labels of the profile, which samples of all these stacks have */
	/* for trees (tree.h) */
	bool top; /* the tree is for profile_tree_top() only, and has no node but the root */
	/* With `top`: callers and callees of the first function of this name (and binary, unless empty). Empty: none */
	struct str function, binary, file;
	uint32_t table_max; /* nodes that are counted one by one; 0: as many as is sensible */
};

/* Locations that another module keeps: those that stacks of a struct profile_trie have. */
struct profile_lent_locations {
	/*
	 * The next one, with its number, which is that of the stacks. Its lines stay until the next call. Its functions
	 * and its mapping have been added to the profile. false: there are no more.
	 */
	bool (*next)(void *arg, uint32_t *ret_number, struct profile_location *ret,
		     const struct profile_line **ret_lines);
	void *arg;
};

/* Bytes go to write() in pieces; negative ends the work. */
struct profile_writer {
	int (*write)(void *arg, struct bytes b, struct err *err);
	void *arg;
};

/*
 * A pprof file in parts: samples as often as there are some, then the tables. It takes memory for one sample only. The
 * profile has its one type before the first sample; strings, functions, mappings may be added until the end.
 */
struct profile_pprof;
int profile_pprof_new(const struct profile_writer *to, bool gzip, struct deadline *deadline,
		      struct profile_pprof **ret, struct err *err);
void profile_pprof_free(struct profile_pprof *w);                                         /* takes NULL */
int profile_pprof_add(struct profile_pprof *w, const struct profile *p, struct err *err); /* its samples */
/* Stacks whose value is 0 are no samples. */
int profile_pprof_add_trie(struct profile_pprof *w, const struct profile *p, const struct profile_trie *in,
			   struct err *err);
/* @locations NULL: those of the profile. */
int profile_pprof_end(struct profile_pprof *w, const struct profile *p,
		      const struct profile_lent_locations *locations, struct err *err);

/* ---- building ---- */

/*
 * Each of these finds an equal entry, or adds one, and returns its index; stacks and labels too. They fail
 * only by the limit of memory, which is noted in the profile: the index is then 0, which may be passed to other
 * functions here, and profile_build_end() fails.
 */
uint32_t profile_add_string(struct profile *p, struct str s); /* copied */
uint32_t profile_add_function(struct profile *p, const struct profile_function *f);
uint32_t profile_add_mapping(struct profile *p, const struct profile_mapping *m);
/* l->first_line and n_lines are set here. */
uint32_t profile_add_location(struct profile *p, const struct profile_location *l,
			      const struct profile_line *lines, uint32_t n);
uint32_t profile_add_stack(struct profile *p, uint32_t callers, uint32_t location);
/* The same for @n locations, the leaf first. */
uint32_t profile_add_stacks(struct profile *p, uint32_t callers, const uint32_t *locations, uint32_t n);
/* Sets with another order are different. */
uint32_t profile_add_labels(struct profile *p, const struct profile_label *labels, uint32_t n);
/*
 * Add values to the sample with the same stack and labels, or a new one. Sums saturate at the ends of
 * int64_t.
 */
void profile_add_sample(struct profile *p, uint32_t stack, uint32_t labels, const int64_t *values);
/* The same without a search, for callers that know that there is no equal entry, or do not care. */
uint32_t profile_append_location(struct profile *p, const struct profile_location *l,
				 const struct profile_line *lines, uint32_t n);
uint32_t profile_append_stack(struct profile *p, uint32_t callers, uint32_t location);
void profile_append_sample(struct profile *p, uint32_t stack, uint32_t labels, const int64_t *values);
void profile_add_type(struct profile *p, struct str type, struct str unit); /* before the first sample */
int profile_build_end(struct profile *p, struct err *err);
/* The limit was noted: the index that was returned may be 0 of an empty table. */
bool profile_has_failed(const struct profile *p);
/* Free memory that only adding needs. */
void profile_pack(struct profile *p);

/* ---- merging ---- */

/*
 * Add all samples of @from, times @scale, to @to. Equal entries become one: mappings by build ID (else file),
 * size and offset, wherever they were in memory; locations, functions, stacks, labels. Sample types and the
 * period's must be the same (ERR_INVALID); those of an empty @to become those of @from. The earliest time is
 * kept, durations add up, and the largest period is kept.
 *
 * profile_merge_end() removes samples whose values are all zero; until then @to is not complete. Labels of a
 * sample are sorted by key.
 */
int profile_merge(struct profile *to, const struct profile *from, double scale, struct err *err);
int profile_merge_end(struct profile *to, struct err *err);

/*
 * @profile minus @base. @normalise: @base is scaled so that its sums, type by type, equal those of @profile.
 */
int profile_diff(const struct profile *profile, const struct profile *base, bool normalise,
		 struct profile **ret, struct err *err);

/* ---- counters ---- */

/*
 * The values of a profile whose counters rise as long as its process runs (alloc_space, contentions), by stack and
 * labels. "inuse_*" are no counters.
 */
struct profile_counters;
enum { PROFILE_NO_BASE = 1 };
/*
 * Replace the counters of @p by their rise since @before, from an earlier profile of the same process. *ret is
 * the base for the next one, granted by @memory, which outlives it (NULL: no limit).
 *
 * PROFILE_NO_BASE: @before is NULL, or is of another process, since a counter has sunk or the types are others; then all
 * counters of @p become 0. *ret is set, too. @before is used up, but is not freed; on an error nothing has changed.
 */
int profile_counters_rise(struct profile *p, struct profile_counters *before, struct budget_hold *memory,
			  struct profile_counters **ret, struct err *err);
void profile_counters_free(struct profile_counters *c); /* takes NULL */
