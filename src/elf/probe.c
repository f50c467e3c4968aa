/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of a file that streams by.
 *
 * The head has the offsets of notes and section headers; those ranges are kept in a sparse source, and the
 * ordinary elf_identify() runs over it. If that needs another range that has not passed yet, the range is
 * added. So there is one reader, and its results for a stream are those for the file. A chunk without wanted
 * bytes costs one comparison.
 */
#include "elf/internal.h"

#include <elf.h>
#include <stdlib.h>

/* Extra bytes before the section headers, for names that are not right before them: lld puts the string table
 * in between. */
#define TAIL_SLACK KIB(64)

/* Limits; beyond them the file is read again. */
#define MAX_RANGES 64
#define MAX_HELD   MIB(8)
#define MAX_TRIES  16

struct probe_range {
	uint64_t off, end;
};

struct elf_probe {
	uint64_t size, pos;
	uint64_t next; /* the next wanted byte; UINT64_MAX: none */
	bool planned;  /* the head was searched for further ranges */
	bool settled;  /* the outcome is known */
	int outcome;   /* then */
	struct elf_facts facts;
	struct elf_aliases aliases;
	struct err err;
	struct source *sparse;
	struct probe_range ranges[MAX_RANGES];
	unsigned n_ranges, n_tries;
	uint64_t wanted; /* bytes of all ranges */
};

struct elf_probe *elf_probe_new(void)
{
	return NEW(struct elf_probe);
}

void elf_probe_free(struct elf_probe *p)
{
	if (!p)
		return;
	source_close(p->sparse);
	free(p);
}

static void probe_settle(struct elf_probe *p, int outcome)
{
	p->settled = true;
	p->outcome = outcome;
	p->next = UINT64_MAX;
}

static void probe_find_next(struct elf_probe *p)
{
	p->next = UINT64_MAX;
	for (unsigned i = 0; i < p->n_ranges; i++)
		if (p->ranges[i].end > p->pos)
			p->next = MIN(p->next, MAX(p->ranges[i].off, p->pos));
}

/* Add the range [off, off + n), cut at the end of the file. False: it is too large, or a part of it has
 * passed unseen. */
static bool probe_want(struct elf_probe *p, uint64_t off, uint64_t n)
{
	uint64_t end;

	if (off >= p->size || !n)
		return true;
	end = off + MIN(n, p->size - off);
	if (off < p->pos || p->n_ranges == MAX_RANGES || end - off > MAX_HELD - MIN(p->wanted, MAX_HELD))
		return false;
	p->ranges[p->n_ranges++] = (struct probe_range){ off, end };
	p->wanted += end - off;
	if (off < p->next)
		p->next = off;
	return true;
}

/* As probe_want(), for a range that may begin within the head, which is kept already. */
static void probe_want_past_head(struct elf_probe *p, uint64_t off, uint64_t n)
{
	uint64_t end = n > UINT64_MAX - off ? UINT64_MAX : off + n;

	off = MAX(off, p->pos);
	if (off < end)
		probe_want(p, off, end - off);
}

/*
 * The last bytes of a file that may be hashed, if others near its end are wanted: when the facts are read, these bytes
 * would have passed. Otherwise they are wanted after the facts, which may need bytes before them.
 */
static void probe_want_end(struct elf_probe *p, const struct elf_header *h)
{
	uint64_t off = p->size - MIN(p->size, (uint64_t)ELF_HEAD_SIZE), last = 0;

	for (unsigned i = 0; i < p->n_ranges; i++)
		last = MAX(last, p->ranges[i].end);
	if ((h->type == ET_EXEC || h->type == ET_DYN) && last > off)
		probe_want_past_head(p, off, p->size - off);
}

/* From the head: the notes of the segments, and the section headers with the names before them. */
static void probe_plan(struct elf_probe *p, struct bytes head)
{
	struct elf_header h;
	struct elf_tables t;

	p->planned = true;
	if (elf_header_parse(head, &h, &t, NULL) != 0)
		return; /* elf_identify() will report the reason */
	if (h.phoff && t.phnum != PN_XNUM && t.phentsize >= elf_segment_size(h.is64)) {
		for (uint32_t i = 0; i < t.phnum; i++) {
			uint64_t off = h.phoff + (uint64_t)i * t.phentsize;
			struct elf_segment seg;
			struct cursor c;

			if (off < h.phoff || !elf_range_fits(off, t.phentsize, head.size))
				break;
			c = cursor_at(bytes_of(head.p + off, t.phentsize), h.big, off);
			elf_segment_parse(&c, h.is64, &seg);
			if (seg.type == PT_NOTE)
				probe_want_past_head(p, seg.off,
						     MIN(seg.filesz, (uint64_t)ELF_MAX_NOTE_SIZE));
		}
	}
	if (h.shoff && h.shoff < p->size) {
		uint64_t slack = MIN(h.shoff, (uint64_t)TAIL_SLACK);
		uint64_t n = t.shnum ? (uint64_t)t.shnum * t.shentsize : t.shentsize;

		probe_want_past_head(p, h.shoff - slack, slack + n);
	}
	probe_want_end(p, &h);
}

