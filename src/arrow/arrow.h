/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrow: streams of Apache Arrow's columnar format (arrow.apache.org/docs/format/Columnar.html, "IPC streaming format"),
 * read from memory: a schema, dictionaries with deltas and replacements, record batches; buffers as they are, or in LZ4
 * frames or zstd.
 *
 *   flat.c     flatbuffers, in which a message describes itself, bounded
 *   schema.c   the schema: fields, in pre-order
 *   unpack.c   buffers of a message's body
 *   column.c   arrays of a batch, checked
 *   stream.c   messages; dictionaries
 *
 * Everything is checked once, when a batch is read: sizes of buffers, offsets, views, run ends, indices of dictionaries. So
 * the functions that read values return no errors, and read nothing outside of the stream, whatever its bytes are. An
 * array may still be much longer than its bytes (runs; lists that share their elements): a caller that walks over lists
 * counts its steps.
 *
 * Values are little endian. Fields of unions are refused; of other kinds without a function here only nulls can be read.
 */
#pragma once

#include "base/arena.h"
#include "base/budget.h"
#include "base/err.h"

#define ARROW_MAX_FIELDS   4096u               /* of a schema, at all depths */
#define ARROW_MAX_DEPTH    32u                 /* of fields in one another */
#define ARROW_MAX_ROWS     (UINT64_C(1) << 22) /* of one batch */
#define ARROW_MAX_MESSAGES 4096u               /* of a stream */
#define ARROW_MAX_CHECKS   (UINT64_C(1) << 26) /* values that are checked, all batches together */

enum arrow_kind {
	ARROW_NULLS, /* nothing but nulls */
	ARROW_BOOL,
	ARROW_INT,   /* also timestamps, times, dates, durations */
	ARROW_OTHER, /* of a fixed width, not read */
	ARROW_FIXED, /* bytes of a fixed width */
	ARROW_BYTES, /* text and bytes, with offsets */
	ARROW_VIEWS, /* the same, as views */
	ARROW_STRUCT,
	ARROW_LIST,
	ARROW_LIST_VIEW,
	ARROW_RUNS,
};

struct arrow_field {
	struct str name;
	enum arrow_kind kind; /* of its values, also if they are in a dictionary */
	uint32_t width;       /* of ARROW_INT, OTHER, FIXED in bytes; of offsets: 4 or 8 */
	bool is_signed;
	uint32_t n_children, n_below; /* the next sibling is at this + 1 + n_below */
	uint32_t dictionary;          /* of the stream's, from 1; 0: values are in place */
	uint32_t index_width;         /* of the indices, likewise */
};

struct arrow_dictionary;

/*
 * An array: the rows of a field in a batch or dictionary. Its children stand after it, as those of the field. Run ends and
 * their values are the two children of ARROW_RUNS.
 */
struct arrow_array {
	const struct arrow_field *field;
	const struct arrow_dictionary *dictionary; /* the values are indices of it; NULL: they are in place */
	uint64_t n;
	const uint8_t *valid;  /* a bit each; NULL: none is null */
	const uint8_t *values; /* or offsets, or views, or indices */
	const uint8_t *sizes;  /* of ARROW_LIST_VIEW */
	struct bytes data;     /* of ARROW_BYTES */
	struct bytes *buffers; /* of ARROW_VIEWS */
	uint64_t n_buffers;
	uint64_t run; /* of ARROW_RUNS: where the last search ended */
};

/* Values of a dictionary: as many arrays as there were batches of it. */
struct arrow_dictionary {
	int64_t id;
	const struct arrow_field *field;
	struct arrow_values {
		uint64_t first; /* the number of its first row */
		struct arrow_array *arrays;
	} * parts;
	uint32_t n_parts, room_parts;
	uint64_t n;       /* rows */
	uint64_t checked; /* the generation for which its own indices are known to be good */
};

struct arrow_stream;

/* @hold grants memory before it is taken; NULL: no limit. @in lasts until arrow_close(). */
struct arrow_limits {
	struct budget_hold *hold;
	uint64_t max_size; /* of all buffers, unpacked */
};
/* Read up to the schema. ERR_INVALID, ERR_LIMIT, ERR_BUSY. */
int arrow_open(struct bytes in, const struct arrow_limits *limits, struct arrow_stream **ret,
	       struct err *err);
void arrow_close(struct arrow_stream *s); /* takes NULL */
/* The value of a key of the schema's metadata; empty: none. */
struct str arrow_metadata(const struct arrow_stream *s, struct str key);
/* The next record batch. The one before it ends, and with it all views of it. Dictionaries may be replaced. */
enum { ARROW_END = 1 };
int arrow_next(struct arrow_stream *s, struct err *err);
uint64_t arrow_rows(const struct arrow_stream *s); /* of the batch */
/* A column of the batch; NULL: there is none of that name. */
struct arrow_array *arrow_column(struct arrow_stream *s, struct str name);
/* The one after @a, the first after NULL; NULL: there is no other. */
struct arrow_array *arrow_column_after(struct arrow_stream *s, struct arrow_array *a);

/* ---- values; @i is below a->n ---- */

bool arrow_is_null(const struct arrow_array *a, uint64_t i);
/*
 * Follow runs and dictionaries, until *a is an array with its values in place, and *i the row. false: it is null. Without
 * it the functions below read nothing of such arrays.
 */
bool arrow_follow(struct arrow_array **a, uint64_t *i);
/* After arrow_follow() of row @i of @a: the rows up to this one, which is not among them, have the same value. */
uint64_t arrow_same_until(const struct arrow_array *a, uint64_t i);
/* The index of a row in its dictionary. false: it is null, or has none. */
bool arrow_index(const struct arrow_array *a, uint64_t i, uint64_t *ret);
/* The same of @n rows from @first on, which are in the array; ARROW_NO_INDEX for those without. */
#define ARROW_NO_INDEX UINT64_MAX
void arrow_indices(const struct arrow_array *a, uint64_t first, uint64_t n, uint64_t *ret);
/* ARROW_INT, ARROW_BOOL; 0 for others. Signed ones are extended. */
uint64_t arrow_number(const struct arrow_array *a, uint64_t i);
/* ARROW_BYTES, ARROW_VIEWS, ARROW_FIXED; empty for others. */
struct bytes arrow_bytes(const struct arrow_array *a, uint64_t i);
/* ARROW_LIST, ARROW_LIST_VIEW: *ret_first and *ret_n rows of the child; none for others. */
struct arrow_array *arrow_list(struct arrow_array *a, uint64_t i, uint64_t *ret_first, uint64_t *ret_n);
/* Of ARROW_STRUCT; the row is the same. NULL: it has none of that name. */
struct arrow_array *arrow_child(struct arrow_array *a, struct str name);
/* A text, a number: through runs and dictionaries; @a may be NULL. Null: empty, or 0. */
struct str arrow_text(struct arrow_array *a, uint64_t i);
uint64_t arrow_value(struct arrow_array *a, uint64_t i);
