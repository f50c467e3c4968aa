/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode store: list, remove, restore, collect garbage, verify; store_copy.c copies. A server may use the store meanwhile.
 */
#include <time.h>
#include <unistd.h>
#include "cmd/service/service.h"

#define PAGE          1000
#define SHOW_EVERY_MS 200

/* ---- output ---- */

static const char *hex_of(const uint8_t sha256[STORE_SHA256_SIZE], char out[2 * STORE_SHA256_SIZE + 1])
{
	return hex_encode(bytes_of(sha256, STORE_SHA256_SIZE), out);
}

static void put_object(struct json_writer *j, const struct store_object *o, struct arena *a)
{
	char hex[2 * STORE_SHA256_SIZE + 1];
	const struct store_meta *m = &o->meta;

	json_open_object(j, NULL);
	json_put_str(j, "key", store_key_text(&o->key, a));
	json_put_text(j, "sha256", hex_of(m->sha256, hex));
	json_put_uint(j, "size", m->size);
	json_put_uint(j, "stored_size", m->stored_size);
	json_put_text(j, "form", m->raw ? "raw" : "zstd");
	json_put_bool(j, "to_compress", m->later);
	json_put_text(j, "origin", store_origin_name(m->origin));
	json_put_text(j, "quality", store_quality_name(m->quality));
	json_put_int(j, "created", m->created);
	json_put_int(j, "last_used", m->last_used);
	json_put_int(j, "mtime", m->mtime);
	json_put_str(j, "from", m->from);
	json_put_str(j, "owner", store_owner(m));
	json_put_str(j, "address", m->address);
	json_put_str(j, "file", m->file);
	json_put_str(j, "archive", m->archive);
	if (m->replaced) {
		json_put_int(j, "replaced", m->replaced);
		json_put_str(j, "replaced_by", m->replaced_by);
	}
	json_close(j);
}

#define DATE_SIZE 32

static const char *date_text(int64_t at, char out[DATE_SIZE])
{
	time_t when = (time_t)at;
	struct tm tm;

	if (!localtime_r(&when, &tm) || !strftime(out, DATE_SIZE, "%Y-%m-%d %H:%M", &tm))
		snprintf(out, DATE_SIZE, "-");
	return out;
}

static void object_print(const struct store_object *o, struct arena *a)
{
	const struct store_meta *m = &o->meta;
	char size[32], date[DATE_SIZE];

	printf("%8s  %s  %-7s  %-8s  ", size_text(m->size, size), date_text(m->created, date),
	       store_origin_name(m->origin), store_quality_name(m->quality));
	print_text(stdout, store_key_text(&o->key, a));
	if (m->from.size) {
		printf("  ");
		print_text(stdout, m->from);
	}
	if (m->file.size) {
		printf("  ");
		print_text(stdout, m->file);
	}
	putchar('\n');
}

/* An earlier version, in the form that `lode store restore` takes. */
static void version_print(const struct store_object *o, struct arena *a)
{
	const struct store_meta *m = &o->meta;
	char size[32], date[DATE_SIZE], hex[2 * STORE_SHA256_SIZE + 1];

	printf("%8s  %s by ", size_text(m->size, size), date_text(m->created, date));
	print_text(stdout, m->from.size ? m->from : STR("?"));
	printf(", replaced %s by ", date_text(m->replaced, date));
	print_text(stdout, m->replaced_by.size ? m->replaced_by : STR("?"));
	printf("  ");
	print_text(stdout, store_key_text(&o->key, a));
	printf("@%.12s\n", hex_of(m->sha256, hex));
}

struct store_progress {
	bool show;
	int64_t shown_ms;
};

static int show_store_progress(void *arg, uint64_t n_done, uint64_t n_all, uint64_t bytes_done,
			       uint64_t bytes_all)
{
	struct store_progress *p = arg;
	int64_t now_ms = clock_mono_ms();
	char done[32], all[32];

	if (signals_stopped())
		return 1;
	if (!p->show || now_ms - p->shown_ms < SHOW_EVERY_MS)
		return 0;
	p->shown_ms = now_ms;
	fprintf(stderr, "\r\033[K%llu of %llu contents, %s of %s", (unsigned long long)n_done,
		(unsigned long long)n_all, size_text(bytes_done, done), size_text(bytes_all, all));
	return 0;
}

static void end_store_progress(const struct store_progress *p)
{
	if (p->shown_ms)
		progress_clear();
}

