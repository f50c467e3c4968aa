/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode demo: real profiles to look at within a minute. A small program is run and samples itself; its
 * profiles, which have addresses only, are sent to a server, then its debug information. The server fills in
 * the names.
 */
#include "cmd/demo/demo.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd/push/send.h"

#define USUAL_URL "http://localhost:8002"
#define LISTEN    "127.0.0.1:8002"
#define SERVICE   "demo-shop"
#define TYPE      "profile:cpu:nanoseconds:cpu:nanoseconds:delta"
#define SLICES    12u
#define SLICE_MS  400u
#define MINUTES   12u
#define START_MS  60000
#define NAMED_MS  30000

struct demo {
	struct settings *s;
	struct target target;
	char *folder;
	pid_t server; /* that was started; 0: none */
	int64_t now_ms;
	unsigned n_profiles;
	uint64_t n_samples;
	char build_id[BUILD_ID_HEX_SIZE];
};

__attribute__((format(printf, 2, 3))) static void demo_print(const struct demo *d, const char *fmt, ...)
{
	va_list ap;

	if (d->s->demo.quiet)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

/* ---- the server ---- */

static int start_demo_server(struct demo *d, struct err *err)
{
	AUTO(mem_freep) char *data = mem_printf("%s/data", d->folder);
	/* An empty folder: it serves pushed files only. */
	AUTO(mem_freep) char *nothing = mem_printf("%s/nothing", d->folder);
	const char *const argv[] = { "lode", "serve",         "--listen",        LISTEN,  "--data",
				     data,   "--no-upstream", "--no-access-log", nothing, NULL };
	int r;

	if (dir_make(nothing, 0755, err) < 0)
		return -1;
	r = posix_spawn(&d->server, "/proc/self/exe", NULL, NULL, (char *const *)argv, environ);
	return r ? err_os(err, r, "lode serve cannot be started") : 0;
}

static bool answers(struct demo *d)
{
	const struct target_request req = { .method = "GET", .path = "/healthz" };
	AUTO(net_answer_done) struct net_answer a = { 0 };
	struct err ignored = { 0 };

	return target_ask(&d->target, &req, &a, &ignored) == 0 && a.status == 200;
}

static bool is_server_running(struct demo *d)
{
	if (d->server && waitpid(d->server, NULL, WNOHANG) == d->server)
		d->server = 0;
	return d->server;
}

static int wait_for_server(struct demo *d, struct err *err)
{
	int64_t until_ms = clock_mono_ms() + START_MS;

	while (!answers(d)) {
		if (!is_server_running(d))
			return err_set(err, ERR_IO, "the lode serve that was started has ended");
		if (signals_stopped() || clock_mono_ms() > until_ms)
			return err_set(err, ERR_CANCELLED, "the lode serve that was started does not answer");
		usleep(50000);
	}
	return 0;
}

static int find_server(struct demo *d, struct err *err)
{
	int64_t until_ms = clock_mono_ms() + d->s->demo.wait_s * 1000;

	do {
		if (answers(d))
			return 0;
		usleep(50000);
	} while (!signals_stopped() && clock_mono_ms() < until_ms);
	if (d->s->push.to)
		return err_set(err, ERR_UPSTREAM,
			       "%s: no lode serve answers there; start one, or leave out --to",
			       net_url_shown(str_of(d->target.url), &d->s->arena).p);
	if (start_demo_server(d, err) < 0)
		return -1;
	return wait_for_server(d, err);
}

static void stop_server(struct demo *d)
{
	if (!d->server)
		return;
	kill(d->server, SIGTERM);
	while (waitpid(d->server, NULL, 0) < 0 && errno == EINTR)
		;
}

/* ---- the content of the server ---- */

static json_t *get_json(struct demo *d, const char *path)
{
	const struct target_request req = { .method = "GET", .path = path };
	AUTO(net_answer_done) struct net_answer a = { 0 };
	struct err ignored = { 0 };
	json_error_t no_json;

	if (target_ask(&d->target, &req, &a, &ignored) < 0 || a.status != 200)
		return NULL;
	return json_loadb((const char *)a.body.p, a.body.size, 0, &no_json);
}

static bool has_profiles(struct demo *d)
{
	json_t *all = get_json(d, "/api/types?from=0");
	bool any = json_array_size(json_object_get(all, "types")) > 0;

	json_decref(all);
	return any;
}

static bool has_string(const json_t *all, const char *name)
{
	const json_t *strings = json_object_get(all, "strings");

	for (size_t i = 0; i < json_array_size(strings); i++) {
		const char *s = json_string_value(json_array_get(strings, i));

		if (s && strcmp(s, name) == 0)
			return true;
	}
	return false;
}

static bool wait_for_names(struct demo *d)
{
	int64_t until_ms = clock_mono_ms() + NAMED_MS;
	AUTO(buf_done) struct buf path = { 0 };
	bool named = false;

	buf_add_str(&path, STR("/api/flamegraph?query="));
	net_escape(&path, STR(TYPE "{service=\"" SERVICE "\"}"), false);
	buf_add_str(&path, STR("&wait=2s"));
	while (!named && !signals_stopped() && clock_mono_ms() < until_ms) {
		json_t *all = get_json(d, buf_cstr(&path));

		if (!all)
			return false;
		named = has_string(all, "score_item") && has_string(all, "sift_down");
		json_decref(all);
		if (!named)
			usleep(100000);
	}
	return named;
}

/* ---- sending ---- */

static int send_slice(void *arg, unsigned slice, struct str thread, struct profile *p, struct err *err)
{
	struct demo *d = arg;
	const struct send_label labels[] = { { STR("service"), STR(SERVICE) }, { STR("thread"), thread } };
	int64_t step_ms = (int64_t)d->s->demo.minutes * 60000 / d->s->demo.slices;
	int64_t time_ms = d->now_ms - (int64_t)(d->s->demo.slices - 1 - slice) * step_ms;
	struct send_result result;

	for (uint32_t i = 0; i < p->mappings.n && !d->build_id[0]; i++)
		if (str_ends(profile_str(p, p->mappings.p[i].file), STR(SERVICE)))
			snprintf(d->build_id, sizeof(d->build_id), STR_FMT,
				 STR_ARG(profile_str(p, p->mappings.p[i].build_id)));
	if (signals_stopped())
		return err_set(err, ERR_CANCELLED, "stopped");
	if (send_profile(&d->target, p, (struct send_labels){ labels, ARRAY_SIZE(labels) }, time_ms, &result,
			 err) < 0)
		return -1;
	d->n_profiles++;
	d->n_samples += (uint64_t)profile_total(p, 0);
	return 0;
}

static int push_file(struct demo *d, const char *kind, struct bytes file, struct err *err)
{
	AUTO(mem_freep) char *path = mem_printf("/buildid/%s/%s", d->build_id, kind);
	const struct target_request req = {
		.method = "PUT", .path = path, .type = "application/octet-stream", .body = file
	};
	AUTO(net_answer_done) struct net_answer a = { 0 };
	AUTO(mem_freep) char *message = NULL;
	uint64_t ignored;
	int r;

	if (target_ask(&d->target, &req, &a, err) < 0)
		return -1;
	r = client_answer_upload(a.status, buf_str(&a.headers), file.size, &ignored, err);
	if (r < 0)
		return err_in(err, "its %s", kind);
	if (r == CLIENT_UPLOAD_STORED || r == CLIENT_UPLOAD_HELD || r == CLIENT_UPLOAD_SAME ||
	    r == CLIENT_UPLOAD_BETTER)
		return 0;
	message = client_message(buf_bytes(&a.body));
	return err_set(err, ERR_UPSTREAM, "the server refuses its %s: %s (%u)", kind, message, a.status);
}

static int send_demo(struct demo *d, struct err *err)
{
	const struct demo_settings *o = &d->s->demo;
	const struct demo_program program = { d->folder, o->slices, o->slice_ms, send_slice, d };

	demo_print(d, "a small program runs for %.1f s and is profiled ...\n",
		   o->slices * o->slice_ms / 1000.0);
	if (demo_program_run(&program, err) < 0)
		return -1;
	if (!d->n_profiles)
		return err_set(err, ERR_IO,
			       "the program took no samples; timers of CPU time may be forbidden here");
	demo_print(d, "%llu samples in %u profiles sent, dated over the last %u minutes\n",
		   (unsigned long long)d->n_samples, d->n_profiles, o->minutes);
	if (push_file(d, "debuginfo", demo_program_debug(), err) < 0 ||
	    push_file(d, "sources", demo_program_sources(), err) < 0)
		return -1;
	demo_print(d, "its debug information is pushed (build ID %s)\n", d->build_id);
	demo_print(d, "%s\n",
		   wait_for_names(d) ? "its functions have their names now"
				     : "its functions get their names in a moment");
	return 0;
}

/* ---- the command ---- */

static int run_steps(struct demo *d)
{
	struct err err = { 0 };

	if (target_token(d->s->push.token_file, &d->s->arena, &d->target.token, &err) < 0 ||
	    target_open(&d->target, &err) < 0 || demo_folder_make(&d->folder, &err) < 0 ||
	    find_server(d, &err) < 0)
		return tell_error("demo", &err);
	if (d->s->demo.if_empty && has_profiles(d)) {
		demo_print(d, "there are profiles already: %s/\n",
			   net_url_shown(str_of(d->target.url), &d->s->arena).p);
		return EXIT_DONE;
	}
	if (send_demo(d, &err) < 0)
		return tell_error("demo", &err);
	if (target_has_page(d->target.url))
		demo_print(d, "look at %s/\n", d->target.url);
	if (d->server) {
		demo_print(d, "the server runs until you stop it with Ctrl-C; its data is removed then\n");
		while (!signals_stopped() && is_server_running(d))
			usleep(200000);
	}
	return EXIT_DONE;
}

static int run_demo(struct settings *s)
{
	struct demo d = { .s = s, .now_ms = clock_wall_ms() };
	struct err err = { 0 };
	int status;

	if (!s->demo.slices || !s->demo.slice_ms) {
		return usage_error("demo", "--slices and --slice-ms cannot be 0");
	}
	if (target_url(s->push.to ? s->push.to : USUAL_URL, &s->arena, &d.target.url, &err) < 0) {
		return usage_error("demo", "%s", err.text);
	}
	d.target.stopped = signals_stopped;
	signals_catch();
	status = run_steps(&d);
	stop_server(&d);
	target_close(&d.target);
	demo_folder_remove(d.folder);
	return status;
}

static void demo_defaults(struct settings *s)
{
	s->demo.slices = SLICES;
	s->demo.slice_ms = SLICE_MS;
	s->demo.minutes = MINUTES;
}

static const struct option_row demo_rows[] = {
	TARGET_ROWS,
	{ 0, "if-empty", NULL, "do nothing if the server has profiles", OPT_ON(demo.if_empty) },
	{ 'q', "quiet", NULL, "print errors only", OPT_ON(demo.quiet) },
	{ 0, "wait", "SECONDS", "how long to wait for the server to answer [0]", OPT_SECONDS(demo.wait_s) },
	{ 0, "slices", "N", "profiles of each thread [12]", OPT_NUMBER(demo.slices) },
	{ 0, "slice-ms", "N", "length of each profile in milliseconds [400]", OPT_NUMBER(demo.slice_ms) },
	{ 0, "minutes", "N", "minutes over which the times of the profiles are spread [12]",
	  OPT_NUMBER(demo.minutes) },
	{ 0 },
};
static const struct option_group demo_group = { "Demonstration", demo_rows };

const struct command command_demo = {
	.name = "demo",
	.args = "",
	.summary = "send profiles of a small program to a server, to have something to look at",
	.examples = "  lode demo\n"
		    "  lode demo --to http://localhost:8002 --if-empty\n",
	.groups = { &demo_group },
	.defaults = demo_defaults,
	.run = run_demo,
};
