/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of sections, decompressed if they are compressed: SHF_COMPRESSED (gABI, "Section Compression")
 * with zlib and zstd, and the older ".zdebug_*" with "ZLIB" and a size at its start. Compression is in
 * write_packed.c.
 *
 * Decoding is a stream with a window, so that a sequential reader of a section needs neither its compressed
 * nor its decompressed size in memory. The codec's own checksum is verified before the last bytes are
 * delivered.
 */
#include "elf/internal.h"

#include <elf.h>
#include <stdlib.h>
#include <zstd.h>
#include "base/budget.h"
#include "elf/inflate.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define IN_SIZE KIB(64)

/* Content is decompressed, and granted, in steps of this size. */
#define STEP_SIZE MIB(1)

/* The memory that is reserved for content before it is decompressed, as a multiple of its compressed size. More
 * is rare, and then the memory grows. Pages that are not written to yet cost nothing. */
#define ROOM_FACTOR 16

/*
 * The largest possible ratio: deflate codes at most 258 bytes in 2 bits, zstd a block of 128 KiB in 4 bytes.
 * A header that promises more is wrong, and nothing is allocated by it.
 */
#define ZLIB_MAX_RATIO 1032
#define ZSTD_MAX_RATIO 32768

/* A frame that needs a larger window is refused; linkers write at most 8 MiB, --ultra 128. */
#define ZSTD_WINDOW_LOG 27

enum packing { PLAIN, ZLIB, ZSTD };

struct packed {
	enum packing packing;
	uint64_t off, size; /* in the file, without the compression header */
	uint64_t content;   /* decompressed size, from the header */
};

/* ELF_NO_SECTION as elf_section_range(). */
static int packed_of(const struct elf_image *img, const struct elf_section *sec, struct packed *ret,
		     struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct packed out = { .packing = PLAIN };
	unsigned head_size;
	struct bytes b;
	struct cursor c;
	uint32_t type;
	int r = elf_section_range(img, sec, &out.off, &out.size, err);

	if (r)
		return r;
	out.content = out.size;
	if (sec->flags & SHF_COMPRESSED) {
		head_size = img->h.is64 ? 24 : 12;
		if (elf_view(img, out.off, MIN(out.size, (uint64_t)head_size), &a, &b, err) < 0)
			return -1;
		c = cursor_at(b, img->h.big, out.off);
		type = cursor_u32(&c);
		if (img->h.is64)
			cursor_u32(&c); /* reserved */
		out.content = cursor_uint(&c, img->h.is64 ? 8 : 4);
		cursor_uint(&c, img->h.is64 ? 8 : 4); /* alignment */
		if (!cursor_ok(&c))
			return cursor_err(&c, "compression header", err);
		if (type != ELFCOMPRESS_ZLIB && type != ELFCOMPRESS_ZSTD)
			return err_set(err, ERR_INVALID, "compression type %u is unknown", type);
		out.packing = type == ELFCOMPRESS_ZLIB ? ZLIB : ZSTD;
	} else if (str_starts(sec->name, STR(".zdebug_"))) {
		head_size = 12;
		if (elf_view(img, out.off, MIN(out.size, (uint64_t)head_size), &a, &b, err) < 0)
			return -1;
		c = cursor_at(b, true, out.off); /* big endian in any file */
		if (!bytes_eq(cursor_bytes(&c, 4), bytes_of("ZLIB", 4)))
			return err_set(err, ERR_INVALID, "\"ZLIB\" is missing at the start");
		out.content = cursor_u64(&c);
		if (!cursor_ok(&c))
			return cursor_err(&c, "compression header", err);
		out.packing = ZLIB;
	} else {
		*ret = out;
		return 0;
	}
	out.off += head_size;
	out.size -= head_size;
	/* This also prevents an overflow of the product. */
	if (out.content / (out.packing == ZLIB ? ZLIB_MAX_RATIO : ZSTD_MAX_RATIO) > out.size)
		return err_set(err, ERR_INVALID,
			       "%llu compressed bytes cannot decode to the %llu of the header",
			       (unsigned long long)out.size, (unsigned long long)out.content);
	*ret = out;
	return 0;
}