/* ---- ls ---- */

struct store_listing {
	struct json_writer *all; /* NULL: text is printed */
	bool past, quiet;
	struct arena arena;
	uint64_t n, size, n_later, later;
};

/* @r is that of a listing: a part of it, after a signal, is no answer. */
static int end_listing(int r, struct err *err)
{
	return r > 0 ? err_set(err, ERR_CANCELLED, "stopped: the list is incomplete") : r;
}

static int list_object(void *arg, const struct store_object *o)
{
	struct store_listing *l = arg;

	arena_reset(&l->arena);
	l->n++;
	l->size += o->meta.size;
	l->n_later += o->meta.later;
	l->later += o->meta.later ? o->meta.size : 0;
	if (l->all)
		put_object(l->all, o, &l->arena);
	else if (l->past)
		version_print(o, &l->arena);
	else
		object_print(o, &l->arena);
	return signals_stopped() ? 1 : 0;
}

static int store_list_all(const struct settings *s, struct store *st, bool past)
{
	struct str prefix = s->paths.n > 1 ? s->paths.items[1] : STR("");
	AUTO(buf_done) struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);
	struct store_listing l = { .all = s->json ? &j : NULL, .past = past };
	AUTO(buf_done) struct buf next = { 0 };
	struct err err = { 0 };
	char size[32];
	int r;

	arena_init(&l.arena);
	json_open_array(&j, NULL);
	do
		r = store_list(st, &(struct store_range){ prefix, buf_str(&next), PAGE, past }, list_object,
			       &l, &next, &err);
	while (r == 0 && next.size);
	arena_done(&l.arena);
	if (end_listing(r, &err) < 0)
		return tell_error("store", &err);
	json_close(&j);
	if (s->json)
		return json_print_end(&text);
	if (isatty(STDOUT_FILENO))
		printf("%llu %s, %s unpacked\n", (unsigned long long)l.n,
		       past ? "earlier versions" : "objects", size_text(l.size, size));
	if (isatty(STDOUT_FILENO) && l.n_later)
		printf("%llu of them, %s, are not compressed yet: the server compresses them when it is "
		       "idle\n",
		       (unsigned long long)l.n_later, size_text(l.later, size));
	return l.n || !prefix.size ? EXIT_DONE : EXIT_FAILED;
}

/* ---- kept ---- */

static int list_held(void *arg, const struct store_held *h)
{
	struct store_listing *l = arg;
	const struct store_meta *m = &h->object.meta;
	char size[32], date[DATE_SIZE];

	arena_reset(&l->arena);
	l->n++;
	l->n_later += h->refused;
	if (l->all) {
		put_object(l->all, &h->object, &l->arena);
	} else if (!l->quiet) {
		printf("%8s  %s by ", size_text(m->size, size), date_text(m->created, date));
		print_text(stdout, m->from.size ? m->from : STR("?"));
		printf("  ");
		print_text(stdout, store_key_text(&h->object.key, &l->arena));
		if (h->refused && !m->replaced_by.size)
			printf(", damaged on this disk");
		else if (h->refused)
			printf(", refused %s: it belongs to ", date_text(m->replaced, date));
		if (h->refused)
			print_text(stdout, m->replaced_by);
		putchar('\n');
	}
	return signals_stopped() ? 1 : 0;
}

/* Of the store that is open: its bucket is not asked. */
static int list_all_held(const struct settings *s, struct store_listing *l, struct err *err)
{
	AUTO(mem_freep) char *data = data_dir(s->data, err);
	AUTO(mem_freep) char *local = data ? mem_printf("%s/bucket", data) : NULL;
	const char *url = service_settings(s)->store.dir;
	int r = -1;

	arena_init(&l->arena);
	if (!url || !s3_is_url(str_of(url)))
		r = data ? 0 : -1;
	else if (local)
		r = store_held_list(local, url, list_held, l, err);
	arena_done(&l->arena);
	return r;
}

static int store_kept(const struct settings *s)
{
	AUTO(buf_done) struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);
	struct store_listing l = { .all = s->json ? &j : NULL };
	struct err err = { 0 };
	int r;

	json_open_array(&j, NULL);
	r = list_all_held(s, &l, &err);
	if (end_listing(r, &err) < 0)
		return tell_error("store", &err);
	json_close(&j);
	if (s->json)
		return json_print_end(&text);
	if (isatty(STDOUT_FILENO))
		printf("%llu pushes of this machine wait for the bucket, %llu were refused\n",
		       (unsigned long long)(l.n - l.n_later), (unsigned long long)l.n_later);
	return EXIT_DONE;
}

