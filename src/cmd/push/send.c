/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode send: profiles in any format to a server that keeps them.
 */
#include "cmd/push/send.h"

#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/profile/profile.h"

/* ---- one profile ---- */

static void add_query(struct buf *out, const struct send_label *labels, size_t n)
{
	buf_add_str(out, STR("/profiles"));
	for (size_t i = 0; i < n; i++) {
		buf_add_str(out, i ? STR("&") : STR("?"));
		net_escape(out, labels[i].name, false);
		buf_add_str(out, STR("="));
		net_escape(out, labels[i].value, false);
	}
}

static int read_answer(struct bytes body, struct send_result *ret, struct err *err)
{
	json_error_t ignored;
	json_t *all = json_loadb((const char *)body.p, body.size, 0, &ignored);

	if (!json_is_object(all)) {
		json_decref(all);
		return err_set(err, ERR_UPSTREAM, "what answers there is no lode server");
	}
	ret->n_profiles = (uint64_t)json_integer_value(json_object_get(all, "profiles"));
	ret->n_samples = (uint64_t)json_integer_value(json_object_get(all, "samples"));
	ret->id = json_integer_value(json_object_get(all, "id"));
	ret->duplicate = json_is_true(json_object_get(all, "duplicate"));
	json_decref(all);
	return 0;
}

static int refused(unsigned status, struct bytes body, struct err *err)
{
	AUTO(mem_freep) char *said = target_said(body);

	if (status == 404 || status == 405 || status == 501)
		return err_set(err, ERR_UPSTREAM,
			       "that server takes no profiles: is it lode serve, of this version? (%u)",
			       status);
	return err_set(err, status < 500 ? ERR_INVALID : ERR_UPSTREAM, "the server says: %s (%u)", said,
		       status);
}

int send_profile(struct target *t, struct profile *p, const struct send_label *labels, size_t n_labels,
		 int64_t time_ms, struct send_result *ret, struct err *err)
{
	AUTO(buf_done) struct buf path = { 0 };
	AUTO(buf_done) struct buf body = { 0 };
	AUTO(buf_done) struct buf answer = { 0 };
	unsigned status = 0;

	*ret = (struct send_result){ 0 };
	if (!p->time_ns)
		p->time_ns = time_ms * 1000000 - p->duration_ns;
	add_query(&path, labels, n_labels);
	if (profile_write_pprof(p, true, &body, err) < 0 ||
	    target_ask(t, "POST", buf_cstr(&path), "application/octet-stream", buf_bytes(&body), &status,
		       &answer, err) < 0)
		return -1;
	ret->size = body.size;
	if (status < 200 || status > 299)
		return refused(status, buf_bytes(&answer), err);
	return read_answer(buf_bytes(&answer), ret, err);
}

/* ---- what is asked ---- */

