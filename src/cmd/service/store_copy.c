/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All objects of one store into another: lode store copy, and the store in lode backup.
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

void store_copied_put(struct json_writer *j, const struct store_copied *c)
{
	const struct store_copy_result *r = &c->result;

	json_put_bool(j, "complete", c->whole);
	json_put_uint(j, "objects", r->n_all);
	json_put_uint(j, "copied", r->n_copied);
	json_put_uint(j, "earlier_versions_copied", r->n_past);
	json_put_uint(j, "contents_copied", r->n_contents);
	json_put_uint(j, "bytes_copied", r->bytes);
	json_put_uint(j, "there", r->n_there);
	json_put_uint(j, "bytes_there", r->bytes_there);
	json_put_uint(j, "kept", r->n_kept);
	json_put_uint(j, "gone", r->n_gone);
	json_put_raw(j, "bad", buf_str(&c->bad));
}

static int print_copied_json(const struct store_copied *c)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	store_copied_put(&j, c);
	json_close(&j);
	return json_print_end(&text);
}

void store_copied_print(const struct store_copy_result *r)
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

static int copy_between(struct store *from, struct store *to, bool backup, unsigned parallel,
			struct store_copied *ret, struct err *err)
{
	struct json_writer bad = JSON_WRITER(&ret->bad);
	struct copy_view v = { isatty(STDERR_FILENO), clock_mono_ms(), 0, &bad };
	const struct store_copy_options o = { .parallel = parallel,
					      .backup = backup,
					      .bad = note_bad_copy,
					      .arg_bad = &v,
					      .progress = show_copy,
					      .arg = &v };
	int r;

	json_open_array(&bad, NULL);
	r = store_copy(from, to, &o, &ret->result, err);
	json_close(&bad);
	if (v.shown_ms)
		progress_clear();
	ret->begun = true;
	ret->whole = r == 0;
	return r;
}

bool is_same_folder(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int store_copy_all(const struct store_copy_names *names, unsigned parallel, struct store_copied *ret,
		   struct err *err)
{
	const struct store_options reading = { .create = false, .local_dir = names->local };
	struct store_options writing = { .create = true, .local_dir = names->local };
	struct store *from = NULL, *to = NULL;
	int r;

	*ret = (struct store_copied){ 0 };
	writing.room = room_new(0);
	r = store_open(names->from, &reading, &from, err);
	if (r == 0)
		r = store_open(names->to, &writing, &to, err);
	if (r == 0) {
		signals_catch();
		r = copy_between(from, to, names->backup, parallel, ret, err);
	}
	store_close(to);
	store_close(from);
	room_free(writing.room);
	return r;
}

int store_copy_command(const struct settings *s)
{
	struct store_copy_names names = { .from = s->paths.items[1].p, .to = s->paths.items[2].p };
	AUTO(mem_freep) char *data = NULL;
	AUTO(mem_freep) char *local = NULL;
	struct store_copied copied;
	struct err err = { 0 };
	int r, printed = EXIT_DONE;

	if (strcmp(names.from, names.to) == 0 || is_same_folder(names.from, names.to))
		return usage_error("store", "copy: %s and %s are the same store", names.from, names.to);
	if (s3_is_url(str_of(names.from)) || s3_is_url(str_of(names.to))) {
		data = data_dir(s->data, &err);
		if (!data)
			return tell_error("store", &err);
		names.local = local = mem_printf("%s/bucket", data);
	}
	r = store_copy_all(&names, service_settings(s)->store.parallel, &copied, &err);
	if (copied.begun && s->json)
		printed = print_copied_json(&copied);
	else if (copied.begun)
		store_copied_print(&copied.result);
	if (r < 0) {
		(void)tell_error("store", &err);
		if (copied.begun)
			fprintf(stderr, "lode: store: the same command again copies the rest\n");
	}
	buf_done(&copied.bad);
	return r < 0 || copied.result.n_bad ? EXIT_FAILED : printed;
}