static int store_ls(const struct settings *s, struct store *st)
{
	struct store_listing held = { .quiet = true };
	struct err err = { 0 };

	if (list_all_held(s, &held, &err) >= 0 && held.n)
		fprintf(stderr,
			"lode: store: %llu pushes of this machine are not in the bucket: see lode store "
			"kept\n",
			(unsigned long long)held.n);
	return store_list_all(s, st, false);
}

static int store_history(const struct settings *s, struct store *st)
{
	return store_list_all(s, st, true);
}

/* ---- restore ---- */

static int restore_one(const struct settings *s, struct store *st, struct str text, struct err *err)
{
	struct str sha256 = text, key_text = str_cut(&sha256, '@');
	struct store_key key;
	int r;

	if (!store_key_parse(key_text, &key))
		return err_set(err, ERR_INVALID,
			       STR_FMT
			       ": not a version; give BUILD-ID/KIND@SHA256, as lode store history prints it",
			       STR_ARG(text));
	r = store_restore(st, &key, sha256.p ? sha256 : STR(""), STR("local"), err);
	if (r > 0)
		return err_set(err, ERR_INVALID,
			       STR_FMT ": there is no such earlier version: see lode store history",
			       STR_ARG(text));
	if (r == 0 && !s->json) {
		printf("restored: ");
		print_text(stdout, text);
		putchar('\n');
	}
	return r;
}

static int store_restore_all(const struct settings *s, struct store *st)
{
	int status = EXIT_DONE;

	for (size_t i = 1; i < s->paths.n; i++) {
		struct err err = { 0 };

		if (restore_one(s, st, s->paths.items[i], &err) < 0)
			status = tell_error("store", &err);
	}
	return status;
}

/* ---- rm ---- */

static int store_rm(const struct settings *s, struct store *st)
{
	AUTO(buf_done) struct buf json = { 0 };
	struct json_writer j = JSON_WRITER(&json);
	size_t n_removed = 0;
	int status = EXIT_DONE;

	json_open_object(&j, NULL);
	json_open_array(&j, "removed");
	for (size_t i = 1; i < s->paths.n; i++) {
		struct str text = s->paths.items[i];
		struct store_key key;
		struct err err = { 0 };
		int r = 0;

		if (!store_key_parse(text, &key))
			r = err_set(&err, ERR_INVALID,
				    STR_FMT ": not a key; give BUILD-ID/KIND, as lode store ls prints it",
				    STR_ARG(text));
		else
			r = store_remove(st, &key, STR(""), &err);
		if (r > 0)
			r = err_set(&err, ERR_INVALID, STR_FMT ": not in the store", STR_ARG(text));
		if (r < 0)
			status = tell_error("store", &err);
		if (r)
			continue;
		json_put_str(&j, NULL, text);
		n_removed++;
	}
	json_close(&j);
	json_close(&j);
	if (s->json) {
		int printed = json_print_end(&json);

		return status != EXIT_DONE ? status : printed;
	}
	if (n_removed)
		printf("%zu removed; lode store gc frees their disk space\n", n_removed);
	return status;
}

/* ---- gc ---- */

static int print_collected_json(const struct store_gc_result *gc, const struct store_evict_result *evicted)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	json_put_uint(&j, "contents_removed", gc->n_contents);
	json_put_uint(&j, "bytes_removed", gc->bytes);
	json_put_uint(&j, "temporary_removed", gc->n_temporary);
	json_put_uint(&j, "versions_removed", gc->n_past);
	json_put_uint(&j, "objects_evicted", evicted->n_objects);
	json_put_uint(&j, "bytes_evicted", evicted->bytes);
	json_close(&j);
	return json_print_end(&text);
}

