/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the addresses of a profile, from the file that is found for each mapping: at its path, by gdb's
 * rules, in the cache folder, on servers. Addresses that stay without a name are reported, with the reason.
 */
#include <stdlib.h>
#include <unistd.h>
#include "cmd/profile/profile.h"
#include "cmd/symbolize/symbolize.h"
#include "profile/name.h"

#define SHOW_EVERY_MS 200
#define REPORT_MAX    10u /* files */

/* A file whose addresses have names, but not all: they are in another file, which is missing. */
struct lacking_file {
	char *file;
	enum frame_reason reason;
	uint32_t n; /* addresses */
	struct buf advice;
};

struct local_naming {
	struct lookup_options places;
	struct lookup_file file;
	struct frame_layout layout;
	struct err err;
	char *path;         /* of the current file; NULL: not known */
	struct build_id id; /* likewise; size 0: not known */
	bool show;
	int64_t shown_ms;
	enum frame_reason lacks; /* of the current file: of its first address that lacks some */
	uint32_t n_lacks;
	struct lacking_file *lacking;
	size_t n_lacking, room_lacking;
};

static enum frame_reason naming_begin_file(void *arg, const struct profile_module *m, const char **ret_why)
{
	struct local_naming *n = arg;
	const char *path = NULL;

	free(n->path);
	n->path = NULL;
	if (m->file.size && m->file.p[0] == '/' && !memchr(m->file.p, '\0', m->file.size))
		path = n->path = mem_strndup(m->file.p, m->file.size);
	n->id = m->id;
	n->err = (struct err){ 0 };
	if (lookup_open_module(&n->file, &n->places, path, &m->id, &n->err) < 0) {
		enum frame_reason reason = n->file.no_debug;

		lookup_file_done(&n->file);
		*ret_why = n->err.text;
		return reason == FRAME_FOUND ? FRAME_DAMAGED : reason;
	}
	frame_layout_of(n->file.img, &n->layout);
	return FRAME_FOUND;
}

static void note_lacking_names(struct local_naming *n, const struct symtab_frames *f)
{
	enum frame_reason r = frame_reason_lacking(symtab_info(n->file.table), f);

	if (r != FRAME_FOUND && !n->n_lacks++)
		n->lacks = r;
}

/* A kernel module is mapped section by section; the mapping is that of its code. */
static enum frame_reason translate_in_relocatable(const struct symtab *table, const struct profile_module *m,
						  uint64_t addr, uint64_t *ret)
{
	const struct symtab_section *text = symtab_section(table, STR(".text"));

	for (size_t i = 0; i < m->n_maps; i++) {
		uint64_t off = addr - m->maps[i].start;

		if (addr < m->maps[i].start || (m->maps[i].limit && addr >= m->maps[i].limit))
			continue;
		if (!text || off >= text->size)
			return FRAME_OUTSIDE;
		*ret = text->base + off;
		return FRAME_FOUND;
	}
	return FRAME_NO_MAPPING;
}

static enum frame_reason translate_here(const struct local_naming *n, const struct profile_module *m,
					uint64_t addr, uint64_t *ret)
{
	if (symtab_info(n->file.table)->flags & SYMTAB_RELOCATABLE)
		return translate_in_relocatable(n->file.table, m, addr, ret);
	return frame_translate(&n->layout, FRAME_RUNTIME, m->maps, m->n_maps, addr, ret);
}

static enum frame_reason naming_ask(void *arg, const struct profile_module *m, uint64_t addr,
				    struct symtab_frames *ret, const char **ret_why)
{
	struct local_naming *n = arg;
	struct err err = { 0 };
	uint64_t vaddr = 0;
	enum frame_reason r = translate_here(n, m, addr, &vaddr);

	if (r != FRAME_FOUND)
		return r;
	switch (lookup_frames(&n->file, vaddr, ret, &err)) {
	case 0:
		note_lacking_names(n, ret);
		return FRAME_FOUND;
	case SYMTAB_NONE:
		r = frame_reason_outside(symtab_info(n->file.table), n->file.no_debug, &n->layout, vaddr);
		if (r == n->file.no_debug)
			*ret_why = n->file.no_debug_err.text;
		return r;
	default:
		return FRAME_DAMAGED;
	}
}

/* While the file is open: it knows which one is missing. */
static void end_lacking(struct local_naming *n)
{
	struct lacking_file *l = &VEC_PUSH(n->lacking, n->n_lacking, n->room_lacking);
	char hex[BUILD_ID_HEX_SIZE];

	*l = (struct lacking_file){ .file = mem_strdup(n->path ? n->path : build_id_hex(&n->id, hex)),
				    .reason = n->lacks,
				    .n = n->n_lacks };
	symbolize_advice(&n->places, l->reason, str_of(l->file), &n->file, &l->advice);
	n->n_lacks = 0;
}

