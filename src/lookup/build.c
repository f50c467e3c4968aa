/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the files that were found: opened from the cache, or built and kept there.
 */
#include "lookup/internal.h"

int lookup_build(struct lookup_file *f, unsigned n_threads, struct err *err)
{
	struct symtab_options o = { .program = lookup_program(f),
				    .alt = f->alt,
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
	if (r == SYMTAB_NOTHING && elf_refuse_slim_lto(f->debug, err) < 0) {
		/* No server has its debug information. */
		f->no_debug = FRAME_DAMAGED;
		return -1;
	}
	if (r != 0 && !frame_reason_hides_debug(f->no_debug))
		f->no_debug = r == SYMTAB_NOTHING ? FRAME_NO_SYMBOLS : FRAME_DAMAGED;
	return r == SYMTAB_NOTHING
		       ? err_set(err, ERR_INVALID, "has no symbols, and no debug file of it was found")
		       : r;
}

int lookup_table(struct lookup_file *f, const struct lookup_options *o, struct err *err)
{
	AUTO(mem_freep) char *name = NULL;

	f->discriminators = o->discriminators;
	/* A supplementary file named by the user may belong to another file. */
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
			f->keep_as = TAKE(name);
	}
	if (!f->finder)
		f->finder = symtab_finder_new(f->table);
	return 0;
}
