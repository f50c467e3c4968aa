/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors.
 *
 * A function that can fail returns int: 0 is done, negative is a failure described by @err, positive is an
 * outcome named by the function's header. The text reads from the outside in, as each caller puts its place
 * in front: "pool/a.rpm: member usr/bin/x: section table ends past the file". It is stored inside the struct:
 * nothing to free. A place that the text begins with already is not added again.
 */
#pragma once

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The numbers are in the index on disk: new ones are added at the end. */
enum err_kind {
	ERR_NONE = 0,
	ERR_INVALID,   /* the input is damaged or of another kind; trying again does not help */
	ERR_LIMIT,     /* a named limit was reached: size, depth, count, memory */
	ERR_IO,        /* the system failed: read, write, disk full; trying again may help */
	ERR_CHANGED,   /* the file is not the one that was probed before; probe it again */
	ERR_UPSTREAM,  /* another server failed */
	ERR_CANCELLED, /* the caller cancelled it, or a deadline passed */
	ERR_INTERNAL,  /* our own mistake */
	ERR_BUSY,      /* memory or another resource of ours is used up now; trying again later helps */
	/*
	 * A file that this program has written itself (a database, a record) is damaged. Not the fault of
	 * the one who sent a request: never a status 4xx.
	 */
	ERR_DAMAGED,
};

#define ERR_TEXT_SIZE 512

struct err {
	enum err_kind kind;
	int os; /* errno of the failed system call, else 0 */
	char text[ERR_TEXT_SIZE];
};

/* Set kind and text. Returns -1. @err may be NULL. */
int err_set(struct err *err, enum err_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ENOMEM, EMFILE, ENFILE: it says nothing of the file or connection that was asked for, and may be over in a moment. */
bool err_is_scarce(int os_errno);
/* As err_set() with kind ERR_IO (ERR_LIMIT if err_is_scarce()), and ": <strerror>" after the text.
 * Returns -1. */
int err_os(struct err *err, int os_errno, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* On the way up: put "<text>: " in front of the text of @err. Returns -1. */
int err_in(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * These show the compiler that the result is -1. Otherwise it assumes that a caller may go on after a
 * failure, and warns of results that are not set on that path.
 */
#define err_set(...)                        \
	({                                  \
		(void)err_set(__VA_ARGS__); \
		-1;                         \
	})
#define err_os(...)                        \
	({                                 \
		(void)err_os(__VA_ARGS__); \
		-1;                        \
	})
#define err_in(...)                        \
	({                                 \
		(void)err_in(__VA_ARGS__); \
		-1;                        \
	})

/*
 * Whether the input is the cause: it is damaged, or a limit was reached. A reader that leaves out such a part goes on
 * with the rest; it passes up failures of any other kind.
 */
static inline bool err_is_input(const struct err *err)
{
	return err->kind == ERR_INVALID || err->kind == ERR_LIMIT;
}

/*
 * Note damage of the input that leaves the rest of use, in a list of at most @max; later ones are not listed. -1: @why is
 * no damage, but a failure of another kind.
 */
static inline int err_note_input(const struct err *why, struct err *list, size_t max, size_t *n)
{
	if (!err_is_input(why))
		return -1;
	if (*n < max)
		list[(*n)++] = *why;
	return 0;
}

/* ERR_CANCELLED if the owner of @cancel has set it. @cancel may be NULL. */
static inline int err_if_cancelled(const atomic_bool *cancel, struct err *err)
{
	return cancel && atomic_load_explicit(cancel, memory_order_relaxed)
		       ? err_set(err, ERR_CANCELLED, "cancelled")
		       : 0;
}

/* The kind's name as logs and metrics print it: "invalid", "limit", "io", ... */
const char *err_kind_name(enum err_kind kind);
