/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode send: send profiles of any format to a server that keeps them.
 */
#include "cmd/push/send.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/profile/profile.h"
#include "profile/input.h"

/* ---- one profile ---- */

static void add_label_query(struct buf *out, struct send_labels l)
{
	buf_add_str(out, STR("/profiles"));
	for (size_t i = 0; i < l.n; i++) {
		buf_add_str(out, i ? STR("&") : STR("?"));
		net_escape(out, l.v[i].name, false);
		buf_add_str(out, STR("="));
		net_escape(out, l.v[i].value, false);
	}
}

static int send_refused(unsigned status, struct bytes body, struct err *err)
{
	AUTO(mem_freep) char *message = client_message(body);

	if (status == 404 || status == 405 || status == 501)
		return err_set(
			err, ERR_UPSTREAM,
			"the server does not accept profiles; is it a lode serve of this version? (%u)",
			status);
	return err_set(err, status < 500 ? ERR_INVALID : ERR_UPSTREAM, "the server refused it: %s (%u)",
		       message, status);
}

int send_profile(struct target *t, struct profile *p, struct send_labels labels, int64_t time_ms,
		 struct send_result *ret, struct err *err)
{
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(buf_done) struct buf body = { 0 };
	AUTO(net_answer_done) struct net_answer a = { 0 };
	struct target_request req = { .method = "POST", .type = "application/octet-stream" };
	int r;

	*ret = (struct send_result){ 0 };
	if (!p->time_ns)
		p->time_ns = time_ms * 1000000 - p->duration_ns;
	add_label_query(&path, labels);
	if (profile_write_pprof(p, true, &body, err) < 0)
		return -1;
	req.path = buf_cstr(&path);
	req.body = buf_bytes(&body);
	if (target_ask(t, &req, &a, err) < 0)
		return -1;
	ret->size = body.size;
	r = client_answer_profiles(a.status, buf_bytes(&a.body), NULL, NULL, &ret->receipt, err);
	return r == CLIENT_REFUSED ? send_refused(a.status, buf_bytes(&a.body), err) : r;
}

/* ---- labels ---- */

static bool is_label_name(struct str s)
{
	if (!s.size || isdigit((unsigned char)s.p[0]) || s.p[0] == '.')
		return false;
	for (size_t i = 0; i < s.size; i++)
		if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

int send_labels_parse(const struct settings *s, struct send_label *ret, struct err *err)
{
	for (size_t i = 0; i < s->labels.n; i++) {
		struct str value = s->labels.items[i], name = str_cut(&value, '=');

		if (!value.p || !is_label_name(name))
			return err_set(err, ERR_INVALID,
				       "--label '%s': not NAME=VALUE; a name has letters, digits, _ and .",
				       s->labels.items[i].p);
		/* The route has parameters of these names. */
		if (str_eq(name, STR("format")) || str_eq(name, STR("time")))
			return err_set(err, ERR_INVALID,
				       "--label '%s': the server uses this name itself; choose another",
				       s->labels.items[i].p);
		ret[i] = (struct send_label){ name, value };
	}
	return 0;
}

/* ---- the command ---- */

struct sending {
	const struct settings *s;
	struct target target;
	struct send_labels labels;
	struct send_label *list;
	struct buf json;
	struct json_writer files; /* with --json */
	unsigned n_sent, n_failed;
	bool show;
};

static void show_sending(const struct sending *x, const char *path, const char *what)
{
	if (!x->show)
		return;
	fprintf(stderr, "\r\033[K%u of %zu, %s ", x->n_sent + x->n_failed + 1, x->s->paths.n, what);
	print_text(stderr, str_of(path));
	fflush(stderr);
}

/* The time of a profile that has none itself: that of its file. */
static int64_t profile_file_time(const char *path)
{
	struct stat st;

	if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	return clock_wall_ms();
}

static void tell_sent(struct sending *x, const char *path, const struct send_result *r)
{
	char size[32];

	if (x->s->json) {
		json_open_object(&x->files, NULL);
		json_put_text(&x->files, "file", path);
		json_put_text(&x->files, "result", r->receipt.duplicate ? "duplicate" : "sent");
		json_put_uint(&x->files, "samples", r->receipt.n_samples);
		json_put_uint(&x->files, "profiles", r->receipt.n_profiles);
		json_put_int(&x->files, "id", r->receipt.id);
		json_put_uint(&x->files, "bytes", r->size);
		json_close(&x->files);
		return;
	}
	print_text(stdout, str_of(path));
	if (r->receipt.duplicate)
		printf(": the server has it already\n");
	else
		printf(": %llu samples in %llu profiles, %s sent\n", (unsigned long long)r->receipt.n_samples,
		       (unsigned long long)r->receipt.n_profiles, size_text(r->size, size));
	fflush(stdout);
}

/* The profiles of a file: several of a recording of Java. */
struct sending_file {
	struct sending *x;
	const char *path;
	struct send_result sum;
	unsigned n;
};

static bool has_name_label(struct send_labels l)
{
	for (size_t i = 0; i < l.n; i++)
		if (str_eq(l.v[i].name, STR("__name__")))
			return true;
	return false;
}

static int send_one(void *arg, struct profile *taken, struct str name, struct err *err)
{
	AUTO(profile_freep) struct profile *p = taken;
	struct sending_file *f = arg;
	struct sending *x = f->x;
	struct send_labels labels = x->labels;
	struct send_result result;

	profile_fill_build_ids(p);
	if (profile_build_end(p, err) < 0)
		return -1;
	/* There is room for it after the others. */
	if (name.size && !has_name_label(labels))
		x->list[labels.n++] = (struct send_label){ STR("__name__"), name };
	show_sending(x, f->path, "sending");
	if (send_profile(&x->target, p, labels, profile_file_time(f->path), &result, err) < 0)
		return -1;
	f->sum.receipt.duplicate = result.receipt.duplicate && (f->sum.receipt.duplicate || !f->n);
	f->n++;
	f->sum.receipt.n_profiles += result.receipt.n_profiles;
	f->sum.receipt.n_samples += result.receipt.n_samples;
	f->sum.size += result.size;
	f->sum.receipt.id = f->sum.receipt.id ? f->sum.receipt.id : result.receipt.id;
	return 0;
}

static int send_path(struct sending *x, const char *path, struct err *err)
{
	struct sending_file f = { .x = x, .path = path };

	show_sending(x, path, "reading");
	if (profile_read_path_each(x->s, path, (struct profile_sink){ send_one, &f }, err) < 0)
		return -1;
	if (!f.n)
		return err_set(err, ERR_INVALID, "%s: has no samples", path);
	if (x->show)
		progress_clear();
	tell_sent(x, path, &f.sum);
	return 0;
}

static void note_failed(struct sending *x, const char *path, const char *why)
{
	x->n_failed++;
	if (!x->s->json)
		return;
	json_open_object(&x->files, NULL);
	json_put_text(&x->files, "file", path);
	json_put_text(&x->files, "result", "failed");
	json_put_text(&x->files, "why", why);
	json_close(&x->files);
}

static void report_failed(struct sending *x, const char *path, const struct err *err)
{
	if (x->show)
		progress_clear();
	tell_error("send", err);
	note_failed(x, path, err->text);
}

/* Those from number @i on. */
static void note_untried(struct sending *x, size_t i, const char *why)
{
	for (; i < x->s->paths.n; i++)
		note_failed(x, x->s->paths.items[i].p, why);
}

/* After a signal, before file number @i. */
static void report_stopped(struct sending *x, size_t i)
{
	struct err err = { 0 };

	(void)err_set(&err, ERR_CANCELLED, "stopped; %zu files were not sent", x->s->paths.n - i);
	tell_error("send", &err);
	note_untried(x, i, "not sent: stopped");
}

/* The counts come before the list, which is written first. */
static void print_sent_json(struct sending *x)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_close(&x->files);
	json_open_object(&j, NULL);
	json_put_uint(&j, "sent", x->n_sent);
	json_put_uint(&j, "failed", x->n_failed);
	json_put_raw(&j, "files", buf_str(&x->json));
	json_close(&j);
	json_print_end(&text);
}

