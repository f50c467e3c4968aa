/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode store copy: all objects of one store into another.
 */
#include <sys/stat.h>
#include <unistd.h>
#include "base/room.h"
#include "cmd/service/service.h"

#define SHOW_EVERY_MS 200

struct copy_view {
	bool show;
	int64_t from_ms, shown_ms;
	struct json_writer *bad; /* an open array */
};

/* ---- progress ---- */

static void add_rest(const struct copy_view *v, const struct store_copy_result *r, struct buf *line)
{
	double seconds = (double)(clock_mono_ms() - v->from_ms) / 1000.0;

	if (r->n_done && seconds > 3)
		progress_add_left(line, seconds / (double)r->n_done * (double)(r->n_all - r->n_done));
}

static int show_copy(void *arg, const struct store_copy_result *r)
{
	struct copy_view *v = arg;
	int64_t now_ms = clock_mono_ms();
	AUTO(buf_done) struct buf line = { 0 };
	char size[32];

	if (signals_stopped())
		return 1;
	if (!v->show || now_ms - v->shown_ms < SHOW_EVERY_MS)
		return 0;
	v->shown_ms = now_ms;
	progress_add_bar(&line, r->n_all ? (double)r->n_done / (double)r->n_all : 0);
	buf_printf(&line, " %llu of %llu objects, %s copied, %llu were there", (unsigned long long)r->n_done,
		   (unsigned long long)r->n_all, size_text(r->bytes, size), (unsigned long long)r->n_there);
	add_rest(v, r, &line);
	progress_show(&line);
	return 0;
}

static void note_bad_copy(void *arg, struct str what, const struct err *why)
{
	struct copy_view *v = arg;

	if (v->shown_ms)
		progress_clear();
	report_bad_object(v->bad, "not copied: ", what, why);
}

/* ---- the result ---- */

static int print_copied_json(const struct store_copy_result *r, bool whole, struct str bad)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	json_put_bool(&j, "complete", whole);
	json_put_uint(&j, "objects", r->n_all);
	json_put_uint(&j, "copied", r->n_copied);
	json_put_uint(&j, "earlier_versions_copied", r->n_past);
	json_put_uint(&j, "contents_copied", r->n_contents);
	json_put_uint(&j, "bytes_copied", r->bytes);
	json_put_uint(&j, "there", r->n_there);
	json_put_uint(&j, "bytes_there", r->bytes_there);
	json_put_uint(&j, "kept", r->n_kept);
	json_put_uint(&j, "gone", r->n_gone);
	json_put_raw(&j, "bad", bad);
	json_close(&j);
	return json_print_end(&text);
}

static void print_copied_text(const struct store_copy_result *r)
{
	char size[32];

	printf("copied: %llu objects and %llu earlier versions; %llu contents, %s\n",
	       (unsigned long long)(r->n_copied - r->n_past), (unsigned long long)r->n_past,
	       (unsigned long long)r->n_contents, size_text(r->bytes, size));
	if (r->n_there)
		printf("there already: %llu, %s\n", (unsigned long long)r->n_there,
		       size_text(r->bytes_there, size));
	if (r->n_kept)
		printf("not replaced: %llu, of which the other store has a better or a later file\n",
		       (unsigned long long)r->n_kept);
	if (r->n_gone)
		printf("removed meanwhile: %llu\n", (unsigned long long)r->n_gone);
	if (r->n_bad)
		printf("damaged, not copied: %llu\n", (unsigned long long)r->n_bad);
}

/* ---- the command ---- */

static int copy_between(const struct settings *s, struct store *from, struct store *to)
{
	AUTO(buf_done) struct buf list = { 0 };
	struct json_writer bad = JSON_WRITER(&list);
	struct copy_view v = { isatty(STDERR_FILENO), clock_mono_ms(), 0, &bad };
	const struct store_copy_options o = {
		service_settings(s)->store.parallel, note_bad_copy, &v, show_copy, &v,
	};
	struct store_copy_result result;
	struct err err = { 0 };
	int r, printed = EXIT_DONE;

	json_open_array(&bad, NULL);
	r = store_copy(from, to, &o, &result, &err);
	json_close(&bad);
	if (v.shown_ms)
		progress_clear();
	if (s->json)
		printed = print_copied_json(&result, r == 0, buf_str(&list));
	else
		print_copied_text(&result);
	if (r < 0) {
		(void)tell_error("store", &err);
		fprintf(stderr, "lode: store: the same command again copies the rest\n");
	}
	return r < 0 || result.n_bad ? EXIT_FAILED : printed;
}

static bool is_same_folder(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int store_copy_command(const struct settings *s)
{
	const char *from_name = s->paths.items[1].p, *to_name = s->paths.items[2].p;
	struct store_options reading = { .create = false };
	struct store_options writing = { .create = true };
	AUTO(mem_freep) char *data = NULL;
	AUTO(mem_freep) char *local = NULL;
	struct store *from = NULL, *to = NULL;
	int status = EXIT_FAILED;
	struct err err = { 0 };

	if (strcmp(from_name, to_name) == 0 || is_same_folder(from_name, to_name))
		return usage_error("store", "copy: %s and %s are the same store", from_name, to_name);
	if (s3_is_url(str_of(from_name)) || s3_is_url(str_of(to_name))) {
		data = data_dir(s->data, &err);
		if (!data)
			return tell_error("store", &err);
		local = mem_printf("%s/bucket", data);
		reading.local_dir = writing.local_dir = local;
	}
	writing.room = room_new(0);
	if (store_open(from_name, &reading, &from, &err) < 0 ||
	    store_open(to_name, &writing, &to, &err) < 0) {
		status = tell_error("store", &err);
	} else {
		signals_catch();
		status = copy_between(s, from, to);
	}
	store_close(to);
	store_close(from);
	room_free(writing.room);
	return status;
}
