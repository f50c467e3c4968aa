/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block's strings: sorted, each without the prefix that it shares with the one before, and compressed.
 *
 * The first string of each STRINGS_GROUP is complete; STRINGS_PACK of them are compressed together. A pack is
 * decompressed and a group is read when one of its strings is asked for, and both are kept as long as the
 * block's strings are.
 */
#include "symtab/build.h"
#include "symtab/read.h"

#include <lz4.h>
#include <stdlib.h>

/* Bounds the strings of a pack: each is at most so many bytes longer than its own bytes in the pack. */
#define SHARED_MAX 255u

#define PACKED_MAX MIB(1)   /* bytes that are compressed together; more are written as they are */
#define LZ4_MOST   255u     /* bytes that one byte of LZ4 can expand to */
#define READ_MAX   MIB(256) /* of one block: a crafted one could expand to more than there is memory */
#define KEPT_MAX   MIB(32)  /* of all blocks in the cache */
#define KEPT_HELD  MIB(2)   /* the same, of memory that others may need */

#define GROUPS_IN_PACK (STRINGS_PACK / STRINGS_GROUP)

static size_t n_groups(size_t n)
{
	return (n + STRINGS_GROUP - 1) / STRINGS_GROUP;
}

static size_t n_packs(size_t n)
{
	return (n + STRINGS_PACK - 1) / STRINGS_PACK;
}

/* ---- writing ---- */

static size_t strings_prefix(struct str a, struct str b)
{
	size_t most = MIN(MIN(a.size, b.size), (size_t)SHARED_MAX), n = 0;

	while (n < most && a.p[n] == b.p[n])
		n++;
	return n;
}

static void group_write(struct buf *out, const struct str *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t same = 0;

		if (i) {
			same = strings_prefix(list[i - 1], list[i]);
			buf_add_char(out, (char)same);
		}
		buf_add_uleb(out, list[i].size - same);
		buf_add(out, list[i].p + same, list[i].size - same);
	}
}

/* Write the pack's text: the length of each group but the last, then the groups. */
static struct bytes pack_write_text(struct string_writer *w, const struct str *list, size_t n)
{
	w->text.size = w->groups.size = 0;
	for (size_t i = 0; i < n; i += STRINGS_GROUP) {
		size_t before = w->groups.size;

		group_write(&w->groups, list + i, MIN(n - i, (size_t)STRINGS_GROUP));
		if (i + STRINGS_GROUP < n)
			buf_add_uleb(&w->text, w->groups.size - before);
	}
	buf_add(&w->text, w->groups.p, w->groups.size);
	return buf_bytes(&w->text);
}

static void pack_write(struct string_writer *w, struct buf *out, struct bytes text)
{
	size_t before = out->size, room;
	int n;

	if (text.size <= PACKED_MAX) {
		if (!w->lz4) {
			w->lz4 = mem_alloc(sizeof(LZ4_stream_t));
			LZ4_initStream(w->lz4, sizeof(LZ4_stream_t));
		}
		buf_add_uleb(out, text.size);
		room = text.size - text.size / 8; /* to save less is not worth the time to decompress */
		LZ4_resetStream_fast(w->lz4);
		n = LZ4_compress_fast_continue(w->lz4, (const char *)text.p, (char *)buf_reserve(out, room),
					       (int)text.size, (int)room, 1);
		if (n > 0) {
			out->size += (size_t)n;
			return;
		}
	}
	out->size = before;
	buf_add_uleb(out, 0);
	buf_add(out, text.p, text.size);
}

void block_strings_write(struct string_writer *w, struct buf *out, const struct str *list, size_t n)
{
	size_t start = out->size, offs = n_packs(n) * 4;

	memset(buf_reserve(out, offs), 0, offs);
	out->size += offs;
	for (size_t i = 0; i < n; i += STRINGS_PACK) {
		uint32_t off = htole32((uint32_t)(out->size - start));

		memcpy(out->p + start + i / STRINGS_PACK * 4, &off, 4);
		pack_write(w, out, pack_write_text(w, list + i, MIN(n - i, (size_t)STRINGS_PACK)));
	}
}

void string_writer_done(struct string_writer *w)
{
	free(w->lz4);
	buf_done(&w->text);
	buf_done(&w->groups);
	*w = (struct string_writer){ 0 };
}

/* ---- reading ---- */

bool block_strings_fit(uint64_t n, uint64_t size)
{
	return (n + STRINGS_PACK - 1) / STRINGS_PACK * 4 <= size;
}

void block_strings_start(struct block_strings *s, const struct block *b)
{
	size_t n = n_packs(b->n_strings);

	arena_reset(&s->arena);
	if (n > s->room) {
		free(s->packs);
		budget_hold_sub(s->arena.hold, s->room * sizeof(*s->packs));
		s->room = n + n / 4;
		budget_hold_charge(s->arena.hold, s->room * sizeof(*s->packs));
		s->packs = NEW_N(struct string_pack *, s->room);
	}
	if (n)
		memset(s->packs, 0, n * sizeof(*s->packs));
}

void block_strings_done(struct block_strings *s)
{
	arena_done(&s->arena);
	free(s->packs);
	budget_hold_sub(s->arena.hold, s->room * sizeof(*s->packs));
	*s = (struct block_strings){ .arena.hold = s->arena.hold, .refused = s->refused };
}

