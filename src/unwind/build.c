/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to its table.
 *
 * .eh_frame_hdr lists all functions in order, so rows are made in order and nothing is sorted. A list that is out of order,
 * contradicts the entries, or leaves some out is not used: then the entries are collected and sorted.
 *
 * Where functions overlap, the one that starts later holds from its start on; of two that start together, the last one.
 */
#include "unwind/internal.h"

#include <elf.h>
#include <stdlib.h>

#define HDR_SIZE     12u /* of .eh_frame_hdr before its list */
#define CANCEL_STEPS 1024u
#define SLACK        16u /* bytes of .eh_frame that are no function: the ends of linked parts */
#define PADDING      16u /* functions are aligned to it */

#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001
#endif

enum { REDO = 1 }; /* of the sorted list: start again without it */

/* ---- the code of the file ---- */

static int unwind_code_by_start(const void *a, const void *b)
{
	const struct code_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Executable segments. Code over UNWIND_MAX_SPAN has no rows. */
static void find_code(struct build *b)
{
	size_t n = 0;
	uint64_t end;

	for (uint32_t i = 0; i < b->img->n_segments; i++) {
		const struct elf_segment *s = &b->img->segments[i];

		if (s->type != PT_LOAD || !(s->flags & PF_X) || !s->memsz ||
		    add_overflows(s->vaddr, s->memsz, &end))
			continue;
		if (b->n_code == BUILD_RANGES) {
			b->flags |= UNWIND_PARTIAL;
			break;
		}
		b->code[b->n_code++] = (struct code_range){ s->vaddr, end };
	}
	SORT(b->code, b->n_code, unwind_code_by_start);
	for (size_t i = 0; i < b->n_code; i++) {
		struct code_range r = b->code[i];

		end = b->code[0].start + UNWIND_MAX_SPAN - (1u << UNWIND_BLOCK_SHIFT);
		if (end < b->code[0].start)
			end = UINT64_MAX;
		if (n)
			r.start = MAX(r.start, b->code[n - 1].end);
		if (r.end > end) {
			r.end = end;
			b->flags |= UNWIND_PARTIAL;
		}
		if (r.start < r.end)
			b->code[n++] = r;
	}
	b->n_code = n;
}

/* There may be as many segments as functions, so that a search for each function goes through them sorted. */
static void find_loads(struct build *b)
{
	const struct elf_image *img = b->img;

	b->loads = NEW_N(struct sort_key, img->n_segments);
	for (uint32_t i = 0; i < img->n_segments; i++)
		if (img->segments[i].type == PT_LOAD && img->segments[i].filesz)
			b->loads[b->n_loads++] = (struct sort_key){ img->segments[i].vaddr, i };
	sort_keys(b->loads, b->n_loads);
}

int build_check_cancel(struct build *b, struct err *err)
{
	if (++b->n_steps % CANCEL_STEPS == 0 && b->o->cancel && atomic_load(b->o->cancel))
		return err_set(err, ERR_CANCELLED, "cancelled");
	return 0;
}

/* ---- rows ---- */

/* Rows up to @to: none but those of code that is recognised. */
static int pass_gap(struct build *b, uint64_t to, struct err *err)
{
	uint64_t from = b->pos;

	if (to <= from)
		return 0;
	b->pos = to;
	/* The bytes between a function and the next one, which is aligned: no instruction that runs. */
	if ((from + PADDING - 1) / PADDING * PADDING == to)
		return 0;
	pack_add(&b->pack, from, 0);
	for (size_t i = 0; i < b->n_code; i++) {
		uint64_t start = MAX(from, b->code[i].start), end = MIN(to, b->code[i].end);

		if (start >= end)
			continue;
		if (gap_fill(b, start, end, err) < 0)
			return -1;
	}
	return 0;
}

/* Rows of @f from its start up to @limit. */
static int add_function(struct build *b, struct frames *frames, const struct frames_function *f,
			uint64_t limit, struct err *err)
{
	struct cfi_program program = { .cie = &f->cie, .start = f->start };
	size_t i = 0;

	while (i < b->n_code && b->code[i].end <= f->start)
		i++;
	if (i == b->n_code || f->start < b->code[i].start) {
		b->stats.n_skipped++;
		return 0;
	}
	program.limit = MIN(limit, b->code[i].end);
	if (pass_gap(b, f->start, err) < 0)
		return -1;
	program.p = section_at(&frames->section, f->code, f->code_size, err);
	if (!program.p)
		return -1;
	program.end = program.p + f->code_size;
	b->stats.n_functions++;
	if (!cfi_run(&program, &b->pack))
		b->stats.n_skipped++;
	b->pos = program.limit;
	return build_check_cancel(b, err);
}

/* Functions in the order of their starts; one waits for the next, which may overlap it. */
struct in_order {
	struct build *b;
	struct frames *frames;
	struct frames_function waiting;
	bool has_waiting;
};

static int order_add(struct in_order *o, const struct frames_function *f, struct err *err)
{
	if (f->end <= f->start)
		return 0;
	if (o->has_waiting && o->waiting.start < f->start &&
	    add_function(o->b, o->frames, &o->waiting, MIN(o->waiting.end, f->start), err) < 0)
		return -1;
	o->waiting = *f;
	o->has_waiting = true;
	return 0;
}

static int order_end(struct in_order *o, struct err *err)
{
	return o->has_waiting ? add_function(o->b, o->frames, &o->waiting, o->waiting.end, err) : 0;
}

/* ---- with the sorted list ---- */

static int add_listed(struct build *b, struct frames *frames, struct section *hdr, struct err *err)
{
	struct in_order o = { .b = b, .frames = frames };
	uint64_t last = 0, n;
	struct cursor e;
	const uint8_t *p = hdr->size >= HDR_SIZE ? section_at(hdr, 0, HDR_SIZE, err) : NULL;

	if (hdr->size < HDR_SIZE)
		return REDO;
	if (!p)
		return -1;
	/* Version 1; the count has 4 bytes; the list is of pairs of 4 bytes, counted from the section. */
	if (p[0] != 1 || p[2] != 0x03 || p[3] != 0x3b)
		return REDO;
	e = cursor_of(bytes_of(p + 8, HDR_SIZE - 8));
	n = cursor_u32(&e);
	if (n > (hdr->size - HDR_SIZE) / 8)
		return REDO;
	for (uint64_t i = 0; i < n; i++) {
		struct frames_function f;
		uint64_t start, off, next;
		bool damaged;
		int r;

		p = section_at(hdr, HDR_SIZE + i * 8, 8, err);
		if (!p)
			return -1;
		e = cursor_of(bytes_of(p, 8));
		start = hdr->addr + (uint64_t)(int32_t)cursor_u32(&e);
		off = hdr->addr + (uint64_t)(int32_t)cursor_u32(&e) - frames->section.addr;
		if ((i && start <= last) || off >= frames->section.size)
			return REDO;
		last = start;
		r = frames_read(frames, off, &f, &next, &damaged, err);
		if (r < 0)
			return -1;
		/* Entries that overlap would be read more than once. */
		if (r || f.start != start || frames->n_bytes > frames->section.size)
			return REDO;
		if (order_add(&o, &f, err) < 0)
			return -1;
	}
	if (!frames->open && frames->section.size - frames->n_bytes >= SLACK)
		return REDO;
	return order_end(&o, err);
}

/* ---- without ---- */

void collected_done(struct collected *c)
{
	free(c->list);
	if (c->memory)
		budget_hold_sub(c->memory, c->held);
}

int build_collect(struct build *b, struct frames *frames, struct collected *c, struct err *err)
{
	uint64_t off = 0;

	for (;;) {
		struct frames_function f;
		bool damaged;
		int r = frames_read(frames, off, &f, &off, &damaged, err);

		if (r < 0)
			return -1;
		if (r == FRAMES_END)
			break;
		if (build_check_cancel(b, err) < 0)
			return -1;
		b->stats.n_skipped += damaged;
		if (r || f.end <= f.start)
			continue;
		if (c->n == c->room) {
			/* Twice: sorting takes as much again. */
			uint64_t more = 2 * sizeof(*c->list) * (vec_room(c->room, c->n + 1) - c->room);

			if (c->memory && budget_hold_add(c->memory, more, err) < 0)
				return -1;
			c->held += more;
		}
		VEC_PUSH(c->list, c->n, c->room) = (struct sort_key){ .key = f.start, .at = f.off };
	}
	sort_keys(c->list, c->n);
	return 0;
}

static int add_collected(struct build *b, struct frames *frames, struct err *err)
{
	AUTO(collected_done) struct collected c = { .memory = b->o->memory };
	struct in_order o = { .b = b, .frames = frames };

	if (build_collect(b, frames, &c, err) < 0)
		return -1;
	for (size_t i = 0; i < c.n; i++) {
		struct frames_function f;
		uint64_t next;
		bool damaged;
		int r = frames_read(frames, c.list[i].at, &f, &next, &damaged, err);

		if (r < 0 || (r == 0 && order_add(&o, &f, err) < 0))
			return -1;
	}
	return order_end(&o, err);
}

/* ---- sections ---- */

static bool has_bytes(const struct build *b, const struct elf_section *s, struct byte_range *ret)
{
	struct err ignored = { 0 };

	return s && s->type != SHT_NOBITS && !(s->flags & SHF_COMPRESSED) &&
	       elf_section_range(b->img, s, &ret->off, &ret->size, &ignored) == 0;
}

/* .eh_frame and its list by the program header, in a file without section headers. */
static bool find_by_segment(struct build *b, struct section *eh, struct section *hdr, struct err *err)
{
	for (uint32_t i = 0; i < b->img->n_segments; i++) {
		const struct elf_segment *s = &b->img->segments[i];
		struct byte_range range, part;
		const uint8_t *p;
		struct cursor e;
		uint64_t addr;

		if (s->type != PT_GNU_EH_FRAME || s->filesz < HDR_SIZE ||
		    !gap_file_range(b, s->vaddr, &range))
			continue;
		range.size = MIN(range.size, s->filesz);
		section_done(hdr);
		section_init(hdr, b->img->src, range, s->vaddr, b->o->memory);
		p = range.size >= HDR_SIZE ? section_at(hdr, 0, HDR_SIZE, err) : NULL;
		if (!p || p[1] != 0x1b)
			continue;
		e = cursor_of(bytes_of(p + 4, 4));
		addr = s->vaddr + 4 + (uint64_t)(int32_t)cursor_u32(&e);
		if (!gap_file_range(b, addr, &part))
			continue;
		section_init(eh, b->img->src, part, addr, b->o->memory);
		return true;
	}
	return false;
}

/* Rows of .eh_frame. 1: there is none. */
static int add_eh_frame(struct build *b, struct frames *frames, struct section *hdr, struct err *err)
{
	const struct elf_section *eh = elf_section_find(b->img, ".eh_frame");
	const struct elf_section *list = elf_section_find(b->img, ".eh_frame_hdr");
	struct byte_range range, list_range;
	struct err ignored = { 0 };
	int r;

	if (has_bytes(b, eh, &range)) {
		section_init(&frames->section, b->img->src, range, eh->addr, b->o->memory);
		if (has_bytes(b, list, &list_range))
			section_init(hdr, b->img->src, list_range, list->addr, b->o->memory);
	} else if (eh || !find_by_segment(b, &frames->section, hdr, &ignored)) {
		return 1;
	} else {
		frames->open = true;
	}
	b->flags |= UNWIND_FROM_EH_FRAME;
	if (!hdr->size)
		return add_collected(b, frames, err);
	r = add_listed(b, frames, hdr, err);
	b->stats.sorted = r == 0;
	return r;
}

/* ---- the table ---- */

static void build_reset(struct build *b, struct buf *out)
{
	struct gap_reader *gaps = b->gaps;

	pack_done(&b->pack);
	out->size = 0;
	pack_init(&b->pack, out);
	b->stats = (struct unwind_stats){ 0 };
	b->pos = b->n_code ? b->code[0].start : 0;
	b->gaps = gaps;
}

static void unwind_build_done(struct build *b)
{
	pack_done(&b->pack);
	gap_reader_free(b->gaps);
	free(b->loads);
	free(b);
}

static void unwind_build_donep(struct build **b)
{
	if (*b)
		unwind_build_done(*b);
}

static void frames_donep(struct frames **f)
{
	if (!*f)
		return;
	section_done(&(*f)->section);
	free(*f);
}

static int add_rows(struct build *b, struct buf *out, struct err *err)
{
	AUTO(frames_donep) struct frames *frames = NEW(struct frames);
	AUTO(section_done) struct section hdr = { 0 };
	int r = add_eh_frame(b, frames, &hdr, err);

	if (r == REDO && frames->section.size) {
		/* The list is not used. */
		build_reset(b, out);
		frames->n_bytes = 0;
		r = add_collected(b, frames, err);
	}
	/* Without .eh_frame, all of the code is a gap. */
	return r < 0 ? -1 : 0;
}

static int table_end(struct build *b, struct unwind_stats *ret, struct err *err)
{
	struct unwind_head h = { .machine = UNWIND_LE16(EM_X86_64), .version = UNWIND_VERSION };
	struct build_id id;
	uint64_t end;
	int r;

	if (b->n_code && pass_gap(b, b->code[b->n_code - 1].end, err) < 0)
		return -1;
	end = b->pos;
	if (!pack_has_rows(&b->pack))
		return UNWIND_NOTHING;
	r = elf_build_id(b->img, &id, err);
	if (r < 0 && !err_is_input(err))
		return -1;
	if (r == 0) {
		h.id_size = id.size;
		memcpy(h.id, id.b, id.size);
	}
	memcpy(h.magic, UNWIND_MAGIC, 4);
	b->stats.n_skipped += b->pack.n_lost;
	if (b->stats.n_skipped)
		b->flags |= UNWIND_PARTIAL;
	h.flags = UNWIND_LE32(b->flags);
	pack_end(&b->pack, end, &h);
	b->stats.n_rows = b->pack.n_rows;
	b->stats.n_escapes = b->pack.n_escapes;
	b->stats.n_rules = b->pack.n_rules;
	b->stats.n_bad = b->pack.n_bad;
	*ret = b->stats;
	return 0;
}

int unwind_build(const struct elf_image *img, const struct unwind_options *o, struct buf *out,
		 struct unwind_stats *ret, struct err *err)
{
	static const struct unwind_options none;
	AUTO(unwind_build_donep) struct build *b = NULL;
	int r;

	if (!img->h.is64 || img->h.big || img->h.machine != EM_X86_64 || img->h.type == ET_REL)
		return UNWIND_NOTHING;
	b = NEW(struct build);
	b->img = img;
	b->o = o ? o : &none;
	find_code(b);
	if (!b->n_code)
		return UNWIND_NOTHING;
	find_loads(b);
	build_reset(b, out);
	r = gap_reader_new(b, &b->gaps, err);
	if (r == 0)
		r = add_rows(b, out, err);
	if (r == 0)
		r = table_end(b, ret, err);
	if (r)
		out->size = 0;
	return r;
}
