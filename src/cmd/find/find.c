/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find: find the debug files, programs, sources of a build ID, a file, a process, a core dump, the
 * kernel, a package.
 */
#include "cmd/find/find.h"

#include <stdlib.h>

static void finder_done(struct finder *f)
{
	for (size_t i = 0; i < f->n_wants; i++) {
		local_trail_done(&f->wants[i].trail);
		buf_done(&f->wants[i].steps);
		local_trail_done(&f->wants[i].after);
	}
	client_free(f->client);
	local_free(f->local);
	arena_done(&f->a);
}

/* ---- searches ---- */

static int add_targets(struct finder *f, const struct settings *s)
{
	const struct find_settings *o = &s->find;
	const struct {
		const struct setting_list *list;
		int (*add)(struct finder *f, const char *what, struct err *err);
	} lists[] = { { &o->pids, find_process }, { &o->cores, find_core }, { &o->packages, find_package } };
	int status = EXIT_DONE;
	struct err err = { 0 };

	for (size_t i = 0; i < s->paths.n; i++)
		if (find_target(f, s->paths.items[i], &err) < 0) {
			err_in(&err, "%s", s->paths.items[i].p);
			status = tell_error("find", &err);
		}
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; i < lists[l].list->n; i++)
			if (lists[l].add(f, lists[l].list->items[i].p, &err) < 0)
				status = tell_error("find", &err);
	if ((o->kernel || o->kernel_release) && find_kernel(f, o->kernel_release, &err) < 0)
		status = tell_error("find", &err);
	return status;
}

static void add_want(struct finder *f, const struct find_item *item, enum client_kind kind, const char *arg)
{
	f->wants[f->n_wants++] = (struct find_want){ .item = item, .kind = kind, .arg = arg };
}

static void add_wants(struct finder *f, const struct settings *s)
{
	const struct find_settings *o = &s->find;
	bool debuginfo = o->debuginfo || o->all || (!o->executable && !o->sources.n && !o->sections.n);
	size_t each = 3 + o->sources.n + o->sections.n; /* with a supplementary file (alt.c) */

	f->wants = ARENA_NEW_N(&f->a, struct find_want, f->n_items * each + 1);
	for (size_t i = 0; i < f->n_items; i++) {
		const struct find_item *item = f->items[i];

		if (debuginfo)
			add_want(f, item, CLIENT_DEBUGINFO, NULL);
		if (o->executable || o->all)
			add_want(f, item, CLIENT_EXECUTABLE, NULL);
		for (size_t k = 0; k < o->sources.n; k++)
			add_want(f, item, CLIENT_SOURCE, o->sources.items[k].p);
		for (size_t k = 0; k < o->sections.n; k++)
			add_want(f, item, CLIENT_SECTION, o->sections.items[k].p);
	}
}

/* ---- output ---- */

static void print_want(FILE *out, const struct find_want *w)
{
	char hex[BUILD_ID_HEX_SIZE];

	print_text(out, str_of(w->item->name));
	if (w->item->id.size && strcmp(w->item->name, build_id_hex(&w->item->id, hex)) != 0)
		fprintf(out, " (%s)", hex);
	fprintf(out, ": %s", client_kind_name(w->kind));
	if (w->arg) {
		fprintf(out, " ");
		print_text(out, str_of(w->arg));
	}
	if (w->alt_of) {
		fprintf(out, ", the supplementary file of ");
		print_text(out, str_of(w->alt_of));
	}
}

static void print_trail(const struct local_trail *t)
{
	for (size_t i = 0; i < t->n_steps; i++) {
		const struct local_step *step = &t->steps[i];

		fprintf(stderr, "  %s: ", local_way_name(step->way));
		if (step->path) {
			print_text(stderr, str_of(step->path));
			fprintf(stderr, ": ");
		}
		print_text(stderr, str_of(step->said));
		fprintf(stderr, "\n");
	}
}

