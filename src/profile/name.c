/* SPDX-License-Identifier: Apache-2.0 */
/* Naming bare addresses: locations by module, and of each module by address. */
#include "profile/name.h"

#include <stdio.h>
#include <stdlib.h>
#include "profile/internal.h"

#define PROGRESS_EVERY 1024u
#define MAX_MODULES    (1u << 16)

struct name_job {
	struct profile *p;
	const struct profile_namer *n;
	struct profile_named *modules;
	size_t n_modules;
	uint32_t *module_of; /* of each mapping */
	uint32_t *order;     /* locations, by module and address */
	uint32_t n_done, n_all;
	struct frame_mapping *maps; /* of the current module */
	struct profile_frame_texts *frames;
	PROFILE_TABLE(struct profile_line) lines;
};

/* ---- modules ---- */

/* Mappings of one build ID are one module; without one, those of one file. */
static int find_modules(struct name_job *x, struct err *err)
{
	struct profile *p = x->p;
	struct map by_key = { 0 };
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < p->mappings.n; i++) {
		const struct profile_mapping *m = &p->mappings.p[i];
		uint64_t key = m->build_id ? (uint64_t)m->build_id << 32 : m->file;
		void *known = map_get(&by_key, bytes_of(&key, sizeof(key)));

		if (!known && x->n_modules == MAX_MODULES) {
			r = err_set(err, ERR_LIMIT, "has mappings of more than %u files", MAX_MODULES);
			break;
		}
		if (!known) {
			x->modules[x->n_modules++] = (struct profile_named){
				.file = profile_str(p, m->file), .build_id = profile_str(p, m->build_id)
			};
			known = (void *)(uintptr_t)x->n_modules;
			map_put(&by_key, bytes_of(&key, sizeof(key)), known);
		}
		x->module_of[i] = (uint32_t)((uintptr_t)known - 1);
	}
	map_done(&by_key);
	return r;
}

/* ---- locations ---- */

static bool is_named(const struct profile *p, const struct profile_location *l)
{
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct profile_line *line = &p->lines.p[l->first_line + i];

		if (line->line || p->functions.p[line->function].file)
			return true;
	}
	return false;
}

static int by_module(const void *a, const void *b, void *arg)
{
	const struct name_job *x = arg;
	const struct profile_location *l = &x->p->locations.p[*(const uint32_t *)a],
				      *o = &x->p->locations.p[*(const uint32_t *)b];
	uint32_t m = x->module_of[l->mapping], n = x->module_of[o->mapping];

	if (m != n)
		return m < n ? -1 : 1;
	return l->addr < o->addr ? -1 : l->addr > o->addr;
}

static void not_named(struct profile_named *m, const struct profile_location *l, enum frame_reason reason,
		      const char *why)
{
	if (l->n_lines) {
		m->n_named++;
		return;
	}
	if (!m->n_unnamed++) {
		m->reason = reason;
		snprintf(m->why, sizeof(m->why), "%s", why ? why : "");
	}
}

/* Locations without a mapping are a module of their own, after the others. */
static void sort_locations(struct name_job *x)
{
	struct profile *p = x->p;

	for (uint32_t i = 0; i < p->locations.n; i++) {
		const struct profile_location *l = &p->locations.p[i];

		if (l->mapping == PROFILE_NONE && !l->n_lines)
			not_named(&x->modules[x->n_modules], l, FRAME_NO_MAPPING, NULL);
		if (l->mapping == PROFILE_NONE)
			continue;
		if (is_named(p, l))
			x->modules[x->module_of[l->mapping]].n_named++;
		else
			x->order[x->n_all++] = i;
	}
	qsort_r(x->order, x->n_all, sizeof(*x->order), by_module, x);
}

static void add_text_line(struct name_job *x, const struct symtab_frame *f)
{
	struct profile_frame_text t;
	struct profile_function fn;
	struct profile_line line;

	profile_frame_text_of(x->frames, f, &t);
	fn = (struct profile_function){ .name = profile_add_string(x->p, t.name),
					.system_name = profile_add_string(x->p, t.system_name),
					.file = profile_add_string(x->p, t.file),
					.start_line = t.start_line };
	line = (struct profile_line){ .function = profile_add_function(x->p, &fn),
				      .line = t.line,
				      .column = t.column };
	if (profile_room(x->p, &x->lines, 1))
		x->lines.p[x->lines.n++] = line;
}

/* Names without files do not improve names without files. */
static bool has_better_names(const struct profile_location *l, const struct symtab_frames *f)
{
	return f->n && (!l->n_lines || f->list[0].line || f->list[0].file.size);
}

static int put_lines(struct name_job *x, struct profile_location *l, const struct symtab_frames *f,
		     struct err *err)
{
	x->lines.n = 0;
	for (size_t i = 0; i < f->n; i++)
		add_text_line(x, &f->list[i]);
	if (profile_build_end(x->p, err) < 0 || x->lines.n != f->n ||
	    !profile_room(x->p, &x->p->lines, x->lines.n))
		return profile_err_memory(x->p, err);
	l->first_line = x->p->lines.n;
	l->n_lines = x->lines.n;
	memcpy(x->p->lines.p + x->p->lines.n, x->lines.p, x->lines.n * sizeof(*x->lines.p));
	x->p->lines.n += x->lines.n;
	return 0;
}

/* ---- one module ---- */

static size_t list_maps(struct name_job *x, uint32_t module)
{
	size_t n = 0;

	for (uint32_t i = 0; i < x->p->mappings.n; i++) {
		const struct profile_mapping *m = &x->p->mappings.p[i];
		struct str file = profile_str(x->p, m->file);

		if (x->module_of[i] != module)
			continue;
		x->maps[n] = (struct frame_mapping){ .start = m->start,
						     .limit = m->limit,
						     .offset = m->offset };
		/* "[kernel.kallsyms]_text": the mapping begins at this symbol. */
		if (str_starts(file, STR("[kernel.kallsyms]_")))
			x->maps[n].symbol = (struct str){ file.p + 17, file.size - 17 };
		n++;
	}
	return n;
}

