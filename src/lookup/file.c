/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file's symbol table: opened, or made of the debug file that is found for it.
 */
#include <stdlib.h>
#include "lookup/internal.h"

void lookup_file_done(struct lookup_file *f)
{
	symtab_finder_free(f->finder);
	symtab_close(f->table);
	mapping_done(&f->mapping);
	buf_done(&f->made);
	if (f->debug != f->img)
		elf_close(f->debug);
	elf_close(f->alt);
	elf_close(f->dwp);
	elf_close(f->img);
	local_found_done(&f->found);
	local_found_done(&f->found_alt);
	source_close(f->dwp_src);
	source_close(f->src);
	free(f->named);
	free(f->behind);
	*f = (struct lookup_file){ 0 };
}

int lookup_open_image(struct source *src, struct elf_image **ret, struct err *err)
{
	int r = elf_open(src, ret, err);

	if (r > 0)
		return err_set(err, ERR_INVALID, "is not an ELF file");
	if (r == 0 && (*ret)->sections_err.kind) {
		*err = (*ret)->sections_err;
		return -1;
	}
	return r;
}

static int open_source(const char *path, struct source **ret, struct err *err)
{
	int r = source_open_file(path, ret, err);

	return r == FILE_MISSING ? err_set(err, ERR_IO, "there is no such file") : r;
}

/* What names are missing without it is told by the table, so that it is not found is no failure. */
static int find_alt(struct lookup_file *f, const struct lookup_options *o, struct local *local,
		    const char *path, struct err *err)
{
	AUTO(arena_done) struct arena a = { 0 };
	struct err ignored = { 0 };
	struct build_id id = { 0 };
	struct str alt;

	if (o->alt)
		return open_source(o->alt, &f->found_alt.src, err) < 0 ||
				       lookup_open_image(f->found_alt.src, &f->alt, err) < 0
			       ? err_in(err, "%s", o->alt)
			       : 0;
	if (elf_alt_link(f->debug, &a, &alt, &id, &ignored) != 0)
		return 0;
	if (local_alt_file(local, f->found.path ? f->found.path : path, arena_strdup(&a, alt), &id, NULL,
			   &f->found_alt) != 0)
		return 0;
	if (lookup_open_image(f->found_alt.src, &f->alt, &ignored) < 0)
		f->alt = NULL;
	return 0;
}

static int open_dwo(void *arg, struct str comp_dir, struct str name, uint64_t id, struct source **ret,
		    struct err *err)
{
	const struct lookup_file *f = arg;

	if (local_dwo_file(f->path, comp_dir, name, ret) == 0)
		return 0;
	return f->found.path && local_dwo_file(f->found.path, comp_dir, name, ret) == 0 ? 0 : DWARF_NO_SPLIT;
}

/* A table without them says what they are. */
static void find_split(struct lookup_file *f, const char *path)
{
	struct err ignored = { 0 };

	f->path = path;
	f->split = (struct dwarf_split){ .open = open_dwo, .arg = f };
	if (local_dwp_file(path, &f->dwp_src) != 0 &&
	    (!f->found.path || local_dwp_file(f->found.path, &f->dwp_src) != 0))
		return;
	if (lookup_open_image(f->dwp_src, &f->dwp, &ignored) < 0)
		f->dwp = NULL;
	f->split.dwp = f->dwp;
}

int lookup_find_more(struct lookup_file *f, const struct lookup_options *o, struct local *local,
		     const char *path, struct err *err)
{
	find_split(f, path);
	return find_alt(f, o, local, path, err);
}

int lookup_find_files(struct lookup_file *f, const struct lookup_options *o, const char *path,
		      struct err *err)
{
	AUTO(local_freep) struct local *local = local_new(NULL);

	if (!f->src && open_source(path, &f->src, err) < 0)
		return -1;
	if (lookup_open_image(f->src, &f->img, err) < 0)
		return -1;
	f->debug = f->img;
	if (local_debug_file(local, f->img, path, 0, NULL, &f->found) == 0 && f->found.src) {
		struct err why = { 0 };

		/* A damaged one is no reason not to use the file's own symbols. */
		if (lookup_open_image(f->found.src, &f->debug, &why) < 0)
			f->debug = f->img;
	}
	return lookup_find_more(f, o, local, path, err);
}

int lookup_build(struct lookup_file *f, unsigned n_threads, struct err *err)
{
	struct symtab_options o = { .alt = f->alt,
				    .split = &f->split,
				    .temp_dir = file_temp_dir(),
				    .n_threads = n_threads,
				    .discriminators = f->discriminators };
	struct symtab_stats stats;
	uint64_t only[LOOKUP_ONLY_MAX];
	int r;

	if (f->n_only) {
		for (size_t i = 0; i < f->n_only; i++)
			only[i] = f->only[i] - f->moved;
		o.only = only;
		o.n_only = f->n_only;
	}
	r = symtab_build(f->debug, &o, &f->made, &stats, err);
	return r == SYMTAB_NOTHING
		       ? err_set(err, ERR_INVALID, "has no symbols, and no debug file of it was found")
		       : r;
}

