/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header structure of rpm (its "Package Header format"): magic, number of tags, size of the data; per tag
 * 16 bytes of number, type, offset, count; the data. Big endian. The data of a tag are checked when they are
 * read.
 */
#include "pkg/internal.h"

#define INTRO_SIZE 16
#define ENTRY_SIZE 16
/* rpm's own limit. */
#define TAGS_MAX 65535u

enum { INT8 = 2, INT16 = 3, INT32 = 4, INT64 = 5, STRING = 6, STRING_ARRAY = 8, I18N_STRING = 9 };

int rpm_header_read(struct source *src, uint64_t off, size_t max, struct arena *a, struct rpm_header *ret,
		    struct err *err)
{
	static const uint8_t magic[4] = { 0x8e, 0xad, 0xe8, 0x01 };
	uint8_t intro[INTRO_SIZE];
	uint32_t n_tags, data_size;
	struct bytes all;
	struct cursor c;
	uint64_t size;

	if (source_read_full(src, off, intro, sizeof(intro), SOURCE_SEQUENTIAL, err) < 0)
		return -1;
	if (memcmp(intro, magic, sizeof(magic)) != 0)
		return err_set(err, ERR_INVALID, "no header at %llu", (unsigned long long)off);
	c = cursor_at(bytes_of(intro, sizeof(intro)), true, off);
	cursor_skip(&c, 8);
	n_tags = cursor_u32(&c);
	data_size = cursor_u32(&c);
	if (n_tags > TAGS_MAX)
		return err_set(err, ERR_LIMIT, "%u tags", n_tags);
	size = (uint64_t)n_tags * ENTRY_SIZE + data_size;
	if (source_read_arena(src, range_of(off + INTRO_SIZE, size), max, a, &all, err) < 0)
		return -1;
	*ret = (struct rpm_header){
		.off = off,
		.end = off + INTRO_SIZE + size,
		.index = { all.p, (size_t)n_tags * ENTRY_SIZE },
		.data = { all.p + (size_t)n_tags * ENTRY_SIZE, data_size },
		.n_tags = n_tags,
	};
	return 0;
}

struct rpm_tag {
	uint32_t type, off, n;
};

static bool rpm_tag_find(const struct rpm_header *h, uint32_t tag, struct rpm_tag *ret)
{
	struct cursor c = cursor_at(h->index, true, 0);

	for (uint32_t i = 0; i < h->n_tags; i++) {
		if (cursor_u32(&c) == tag) {
			ret->type = cursor_u32(&c);
			ret->off = cursor_u32(&c);
			ret->n = cursor_u32(&c);
			return true;
		}
		cursor_skip(&c, ENTRY_SIZE - 4);
	}
	return false;
}

int rpm_header_ints(const struct rpm_header *h, uint32_t tag, struct rpm_ints *ret, struct err *err)
{
	struct rpm_tag e;
	unsigned width;

	*ret = (struct rpm_ints){ 0 };
	if (!rpm_tag_find(h, tag, &e))
		return 0;
	width = e.type == INT8 ? 1 : e.type == INT16 ? 2 : e.type == INT32 ? 4 : e.type == INT64 ? 8 : 0;
	if (!width)
		return err_set(err, ERR_INVALID, "tag %u has type %u, not a number's", tag, e.type);
	if (e.off > h->data.size || (uint64_t)e.n * width > h->data.size - e.off)
		return err_set(err, ERR_INVALID, "tag %u: %u values at %u are past the header's data", tag,
			       e.n, e.off);
	*ret = (struct rpm_ints){ h->data.p + e.off, width, e.n };
	return 0;
}

uint64_t rpm_int(const struct rpm_ints *v, uint32_t i)
{
	const uint8_t *p = v->p + (size_t)i * v->width;
	uint64_t n = 0;

	for (unsigned k = 0; k < v->width; k++)
		n = n << 8 | p[k];
	return n;
}

int rpm_header_texts(const struct rpm_header *h, uint32_t tag, struct rpm_texts *ret, struct err *err)
{
	struct rpm_tag e;

	*ret = (struct rpm_texts){ 0 };
	if (!rpm_tag_find(h, tag, &e))
		return 0;
	if (e.type != STRING && e.type != STRING_ARRAY && e.type != I18N_STRING)
		return err_set(err, ERR_INVALID, "tag %u has type %u, not a string's", tag, e.type);
	/* Each string has at least its NUL. */
	if (e.off > h->data.size || e.n > h->data.size - e.off)
		return err_set(err, ERR_INVALID, "tag %u: %u strings at %u are past the header's data", tag,
			       e.n, e.off);
	ret->c = cursor_at(bytes_of(h->data.p + e.off, h->data.size - e.off), true,
			   h->end - h->data.size + e.off);
	ret->n = e.n;
	return 0;
}

int rpm_text_next(struct rpm_texts *t, struct str *ret, struct err *err)
{
	*ret = cursor_cstr(&t->c);
	if (!cursor_ok(&t->c))
		return cursor_err(&t->c, "a string of the header", err);
	t->n--;
	return 0;
}

int rpm_header_text(const struct rpm_header *h, uint32_t tag, struct str *ret, struct err *err)
{
	struct rpm_texts t;

	*ret = (struct str){ 0 };
	if (rpm_header_texts(h, tag, &t, err) < 0)
		return -1;
	return t.n ? rpm_text_next(&t, ret, err) : 0;
}