static int store_collect(const struct settings *s, struct store *st)
{
	struct store_progress p = { .show = isatty(STDERR_FILENO) };
	struct store_evict_result evicted = { 0 };
	struct store_gc_result gc = { 0 };
	struct err err = { 0 };
	char size[32], more[32];
	int r = store_gc(st, show_store_progress, &p, &gc, &err);

	if (r == 0 && service_settings(s)->store.quota)
		r = store_evict(st, service_settings(s)->store.quota, &evicted, &err);
	end_store_progress(&p);
	if (r < 0)
		return tell_error("store", &err);
	if (s->json)
		return print_collected_json(&gc, &evicted);
	printf("removed: %llu contents without a reference, %s; %llu left-over files; %llu earlier "
	       "versions\n",
	       (unsigned long long)gc.n_contents, size_text(gc.bytes, size),
	       (unsigned long long)gc.n_temporary, (unsigned long long)gc.n_past);
	if (service_settings(s)->store.quota)
		printf("%llu objects evicted, %s\n", (unsigned long long)evicted.n_objects,
		       size_text(evicted.bytes, more));
	return EXIT_DONE;
}

/* ---- verify ---- */

struct verdicts {
	const struct store_progress *p;
	struct json_writer *bad; /* an open array */
};

void report_bad_object(struct json_writer *bad, const char *outcome, struct str what, const struct err *why)
{
	fprintf(stderr, "lode: store: %s", outcome);
	print_text(stderr, what);
	fprintf(stderr, ": ");
	print_text(stderr, str_of(why->text));
	fputc('\n', stderr);
	json_open_object(bad, NULL);
	json_put_str(bad, "what", what);
	json_put_text(bad, "why", why->text);
	json_close(bad);
}

static void note_bad(void *arg, struct str what, const struct err *why)
{
	struct verdicts *v = arg;

	end_store_progress(v->p);
	report_bad_object(v->bad, "", what, why);
}

static int print_verified_json(const struct store_verify_result *v, const struct cache_verify_result *cache,
			       struct str bad)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	json_put_uint(&j, "objects", v->n_objects);
	json_put_uint(&j, "contents", v->n_contents);
	json_put_uint(&j, "bytes", v->bytes);
	json_put_uint(&j, "cache_files", cache->n_files);
	json_put_uint(&j, "removed", v->n_removed + cache->n_removed);
	json_put_raw(&j, "bad", bad);
	json_close(&j);
	return json_print_end(&text);
}

static void print_verified_text(const struct store_verify_result *v, const struct cache_verify_result *cache)
{
	char size[32];

	printf("%llu objects, %llu contents, %s: %llu bad, %llu removed\n", (unsigned long long)v->n_objects,
	       (unsigned long long)v->n_contents, size_text(v->bytes, size), (unsigned long long)v->n_bad,
	       (unsigned long long)v->n_removed);
	if (cache->n_files)
		printf("%llu files in the cache: %llu bad, %llu removed\n",
		       (unsigned long long)cache->n_files, (unsigned long long)cache->n_bad,
		       (unsigned long long)cache->n_removed);
	if (v->n_bad > v->n_removed)
		printf("--remove removes the bad ones, so that they can be fetched or pushed again\n");
}

static int store_check(const struct settings *s, struct store *st)
{
	struct store_progress p = { .show = isatty(STDERR_FILENO) };
	AUTO(buf_done) struct buf list = { 0 };
	struct json_writer j = JSON_WRITER(&list);
	struct verdicts verdicts = { &p, &j };
	/* NULL: only --store was given, so the data directory is unknown. */
	const char *cache_dir = service_settings(s)->server.cache_dir;
	struct cache_verify_result cache = { 0 };
	struct store_verify_result v = { 0 };
	int r, printed = EXIT_DONE;
	struct err err = { 0 };

	json_open_array(&j, NULL);
	r = store_verify(st,
			 &(struct store_verify_options){ service_settings(s)->store.remove, note_bad,
							 &verdicts, show_store_progress, &p },
			 &v, &err);
	if (r == 0 && cache_dir)
		r = server_cache_verify(cache_dir,
					&(struct cache_verify_options){ service_settings(s)->store.remove,
									note_bad, &verdicts },
					&cache, &err);
	end_store_progress(&p);
	if (r < 0)
		return tell_error("store", &err);
	json_close(&j);
	if (s->json)
		printed = print_verified_json(&v, &cache, buf_str(&list));
	else
		print_verified_text(&v, &cache);
	return v.n_bad || cache.n_bad ? EXIT_FAILED : printed;
}

/* ---- the command ---- */

