/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io: random-access and sequential bytes.
 *
 * A `source` is random-access bytes: a size, reads at an offset, a name for messages. Examples are a file,
 * memory, a part of another source, and a member of a compressed package (codec.h). A `stream` delivers bytes
 * in order, once.
 *
 * A source belongs to one thread at a time; two threads that need the same bytes open it twice. Each op
 * states its promises where it is declared. An implementation embeds `struct source` and fills it with
 * source_init().
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include "base/base.h"

/* ---- source ---- */

/* The bytes [off, off + size) of a source or a file. */
struct byte_range {
	uint64_t off, size;
};

static inline struct byte_range range_of(uint64_t off, uint64_t size)
{
	return (struct byte_range){ off, size };
}

enum source_hint {
	SOURCE_RANDOM,     /* no read follows that could profit from this one */
	SOURCE_SEQUENTIAL, /* the next read starts where this one ends: read or decode ahead */
};

struct source;

struct source_ops {
	/*
	 * Read up to @n bytes at @off, at least one if off < size and n > 0; *ret_got is the number read. The
	 * caller guarantees off + n <= size. Bytes that cannot be read correctly are an error, never zeros.
	 */
	int (*read)(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
		    size_t *ret_got, struct err *err);
	/* Frees the source, including the struct. */
	void (*close)(struct source *s);
	/*
	 * Optional. True: the bytes of this source are stored as they are in the descriptor *ret_fd, from
	 * offset *ret_off (for sendfile). The descriptor still belongs to the source.
	 */
	bool (*raw_fd)(struct source *s, int *ret_fd, uint64_t *ret_off);
	/* Optional. The bytes in memory, valid until close; NULL: they are not in memory. */
	const uint8_t *(*raw_mem)(struct source *s);
	/* Optional. The caller will read this range soon, in order: the source may get it at once, and ahead. */
	void (*expect)(struct source *s, struct byte_range range);
	/* Optional. Its bytes are damaged, perhaps by the way here: the source forgets those that it keeps. */
	void (*distrust)(struct source *s);
	/* Optional. The caller reads all of it once, and no one else will soon: the source does not keep what it reads. */
	void (*pass)(struct source *s);
};

struct source {
	const struct source_ops *ops;
	uint64_t size;
	int64_t mtime; /* seconds; 0: unknown */
	char *name;    /* for messages: a path, or "a.deb: usr/bin/x". Owned. */
};

void source_init(struct source *s, const struct source_ops *ops, uint64_t size, int64_t mtime,
		 const char *name);
void source_fini(struct source *s); /* for close ops: frees the name */

/* Up to @n bytes at @off; fewer only at the end of the source (0 at the end or past it). */
int source_read(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint, size_t *ret_got,
		struct err *err);
/* Exactly @n bytes; a source that ends before is ERR_INVALID "ends at X, wanted Y bytes at Z". */
int source_read_full(struct source *s, uint64_t off, void *buf, size_t n, enum source_hint hint,
		     struct err *err);
/* The same into the arena; a range over @max is ERR_LIMIT before anything is allocated. */
int source_read_arena(struct source *s, struct byte_range range, size_t max, struct arena *a,
		      struct bytes *ret, struct err *err);
bool source_raw_fd(struct source *s, int *ret_fd, uint64_t *ret_off);
const uint8_t *source_raw_mem(struct source *s); /* NULL: not in memory */
/* Say which bytes will be read soon, in order. Of use for sources that are far away; others ignore it. */
void source_expect(struct source *s, struct byte_range range);
/* Bytes that were read are damaged: the next reads get them anew from where they are. Of use for sources that are far away. */
void source_distrust(struct source *s);
/* All is read once, as by a scan: caches on the way do not keep it. Of use for sources that are far away. */
void source_pass(struct source *s);
void source_close(struct source *s);   /* takes NULL */
void source_closep(struct source **s); /* AUTO(source_closep) struct source *s = NULL; */

/* A regular file. Outcome FILE_MISSING (base/file.h). The size is fixed at open; a file that shrinks later
 * fails with ERR_CHANGED. */
