/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open a file's DWARF: its sections, and the offsets of its units.
 */
#include "dwarf/code.h"

#include <elf.h>
#include <stdlib.h>

/*
 * A linker that writes a relocatable file (`ld -r`) drops all copies of a section but one. Their descriptions stay,
 * with 0 in place of the address, and no relocation there. That is also the address of the first section of code.
 * So code is moved up while it is read: then addresses without a relocation are in no section. A multiple of 64 KiB
 * that leaves room in 32 bits.
 */
#define CODE_MOVED ((uint64_t)1 << 30)

struct units_scan {
	struct dwarf *d;
	struct buf room;
	const uint8_t *p;
	uint64_t from, to; /* the bytes at p */
};

/* Read @n bytes of .debug_info at @off, fewer at its end. */
static int info_probe(struct units_scan *s, uint64_t off, size_t n, struct bytes *ret, struct err *err)
{
	struct dwarf_data *info = &s->d->info;

	if (info->p) {
		*ret = bytes_of(info->p + off, MIN(info->size - off, (uint64_t)n));
		return 0;
	}
	if (off < s->from || off + n > s->to) {
		size_t size = (size_t)MIN(info->size - off, (uint64_t)KIB(4));

		s->to = 0;
		if (dwarf_data_chunk(info, off, size, &s->room, &s->p, err) < 0)
			return -1;
		s->from = off;
		s->to = off + size;
	}
	*ret = bytes_of(s->p + (off - s->from), (size_t)MIN(s->to - off, (uint64_t)n));
	return 0;
}

static int units_scan(struct units_scan *s, struct err *err)
{
	struct dwarf *d = s->d;
	uint64_t off = 0;

	while (off < d->info.size) {
		uint8_t offset_size;
		uint64_t length, start;
		struct bytes b;
		struct cursor c;

		if (info_probe(s, off, 12, &b, err) < 0)
			return -1;
		c = cursor_at(b, d->big, off);
		if (!dwarf_length_read(&c, &length, &offset_size) || length > d->info.size - cursor_off(&c))
			return err_set(err, ERR_INVALID, ".debug_info: unit at %llu ends past the section",
				       (unsigned long long)off);
		start = cursor_off(&c);
		if (d->n_units >= DWARF_MAX_UNITS)
			return err_set(err, ERR_LIMIT, ".debug_info: more than the %u units allowed",
				       DWARF_MAX_UNITS);
		if (length) {
			if (d->n_units == d->room_units) {
				VEC_GROW(d->units, d->n_units, d->room_units);
				budget_hold_track(d->img->memory, &d->units_held,
						  d->room_units * sizeof(*d->units));
				if (budget_hold_check(d->img->memory, err) < 0)
					return -1;
			}
			d->units[d->n_units++] = (struct dwarf_cu_place){ off, start + length };
		}
		off = start + length;
	}
	return 0;
}

/* Note damage that leaves the rest of use. Returns -1 if it is none: a failure of the system. */
static int section_damage_note(struct dwarf *d, const struct err *why)
{
	return err_note_input(why, d->damage, DWARF_MAX_DAMAGE, &d->n_damage);
}