/* ---- decoding ---- */

struct unpack {
	struct stream base;
	struct source *src; /* borrowed */
	struct packed what;
	uint64_t in_off, in_left; /* compressed bytes not read yet */
	uint64_t left;            /* decompressed bytes not delivered yet */
	bool ended;               /* the decoder has reported its end */
	struct inflate *z;
	ZSTD_DStream *zstd;
	uint8_t *in;
	size_t in_pos, in_size;
	struct budget_hold *hold; /* of zstd's window */
	uint64_t window;          /* bytes of it */
};

/* One call of the decoder on the bytes of `in`: *ret_got bytes into @buf. */
static int unpack_zlib(struct unpack *u, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct inflate_call c = { .in = bytes_of(u->in + u->in_pos, u->in_size - u->in_pos),
				  .out = buf,
				  .room = n };

	if (inflate_step(u->z, &c, err) < 0)
		return -1;
	u->in_pos += c.taken;
	u->ended = c.ended;
	*ret_got = c.got;
	return 0;
}

static int unpack_zstd(struct unpack *u, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	ZSTD_inBuffer in = { u->in, u->in_size, u->in_pos };
	ZSTD_outBuffer out = { buf, n, 0 };
	size_t r = ZSTD_decompressStream(u->zstd, &out, &in);

	if (ZSTD_isError(r))
		return err_set(err, ERR_INVALID, "zstd: %s", ZSTD_getErrorName(r));
	/* A frame's header says how large its window is. */
	budget_hold_track(u->hold, &u->window, ZSTD_sizeof_DStream(u->zstd));
	if (budget_hold_check(u->hold, err) < 0)
		return -1;
	u->in_pos = in.pos;
	/* Several frames are one content. */
	u->ended = r == 0 && in.pos == in.size && !u->in_left;
	*ret_got = out.pos;
	return 0;
}

/* At least one byte, unless the content has ended: then u->ended. */
static int unpack_decode(struct unpack *u, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	size_t got = 0;

	while (!got && !u->ended) {
		size_t before;

		if (u->in_pos == u->in_size && u->in_left) {
			size_t want = (size_t)MIN(u->in_left, (uint64_t)IN_SIZE);

			if (source_read_full(u->src, u->in_off, u->in, want, SOURCE_SEQUENTIAL, err) < 0)
				return -1;
			u->in_off += want;
			u->in_left -= want;
			u->in_pos = 0;
			u->in_size = want;
		}
		before = u->in_pos;
		if ((u->what.packing == ZLIB ? unpack_zlib : unpack_zstd)(u, buf, n, &got, err) < 0)
			return -1;
		if (got || u->ended || u->in_pos != before)
			continue;
		if (u->in_pos < u->in_size)
			return err_set(err, ERR_INVALID,
				       "the decoder does not accept the compressed content");
		if (!u->in_left)
			return err_set(err, ERR_INVALID,
				       "compressed content ends early, %llu of %llu bytes are missing",
				       (unsigned long long)u->left, (unsigned long long)u->what.content);
	}
	*ret_got = got;
	return 0;
}

static int unpack_read(struct stream *s, void *buf, size_t n, size_t *ret_got, struct err *err)
{
	struct unpack *u = CONTAINER_OF(s, struct unpack, base);
	size_t got = 0, more = 0;
	uint8_t extra;

	if (u->left && unpack_decode(u, buf, (size_t)MIN((uint64_t)n, u->left), &got, err) < 0)
		return -1;
	if (u->left && !got)
		return err_set(err, ERR_INVALID,
			       "compressed content is %llu bytes shorter than the %llu of the header",
			       (unsigned long long)u->left, (unsigned long long)u->what.content);
	u->left -= got;
	/* The end must be verified before the last bytes are delivered: the checksum follows them. */
	if (!u->left && !u->ended && unpack_decode(u, &extra, 1, &more, err) < 0)
		return -1;
	if (more)
		return err_set(err, ERR_INVALID,
			       "compressed content is longer than the %llu bytes of the header",
			       (unsigned long long)u->what.content);
	*ret_got = got;
	return 0;
}

