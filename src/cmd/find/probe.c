/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode find: the searches. First on this machine, by gdb's rules; then, for files that are not there, in the
 * cache folder and on servers, all at once over few connections.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/find/find.h"
#include "elf/elf.h"

#define SHOW_AFTER_MS 1000 /* a progress line for longer searches */
#define SHOW_EACH_MS  100

void find_found(struct finder *f, struct find_want *w, const char *path, const char *from)
{
	w->found = true;
	w->path = arena_strdup(&f->a, str_of(path));
	w->from = arena_strdup(&f->a, str_of(from));
}

/* ---- on this machine ---- */

int find_open_item(const struct find_item *item, struct source **ret_src, struct elf_image **ret_img,
		   struct err *err)
{
	AUTO(source_closep) struct source *src = NULL;

	if (find_open_file(item->open_path, item->packed, &src, err) != 0 || elf_open(src, ret_img, err) != 0)
		return -1;
	*ret_src = TAKE(src);
	return 0;
}

static void probe_debuginfo(struct finder *f, struct find_want *w)
{
	const struct find_item *item = w->item;
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct local_found got = { 0 };
	struct err err = { 0 };
	int r = LOCAL_MISSING;

	if (item->open_path && find_open_item(item, &src, &img, &err) == 0)
		r = local_debug_file(f->local, img, item->name, item->named ? LOCAL_AS_NAMED : 0, &w->trail,
				     &got);
	else if (item->id.size)
		r = local_build_id(f->local, &item->id, LOCAL_DEBUGINFO, &w->trail, &got);
	if (r == 0)
		find_found(f, w, got.way == LOCAL_BY_ITSELF ? item->open_path : got.path,
			   local_way_name(got.way));
	local_found_done(&got);
}

static void probe_executable(struct finder *f, struct find_want *w)
{
	const struct find_item *item = w->item;
	struct local_found got = { 0 };
	struct elf_facts facts;
	AUTO(source_closep) struct source *src = NULL;
	AUTO(elf_closep) struct elf_image *img = NULL;
	struct err err = { 0 };

	if (item->open_path && find_open_item(item, &src, &img, &err) == 0 &&
	    elf_facts_read(src, &facts, &err) == 0 && (facts.flags & ELF_IS_EXECUTABLE)) {
		local_trail_add(&w->trail, LOCAL_BY_ITSELF, LOCAL_TAKEN, item->open_path, "the file itself");
		find_found(f, w, item->open_path, "itself");
		return;
	}
	if (item->id.size && local_build_id(f->local, &item->id, LOCAL_EXECUTABLE, &w->trail, &got) == 0)
		find_found(f, w, got.path, local_way_name(got.way));
	local_found_done(&got);
}

/* A source file is taken by its name, as debuggers do: nothing shows that it is the one that was compiled. */
static void probe_source(struct finder *f, struct find_want *w)
{
	const char *path = find_path(f, w->arg);

	if (access(path, R_OK) == 0) {
		local_trail_add(&w->trail, LOCAL_BY_ITSELF, LOCAL_TAKEN, path,
				"it is there; whether it has changed since is not known");
		find_found(f, w, path, "path");
	} else {
		local_trail_add(&w->trail, LOCAL_BY_ITSELF, LOCAL_ABSENT, path, "not there");
	}
}

static void probe_here(struct finder *f, struct find_want *w)
{
	switch (w->kind) {
	case CLIENT_DEBUGINFO:
		if (w->alt_of)
			find_look_alt(f, w);
		else
			probe_debuginfo(f, w);
		break;
	case CLIENT_EXECUTABLE:
		probe_executable(f, w);
		break;
	case CLIENT_SOURCE:
		probe_source(f, w);
		break;
	case CLIENT_SECTION:
		find_look_section(f, w);
		break;
	}
	if (!w->why)
		w->why = w->item->id.size
				 ? "not on this machine"
				 : "not on this machine; servers are asked by build ID, and it has none";
}