/* A damaged section counts as absent. In a split file it is an error, which is listed for each of its units. */
static int open_sections(struct dwarf *d, struct err *err)
{
	const struct {
		struct dwarf_data *s;
		const char *name;
		enum dwarf_data_way way;
	} sections[] = {
		{ &d->info, ".debug_info", DWARF_CHUNKS },
		{ &d->line, ".debug_line", DWARF_CHUNKS },
		{ &d->abbrev, ".debug_abbrev", DWARF_WHOLE },
		{ &d->str, ".debug_str", DWARF_WHOLE },
		{ &d->line_str, ".debug_line_str", DWARF_WHOLE },
		{ &d->str_offsets, ".debug_str_offsets", DWARF_WHOLE },
		{ &d->ranges, ".debug_ranges", DWARF_WHOLE },
		{ &d->rnglists, ".debug_rnglists", DWARF_WHOLE },
		{ &d->addr, ".debug_addr", DWARF_WHOLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		/* The file with the skeletons has these for split units; .debug_line.dwo has only files of types. */
		if (d->split &&
		    (sections[i].s == &d->line || sections[i].s == &d->ranges || sections[i].s == &d->addr))
			continue;
		if (dwarf_data_open(sections[i].s, d, sections[i].name, sections[i].way, err) == 0) {
			if (sections[i].s->unknown.kind) {
				err_in(&sections[i].s->unknown, "%s", sections[i].name);
				section_damage_note(d, &sections[i].s->unknown);
			}
			continue;
		}
		if (d->split || section_damage_note(d, err) < 0)
			return -1;
		dwarf_data_close(sections[i].s);
		sections[i].s->damaged = true;
	}
	return 0;
}

static void code_move(struct dwarf *d, uint64_t to)
{
	struct dwarf_section_place *list = ARENA_NEW_N(&d->arena, struct dwarf_section_place, d->n_code + 1);

	for (size_t i = 0; i < d->n_code; i++) {
		list[i] = d->code[i];
		list[i].base += to - d->moved;
	}
	d->code = list;
	d->moved = to;
}

/* AVR and MSP430 have addresses of two bytes. */
static bool code_can_move(const struct dwarf *d)
{
	const struct elf_header *h = &d->img->h;

	return h->type == ET_REL && !d->split && d->n_code && h->machine != EM_AVR &&
	       h->machine != EM_MSP430 &&
	       d->code[d->n_code - 1].base + d->code[d->n_code - 1].size <= UINT32_MAX - CODE_MOVED;
}

/* Whether a relocation has the address of a section of code: in a file without any, addresses are as they are. */
static bool code_is_relocated(const struct dwarf *d)
{
	const struct dwarf_data *sections[] = { &d->info, &d->line, &d->ranges, &d->rnglists, &d->addr };

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		if (sections[i]->names_code)
			return true;
	return false;
}

static int dwarf_image_open(const struct elf_image *img, bool split, const char *temp_dir, struct dwarf **ret,
			    struct err *err)
{
	struct dwarf *d = NEW(struct dwarf);
	struct units_scan s = { .d = d };
	uint32_t more;
	int r;

	*ret = d;
	d->img = img;
	d->split = split;
	d->temp_dir = temp_dir;
	d->big = img->h.big;
	d->addr_size = img->h.is64 ? 8 : 4;
	d->n_code = dwarf_code(img, &d->arena, &d->code);
	if (code_can_move(d))
		code_move(d, CODE_MOVED);
	r = open_sections(d, err);
	if (d->moved && !code_is_relocated(d))
		code_move(d, 0);
	if (r == 0 && !d->info.size && !d->line.size) {
		if (!d->n_damage)
			return DWARF_NO_CODE;
		*err = d->damage[0];
		return -1;
	}
	if (r == 0 && units_scan(&s, &d->units_err) < 0 && !err_is_input(&d->units_err)) {
		*err = d->units_err;
		r = -1;
	}
	buf_done(&s.room);
	if (r == 0 && d->info.sec && !d->units_err.kind && (more = dwarf_info_more(img, d->info.sec)))
		(void)err_set(&d->units_err, ERR_INVALID,
			      "%u more sections are called as section %u, and only that is read", more,
			      d->info.sec->index);
	return r;
}

int dwarf_unit_fits(uint64_t size, struct err *err)
{
	return size <= DWARF_MAX_SECTION
		       ? 0
		       : err_set(err, ERR_LIMIT, "a unit of %llu bytes, more than the %zu allowed",
				 (unsigned long long)size, (size_t)DWARF_MAX_SECTION);
}

/* The split units in the file itself, beside their skeletons. Damage of them is reported for each skeleton. */
static int own_split_open(struct dwarf *d, struct err *err)
{
	const struct elf_section *info = elf_debug_section(d->img, ".debug_info.dwo");

	if (!info || !d->info.sec || str_eq(info->name, d->info.sec->name) ||
	    dwarf_open_one_split(d->img, d->temp_dir, &d->own, &d->own_err) == 0 || err_is_input(&d->own_err))
		return 0;
	*err = d->own_err;
	return -1;
}

int dwarf_open(const struct elf_image *img, const struct elf_image *alt, const char *temp_dir,
	       struct dwarf **ret, struct err *err)
{
	AUTO(dwarf_closep) struct dwarf *d = NULL;
	int r = dwarf_image_open(img, false, temp_dir, &d, err);

	if (r == 0)
		r = own_split_open(d, err);
	if (r == 0 && alt) {
		r = dwarf_image_open(alt, false, temp_dir, &d->alt, err);
		if (r < 0) {
			err_in(err, "supplementary file");
			r = section_damage_note(d, err);
			dwarf_close(d->alt);
			d->alt = NULL;
		}
		if (r > 0)
			r = 0;
	}
	if (r == 0)
		*ret = TAKE(d);
	return r;
}

int dwarf_open_one_split(const struct elf_image *img, const char *temp_dir, struct dwarf **ret,
			 struct err *err)
{
	AUTO(dwarf_closep) struct dwarf *d = NULL;
	int r = dwarf_image_open(img, true, temp_dir, &d, err);

	if (r > 0)
		return err_set(err, ERR_INVALID, "has no .debug_info.dwo");
	if (r == 0 && d->units_err.kind && !d->n_units) {
		*err = d->units_err;
		r = -1;
	}
	if (r == 0)
		r = dwarf_index_open(&d->index, d, err);
	if (r == 0)
		*ret = TAKE(d);
	return r;
}

int dwarf_open_split(struct dwarf *d, const struct dwarf_split *split, struct err *err)
{
	d->finder = split;
	if (!split->dwp)
		return 0;
	if (split->dwp->h.big != d->big)
		return err_set(err, ERR_INVALID, "has the other byte order");
	return dwarf_open_one_split(split->dwp, d->temp_dir, &d->dwp, err);
}

void dwarf_close_code(struct dwarf *d)
{
	if (!d)
		return;
	dwarf_close_code(d->alt);
	dwarf_close_code(d->dwp);
	dwarf_close_code(d->own);
	struct dwarf_data *sections[] = { &d->info,   &d->abbrev,   &d->str_offsets, &d->line,
					  &d->ranges, &d->rnglists, &d->addr };

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		dwarf_data_close(sections[i]);
}

void dwarf_close(struct dwarf *d)
{
	if (!d)
		return;
	dwarf_close_code(d);
	dwarf_close(d->alt);
	dwarf_close(d->dwp);
	dwarf_close(d->own);
	dwarf_index_close(&d->index);
	dwarf_data_close(&d->str);
	dwarf_data_close(&d->line_str);
	budget_hold_track(d->img->memory, &d->units_held, 0);
	free(d->units);
	arena_done(&d->arena);
	free(d);
}

void dwarf_closep(struct dwarf **d)
{
	dwarf_close(*d);
}

struct budget_hold *dwarf_memory(const struct dwarf *d)
{
	return d->img->memory;
}

bool dwarf_threads(const struct dwarf *d)
{
	return dwarf_data_threads(&d->info) && dwarf_data_threads(&d->line) &&
	       (!d->alt || dwarf_threads(d->alt)) && (!d->dwp || dwarf_threads(d->dwp)) &&
	       (!d->own || dwarf_threads(d->own));
}

size_t dwarf_n_units(const struct dwarf *d)
{
	return d->n_units;
}

uint64_t dwarf_unit_off(const struct dwarf *d, size_t unit)
{
	return d->units[unit].off;
}

uint64_t dwarf_unit_size(const struct dwarf *d, size_t unit)
{
	return d->units[unit].end - d->units[unit].off;
}

size_t dwarf_damage(const struct dwarf *d, const struct err **ret)
{
	*ret = d->damage;
	return d->n_damage;
}

const struct err *dwarf_units_err(const struct dwarf *d)
{
	return &d->units_err;
}

uint64_t dwarf_shared_size(const struct dwarf *d)
{
	return d->abbrev.size + d->str.size + d->line_str.size + d->str_offsets.size + d->line.size +
	       d->ranges.size + d->rnglists.size + d->addr.size +
	       (d->alt ? dwarf_shared_size(d->alt) + d->alt->info.size : 0);
}

size_t dwarf_unit_at(const struct dwarf *d, uint64_t off)
{
	size_t lo = SEARCH(0, d->n_units, i, d->units[i].off <= off);
	return lo && off < d->units[lo - 1].end ? lo - 1 : SIZE_MAX;
}