/* The end of the kept bytes that follow @off without a gap, at most the stream's position. */
static uint64_t probe_held_to(const struct elf_probe *p, uint64_t off)
{
	bool moved = true;

	while (moved && off < p->pos) {
		moved = false;
		for (unsigned i = 0; i < p->n_ranges; i++) {
			if (p->ranges[i].off <= off && p->ranges[i].end > off) {
				off = MIN(p->ranges[i].end, p->pos);
				moved = true;
			}
		}
	}
	return off;
}

/* All wanted ranges are kept: try to read the facts; if that fails, add the missing range. */
static void probe_try_facts(struct elf_probe *p)
{
	uint64_t off = 0, n = 0, last_off = 0, last_n = 0, from;
	bool missed_before = source_sparse_missed(p->sparse, &last_off, &last_n);
	enum build_id_kind kind;
	int r = elf_identify(p->sparse, &p->facts, &kind, &p->aliases, &p->err);

	if (r >= 0 || !source_sparse_missed(p->sparse, &off, &n) ||
	    (missed_before && off == last_off && n == last_n)) {
		probe_settle(p, r);
		return;
	}
	from = probe_held_to(p, off);
	if (++p->n_tries == MAX_TRIES || from >= off + n || !probe_want(p, from, off + n - from))
		probe_settle(p, ELF_PROBE_AGAIN);
}

void elf_probe_start(struct elf_probe *p, uint64_t size)
{
	source_close(p->sparse);
	*p = (struct elf_probe){ .size = size, .next = UINT64_MAX };
	probe_want(p, 0, ELF_HEAD_SIZE);
}

bool elf_probe_wants(const struct elf_probe *p)
{
	return p->next != UINT64_MAX;
}

/* Keep the wanted bytes of the chunk. */
static void probe_keep(struct elf_probe *p, struct bytes chunk)
{
	uint64_t end = p->pos + chunk.size;

	if (!p->sparse)
		p->sparse = source_sparse_new(p->size, "member");
	for (unsigned i = 0; i < p->n_ranges; i++) {
		uint64_t from = MAX(p->ranges[i].off, p->pos), to = MIN(p->ranges[i].end, end);

		if (from < to)
			source_sparse_add(p->sparse, from, chunk.p + (from - p->pos), (size_t)(to - from));
	}
}

/* The stream is past all wanted ranges: decide how to continue. */
static void probe_advance(struct elf_probe *p)
{
	uint8_t head[ELF_HEAD_SIZE];
	size_t n;

	if (!p->planned && source_read(p->sparse, 0, head, sizeof(head), SOURCE_RANDOM, &n, NULL) == 0)
		probe_plan(p, bytes_of(head, n));
	if (p->next == UINT64_MAX)
		probe_try_facts(p);
}

static bool is_elf_so_far(const struct elf_probe *p, struct bytes chunk)
{
	size_t n = p->pos < SELFMAG ? MIN((size_t)(SELFMAG - p->pos), chunk.size) : 0;

	return !n || memcmp(chunk.p, &ELFMAG[p->pos], n) == 0;
}

void elf_probe_feed(struct elf_probe *p, struct bytes chunk)
{
	while (p->next != UINT64_MAX && p->next < p->pos + chunk.size) {
		uint64_t last = 0;
		size_t n;

		if (!is_elf_so_far(p, chunk)) {
			probe_settle(p, ELF_NOT_ELF);
			break;
		}
		for (unsigned i = 0; i < p->n_ranges; i++)
			last = MAX(last, p->ranges[i].end);
		n = (size_t)MIN((uint64_t)chunk.size, last - p->pos);
		probe_keep(p, bytes_of(chunk.p, n));
		p->pos += n;
		chunk = bytes_of(chunk.p + n, chunk.size - n);
		probe_find_next(p);
		/* Bytes wanted from here on may be in the rest of this chunk. */
		while (p->next == UINT64_MAX && !p->settled)
			probe_advance(p);
	}
	p->pos += chunk.size;
}

int elf_probe_finish(struct elf_probe *p, struct elf_facts *ret, struct err *err)
{
	if (!p->settled && p->next != UINT64_MAX)
		probe_settle(p, ELF_PROBE_AGAIN); /* the stream ended before the given size */
	if (!p->settled)
		probe_settle(p, ELF_NOT_ELF); /* an empty file */
	if (p->outcome != 0)
		source_close(TAKE(p->sparse));
	if (p->outcome == 0)
		*ret = p->facts;
	else if (p->outcome < 0 && err)
		*err = p->err;
	return p->outcome;
}

const struct elf_aliases *elf_probe_aliases(const struct elf_probe *p)
{
	return &p->aliases;
}

size_t elf_probe_places(struct elf_probe *p, struct arena *a, const struct elf_place **ret)
{
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct elf_place *v;
	size_t n;

	if (!p->sparse || elf_open(p->sparse, &img, NULL) != 0 || img->sections_err.kind != ERR_NONE ||
	    img->n_sections < 2)
		return 0;
	n = img->n_sections - 1; /* without the null section */
	v = ARENA_NEW_N(a, struct elf_place, n);
	for (size_t i = 0; i < n; i++) {
		const struct elf_section *sec = &img->sections[i + 1];

		v[i].name = arena_str(a, sec->name);
		if (elf_section_range(img, sec, &v[i].off, &v[i].size, NULL) < 0)
			return 0;
	}
	*ret = v;
	return n;
}