static void naming_end_file(void *arg)
{
	struct local_naming *n = arg;

	if (n->n_lacks)
		end_lacking(n);
	lookup_cache_later(&n->file);
	lookup_file_done(&n->file);
}

static int show_naming_progress(void *arg, uint32_t n_done, uint32_t n_all)
{
	struct local_naming *n = arg;
	int64_t now_ms = clock_mono_ms();

	if (signals_stopped())
		return 1;
	if (n->show && n_done < n_all && now_ms - n->shown_ms >= SHOW_EVERY_MS) {
		n->shown_ms = now_ms;
		fprintf(stderr, "\r\033[K%u of %u addresses", n_done, n_all);
		fflush(stderr);
	}
	return 0;
}

static void report_file(const struct profile_named *m, const struct lookup_options *places)
{
	fprintf(stderr, "%10u  ", m->n_unnamed);
	print_text(stderr, m->file.size ? m->file : m->build_id.size ? m->build_id : STR("in no mapping"));
	fprintf(stderr, ": ");
	print_text(stderr, str_of(frame_reason_text(m->reason)));
	if (m->why[0]) {
		fprintf(stderr, ": ");
		print_text(stderr, str_of(m->why));
	}
	fputc('\n', stderr);
	symbolize_print_advice(places, m->reason, m->file, NULL);
}

static void report_names(const struct profile_named *list, size_t n, const struct lookup_options *places)
{
	uint64_t n_new = 0, n_unnamed = 0, n_named = 0;
	size_t bad = 0;

	for (size_t i = 0; i < n; i++) {
		n_new += list[i].n_new;
		n_named += list[i].n_named;
		n_unnamed += list[i].n_unnamed;
		bad += list[i].n_unnamed != 0;
	}
	fprintf(stderr, "lode: %llu addresses named, %llu had names before, %llu have no name%s\n",
		(unsigned long long)n_new, (unsigned long long)n_named, (unsigned long long)n_unnamed,
		n_unnamed ? ":" : "");
	for (size_t i = 0; i < n && i < REPORT_MAX && list[i].n_unnamed; i++)
		report_file(&list[i], places);
	if (bad > REPORT_MAX)
		fprintf(stderr, "            and %zu other files\n", bad - REPORT_MAX);
}

static void report_lacking_names(const struct local_naming *n)
{
	if (n->n_lacking)
		fprintf(stderr, "lode: addresses with a name, but not with all of their calls or names:\n");
	for (size_t i = 0; i < n->n_lacking && i < REPORT_MAX; i++) {
		const struct lacking_file *l = &n->lacking[i];

		fprintf(stderr, "%10u  ", l->n);
		print_text(stderr, str_of(l->file));
		fprintf(stderr, ": %s\n            ", frame_reason_text(l->reason));
		print_text(stderr, buf_str(&l->advice));
		fputc('\n', stderr);
	}
	if (n->n_lacking > REPORT_MAX)
		fprintf(stderr, "            and %zu other files\n", n->n_lacking - REPORT_MAX);
}

static void local_naming_done(struct local_naming *n)
{
	lookup_file_done(&n->file);
	for (size_t i = 0; i < n->n_lacking; i++) {
		free(n->lacking[i].file);
		buf_done(&n->lacking[i].advice);
	}
	free(n->lacking);
	free(n->path);
}

int profile_name_here(struct profile *p, struct settings *s, struct err *err)
{
	struct local_naming n = { .places = lookup_options_of(s), .show = isatty(STDERR_FILENO) };
	struct profile_namer namer = { .begin = naming_begin_file,
				       .ask = naming_ask,
				       .end = naming_end_file,
				       .progress = show_naming_progress,
				       .arg = &n };
	struct profile_named *list = NULL;
	size_t n_list = 0;
	int r;

	namer.demangling = s->symbols.no_demangle ? FRAME_DEMANGLE_NONE : FRAME_DEMANGLE_TEMPLATES;
	if (s->profile.names && !frame_demangling_parse(str_of(s->profile.names), &namer.demangling))
		return err_set(err, ERR_INVALID, "--names: '%s' is not full, templates or simple",
			       s->profile.names);
	signals_catch();
	r = profile_name(p, &namer, &list, &n_list, err);
	if (n.shown_ms)
		progress_clear();
	if (r == 0 && !s->profile.quiet) {
		report_names(list, n_list, &n.places);
		report_lacking_names(&n);
	}
	local_naming_done(&n);
	free(list);
	return r;
}
