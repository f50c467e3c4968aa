/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's strings: sorted, and of each only what is not the begin of the one before it.
 *
 * Groups of STRINGS_GROUP begin anew. A group is read when one of its strings is asked for, and kept while
 * the block is at hand.
 */
#include "symtab/internal.h"

#include <stdlib.h>

/* So that what is read of a block is at most so many bytes a string more than the block has. */
#define SHARED_MAX 255u

static size_t n_groups(size_t n)
{
	return (n + STRINGS_GROUP - 1) / STRINGS_GROUP;
}

static size_t shared(struct str a, struct str b)
{
	size_t most = MIN(MIN(a.size, b.size), (size_t)SHARED_MAX), n = 0;

	while (n < most && a.p[n] == b.p[n])
		n++;
	return n;
}

void block_strings_write(struct buf *out, const struct str *list, size_t n)
{
	size_t start = out->size, offs = n_groups(n) * 4;

	memset(buf_reserve(out, offs), 0, offs);
	out->size += offs;
	for (size_t i = 0; i < n; i++) {
		size_t same = 0;

		if (i % STRINGS_GROUP == 0) {
			uint32_t off = htole32((uint32_t)(out->size - start));

			memcpy(out->p + start + i / STRINGS_GROUP * 4, &off, 4);
		} else {
			same = shared(list[i - 1], list[i]);
			buf_add_char(out, (char)same);
		}
		buf_add_uleb(out, list[i].size - same);
		buf_add(out, list[i].p + same, list[i].size - same);
	}
}

void block_strings_start(struct block_strings *s, const struct block *b)
{
	size_t n = n_groups(b->n_strings);

	arena_reset(&s->arena);
	if (n > s->room) {
		s->room = n * 2;
		s->groups = mem_realloc(s->groups, s->room, sizeof(*s->groups));
	}
	if (n)
		memset(s->groups, 0, n * sizeof(*s->groups));
}

void block_strings_done(struct block_strings *s)
{
	arena_done(&s->arena);
	free(s->groups);
	*s = (struct block_strings){ 0 };
}

/* The next string: how much of the one before it has, and its own bytes. False: damaged. */
static bool next_string(const uint8_t **p, const uint8_t *end, bool first, size_t before, size_t *ret_same,
			struct bytes *ret_own)
{
	uint64_t size;

	*ret_same = 0;
	if (!first) {
		if (*p >= end)
			return false;
		*ret_same = *(*p)++;
	}
	if (*p >= end)
		return false;
	size = leb_u(p, end);
	if (*p > end || size > (uint64_t)(end - *p) || *ret_same > before)
		return false;
	*ret_own = bytes_of(*p, (size_t)size);
	*p += size;
	return true;
}

const struct str *block_strings_read(struct block_strings *s, const struct block *b, size_t group)
{
	const uint8_t *start = b->bytes.p + b->strings, *end = b->bytes.p + b->bytes.size, *p;
	size_t same[STRINGS_GROUP], n = MIN((size_t)STRINGS_GROUP, b->n_strings - group * STRINGS_GROUP),
				    good, all = 0;
	struct bytes own[STRINGS_GROUP];
	struct str *list = ARENA_NEW_N(&s->arena, struct str, STRINGS_GROUP);
	uint32_t off = get32(start + group * 4);
	char *to;

	s->groups[group] = list;
	if (off >= (size_t)(end - start))
		return list;
	p = start + off;
	for (good = 0; good < n; good++) {
		size_t before = good ? same[good - 1] + own[good - 1].size : 0;

		if (!next_string(&p, end, !good, before, &same[good], &own[good]))
			break;
		all += same[good] + own[good].size;
	}
	to = arena_alloc(&s->arena, all + 1);
	for (size_t i = 0; i < good; i++) {
		list[i] = (struct str){ to, same[i] + own[i].size };
		if (same[i])
			memcpy(to, list[i - 1].p, same[i]);
		if (own[i].size)
			memcpy(to + same[i], own[i].p, own[i].size);
		to += list[i].size;
	}
	return list;
}