static char *strings_alloc(struct block_strings *s, size_t size)
{
	char *p = arena_try_err(&s->arena, size, s->refused);

	if (!p && !s->refused)
		mem_none(1, size);
	return p;
}

/*
 * The text of a pack, decompressed in the arena or as it is in the block; empty if it is damaged. Its p is NULL if the memory
 * is refused.
 */
static struct bytes pack_text(struct block_strings *s, const struct block *b, size_t pack)
{
	static const struct bytes nothing = { (const uint8_t *)"", 0 };
	const uint8_t *start = b->bytes.p + b->strings, *p, *end;
	size_t size = b->bytes.size - b->strings;
	uint32_t from = get32(start + pack * 4),
		 to = pack + 1 < n_packs(b->n_strings) ? get32(start + pack * 4 + 4) : (uint32_t)size;
	uint64_t text;
	char *room;

	if (to > size || from >= to)
		return nothing;
	p = start + from;
	end = start + to;
	text = leb_u(&p, end);
	if (p > end)
		return nothing;
	if (!text)
		return bytes_of(p, (size_t)(end - p));
	if (text > PACKED_MAX || text / LZ4_MOST > (uint64_t)(end - p))
		return nothing;
	room = strings_alloc(s, (size_t)text + 1);
	if (!room)
		return (struct bytes){ 0 };
	room[text] = '\0'; /* leb_u() */
	if (LZ4_decompress_safe((const char *)p, room, (int)(end - p), (int)text) != (int)text)
		return nothing;
	return bytes_of(room, (size_t)text);
}

/* Read the next string: the length of the prefix shared with the one before, and its own bytes. False:
 * damaged. */
static bool group_next(const uint8_t **p, const uint8_t *end, bool first, size_t before, size_t *ret_same,
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

/* A group's bytes in its pack's text. */
static struct bytes pack_group(struct bytes text, size_t n_in_pack, size_t group)
{
	const uint8_t *p = text.p, *end = text.p + text.size;
	uint64_t before = 0;

	for (size_t i = 0; i + 1 < n_in_pack; i++) {
		uint64_t size = leb_u(&p, end);

		if (p > end || size > text.size)
			return bytes_of(end, 0);
		if (i < group)
			before += size;
	}
	if (before >= (uint64_t)(end - p))
		return bytes_of(end, 0);
	return bytes_of(p + before, (size_t)(end - p - (ptrdiff_t)before));
}

static struct bytes pack_at(struct block_strings *s, const struct block *b, size_t at)
{
	struct string_pack *pack = s->packs[at];

	if (!pack)
		pack = s->packs[at] = ARENA_NEW(&s->arena, struct string_pack);
	if (!pack->text.p)
		pack->text = pack_text(s, b, at);
	return pack->text;
}

const struct str *block_strings_read(struct block_strings *s, const struct block *b, size_t group)
{
	static const struct str nothing[STRINGS_GROUP];
	size_t pack = group / GROUPS_IN_PACK, same[STRINGS_GROUP],
	       n = MIN((size_t)STRINGS_GROUP, b->n_strings - group * STRINGS_GROUP), good, all = 0;
	struct bytes own[STRINGS_GROUP], text, bytes;
	const uint8_t *p, *end;
	struct str *list;
	char *to;

	/* After a refusal the frames are dropped: none of their other names is needed. */
	if (s->arena.size > READ_MAX || (s->refused && s->refused->kind))
		return nothing;
	text = pack_at(s, b, pack);
	if (!text.p)
		return nothing;
	bytes = pack_group(text, MIN((size_t)GROUPS_IN_PACK, n_groups(b->n_strings) - pack * GROUPS_IN_PACK),
			   group % GROUPS_IN_PACK);
	p = bytes.p;
	end = bytes.p + bytes.size;
	for (good = 0; good < n; good++) {
		size_t before = good ? same[good - 1] + own[good - 1].size : 0;

		if (!group_next(&p, end, !good, before, &same[good], &own[good]))
			break;
		all += same[good] + own[good].size;
	}
	to = strings_alloc(s, all + 1);
	if (!to)
		return nothing;
	list = ARENA_NEW_N(&s->arena, struct str, STRINGS_GROUP);
	s->packs[pack]->groups[group % GROUPS_IN_PACK] = list;
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

struct block_strings *strings_kept_of(struct strings_kept *k, size_t block, const struct block *b)
{
	struct strings_of *one = &k->list[block % STRINGS_KEPT];
	size_t bytes = 0, max = one->s.arena.hold ? KEPT_HELD : KEPT_MAX;

	if (one->block == block + 1)
		return &one->s;
	for (size_t i = 0; i < STRINGS_KEPT; i++)
		bytes += k->list[i].s.arena.size + k->list[i].s.room * sizeof(*one->s.packs);
	for (size_t i = 0; i < STRINGS_KEPT && bytes > max; i++) {
		block_strings_done(&k->list[i].s);
		k->list[i].block = 0;
	}
	block_strings_start(&one->s, b);
	one->block = block + 1;
	return &one->s;
}

void strings_kept_done(struct strings_kept *k)
{
	for (size_t i = 0; i < STRINGS_KEPT; i++)
		block_strings_done(&k->list[i].s);
}
