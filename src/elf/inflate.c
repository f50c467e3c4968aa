/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debian compresses the sections of nearly all its debug files, and decoding them takes longer than reading
 * them: so a second library is worth it.
 */
#include "elf/inflate.h"

#include <stdlib.h>
#include <zlib.h>
#include "base/lazy.h"
#include "base/mem.h"

struct inflate {
	int (*step)(struct inflate *z, struct inflate_call *c, struct err *err);
	z_stream z;
	struct inflate_state *fast; /* ISA-L's; NULL: zlib is used */
};

#if __has_include(<isa-l/igzip_lib.h>)
#include <isa-l/igzip_lib.h>

/* For smaller content zlib is done before ISA-L is loaded; once it is loaded, it gets smaller content too. */
#define LOAD_MIN KIB(256)
#define FAST_MIN KIB(8)
/* ISA-L counts its output in 32 bits, and depends on the count. */
#define FAST_MAX (UINT32_MAX - MIB(1))

#define ISAL_FUNCTIONS(X)    \
	X(isal_inflate_init) \
	X(isal_inflate)

static struct {
	ISAL_FUNCTIONS(LAZY_FIELD)
} isal;

/* False: ISA-L is not installed, or it is not loaded and loading is not worth it for @content bytes. */
static bool isal_load(uint64_t content)
{
	static const char *const names[] = { ISAL_FUNCTIONS(LAZY_NAME) };
	static struct lazy lib = LAZY_INIT;

	if (content < LOAD_MIN && !lazy_is_loaded(&lib))
		return false;
	return lazy_load(&lib, "libisal.so.2", "libisal2", names, &isal, ARRAY_SIZE(names), NULL) == 0;
}

static const char *fast_error(int r)
{
	switch (r) {
	case ISAL_NEED_DICT:
		return "need dictionary";
	case ISAL_INVALID_BLOCK:
		return "invalid block";
	case ISAL_INVALID_SYMBOL:
		return "invalid code";
	case ISAL_INVALID_LOOKBACK:
		return "invalid distance too far back";
	case ISAL_INVALID_WRAPPER:
	case ISAL_UNSUPPORTED_METHOD:
		return "incorrect header check";
	case ISAL_INCORRECT_CHECKSUM:
		return "incorrect data check";
	default:
		return "data error";
	}
}

static int fast_step(struct inflate *z, struct inflate_call *c, struct err *err)
{
	struct inflate_state *s = z->fast;
	int r;

	s->next_in = (uint8_t *)(uintptr_t)c->in.p; /* ISA-L only reads there */
	s->avail_in = (uint32_t)c->in.size;
	s->next_out = c->out;
	s->avail_out = (uint32_t)c->room;
	r = isal.isal_inflate(s);
	if (r != ISAL_DECOMP_OK)
		return err_set(err, ERR_INVALID, "zlib: %s", fast_error(r));
	c->taken = c->in.size - s->avail_in;
	c->got = c->room - s->avail_out;
	c->ended = s->block_state == ISAL_BLOCK_FINISH;
	return 0;
}

static void fast_open(struct inflate *z, uint64_t content)
{
	if (content < FAST_MIN || content > FAST_MAX || !isal_load(content))
		return;
	/* The state is large and needs no zeros. */
	z->fast = mem_try(sizeof(*z->fast));
	if (!z->fast)
		return;
	isal.isal_inflate_init(z->fast);
	z->fast->crc_flag = ISAL_ZLIB;
	z->step = fast_step;
}
#else
static void fast_open(struct inflate *z, uint64_t content)
{
}
#endif

static int zlib_step(struct inflate *z, struct inflate_call *c, struct err *err)
{
	int r;

	z->z.next_in = (uint8_t *)(uintptr_t)c->in.p;
	z->z.avail_in = (uInt)c->in.size;
	z->z.next_out = c->out;
	z->z.avail_out = (uInt)c->room;
	r = inflate(&z->z, Z_NO_FLUSH);
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return err_set(err, r == Z_MEM_ERROR ? ERR_LIMIT : ERR_INVALID, "zlib: %s",
			       z->z.msg ? z->z.msg : zError(r));
	c->taken = c->in.size - z->z.avail_in;
	c->got = c->room - z->z.avail_out;
	c->ended = r == Z_STREAM_END;
	return 0;
}

int inflate_open(uint64_t content, struct inflate **ret, struct err *err)
{
	struct inflate *z = NEW(struct inflate);

	z->step = zlib_step;
	fast_open(z, content);
	if (!z->fast && inflateInit(&z->z) != Z_OK) {
		free(z);
		return err_set(err, ERR_LIMIT, "no memory for zlib");
	}
	*ret = z;
	return 0;
}

void inflate_close(struct inflate *z)
{
	if (!z)
		return;
	if (!z->fast)
		inflateEnd(&z->z);
	free(z->fast);
	free(z);
}

int inflate_step(struct inflate *z, struct inflate_call *c, struct err *err)
{
	/* Both libraries count in 32 bits. */
	c->room = MIN(c->room, MIB(256));
	c->in.size = MIN(c->in.size, MIB(256));
	return z->step(z, c, err);
}