int source_open_file(const char *path, struct source **ret, struct err *err);
/* Takes @fd. */
struct source *source_of_fd(int fd, uint64_t size, int64_t mtime, const char *name);
/* Borrowed memory: it must outlive the source. */
struct source *source_of_mem(struct bytes b, const char *name);
/* Takes a buffer from malloc. */
struct source *source_of_heap(void *p, size_t size, const char *name);
/*
 * @range of @parent, which must be within it (else ERR_INVALID). Takes @parent if @takes, also on failure;
 * else @parent must outlive the part. @name NULL: the parent's name.
 */
int source_open_part(struct source *parent, bool takes, struct byte_range range, const char *name,
		     struct source **ret, struct err *err);
/*
 * Caches the last few blocks read, so that many small reads become few large ones. Large reads bypass the
 * cache (sequential reads of a block or more, any read of all blocks or more). @block_size is a power of two.
 * Takes @parent if @takes.
 */
struct source *source_cached(struct source *parent, bool takes, size_t block_size, unsigned n_blocks);

/*
 * A sparse source: of a file of @size bytes only the added ranges are present; a read that touches any other
 * byte fails with ERR_LIMIT and records the miss. It lets the ordinary readers run over a member that streams
 * by.
 */
struct source *source_sparse_new(uint64_t size, const char *name);
/* Copies the bytes; adjacent and overlapping ranges are joined. */
void source_sparse_add(struct source *s, uint64_t off, const void *p, size_t n);
/* The whole range of the last read that missed; false: none did. */
bool source_sparse_missed(struct source *s, uint64_t *ret_off, uint64_t *ret_n);
size_t source_sparse_held(struct source *s); /* bytes in memory */

/*
 * Counts the bytes that are read of another source. Several threads may read it if they may read that one, and any thread may
 * load the count. It has no descriptor or memory to lend, by which bytes would be read uncounted.
 */
struct source_counted {
	struct source base;
	struct source *src; /* borrowed */
	atomic_uint_fast64_t n_read;
};
struct source_counted *source_counted_new(struct source *src); /* closed by its base */

/* ---- stream ---- */

struct stream;

struct stream_ops {
	/* Up to @n (> 0) bytes; *ret_got 0 means the clean end, and only that. */
	int (*read)(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err);
	/*
	 * Optional: lend up to @max (> 0) bytes instead of copying them; the view is valid until the next
	 * call on this stream. An empty view means the clean end.
	 */
	int (*next)(struct stream *s, size_t max, struct bytes *ret, struct err *err);
	/* Optional: skip up to @n bytes more cheaply than by reading them; *ret_got as for read. */
	int (*skip)(struct stream *s, uint64_t n, uint64_t *ret_got, struct err *err);
	void (*close)(struct stream *s); /* frees the stream, including the struct */
};

struct stream {
	const struct stream_ops *ops;
	/* Bytes delivered so far, skipped ones too; updated by stream_read(), stream_next(), stream_skip(). */
	uint64_t off;
	/* The buffer of stream_next() where the op is missing; implementations zero it, stream_close() frees it. */
	uint8_t *lent;
};

int stream_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err); /* as the op */
/* As the op; without one, through a buffer that the stream allocates (64 KiB). */
int stream_next(struct stream *s, size_t max, struct bytes *ret, struct err *err);
/* Exactly @n bytes; an early end is ERR_INVALID. */
int stream_read_full(struct stream *s, void *buf, size_t n, struct err *err);
int stream_skip(struct stream *s, uint64_t n, struct err *err); /* exactly n, or ERR_INVALID */
void stream_close(struct stream *s);                            /* takes NULL */
void stream_closep(struct stream **s);

/* The bytes [off, off + size) of @src in order, read in large chunks. Takes @src if @takes. */
struct stream *stream_of_source(struct source *src, bool takes, uint64_t off, uint64_t size);

/* Pass all of @s to fn, chunk by chunk; a non-zero return of fn ends the loop and is returned. */
int stream_each(struct stream *s, int (*fn)(void *arg, struct bytes chunk, struct err *err), void *arg,
		struct err *err);