/* ---- on servers ---- */

struct find_progress {
	struct find_want **wants; /* of the client's, by number */
	int64_t started_ms, shown_ms;
	bool terminal, shown;
};

static int on_find_progress(void *arg, const struct client_progress *p)
{
	struct find_progress *a = arg;
	int64_t now_ms = clock_mono_ms();

	if (signals_stopped())
		return 1;
	if (!a->terminal || now_ms - a->started_ms < SHOW_AFTER_MS || now_ms - a->shown_ms < SHOW_EACH_MS)
		return 0;
	a->shown_ms = now_ms;
	a->shown = true;
	find_show_progress(p, a->started_ms);
	return 0;
}

static void take_result(struct finder *f, struct find_want *w, struct client_result *r)
{
	w->steps = r->why;
	r->why = (struct buf){ 0 };
	if (r->outcome == CLIENT_FOUND) {
		find_found(f, w, r->path, r->cached ? "cache" : r->url ? r->url : "server");
		return;
	}
	w->failed = r->outcome != CLIENT_ABSENT;
	w->why = arena_strdup(&f->a, str_of(r->err.text[0] ? r->err.text : "not found"));
}

const char *find_server_urls(struct finder *f)
{
	AUTO(buf_done) struct buf b = { 0 };

	for (size_t i = 0; i < f->s->find.servers.n; i++)
		buf_printf(&b, "%s" STR_FMT, i ? " " : "", STR_ARG(f->s->find.servers.items[i]));
	return b.size ? arena_strdup(&f->a, buf_str(&b)) : NULL;
}

struct client *find_client(struct finder *f)
{
	const char *urls = find_server_urls(f);
	const struct client_options opts = { .urls = urls,
					     .ignore_misses = urls,
					     .unread_wait_ms = unread_wait_ms(f->s) };

	if (!f->client)
		f->client = client_new(&opts);
	return f->client;
}

/* Of a program: the name of its file, for servers that find it by that. */
static const char *want_name(const struct find_want *w)
{
	return w->kind == CLIENT_EXECUTABLE && strchr(w->item->name, '/') ? w->item->name : w->arg;
}

static void ask_servers(struct finder *f, struct find_progress *a, const struct client_request *wants,
			size_t n)
{
	const struct client_watch watch = { .arg = a, .progress = on_find_progress };
	struct client_result *results = NEW_N(struct client_result, n);

	memset(results, 0, n * sizeof(*results));
	signals_catch();
	signal(SIGPIPE, SIG_IGN);
	client_find(find_client(f), wants, n, &watch, results);
	if (a->shown)
		progress_clear();
	for (size_t i = 0; i < n; i++) {
		take_result(f, a->wants[i], &results[i]);
		client_result_done(&results[i]);
	}
	free(results);
}

/* Run the searches from @first on. */
static void find_from(struct finder *f, size_t first)
{
	struct find_progress a = { .started_ms = clock_mono_ms(), .terminal = isatty(STDERR_FILENO) };
	struct client_request *wants = ARENA_NEW_N(&f->a, struct client_request, f->n_wants - first + 1);
	size_t n = 0;

	a.wants = ARENA_NEW_N(&f->a, struct find_want *, f->n_wants - first + 1);
	for (size_t i = first; i < f->n_wants; i++) {
		struct find_want *w = &f->wants[i];

		probe_here(f, w);
		if (w->found || w->failed || w->nowhere || f->s->find.here || !w->item->id.size)
			continue;
		a.wants[n] = w;
		wants[n++] = (struct client_request){ .kind = w->kind,
						      .id = w->item->id,
						      .name = want_name(w) };
	}
	if (n)
		ask_servers(f, &a, wants, n);
}

void find_all(struct finder *f)
{
	size_t n = f->n_wants;

	find_from(f, 0);
	if (signals_stopped() || (!f->s->find.all && !f->s->find.why))
		return;
	find_alts(f);
	if (f->n_wants > n)
		find_from(f, n);
}
