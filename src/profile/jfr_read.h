/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the reader of JFR.
 *
 *   jfr_chunk.c    the header of a chunk, its events one after the other
 *   jfr_types.c    the metadata of a chunk: classes and their fields; values of them, read and skipped
 *   jfr_pools.c    constants: where each one is, by its type and key
 *   jfr_frames.c   stack traces: frames, names, labels in the profile
 *   jfr_events.c   the events that are read, and the values that they have
 *   jfr_labels.c   labels of contexts (Pyroscope's)
 *   jfr_read.c     the whole
 *
 * Offsets are those in the chunk. The tables of classes and constants are of one chunk, since the next one numbers its
 * own. A constant is parsed when an event needs it, and a stack becomes one of the profile once.
 */
#pragma once

#include "base/cursor.h"
#include "profile/internal.h"
#include "profile/jfr.h"

#define JFR_HEADER_SIZE 68u
#define JFR_MAX_NESTING 8u    /* arrays and structs in each other */
#define JFR_MAX_OPS     512u  /* fields of a class, with those of the structs in it; structs likewise */
#define JFR_MAX_NAME    4096u /* bytes of a class's or method's name */
#define JFR_MAX_LABELS  32u   /* of a context; entries of it that are looked at, likewise */
#define JFR_MAX_TEXT    1024u /* bytes of a label's name or value */
#define JFR_NONE        UINT32_MAX

/* ---- classes ---- */

/* Fields that are read. The number is the place of the value in an array of them. */
enum jfr_slot {
	JFR_START, /* ticks */
	JFR_STACK,
	JFR_STATE,
	JFR_VALUE,
	JFR_CONTEXT,
	JFR_SPAN,
	JFR_THREAD,
	/* of settings: JFR_VALUE is the value */
	JFR_ID,
	JFR_NAME,
	/* of constants */
	JFR_TYPE,
	JFR_LINE,
	JFR_METHOD,
	JFR_FRAMES,
	JFR_TRUNCATED,
	JFR_TEXT,
	JFR_OS_NAME,
	JFR_N_SLOTS,
	JFR_NO_SLOT = 255
};
/* A number, or where the value begins: a string, or an array with its count. */
struct jfr_value {
	uint64_t number;
	uint32_t off;
	bool there;
};

enum jfr_op_kind { JFR_OP_RAW, JFR_OP_INT, JFR_OP_STRING, JFR_OP_ARRAY };
struct jfr_op {
	uint8_t kind, slot;
	uint8_t width;  /* bytes of a number that is not compressed; of JFR_OP_RAW in any case */
	uint32_t field; /* JFR_OP_ARRAY: of its elements */
};

struct jfr_field {
	uint32_t name; /* of the strings of the metadata */
	bool constant, array;
	uint64_t type_id;
};

enum jfr_pool_kind {
	JFR_STRINGS,
	JFR_SYMBOLS,
	JFR_CLASSES,
	JFR_METHODS,
	JFR_STACKS,
	JFR_THREADS,
	JFR_STATES,
	JFR_FRAME_TYPES,
	JFR_N_POOLS,
	JFR_NO_POOL = 255
};

struct jfr_event_row;
struct jfr_type {
	uint64_t id;
	uint32_t name, super; /* of the strings of the metadata */
	uint32_t first_field, n_fields;
	uint32_t first_op, n_ops; /* JFR_NONE: not compiled so far */
	uint8_t basic;            /* 0: it is made of fields; else the row + 1 of a class that is not */
	uint8_t pool;             /* enum jfr_pool_kind */
	const struct jfr_event_row *event; /* NULL: its events are skipped */
};

/* ---- constants ---- */

struct jfr_constant {
	uint64_t key;
	uint32_t off; /* of its value */
};
struct jfr_pool {
	uint32_t type; /* JFR_NONE: the chunk has no such class */
	PROFILE_TABLE(struct jfr_constant) list;
	struct hash_index by_key;
};

/* ---- where events go ---- */

struct jfr_kind; /* a row of the table of kinds */

/* A profile that is being made, and where constants are in it: index + 1, 0: not yet. */
#define JFR_RECENT 4096u /* frames; a power of two */
struct jfr_recent {
	uint64_t method, type, line;
	uint32_t location;
	bool there;
};
struct jfr_target {
	struct profile *p;
	struct jfr_recent
		*recent; /* JFR_RECENT frames that are locations by themselves, by hash; NULL: none so far */
	bool has_recent;
	PROFILE_TABLE(uint32_t) stacks, functions;
	uint32_t no_stack; /* a stack; 0: not made so far */
};
struct jfr_out {
	struct jfr_target *target; /* NULL: no event of this kind so far */
	uint32_t first_type;
	bool used;
};
#define JFR_MAX_KINDS 16u

/* ---- labels ---- */

struct jfr_context {
	int64_t id;
	struct bytes labels; /* the message Context */
};
struct jfr_text {
	int64_t id;
	struct str text;
};
struct jfr_labels {
	PROFILE_TABLE(struct jfr_context) contexts; /* by ID */
	PROFILE_TABLE(struct jfr_text) strings;
};

/* ---- the reader ---- */

struct jfr_event {
	uint32_t off, size; /* with its head */
	uint64_t type_id;
	uint32_t body; /* offset of the first field */
};

struct jfr_reader {
	const struct profile_limits *limits;
	const struct jfr_options *options;
	struct profile *room; /* counts the memory of everything here */
	uint64_t seed;
	struct jfr_labels labels;
	struct buf text, name; /* a converted string; a name that is being made */

	/* The chunk that is being read. */
	unsigned number; /* from 1 */
	struct bytes chunk;
	bool plain;      /* numbers are not compressed */
	bool unfinished; /* the file ends in it, or its header was not completed */
	int64_t start_ns, start_ticks, ticks_per_s;
	uint32_t metadata; /* offset; 0: none */
	PROFILE_TABLE(uint32_t) checkpoints;
	PROFILE_TABLE(struct str) strings;
	PROFILE_TABLE(struct jfr_type) types; /* by ID */
	PROFILE_TABLE(struct jfr_field) fields;
	PROFILE_TABLE(struct jfr_op) ops;
	struct jfr_pool pools[JFR_N_POOLS];
	uint32_t frame_type;                      /* the class of frames; JFR_NONE: there is none */
	uint64_t inlined, native, cpp, kernel;    /* keys of the frame types; UINT64_MAX: none */
	uint64_t sleeping, runnable;              /* keys of thread states */
	PROFILE_TABLE(struct profile_line) lines; /* of the location that is being made */
	PROFILE_TABLE(uint32_t) locations;        /* of the stack that is being made, leaf first */

	/* Of the whole recording. */
	struct jfr_target targets[JFR_MAX_KINDS];
	struct jfr_out outs[JFR_MAX_KINDS];
	int64_t first_ns, last_ns; /* since 1970 */
	unsigned n_unfinished;     /* the number of the chunk; 0: none */
	bool is_wall;              /* async-profiler samples the wall clock alone */
	struct str other_event;    /* async-profiler's event that is no clock; empty: it is one */
	int64_t cpu_ns, wall_ns, jdk_ns, native_ns; /* intervals between samples; 0: unknown */
	int64_t event_interval;
};

/* Set the reader's error and return -1. The place is added by the caller. */
int jfr_err_cut(struct err *err);
int jfr_err_memory(struct jfr_reader *r, struct err *err);

/* ---- jfr_chunk.c ---- */

/*
 * Read the header of the chunk at the start of @in, and set *ret_size, as far as the next chunk. The list of its
 * checkpoints and the place of its metadata are made by a walk over all its events.
 */
int jfr_chunk_open(struct jfr_reader *r, struct bytes in, uint64_t *ret_size, struct err *err);
/* A cursor over the chunk, at an offset. */
struct cursor jfr_cursor(const struct jfr_reader *r, uint32_t off);
/* The event at *off, which then is that of the next one. 1: no more events. */
int jfr_event_next(const struct jfr_reader *r, uint32_t *off, struct jfr_event *ret, struct err *err);
/* A number, compressed or of @width bytes. JFR's compressed ones have at most 9 bytes. */
uint64_t jfr_varint_long(struct cursor *c);
static inline uint64_t jfr_int(const struct jfr_reader *r, struct cursor *c, unsigned width)
{
	if (r->plain)
		return cursor_uint(c, width);
	return cursor_left(c) && *c->p < 0x80 ? *c->p++ : jfr_varint_long(c);
}

/* ---- jfr_types.c ---- */

int jfr_types_read(struct jfr_reader *r, struct err *err);
struct jfr_type *jfr_type_of(struct jfr_reader *r, uint64_t id); /* NULL: there is none */
struct str jfr_type_name(const struct jfr_reader *r, const struct jfr_type *t);
/*
 * Read a value of @type at @c, which is after it then. Fields with a slot are in @slots, which has JFR_N_SLOTS; NULL:
 * the value is only skipped.
 */
int jfr_value_read(struct jfr_reader *r, uint32_t type, struct cursor *c, struct jfr_value *slots,
		   struct err *err);
/* The string at an offset: a view of the chunk, or of r->text until the next call. Cut to @max bytes. */
struct str jfr_string(struct jfr_reader *r, uint32_t off, size_t max);

/* ---- jfr_pools.c ---- */

int jfr_pools_read(struct jfr_reader *r, struct err *err);
/* The constant's place in the list; JFR_NONE: there is none. */
uint32_t jfr_constant_find(const struct jfr_reader *r, enum jfr_pool_kind pool, uint64_t key);
/* Its fields. false: there is none, or it is damaged. */
bool jfr_constant_read(struct jfr_reader *r, enum jfr_pool_kind pool, uint64_t key, struct jfr_value *slots);
/* The text of a constant with one string (symbols, strings, states), as jfr_string(). */
struct str jfr_constant_text(struct jfr_reader *r, enum jfr_pool_kind pool, uint64_t key);

/* ---- jfr_frames.c ---- */

/* The keys of frame types and states of this chunk. */
void jfr_frames_start(struct jfr_reader *r);
/* Free all but the profile. */
void jfr_target_done(struct jfr_target *t);
/* The function of a method. @no_class: it is no method, so it has a name alone. */
int jfr_function(struct jfr_reader *r, struct jfr_target *t, uint64_t method, bool no_class, uint32_t *ret,
		 struct err *err);
/* The stack of a stack trace. */
int jfr_stack(struct jfr_reader *r, struct jfr_target *t, uint64_t key, uint32_t *ret, struct err *err);
/* The set of labels of an event. */
uint32_t jfr_labels_of(struct jfr_reader *r, struct jfr_target *t, const struct jfr_value *slots);

/* ---- jfr_events.c ---- */

/* The events that are read; NULL: none of that name. */
const struct jfr_event_row *jfr_event_row(struct str name);
/* The slot of a field of such an event. */
enum jfr_slot jfr_event_slot(const struct jfr_event_row *row, struct str field);
int jfr_event_take(struct jfr_reader *r, const struct jfr_type *type, const struct jfr_event *e,
		   struct err *err);
/* All chunks were read: complete the profiles, and pass them on. */
int jfr_events_end(struct jfr_reader *r, struct profile_sink sink, struct err *err);

/* ---- jfr_labels.c ---- */

int jfr_labels_read(struct jfr_reader *r, struct bytes in, struct err *err);
const struct jfr_text *jfr_text_find(const struct jfr_reader *r, int64_t id);
/* The labels of a context in @ret, strings added to @p; returns their number. *ret_at: its place in the list. */
uint32_t jfr_context_find(const struct jfr_reader *r, int64_t id); /* JFR_NONE: there is none */
uint32_t jfr_context_labels(const struct jfr_reader *r, uint32_t at, struct profile *p,
			    struct profile_label ret[JFR_MAX_LABELS]);