static void unpack_close(struct stream *s)
{
	struct unpack *u = CONTAINER_OF(s, struct unpack, base);

	budget_hold_track(u->hold, &u->window, 0);
	inflate_close(u->z);
	ZSTD_freeDStream(u->zstd);
	free(u->in);
	free(u);
}

static const struct stream_ops unpack_ops = {
	.read = unpack_read,
	.close = unpack_close,
};

static int unpack_open(const struct elf_image *img, const struct packed *what, struct stream **ret,
		       struct err *err)
{
	struct unpack *u = NEW(struct unpack);

	u->base.ops = &unpack_ops;
	u->src = img->src;
	u->hold = img->memory;
	u->what = *what;
	u->in_off = what->off;
	u->in_left = what->size;
	u->left = what->content;
	u->in = mem_alloc(IN_SIZE);
	if (what->packing == ZLIB) {
		if (inflate_open(what->content, &u->z, err) < 0) {
			unpack_close(&u->base);
			return -1;
		}
	} else {
		u->zstd = ZSTD_createDStream();
		if (!u->zstd ||
		    ZSTD_isError(ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG))) {
			unpack_close(&u->base);
			return err_set(err, ERR_LIMIT, "no memory for zstd");
		}
	}
	*ret = &u->base;
	return 0;
}

static int section_err(const struct elf_section *sec, struct err *err)
{
	return err_in(err, "section %u %.*s", sec->index, (int)MIN(sec->name.size, (size_t)64), sec->name.p);
}

int elf_section_content_size(const struct elf_image *img, const struct elf_section *sec, uint64_t *ret,
			     struct err *err)
{
	struct packed what;
	int r = packed_of(img, sec, &what, err);

	if (r)
		return r < 0 ? section_err(sec, err) : r;
	*ret = what.content;
	return 0;
}

int elf_section_stream(const struct elf_image *img, const struct elf_section *sec, struct stream **ret,
		       struct err *err)
{
	struct packed what;
	int r = packed_of(img, sec, &what, err);

	if (r > 0)
		return r;
	if (r == 0 && what.packing == PLAIN)
		*ret = stream_of_source(img->src, false, what.off, what.size);
	else if (r == 0)
		r = unpack_open(img, &what, ret, err);
	return r < 0 ? section_err(sec, err) : 0;
}

/* Decompress all of it, *@p from malloc(), with room for @pad bytes after it; *ret_held is what @hold granted. */
static int content_inflate(const struct elf_image *img, const struct packed *what, size_t pad,
			   struct budget_hold *hold, uint8_t **p, uint64_t *ret_held, struct err *err)
{
	AUTO(stream_closep) struct stream *s = NULL;
	uint64_t room = MIN(what->content, what->size * ROOM_FACTOR + STEP_SIZE), got = 0;
	uint8_t *more, nothing;
	size_t n;

	if (unpack_open(img, what, &s, err) < 0)
		return -1;
	/* Empty content is decoded too, to verify it. */
	if (!what->content && stream_read(s, &nothing, 1, &n, err) < 0)
		return -1;
	for (; got < what->content || !*p; got += n) {
		if (!*p || got == room) {
			room = *p ? MIN(what->content, room * 2) : room;
			more = realloc(*p, room + pad);
			if (!more)
				return err_set(err, ERR_LIMIT, "no memory for %llu bytes",
					       (unsigned long long)room);
			*p = more;
		}
		n = (size_t)MIN(room - got, (uint64_t)STEP_SIZE);
		if (budget_hold_add(hold, n, err) < 0)
			return err_in(err, "after %llu of %llu decompressed bytes", (unsigned long long)got,
				      (unsigned long long)what->content);
		*ret_held += n;
		if (n && stream_read_full(s, *p + got, n, err) < 0)
			return -1;
	}
	return 0;
}