static void print_why(const struct find_want *w)
{
	fprintf(stderr, "lode: find: ");
	print_want(stderr, w);
	fprintf(stderr, ":\n");
	print_trail(&w->trail);
	for (struct str rest = buf_str(&w->steps); rest.size;) {
		struct str line = str_cut(&rest, '\n');

		if (!line.size)
			continue;
		fprintf(stderr, "  ");
		print_text(stderr, line);
		fprintf(stderr, "\n");
	}
	print_trail(&w->after);
}

static void put_step(struct json_writer *j, const char *by, bool taken, struct str said, const char *place)
{
	json_open_object(j, NULL);
	json_put_text(j, "by", by);
	json_put_bool(j, "taken", taken);
	json_put_str(j, "said", said);
	if (place)
		json_put_text(j, "place", place);
	json_close(j);
}

static void put_trail(struct json_writer *j, const struct local_trail *t)
{
	for (size_t i = 0; i < t->n_steps; i++) {
		const struct local_step *step = &t->steps[i];

		put_step(j, local_way_name(step->way), step->verdict == LOCAL_TAKEN, str_of(step->said),
			 step->path);
	}
}

static void put_steps(struct json_writer *j, const struct find_want *w)
{
	json_open_array(j, "why");
	put_trail(j, &w->trail);
	for (struct str rest = buf_str(&w->steps); rest.size;) {
		struct str line = str_cut(&rest, '\n');

		if (line.size)
			put_step(j, "client", false, line, NULL);
	}
	put_trail(j, &w->after);
	json_close(j);
}

static int print_want_json(struct finder *f, const struct find_want *w, bool why)
{
	AUTO(buf_done) struct buf advice = { 0 };
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);
	char hex[BUILD_ID_HEX_SIZE];

	json_open_object(&j, NULL);
	json_put_text(&j, "target", w->item->name);
	json_put_text(&j, "kind", client_kind_name(w->kind));
	json_put_text(&j, "outcome", w->found ? "found" : w->failed ? "failed" : "missing");
	if (w->item->id.size)
		json_put_text(&j, "build_id", build_id_hex(&w->item->id, hex));
	if (w->arg)
		json_put_text(&j, "name", w->arg);
	if (w->alt_of)
		json_put_text(&j, "part_of", w->alt_of);
	if (w->found) {
		json_put_text(&j, "path", w->path);
		json_put_text(&j, "from", w->from);
	} else {
		json_put_text(&j, "reason", w->why);
		if (find_advice(f, w, &advice))
			json_put_str(&j, "help", buf_str(&advice));
	}
	if (why)
		put_steps(&j, w);
	json_close(&j);
	return json_print_end(&text);
}

/* A path is printed unescaped, for other programs. */
static void print_path(const struct find_want *w, bool zero)
{
	if (zero) {
		fwrite(w->path, 1, strlen(w->path) + 1, stdout);
		return;
	}
	fwrite(w->path, 1, strlen(w->path), stdout);
	putchar('\n');
}

static void print_missing(struct finder *f, const struct find_want *w, bool why)
{
	AUTO(buf_done) struct buf advice = { 0 };

	fprintf(stderr, "lode: find: ");
	print_want(stderr, w);
	fprintf(stderr, ": ");
	print_text(stderr, str_of(w->why));
	fprintf(stderr, "%s\n", why ? "" : "; --why lists all places");
	if (!find_advice(f, w, &advice))
		return;
	fprintf(stderr, "            ");
	print_text(stderr, buf_str(&advice));
	fputc('\n', stderr);
}

static int print_all(struct finder *f, const struct settings *s)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < f->n_wants; i++) {
		const struct find_want *w = &f->wants[i];

		if (!w->found && w->item->optional && !s->find.why && !s->json)
			continue;
		if (!w->found && !w->item->optional)
			status = EXIT_FAILED;
		if (s->find.why && !s->json)
			print_why(w);
		if (s->json) {
			if (print_want_json(f, w, s->find.why) != EXIT_DONE)
				status = EXIT_FAILED;
		} else if (w->found) {
			print_path(w, s->find.zero);
			if (s->find.why)
				fflush(stdout);
		} else {
			print_missing(f, w, s->find.why);
		}
	}
	return status;
}