static bool is_label_name(struct str s)
{
	if (!s.size || isdigit((unsigned char)s.p[0]) || s.p[0] == '.')
		return false;
	for (size_t i = 0; i < s.size; i++)
		if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

static int read_labels(const struct settings *s, struct send_label *ret, struct err *err)
{
	for (size_t i = 0; i < s->labels.n; i++) {
		struct str value = s->labels.items[i], name = str_cut(&value, '=');

		if (!value.p || !is_label_name(name))
			return err_set(
				err, ERR_INVALID,
				"--label '%s': NAME=VALUE is wanted, the name of letters, digits, _ and .",
				s->labels.items[i].p);
		/* These the route takes for itself. */
		if (str_eq(name, STR("format")) || str_eq(name, STR("time")))
			return err_set(err, ERR_INVALID, "--label '%s': a label cannot be called so",
				       s->labels.items[i].p);
		ret[i] = (struct send_label){ name, value };
	}
	return 0;
}

/* ---- all ---- */

struct sending {
	const struct settings *s;
	struct target target;
	struct send_label *labels;
	json_t *list;
	unsigned n_sent, n_failed;
	bool show;
};

static void show(const struct sending *x, const char *path, const char *what)
{
	if (!x->show)
		return;
	fprintf(stderr, "\r\033[K%u of %zu, %s ", x->n_sent + x->n_failed + 1, x->s->paths.n, what);
	print_text(stderr, str_of(path));
	fflush(stderr);
}

/* When it was made, if it does not say so itself. */
static int64_t time_of(const char *path)
{
	struct stat st;

	if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	return clock_wall_ms();
}

static void tell_sent(const struct sending *x, const char *path, const struct send_result *r)
{
	char size[32];

	if (x->s->json) {
		json_array_append_new(
			x->list, json_pack("{s:o, s:s, s:I, s:I, s:I, s:I}", "file", json_text(str_of(path)),
					   "result", r->duplicate ? "duplicate" : "sent", "samples",
					   (json_int_t)r->n_samples, "profiles", (json_int_t)r->n_profiles,
					   "id", (json_int_t)r->id, "bytes", (json_int_t)r->size));
		return;
	}
	print_text(stdout, str_of(path));
	if (r->duplicate)
		printf(": is there already\n");
	else
		printf(": %llu samples in %llu profiles, %s sent\n", (unsigned long long)r->n_samples,
		       (unsigned long long)r->n_profiles, size_text(r->size, size));
	fflush(stdout);
}

static int send_path(struct sending *x, const char *path, struct err *err)
{
	AUTO(profile_freep) struct profile *p = NULL;
	struct send_result result;

	show(x, path, "reading");
	if (profile_read_path(x->s, path, &p, err) < 0)
		return -1;
	profile_fill_build_ids(p);
	if (profile_build_end(p, err) < 0)
		return err_in(err, "%s", path);
	show(x, path, "sending");
	if (send_profile(&x->target, p, x->labels, x->s->labels.n, time_of(path), &result, err) < 0)
		return err_in(err, "%s", path);
	if (x->show)
		progress_clear();
	tell_sent(x, path, &result);
	return 0;
}

static void failed(struct sending *x, const char *path, const struct err *err)
{
	x->n_failed++;
	if (x->show)
		progress_clear();
	tell_error("send", err);
	if (x->s->json)
		json_array_append_new(x->list,
				      json_pack("{s:o, s:s, s:o}", "file", json_text(str_of(path)), "result",
						"failed", "why", json_text(str_of(err->text))));
}

static int send_all(struct sending *x)
{
	struct err err = { 0 };

	if (target_open(&x->target, &err) < 0)
		return tell_error("send", &err);
	signals_catch();
	for (size_t i = 0; i < x->s->paths.n && !signals_stopped(); i++) {
		const char *path = x->s->paths.items[i].p;

		err = (struct err){ 0 };
		if (send_path(x, path, &err) == 0) {
			x->n_sent++;
			continue;
		}
		failed(x, path, &err);
		/* Of a server that nobody reaches the rest says the same. */
		if (err.kind == ERR_UPSTREAM && !x->target.reached)
			break;
	}
	target_close(&x->target);
	if (x->s->json)
		json_print(json_pack("{s:i, s:i, s:O}", "sent", (int)x->n_sent, "failed", (int)x->n_failed,
				     "files", x->list));
	else if (x->n_sent)
		printf("to be seen at %s/\n", x->target.url);
	return x->n_sent == x->s->paths.n ? EXIT_DONE : EXIT_FAILED;
}

static int run_send(struct settings *s)
{
	struct sending x = { .s = s, .show = isatty(STDERR_FILENO), .list = json_array() };
	struct err err = { 0 };
	int status;

	x.target.stopped = signals_stopped;
	x.labels = NEW_N(struct send_label, s->labels.n + 1);
	if (target_url(s->push.to, &s->arena, &x.target.url, &err) < 0 ||
	    read_labels(s, x.labels, &err) < 0) {
		tell_error("send", &err);
		status = EXIT_USAGE;
	} else if (target_token(s->push.token_file, &s->arena, &x.target.token, &err) < 0) {
		status = tell_error("send", &err);
	} else {
		status = send_all(&x);
	}
	json_decref(x.list);
	free(x.labels);
	return status;
}

static const struct option_row send_rows[] = {
	TARGET_ROWS,
	{ 0, "label", "NAME=VALUE", "by which the profiles are found: service=web; may be given again",
	  OPT_LIST(labels) },
	{ 0, "input-format", "FORMAT", PROFILE_INPUT_HELP, OPT_TEXT(profile.input_format) },
	{ 0 },
};
static const struct option_group send_group = { "Sending", send_rows };

const struct command command_send = {
	.name = "send",
	.args = "PROFILE... --to URL",
	.summary = "profiles of any format to a server that keeps and names them",
	.examples =
		"  perf record -g ./app; lode send perf.data --to http://localhost:8002 --label service=app\n"
		"  curl -s host:6060/debug/pprof/heap | lode send - --to http://localhost:8002\n",
	.groups = { &send_group, &group_output },
	.min_args = 1,
	.max_args = SIZE_MAX,
	.missing = "which PROFILE?",
	.run = run_send,
};