static int content_copy(const struct elf_image *img, const struct packed *what, size_t pad,
			struct budget_hold *hold, uint8_t **p, uint64_t *ret_held, struct err *err)
{
	if (budget_hold_add(hold, what->content, err) < 0)
		return -1;
	*ret_held = what->content;
	*p = mem_try((size_t)what->content + pad);
	if (!*p)
		return err_set(err, ERR_LIMIT, "no memory for %llu bytes", (unsigned long long)what->content);
	return source_read_full(img->src, what->off, *p, (size_t)what->content, SOURCE_SEQUENTIAL, err);
}

/* The content ends as the header says, or is an error: so a size that could never be held is refused at once. */
static int content_check(const struct elf_image *img, const struct packed *what, struct err *err)
{
	if (what->packing == PLAIN || !img->memory || what->content <= img->memory->max)
		return 0;
	return err_set(err, ERR_LIMIT,
		       "%llu decompressed bytes are more than the %llu allowed for a file of %llu bytes",
		       (unsigned long long)what->content, (unsigned long long)img->memory->max,
		       (unsigned long long)img->src->size);
}

int elf_section_load(const struct elf_image *img, const struct elf_section *sec, size_t pad,
		     struct budget_hold *hold, uint8_t **ret, size_t *ret_size, struct err *err)
{
	AUTO(mem_freep) uint8_t *p = NULL;
	struct packed what;
	uint64_t held = 0;
	int r = packed_of(img, sec, &what, err);

	if (r > 0)
		return r;
	if (r == 0)
		r = content_check(img, &what, err);
	if (r == 0)
		r = (what.packing == PLAIN ? content_copy : content_inflate)(img, &what, pad, hold, &p, &held,
									     err);
	if (r == 0 && pad) {
		r = budget_hold_add(hold, pad, err);
		held += r == 0 ? pad : 0;
	}
	if (r < 0) {
		budget_hold_sub(hold, held);
		return section_err(sec, err);
	}
	memset(p + what.content, 0, pad);
	*ret = TAKE(p);
	*ret_size = (size_t)what.content;
	return 0;
}

/* Content that is not compressed, or small: in the arena itself. */
static int content_read(const struct elf_image *img, const struct packed *what, struct arena *a,
			struct bytes *ret, struct err *err)
{
	AUTO(stream_closep) struct stream *s = NULL;
	uint8_t *p = arena_try_err(a, (size_t)what->content, err), nothing;
	size_t got;
	int r = 0;

	if (!p)
		return -1;
	if (what->packing == PLAIN)
		r = source_read_full(img->src, what->off, p, (size_t)what->content, SOURCE_RANDOM, err);
	else
		r = unpack_open(img, what, &s, err);
	/* Empty content is decoded too, to verify it. */
	if (r == 0 && s)
		r = what->content ? stream_read_full(s, p, (size_t)what->content, err)
				  : stream_read(s, &nothing, 1, &got, err);
	if (r == 0)
		*ret = bytes_of(p, (size_t)what->content);
	return r;
}

int elf_section_read(const struct elf_image *img, const struct elf_section *sec, size_t max, struct arena *a,
		     struct bytes *ret, struct err *err)
{
	struct packed what;
	uint8_t *p;
	size_t size;
	int r = packed_of(img, sec, &what, err);

	*ret = (struct bytes){ 0 };
	if (r > 0)
		return r;
	if (r == 0 && what.content > max)
		r = err_set(err, ERR_LIMIT, "%llu bytes are more than the %zu allowed",
			    (unsigned long long)what.content, max);
	if (r == 0 && what.packing != PLAIN && what.content > STEP_SIZE) {
		r = elf_section_load(img, sec, 0, a->hold, &p, &size, err);
		if (r)
			return r;
		arena_adopt(a, p, size);
		*ret = bytes_of(p, size);
		return 0;
	}
	if (r == 0)
		r = content_read(img, &what, a, ret, err);
	return r < 0 ? section_err(sec, err) : 0;
}