int lookup_table(struct lookup_file *f, const struct lookup_options *o, struct err *err)
{
	AUTO(mem_freep) char *name = NULL;

	f->discriminators = o->discriminators;
	/* What is named by hand may be another one's. */
	name = o->alt ? NULL : lookup_cache_name(f);
	if (f->img && f->debug != f->img)
		f->moved = frame_moved(f->img, f->debug);
	if (!name || !lookup_cache_open(f, name)) {
		if (lookup_build(f, o->threads ? o->threads : pool_cpus(), err) < 0 ||
		    symtab_open_mem(buf_bytes(&f->made), &f->table, err) < 0)
			return -1;
		if (name && !f->n_only)
			lookup_cache_keep(f, name);
		else
			f->behind = TAKE(name);
	}
	if (!f->finder)
		f->finder = symtab_finder_new(f->table);
	return 0;
}

void lookup_cache_later(struct lookup_file *f)
{
	if (f->behind)
		lookup_cache_make_later(f, f->behind);
}

int lookup_open(struct lookup_file *f, const struct lookup_options *o, const char *path, struct err *err)
{
	uint8_t magic[8];
	size_t got;
	int r;

	if (open_source(path, &f->src, err) < 0 ||
	    source_read(f->src, 0, magic, sizeof(magic), SOURCE_RANDOM, &got, err) < 0)
		return -1;
	if (symtab_is_table(bytes_of(magic, got))) {
		r = mapping_open(path, &f->mapping, err);
		if (r > 0)
			return err_set(err, ERR_IO, "there is no such file");
		if (r == 0)
			r = symtab_open_mem(f->mapping.bytes, &f->table, err);
		if (r == 0 && o->discriminators &&
		    !(symtab_info(f->table)->flags & SYMTAB_HAS_DISCRIMINATORS))
			return err_set(err, ERR_INVALID,
				       "this table was made without discriminators: make one by lode symtab "
				       "build --discriminators");
	} else {
		return lookup_open_module(f, o, path, NULL, err);
	}
	if (r == 0)
		f->finder = symtab_finder_new(f->table);
	return r;
}

int lookup_frames_by(const struct lookup_file *f, struct symtab_finder *finder, uint64_t addr,
		     struct symtab_frames *ret, struct err *err)
{
	int r = symtab_find(finder, addr - f->moved, ret, err);

	if (r == 0) {
		ret->lo += f->moved;
		ret->hi += f->moved;
		ret->start += f->moved;
		ret->end += f->moved;
	}
	return r;
}

int lookup_frames(const struct lookup_file *f, uint64_t addr, struct symtab_frames *ret, struct err *err)
{
	return lookup_frames_by(f, f->finder, addr, ret, err);
}

bool lookup_number(struct str s, uint64_t *ret)
{
	uint64_t v = 0;

	if (str_starts(s, STR("0x")) || str_starts(s, STR("0X"))) {
		s.p += 2;
		s.size -= 2;
	}
	if (!s.size || s.size > 16)
		return false;
	for (size_t i = 0; i < s.size; i++) {
		unsigned c = (unsigned char)s.p[i], d = c - '0' < 10         ? c - '0'
							: (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10
									     : 16;

		if (d == 16)
			return false;
		v = v << 4 | d;
	}
	*ret = v;
	return true;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void lookup_only(struct lookup_file *f, const struct str *addresses, size_t n)
{
	if (!n || n > LOOKUP_ONLY_MAX)
		return;
	f->n_only = 0;
	for (size_t i = 0; i < n; i++)
		if (!lookup_number(str_trim(addresses[i]), &f->only[f->n_only++])) {
			f->n_only = 0;
			return;
		}
	qsort(f->only, f->n_only, sizeof(*f->only), by_value);
}

bool lookup_address(const struct lookup_file *f, const char *section, struct str text, uint64_t *ret)
{
	const struct symtab_info *info = symtab_info(f->table);
	struct str name = section ? str_of(section) : (struct str){ 0 }, off = text = str_trim(text);
	const char *plus = memrchr(text.p ? text.p : "", '+', text.size);

	if (plus) {
		name = (struct str){ text.p, (size_t)(plus - text.p) };
		off = (struct str){ plus + 1, text.size - name.size - 1 };
		if (name.size > 2 && name.p[0] == '(' && name.p[name.size - 1] == ')')
			name = (struct str){ name.p + 1, name.size - 2 };
	}
	if (!lookup_number(off, ret))
		return false;
	/* In a relocatable file a bare number is an offset in the first section of code. */
	if (!name.size)
		return true;
	for (size_t i = 0; i < info->n_sections; i++)
		if (str_eq(info->sections[i].name, name)) {
			*ret += info->sections[i].base;
			return *ret - info->sections[i].base < info->sections[i].size;
		}
	return false;
}