static enum frame_reason namer_begin(struct name_job *x, const struct profile_module *m, struct str id,
				     const char **ret_why)
{
	*ret_why = NULL;
	if (id.size && !m->id.size)
		*ret_why = "its build ID is none that a file could be found by";
	if (!m->id.size && profile_is_no_file(m->file)) {
		if (!*ret_why)
			*ret_why = "there is no file of it";
		return FRAME_NO_BUILD_ID;
	}
	return x->n->begin(x->n->arg, m, ret_why);
}

static int ask_one(struct name_job *x, const struct profile_module *m, struct profile_named *to,
		   struct profile_location *l, struct err *err)
{
	struct symtab_frames frames = { 0 };
	const char *why = NULL;
	enum frame_reason reason = x->n->ask(x->n->arg, m, l->addr, &frames, &why);

	if (!has_better_names(l, &frames)) {
		not_named(to, l, reason, why);
		return 0;
	}
	to->n_new++;
	return put_lines(x, l, &frames, err);
}

static int report_progress(struct name_job *x, struct err *err)
{
	if (x->n->progress && x->n->progress(x->n->arg, x->n_done, x->n_all))
		return err_set(err, ERR_CANCELLED, "stopped");
	return 0;
}

static int name_module(struct name_job *x, uint32_t module, const uint32_t *list, uint32_t n, struct err *err)
{
	struct profile_named *to = &x->modules[module];
	struct profile_module m = { .file = to->file, .maps = x->maps, .n_maps = list_maps(x, module) };
	enum frame_reason reason;
	const char *why;
	int r = 0;

	if (!build_id_read(&m.id, to->build_id))
		m.id.size = 0;
	reason = namer_begin(x, &m, to->build_id, &why);
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		struct profile_location *l = &x->p->locations.p[list[i]];

		if (reason == FRAME_FOUND)
			r = ask_one(x, &m, to, l, err);
		else
			not_named(to, l, reason, why);
		if (r == 0 && ++x->n_done % PROGRESS_EVERY == 0)
			r = report_progress(x, err);
	}
	if (reason == FRAME_FOUND)
		x->n->end(x->n->arg);
	return r;
}

static int name_modules(struct name_job *x, struct err *err)
{
	for (uint32_t i = 0, end; i < x->n_all; i = end) {
		uint32_t module = x->module_of[x->p->locations.p[x->order[i]].mapping];

		for (end = i + 1; end < x->n_all; end++)
			if (x->module_of[x->p->locations.p[x->order[end]].mapping] != module)
				break;
		if (report_progress(x, err) < 0 || name_module(x, module, x->order + i, end - i, err) < 0)
			return -1;
	}
	return report_progress(x, err);
}

/* pprof does not look up locations of mappings with these flags. */
static void set_mapping_flags(struct name_job *x)
{
	for (uint32_t i = 0; i < x->p->mappings.n; i++)
		if (x->modules[x->module_of[i]].n_new)
			x->p->mappings.p[i].flags |= PROFILE_HAS_FUNCTIONS | PROFILE_HAS_FILENAMES |
						     PROFILE_HAS_LINES | PROFILE_HAS_INLINES;
}

/* "/tmp/perf-123.map" has the functions that a JIT compiler reports to perf. */
bool profile_is_no_file(struct str file)
{
	static const struct str begins[] = { STR("["),          STR("//anon"),   STR("anon_inode:"),
					     STR("/memfd:"),    STR("/SYSV"),    STR("/dev/zero"),
					     STR("linux-vdso"), STR("//toolong") };

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (str_starts(file, begins[i]))
			return true;
	return !file.size || (str_ends(file, STR(".map")) && str_starts(path_basename(file), STR("perf-")));
}

static int by_unnamed(const void *a, const void *b)
{
	const struct profile_named *m = a, *n = b;

	if (m->n_unnamed != n->n_unnamed)
		return m->n_unnamed > n->n_unnamed ? -1 : 1;
	return str_cmp(m->file, n->file);
}

int profile_name(struct profile *p, const struct profile_namer *n, struct profile_named **ret_list,
		 size_t *ret_n, struct err *err)
{
	struct name_job x = { .p = p, .n = n, .frames = profile_frame_texts_new(n->demangling) };
	int r = 0;

	x.modules = calloc((size_t)p->mappings.n + 1, sizeof(*x.modules));
	x.module_of = calloc((size_t)p->mappings.n + 1, sizeof(*x.module_of));
	x.maps = calloc((size_t)p->mappings.n + 1, sizeof(*x.maps));
	x.order = calloc((size_t)p->locations.n + 1, sizeof(*x.order));
	if (!x.modules || !x.module_of || !x.maps || !x.order)
		r = profile_err_memory(p, err);
	if (r == 0)
		r = find_modules(&x, err);
	if (r == 0) {
		sort_locations(&x);
		r = name_modules(&x, err);
		set_mapping_flags(&x);
	}
	profile_table_free(p, &x.lines);
	free(x.module_of);
	free(x.maps);
	free(x.order);
	profile_frame_texts_free(x.frames);
	/* Locations have changed. */
	profile_index_drop(p);
	if (r < 0) {
		free(x.modules);
		return -1;
	}
	x.n_modules += x.modules[x.n_modules].n_unnamed != 0;
	qsort(x.modules, x.n_modules, sizeof(*x.modules), by_unnamed);
	*ret_list = x.modules;
	*ret_n = x.n_modules;
	return 0;
}