static int run_find(struct settings *s)
{
	const struct find_settings *o = &s->find;
	const struct local_options local = { .debug_directories = o->debug_file_directory,
					     .sysroot = o->sysroot };
	AUTO(finder_done) struct finder f = { .s = s };
	int status;

	if (!s->paths.n && !o->pids.n && !o->cores.n && !o->packages.n && !o->kernel && !o->kernel_release) {
		return usage_error(
			"find", "no TARGET given: a build ID, a file, --pid, --core, --kernel or --package");
	}
	f.local = local_new(&local);
	status = add_targets(&f, s);
	add_wants(&f, s);
	find_all(&f);
	return print_all(&f, s) == EXIT_DONE ? status : EXIT_FAILED;
}

static const struct option_row target_rows[] = {
	{ 'p', "pid", "PID", "the modules of a process; may be given again", OPT_LIST(find.pids) },
	{ 'c', "core", "FILE", "the modules of a core dump; may be given again", OPT_LIST(find.cores) },
	{ 'k', "kernel", NULL, "the running kernel and its loaded modules", OPT_ON(find.kernel) },
	{ 0, "kernel-release", "RELEASE", "an installed kernel and all its modules",
	  OPT_TEXT(find.kernel_release) },
	{ 0, "package", "NAME",
	  "the ELF files of an installed package (deb, rpm), or of a package file; may be given again",
	  OPT_LIST(find.packages) },
	{ 0 },
};
static const struct option_group target_group = { "More targets", target_rows };

static const struct option_row kind_rows[] = {
	{ 0, "debuginfo", NULL, "find debug files [the default if no other kind is given]",
	  OPT_ON(find.debuginfo) },
	{ 0, "executable", NULL, "find the executables, which debug files belong to",
	  OPT_ON(find.executable) },
	{ 0, "source", "PATH", "find this source file, as the debug file names it; may be given again",
	  OPT_LIST(find.sources) },
	{ 0, "section", "NAME", "find this section; may be given again", OPT_LIST(find.sections) },
	{ 'a', "all", NULL, "find debug files, their supplementary (dwz) files, and executables",
	  OPT_ON(find.all) },
	{ 0 },
};
static const struct option_group kind_group = { "Kinds", kind_rows };

static const struct option_row place_rows[] = {
	{ 0, "debug-file-directory", "DIRS", "as gdb's setting: folders separated by ':' [/usr/lib/debug]",
	  OPT_TEXT(find.debug_file_directory) },
	{ 0, "sysroot", "DIR",
	  "as gdb's setting; --core, --kernel, --package and --source look below it, too",
	  OPT_TEXT(find.sysroot) },
	{ 0, "server", "URL", "ask this debuginfod server; may be given again [$DEBUGINFOD_URLS]",
	  OPT_LIST(find.servers) },
	UNREAD_WAIT_ROW,
	{ 'l', "local", NULL, "ask no server, and look for no file in the cache folder", OPT_ON(find.here) },
	{ 0 },
};
static const struct option_group place_group = { "Places", place_rows };

static const struct option_row output_rows[] = {
	{ 'w', "why", NULL, "print on stderr every place in order, and why a file there was taken or not",
	  OPT_ON(find.why) },
	{ 0, "json", NULL, "print JSON, an object each, for programs", OPT_ON(json) },
	{ '0', "null", NULL, "print a NUL after each path instead of a newline", OPT_ON(find.zero) },
	{ 0 },
};
static const struct option_group output_group = { "Output", output_rows };

const struct command find_command = {
	.name = "find",
	.args = "[TARGET...]",
	.summary = "find debug files of a build ID, file, process, core dump, kernel, package",
	.examples = "  lode find /usr/bin/ls\n"
		    "  lode find --why 4f3a0c5e1f7d2b8890aa4c2d1e9b7f6055d3c1e1\n"
		    "  lode find --core core.1234 --all\n"
		    "  lode find hello_1.0_amd64.deb\n"
		    "  lode find --kernel --server http://localhost:8002\n"
		    "  lode find --section .debug_line --pid $$\n",
	.groups = { &target_group, &kind_group, &place_group, &output_group },
	.min_args = 0,
	.max_args = SIZE_MAX,
	.run = run_find,
};
