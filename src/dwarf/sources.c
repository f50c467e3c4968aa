/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source files that a debug file names: all line tables in order; each name is joined from its parts and
 * reported once.
 *
 * Units of one program include the same headers: vmlinux has 1.5 million entries and 9 000 names. So an entry
 * is first looked up by its parts (the offsets of its strings, or their text), and only a new one is joined,
 * made canonical and looked up by its name.
 */
#include "dwarf/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Bytes of all joined names: otherwise each of a table's millions of entries could be 64 KiB long. */
#define NAMES_MAX_TOTAL MIB(512)

/* Entries in the set; when it is full it is cleared, which costs only time. */
#define ENTRIES_MAX (1u << 21)

/* A directory of the table at hand; the others are relative to the first. */
struct source_dir {
	uint64_t key; /* of its parts */
	bool joined;  /* `path` is set */
	struct str path;
};

struct sources_reader {
	const struct elf_image *img;
	struct dwarf_section line;
	struct dwarf_strings strings;
	struct dwarf_units units;
	bool has_units;     /* they have been read */
	struct arena arena; /* of the table at hand */
	struct dwarf_hashes entries, names;
	uint64_t seed;
	uint64_t name_bytes;   /* of all names joined so far */
	char *raw, *canonical; /* buffers for a name */
	dwarf_source_fn *fn;
	void *arg;
	struct dwarf_sources_note *note;
};

uint64_t dwarf_secret(void)
{
	uint64_t v = 0;

	if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != sizeof(v))
		v = (uint64_t)clock_mono_ns();
	return v;
}

int dwarf_note_damage(struct dwarf_sources_note *note, const struct err *why, struct err *err)
{
	if (why->kind != ERR_INVALID) {
		if (err)
			*err = *why;
		return -1;
	}
	if (!note->n_units_skipped++)
		snprintf(note->reason, sizeof(note->reason), "%.*s", (int)sizeof(note->reason) - 1,
			 why->text);
	return 0;
}

static uint64_t key_mix(const struct sources_reader *r, uint64_t a, uint64_t b)
{
	uint64_t pair[2] = { a, b };

	return hash64(pair, sizeof(pair), r->seed);
}

/* Equal for two values that are the same string at the same place; not for all equal strings. */
static uint64_t value_key(const struct sources_reader *r, const struct dwarf_value *v)
{
	if (v->class == DWARF_STRING)
		return hash64(v->bytes.p, v->bytes.size, r->seed);
	return key_mix(r, v->class, v->number);
}

/* Drive letters count, too: a name that a compiler on Windows wrote is not below a comp_dir here. */
static bool source_is_absolute(struct str s)
{
	if (s.size && s.p[0] == '/')
		return true;
	return s.size >= 3 && s.p[1] == ':' && (s.p[2] == '\\' || s.p[2] == '/') &&
	       ((s.p[0] | 0x20) >= 'a') && ((s.p[0] | 0x20) <= 'z');
}

/* "<built-in>", "<command-line>", "<stdin>": these are not files. */
static bool source_is_pseudo(struct str s)
{
	return s.size >= 2 && s.p[0] == '<' && s.p[s.size - 1] == '>';
}

/* Join @dir and @s, in the arena unless one of them is the result. ERR_INVALID: it is over the limit, which
 * counts as damage. */
static int source_join(struct arena *a, struct str dir, struct str s, struct str *ret, struct err *err)
{
	char *p;

	if (!dir.size || source_is_absolute(s)) {
		*ret = s;
		return 0;
	}
	if (!s.size) {
		*ret = dir;
		return 0;
	}
	if (dir.size + 1 + s.size > DWARF_MAX_NAME)
		return err_set(err, ERR_INVALID, "name of %zu bytes is longer than allowed",
			       dir.size + 1 + s.size);
	p = arena_alloc(a, dir.size + 1 + s.size);
	memcpy(p, dir.p, dir.size);
	p[dir.size] = '/';
	memcpy(p + dir.size + 1, s.p, s.size);
	*ret = (struct str){ p, dir.size + 1 + s.size };
	return 0;
}

