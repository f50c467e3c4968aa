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

struct local_naming {
	struct lookup_options places;
	struct lookup_file file;
	struct frame_layout layout;
	struct err err;
	char *path;
	bool show;
	int64_t shown_ms;
};

static enum frame_reason naming_begin_file(void *arg, const struct profile_module *m, const char **ret_why)
{
	struct local_naming *n = arg;
	const char *path = NULL;

	free(n->path);
	n->path = NULL;
	if (m->file.size && m->file.p[0] == '/' && !memchr(m->file.p, '\0', m->file.size))
		path = n->path = mem_strndup(m->file.p, m->file.size);
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

static enum frame_reason naming_ask(void *arg, const struct profile_module *m, uint64_t addr,
				    struct symtab_frames *ret, const char **ret_why)
{
	struct local_naming *n = arg;
	struct err err = { 0 };
	uint64_t vaddr = 0;
	enum frame_reason r = frame_translate(&n->layout, FRAME_RUNTIME, m->maps, m->n_maps, addr, &vaddr);

	if (r != FRAME_FOUND)
		return r;
	switch (lookup_frames(&n->file, vaddr, ret, &err)) {
	case 0:
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

static void naming_end_file(void *arg)
{
	struct local_naming *n = arg;

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
	lookup_file_done(&n.file);
	free(n.path);
	if (r == 0 && !s->profile.quiet)
		report_names(list, n_list, &n.places);
	free(list);
	return r;
}