static const struct {
	const char *name, *missing;
	size_t min_args, max_args;
	int (*run)(const struct settings *s, struct store *st);
	int (*run_alone)(const struct settings *s); /* opens its stores itself */
} actions[] = {
	{ "ls", NULL, 1, 2, store_ls },
	{ "history", NULL, 1, 2, store_history },
	{ "kept", NULL, 1, 1, .run_alone = store_kept },
	{ "restore", "no BUILD-ID/KIND given", 2, SIZE_MAX, store_restore_all },
	{ "rm", "no BUILD-ID/KIND given", 2, SIZE_MAX, store_rm },
	{ "gc", NULL, 1, 1, store_collect },
	{ "verify", NULL, 1, 1, store_check },
	{ "copy", "two stores are needed: copy FROM TO", 3, 3, .run_alone = store_copy_command },
};

static int run_in(struct settings *s, int (*run)(const struct settings *s, struct store *st))
{
	const struct store_settings *o = &service_settings(s)->store;
	struct store_options opts = { .keep_pushed = o->keep_pushed };
	AUTO(mem_freep) char *data = NULL;
	AUTO(mem_freep) char *local = NULL;
	AUTO(mem_freep) char *dir = NULL;
	AUTO(mem_freep) char *cache_dir = NULL;
	struct store *st = NULL;
	struct err err = { 0 };
	int status;

	if (!o->dir || s3_is_url(str_of(o->dir))) {
		data = data_dir(s->data, &err);
		if (!data)
			return tell_error("store", &err);
		local = mem_printf("%s/bucket", data);
		opts.local_dir = local;
	}
	if (!o->dir) {
		dir = mem_printf("%s/store", data);
		if (!service_settings(s)->server.cache_dir) {
			cache_dir = mem_printf("%s/cache", data);
			service_settings(s)->server.cache_dir = cache_dir;
		}
	}
	if (store_open(o->dir ? o->dir : dir, &opts, &st, &err) < 0)
		return tell_error("store", &err);
	signals_catch();
	status = run(s, st);
	store_close(st);
	return status;
}

static int run_store(struct settings *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		if (!str_eq(s->paths.items[0], str_of(actions[i].name)))
			continue;
		if (s->paths.n < actions[i].min_args || s->paths.n > actions[i].max_args)
			return usage_error("store", "%s: %s", actions[i].name,
					   s->paths.n < actions[i].min_args ? actions[i].missing
									    : "too many arguments");
		return actions[i].run ? run_in(s, actions[i].run) : actions[i].run_alone(s);
	}
	return usage_error(
		"store",
		"the actions are ls, kept, history, restore, rm, gc, verify and copy, not '" STR_FMT "'",
		STR_ARG(s->paths.items[0]));
}

static const struct option_row store_rows[] = {
	{ 0, "store", "DIR", "the store's folder, or s3://BUCKET/PREFIX [DATA/store]",
	  SERVICE_TEXT(store.dir) },
	{ 0, "cache-dir", "DIR", "verify: the cache folder of the server, which is verified too [DATA/cache]",
	  SERVICE_TEXT(server.cache_dir) },
	{ 0, "remove", NULL, "verify: remove bad objects", SERVICE_ON(store.remove) },
	{ 0, "store-quota", "SIZE",
	  "gc: also remove the objects unused for longest, until the store is no larger than this",
	  SERVICE_SIZE(store.quota) },
	{ 0, "store-keep-pushed", NULL, "gc: but never remove pushed objects",
	  SERVICE_ON(store.keep_pushed) },
	{ 0, "parallel", "N", "copy: objects at once [8]", SERVICE_NUMBER(store.parallel) },
	{ 0 },
};
static const struct option_group store_group = { "Store", store_rows };

const struct command command_store = {
	.name = "store",
	.args = "ls [BUILD-ID] | kept | history [BUILD-ID] | restore BUILD-ID/KIND[@SHA256]... | rm "
		"BUILD-ID/KIND... | gc | verify | copy FROM TO",
	.summary = "list, restore, remove, verify and copy pushed and fetched files; collect garbage",
	.examples = "  lode store ls                       all objects\n"
		    "  lode store history                  earlier versions, with dates and tokens\n"
		    "  lode store restore 2f18d5/debuginfo the version before the last replacement\n"
		    "  lode store rm 2f18d5/debuginfo      one of them\n"
		    "  lode store verify --remove          read all objects, remove damaged ones\n"
		    "  lode store copy /old/store /new     all objects of one store into another; again: the "
		    "rest\n",
	.groups = { &group_state, &store_group, &group_output },
	.configured = true,
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "no action given: ls, kept, history, restore, rm, gc, verify or copy",
	.own_size = sizeof(struct service_settings),
	.run = run_store,
};
