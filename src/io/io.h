/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io: where bytes come from.
 *
 * A `source` is random-access bytes: a size, reads at an offset, a name for messages. A file, memory, a part
 * of another source, a member of a compressed package (codec.h). A `stream` is bytes that come one after the
 * other and only once.
 *
 * A source belongs to one thread at a time; two threads that want the same bytes open it twice. Its ops'
 * promises stand beside them. Whoever implements one embeds `struct source` and fills it with source_init().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include "base/base.h"

/* ---- source ---- */

enum source_hint {
	SOURCE_RANDOM,     /* this read stands alone */
	SOURCE_SEQUENTIAL, /* reads go on behind this one: read or decode ahead */
};

struct source;

struct source_ops {
	/*
	 * Read up to @n bytes at @off, at least one if off < size and n > 0: *ret_got says how many. The
	 * caller has seen to it that off + n <= size. Bytes that cannot be had as they should be are an
	 * error, never zeros.
	 */
	int (*read)(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
		    size_t *ret_got, struct err *err);
	/* Free all, the struct too. */
	void (*close)(struct source *s);
	/*
	 * NULL, or: the bytes of this source lie raw in a descriptor, at *ret_off (for sendfile). The
	 * descriptor stays the source's. false when they do not.
	 */
	bool (*raw_fd)(struct source *s, int *ret_fd, uint64_t *ret_off);
	/* NULL, or: the bytes lie in memory and stay there until close. */
	const uint8_t *(*raw_mem)(struct source *s);
};

struct source {
	const struct source_ops *ops;
	uint64_t size;
	int64_t mtime; /* seconds; 0: unknown */
	char *name;    /* for messages: a path, or "a.deb: usr/bin/x". Owned. */
};

void source_init(struct source *s, const struct source_ops *ops, uint64_t size, int64_t mtime,
		 const char *name);
void source_fini(struct source *s); /* for implementers' close: frees name */

/* Up to @n bytes at @off; fewer only at the end of the source (0 at or behind it). */
int source_read(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint, size_t *ret_got,
		struct err *err);
/* Exactly @n bytes; a source that ends before is ERR_INVALID "ends at X, wanted Y bytes at Z". */
int source_read_full(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
		     struct err *err);
/* The same into the arena; @n > @max is ERR_LIMIT before anything is allocated. */
int source_read_arena(struct source *s, uint64_t off, uint64_t n, size_t max, struct arena *a,
		      struct bytes *ret, struct err *err);
bool source_raw_fd(struct source *s, int *ret_fd, uint64_t *ret_off);
const uint8_t *source_raw_mem(struct source *s); /* NULL: not in memory */
void source_close(struct source *s);             /* takes NULL */
void source_closep(struct source **s);           /* AUTO(source_closep) struct source *s = NULL; */

/* A regular file. FILE_MISSING (base/file.h) is an outcome. The size is the one at open; a file that shrinks
 * gives ERR_CHANGED. */
int source_open_file(const char *path, struct source **ret, struct err *err);
/* Takes fd. */
struct source *source_of_fd(int fd, uint64_t size, int64_t mtime, const char *name);
/* Borrowed memory: must outlive the source. */
struct source *source_of_mem(struct bytes b, const char *name);
/* Takes a buffer from malloc. */
struct source *source_of_heap(void *p, size_t size, const char *name);
/*
 * A part of @parent: [off, off + size), which must lie within it (else ERR_INVALID). Takes @parent if @takes,
 * also on failure; else @parent must outlive it. @name may be NULL: the parent's.
 */
int source_open_part(struct source *parent, bool takes, uint64_t off, uint64_t size, const char *name,
		     struct source **ret, struct err *err);
/*
 * Keeps the last few blocks read in memory, so that many small reads become few large ones. Large reads
 * (sequential ones of a block or more, any of all blocks or more) go past it. @block_size is a power of two.
 * Takes @parent if @takes.
 */
struct source *source_cached(struct source *parent, bool takes, size_t block_size, unsigned n_blocks);

/*
 * A sparse source: of a file of @size bytes only some ranges are there; a read that touches any other byte
 * fails with ERR_LIMIT and sets `missed` to where. Used to run the ordinary readers over a member that
 * streams by.
 */
struct source *source_sparse_new(uint64_t size, const char *name);
/* Copies; adjacent ranges join; overlap is allowed. */
void source_sparse_add(struct source *s, uint64_t off, const void *p, size_t n);
bool source_sparse_missed(struct source *s, uint64_t *ret_off,
			  uint64_t *ret_n);  /* the last read that missed, whole */
size_t source_sparse_held(struct source *s); /* bytes held */

/* ---- stream ---- */

struct stream;

struct stream_ops {
	/* Up to @n (> 0) bytes; *ret_got 0 means the clean end, and only that. */
	int (*read)(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err);
	/*
	 * NULL, or: lend up to @max (> 0) bytes instead of copying them; the view is good until the next call
	 * on this stream. An empty view means the clean end.
	 */
	int (*next)(struct stream *s, size_t max, struct bytes *ret, struct err *err);
	/* NULL, or: pass over up to @n bytes more cheaply than by reading them; *ret_got as read. */
	int (*skip)(struct stream *s, uint64_t n, uint64_t *ret_got, struct err *err);
	void (*close)(struct stream *s); /* free all, the struct too */
};

struct stream {
	const struct stream_ops *ops;
	uint64_t off;  /* bytes delivered so far, skipped ones too; kept by stream_read(), stream_next() and
			  stream_skip() */
	uint8_t *lent; /* stream_next()'s own buffer where the op is missing; zeroed by implementers, freed by
			  stream_close() */
};

int stream_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err); /* as the op */
/* As the op; without one, through a buffer of the stream's own (64 KiB). */
int stream_next(struct stream *s, size_t max, struct bytes *ret, struct err *err);
int stream_read_full(struct stream *s, void *buf, size_t n,
		     struct err *err);                          /* an early end is ERR_INVALID */
int stream_skip(struct stream *s, uint64_t n, struct err *err); /* exactly n, or ERR_INVALID */
void stream_close(struct stream *s);                            /* takes NULL */
void stream_closep(struct stream **s);

/* The bytes [off, off + size) of @src in order, read in large pieces. Takes @src if @takes. */
struct stream *stream_of_source(struct source *src, bool takes, uint64_t off, uint64_t size);

/* Everything of @s through fn, piece by piece; fn's non-zero return ends it and is returned. */
int stream_each(struct stream *s, int (*fn)(void *arg, struct bytes piece, struct err *err), void *arg,
		struct err *err);