/* Report @name, which is relative to @dir, unless it was reported before. */
static int source_report(struct sources_reader *r, struct str dir, struct str name, struct err *err)
{
	size_t size;

	if (source_is_absolute(name))
		dir.size = 0;
	if (!name.size || source_is_pseudo(name))
		return 0;
	if (dir.size + 1 + name.size > DWARF_MAX_NAME)
		return err_set(err, ERR_INVALID, "name of %zu bytes is longer than allowed",
			       dir.size + 1 + name.size);
	r->name_bytes += dir.size + 1 + name.size;
	if (r->name_bytes > NAMES_MAX_TOTAL)
		return err_set(err, ERR_LIMIT, "names of more than %zu bytes together", NAMES_MAX_TOTAL);
	size = 0;
	if (dir.size) {
		memcpy(r->raw, dir.p, dir.size);
		r->raw[dir.size] = '/';
		size = dir.size + 1;
	}
	memcpy(r->raw + size, name.p, name.size);
	size = path_canonical((struct str){ r->raw, size + name.size }, r->canonical);
	if (!size)
		return 0; /* "x/.." */
	if (!dwarf_hashes_add(&r->names, hash64(r->canonical, size, r->seed)))
		return 0;
	if (r->names.n > DWARF_MAX_FILES)
		return err_set(err, ERR_LIMIT, "more than the %u names allowed", DWARF_MAX_FILES);
	return r->fn(r->arg, (struct str){ r->canonical, size });
}

static int units_load(struct sources_reader *r, struct err *err)
{
	if (r->has_units)
		return 0;
	r->has_units = true;
	return dwarf_units_read(&r->units, r->img, &r->strings, r->note, err);
}

/* The string of a value in a line table, copied into the table's arena; DWARF_NO_STRING as dwarf_string(). */
static int table_string(struct sources_reader *r, const struct dwarf_value *v, const struct dwarf_format *f,
			struct str *ret, struct err *err)
{
	struct str s;
	int rc = dwarf_string(&r->strings, v, f, dwarf_str_offsets_base(f), &s, err);

	if (rc == 0)
		*ret = v->class == DWARF_STRING ? s : arena_str(&r->arena, s);
	return rc;
}

/* The base of relative directories of the table at @off: its unit's comp_dir. Empty: not known. */
static int unit_dir(struct sources_reader *r, uint64_t off, struct str *ret, struct err *err)
{
	if (units_load(r, err) < 0)
		return -1;
	*ret = (struct str){ 0 };
	for (size_t i = dwarf_units_find(&r->units, off); i < r->units.n && r->units.list[i].stmt_list == off;
	     i++) {
		*ret = r->units.list[i].comp_dir;
		if (ret->size)
			break;
	}
	return 0;
}

/* Before DWARF 5 the primary source file need not be in its table's list. */
static int source_report_unit(struct sources_reader *r, uint64_t off, struct err *err)
{
	for (size_t i = dwarf_units_find(&r->units, off); i < r->units.n && r->units.list[i].stmt_list == off;
	     i++) {
		int rc = source_report(r, r->units.list[i].comp_dir, r->units.list[i].name, err);

		if (rc)
			return rc;
	}
	return 0;
}

static int dirs_make(struct sources_reader *r, uint64_t off, const struct dwarf_line_header *h,
		     struct source_dir **ret, struct err *err)
{
	struct source_dir *dirs = ARENA_NEW_N(&r->arena, struct source_dir, MAX(h->n_dirs, (size_t)1));
	int rc;

	if (h->n_dirs && h->dirs[0].class != DWARF_NONE) {
		rc = table_string(r, &h->dirs[0], &h->format, &dirs[0].path, err);
		if (rc < 0)
			return -1;
	}
	if (!dirs[0].path.size && unit_dir(r, off, &dirs[0].path, err) < 0)
		return -1;
	dirs[0].joined = true;
	dirs[0].key = hash64(dirs[0].path.p, dirs[0].path.size, r->seed);
	for (size_t i = 1; i < h->n_dirs; i++)
		dirs[i].key = key_mix(r, dirs[0].key, value_key(r, &h->dirs[i]));
	*ret = dirs;
	return 0;
}

/* Set dirs[i].path. */
static int dir_join(struct sources_reader *r, const struct dwarf_line_header *h, struct source_dir *dirs,
		    size_t i, struct err *err)
{
	struct str s;
	int rc;

	if (dirs[i].joined)
		return 0;
	rc = table_string(r, &h->dirs[i], &h->format, &s, err);
	if (rc)
		return rc;
	if (source_join(&r->arena, dirs[0].path, s, &dirs[i].path, err) < 0)
		return -1;
	dirs[i].joined = true;
	return 0;
}