static int send_all(struct sending *x)
{
	struct err err = { 0 };
	size_t i;

	if (target_open(&x->target, &err) < 0)
		return tell_error("send", &err);
	signals_catch();
	for (i = 0; i < x->s->paths.n && !signals_stopped(); i++) {
		const char *path = x->s->paths.items[i].p;

		err = (struct err){ 0 };
		if (send_path(x, path, &err) == 0) {
			x->n_sent++;
			continue;
		}
		report_failed(x, path, &err);
		/* If the server cannot be reached, the other profiles would fail in the same way. */
		if (err.kind == ERR_UPSTREAM && !x->target.reached) {
			note_untried(x, i + 1, "not sent: the server cannot be reached");
			i = x->s->paths.n;
		}
	}
	if (i < x->s->paths.n)
		report_stopped(x, i);
	target_close(&x->target);
	if (x->s->json)
		print_sent_json(x);
	else if (x->n_sent && target_has_page(x->target.url))
		printf("look at %s/\n", x->target.url);
	return x->n_sent == x->s->paths.n ? EXIT_DONE : EXIT_FAILED;
}

static int run_send(struct settings *s)
{
	struct sending x = { .s = s, .show = isatty(STDERR_FILENO) };
	struct err err = { 0 };
	int status;

	x.target.stopped = signals_stopped;
	x.files = JSON_WRITER(&x.json);
	json_open_array(&x.files, NULL);
	x.list = NEW_N(struct send_label, s->labels.n + 1);
	x.labels = (struct send_labels){ x.list, s->labels.n };
	if (target_url(s->push.to, &s->arena, &x.target.url, &err) < 0 ||
	    send_labels_parse(s, x.list, &err) < 0)
		status = usage_error("send", "%s", err.text);
	else if (target_token(s->push.token_file, &s->arena, &x.target.token, &err) < 0)
		status = tell_error("send", &err);
	else
		status = send_all(&x);
	buf_done(&x.json);
	free(x.list);
	return status;
}

static const struct option_row send_rows[] = {
	TARGET_ROWS,
	{ 0, "label", "NAME=VALUE", "a label to find the profiles by, as service=web; may be given again",
	  OPT_LIST(labels) },
	{ 0, "input-format", "FORMAT", PROFILE_INPUT_HELP, OPT_TEXT(profile.input_format) },
	{ 0 },
};
static const struct option_group send_group = { "Sending", send_rows };

const struct command command_send = {
	.name = "send",
	.args = "PROFILE... --to URL",
	.summary = "send profiles of any format to a server that keeps them and names their functions",
	.examples =
		"  perf record -g ./app; lode send perf.data --to http://localhost:8002 --label service=app\n"
		"  curl -s host:6060/debug/pprof/heap | lode send - --to http://localhost:8002\n",
	.groups = { &send_group, &group_output },
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "no PROFILE given",
	.run = run_send,
};