/* Report one entry. */
static int source_report_file(struct sources_reader *r, const struct dwarf_line_header *h,
			      struct source_dir *dirs, const struct dwarf_line_file *f, struct err *err)
{
	size_t n_dirs = MAX(h->n_dirs, (size_t)1);
	struct str name;
	int rc;

	if (f->dir >= n_dirs)
		return err_set(err, ERR_INVALID, "file in directory %llu; there are %zu",
			       (unsigned long long)f->dir, n_dirs);
	if (r->entries.n >= ENTRIES_MAX)
		dwarf_hashes_clear(&r->entries);
	if (!dwarf_hashes_add(&r->entries, key_mix(r, dirs[f->dir].key, value_key(r, &f->name))))
		return 0;
	rc = dir_join(r, h, dirs, (size_t)f->dir, err);
	if (rc == 0)
		rc = dwarf_string(&r->strings, &f->name, &h->format, dwarf_str_offsets_base(&h->format),
				  &name, err);
	if (rc == DWARF_NO_STRING)
		return 0; /* strings.sup_missing is set */
	return rc < 0 ? -1 : source_report(r, dirs[f->dir].path, name, err);
}

static int source_table_read(struct sources_reader *r, uint64_t off, const struct dwarf_line_place *place,
			     struct err *err)
{
	struct dwarf_line_header h;
	struct dwarf_line_file f;
	struct source_dir *dirs;
	int rc;

	arena_reset(&r->arena);
	if (dwarf_line_header(&r->line, place, &r->arena, &h, err) < 0 ||
	    dirs_make(r, off, &h, &dirs, err) < 0)
		return -1;
	while ((rc = dwarf_line_file_next(&h, &f, err)) == 0) {
		struct err why = { 0 };

		rc = source_report_file(r, &h, dirs, &f, &why);
		if (rc < 0 && why.kind != ERR_NONE)
			rc = dwarf_note_damage(r->note, &why, err);
		if (rc)
			return rc;
	}
	if (rc < 0)
		return -1;
	return h.format.version < 5 ? source_report_unit(r, off, err) : 0;
}

/* The next table when the end of the one at @off is not known: the next one that a unit has. */
static int table_next(struct sources_reader *r, uint64_t off, uint64_t *ret, struct err *err)
{
	size_t i;

	if (units_load(r, err) < 0)
		return -1;
	i = dwarf_units_find(&r->units, off + 1);
	*ret = i < r->units.n ? r->units.list[i].stmt_list : r->line.size;
	return 0;
}

static int tables_each(struct sources_reader *r, struct err *err)
{
	uint64_t next;

	for (uint64_t off = 0; off < r->line.size; off = next) {
		struct dwarf_line_place place;
		struct err why = { 0 };
		int rc = dwarf_line_place(&r->line, off, &place, &why);

		next = rc == 0 ? place.end : r->line.size;
		if (rc == 0 && place.end > place.header_off)
			rc = source_table_read(r, off, &place, &why);
		else if (rc < 0 && why.kind == ERR_INVALID && table_next(r, off, &next, err) < 0)
			return -1;
		if (rc > 0 || (rc < 0 && why.kind == ERR_NONE))
			return rc; /* fn's */
		if (rc < 0) {
			err_in(&why, ".debug_line: table at %llu", (unsigned long long)off);
			if (dwarf_note_damage(r->note, &why, err) < 0)
				return -1;
		}
	}
	return 0;
}

int dwarf_sources_each(const struct elf_image *img, const struct elf_image *alt, dwarf_source_fn *fn,
		       void *arg, struct dwarf_sources_note *ret_note, struct err *err)
{
	struct dwarf_sources_note note = { 0 };
	struct sources_reader r = { .img = img, .fn = fn, .arg = arg, .note = &note };
	int rc;

	r.seed = dwarf_secret();
	r.raw = mem_alloc(DWARF_MAX_NAME);
	r.canonical = mem_alloc(DWARF_MAX_NAME + 2);
	rc = dwarf_section_open(&r.line, img, ".debug_line", err);
	if (rc == 0 && r.line.size)
		rc = dwarf_strings_open(&r.strings, img, alt, err);
	if (rc == 0)
		rc = tables_each(&r, err);
	note.alt_missing = r.strings.sup_missing;
	*ret_note = note;
	dwarf_section_close(&r.line);
	dwarf_strings_close(&r.strings);
	dwarf_units_free(&r.units);
	arena_done(&r.arena);
	dwarf_hashes_done(&r.entries);
	dwarf_hashes_done(&r.names);
	free(r.raw);
	free(r.canonical);
	return rc;
}
