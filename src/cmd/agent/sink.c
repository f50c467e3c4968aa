/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent that sends: the labels of all profiles, the spool, uploads of debug information, the state file and metrics.
 */
#include "cmd/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/status.h"
#include "cmd/push/send.h"

#define GRACE_MS       3000
#define STATE_EVERY_MS 5000
#define STATE_OLD_MS   30000
#define STATE_MAX      MIB(1)
#define ROOT_STATE     "/var/lib/lode-agent"

/* ---- places ---- */

/* --state, systemd's StateDirectory=, the usual place of root and of others. */
static const char *state_folder(const struct settings *s, struct arena *a)
{
	const char *given = agent_settings(s)->state, *systemd = getenv("STATE_DIRECTORY"),
		   *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (given)
		return given;
	if (systemd && *systemd == '/')
		return systemd;
	if (geteuid() == 0 || (!xdg && !home))
		return ROOT_STATE;
	return xdg && *xdg == '/' ? arena_printf(a, "%s/lode-agent", xdg)
				  : arena_printf(a, "%s/.local/state/lode-agent", home ? home : "");
}

static const char *state_file(const char *folder, struct arena *a)
{
	return arena_printf(a, "%s/status.json", folder);
}

/* ---- labels of all profiles ---- */

static bool has_send_label(const struct send_label *l, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(l[i].name, name))
			return true;
	return false;
}

/* Those of --label, and node. */
static int labels_of_node(const struct settings *s, struct arena *a, struct send_label **ret, size_t *ret_n,
			  struct err *err)
{
	struct send_label *l = ARENA_NEW_N(a, struct send_label, s->labels.n + 2);
	const char *node = agent_settings(s)->node;
	char host[HOST_NAME_MAX + 1] = "";
	size_t n = s->labels.n;

	if (send_labels_parse(s, l, err) < 0)
		return -1;
	if (!node && gethostname(host, sizeof(host) - 1) == 0)
		node = arena_strdup(a, str_of(host));
	if (node && *node && !has_send_label(l, n, STR("node")))
		l[n++] = (struct send_label){ STR("node"), str_of(node) };
	*ret = l;
	*ret_n = n;
	return 0;
}

static int label_query(const struct settings *s, struct arena *a, const char **ret, struct err *err)
{
	AUTO(buf_done) struct buf out = { 0 };
	struct send_label *l;
	size_t n;

	if (labels_of_node(s, a, &l, &n, err) < 0)
		return -1;
	if (!has_send_label(l, n, STR("__name__")))
		l[n++] = (struct send_label){ STR("__name__"), STR("process_cpu") };
	for (size_t i = 0; i < n; i++) {
		buf_add_str(&out, i ? STR("&") : STR(""));
		net_escape(&out, l[i].name, false);
		buf_add_char(&out, '=');
		net_escape(&out, l[i].value, false);
	}
	*ret = arena_strdup(a, buf_str(&out));
	return 0;
}

/* The same as attributes of OTLP. "__name__" is the name of a profile's type, which OTLP has elsewhere. */
static int label_resource(const struct settings *s, struct arena *a, struct sender_options *ret,
			  struct err *err)
{
	struct otlp_label *resource;
	struct send_label *l;
	size_t n;

	if (labels_of_node(s, a, &l, &n, err) < 0)
		return -1;
	resource = ARENA_NEW_N(a, struct otlp_label, n + 1);
	for (size_t i = 0; i < n; i++)
		if (!str_eq(l[i].name, STR("__name__")))
			resource[ret->n_resource++] = (struct otlp_label){
				sender_otlp_key(l[i].name, l[i].value), l[i].value
			};
	ret->resource = resource;
	return 0;
}

static int otlp_packing_of(const struct settings *s, enum otlp_packing *ret, struct err *err)
{
	static const char *const names[] = {
		[OTLP_PLAIN] = "none", [OTLP_GZIP] = "gzip", [OTLP_ZSTD] = "zstd"
	};
	const char *name = agent_settings(s)->otlp_packing;

	*ret = OTLP_GZIP;
	if (!name)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], name) == 0) {
			*ret = (enum otlp_packing)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "--otlp-compression '%s': not gzip, zstd or none", name);
}

/* ---- start and end ---- */

static void on_wanted_id(void *arg, const struct build_id *id)
{
	struct agent_run *r = arg;

	if (r->home)
		home_want(r->home, id);
}

static int open_home(const struct settings *s, struct agent_run *r, const char *token, const char *folder,
		     struct err *err)
{
	const struct agent_settings *o = agent_settings(s);
	const struct home_options h = { .url = r->url,
					.token = token,
					.rate = o->upload_rate,
					.executables = o->upload_executables,
					.dir = folder };

	/* A receiver of OTLP takes no files. */
	return o->no_upload || o->to_otlp ? 0 : home_new(&h, &r->home, err);
}

int agent_sink_open(const struct settings *s, struct agent_run *r, struct err *err)
{
	const struct agent_settings *o = agent_settings(s);
	const char *folder = state_folder(s, &r->arena), *token = NULL;
	struct sender_options send = { .wanted = on_wanted_id, .arg = r };

	/* A connection that the server closes must not end the agent. */
	signal(SIGPIPE, SIG_IGN);
	send.otlp = o->to_otlp;
	if (target_url(send.otlp ? o->to_otlp : s->push.to, &r->arena, &r->url, err) < 0)
		return send.otlp ? err_set(err, ERR_INVALID,
					   "--to-otlp %s: not the URL of a receiver, as "
					   "http://collector:4318",
					   o->to_otlp)
				 : -1;
	if (target_token(s->push.token_file, &r->arena, &token, err) < 0 ||
	    otlp_packing_of(s, &send.packing, err) < 0 ||
	    (send.otlp ? label_resource(s, &r->arena, &send, err)
		       : label_query(s, &r->arena, &send.query, err)) < 0)
		return -1;
	send.url = r->url;
	send.token = token;
	if (dir_make(folder, 0700, err) < 0)
		return err_in(err, "--state");
	if (o->listen && agent_listener_open(o->listen, &r->listener, err) < 0)
		return -1;
	if (o->spool_size &&
	    spool_open(arena_printf(&r->arena, "%s/%s", folder, send.otlp ? "spool-otlp" : "spool"),
		       o->spool_size, o->spool_age_s, &send.spool, err) < 0)
		return -1;
	if (open_home(s, r, token, folder, err) < 0) {
		spool_close(send.spool);
		return -1;
	}
	if (sender_new(&send, &r->sender, err) < 0)
		return -1;
	/* From here on, and not earlier: the file of another agent in this folder stays if this one does not start. */
	r->state_file = state_file(folder, &r->arena);
	r->shown_url = arena_strdup(&r->arena, net_url_shown(str_of(r->url), &r->arena));
	agent_sink_tick(r);
	log_info("agent", "%s; profiles go to %s", agent_about(r->agent)->text, r->shown_url);
	return 0;
}

void agent_sink_close(struct agent_run *r)
{
	struct profile *last = r->sender && r->agent ? agent_take(r->agent) : NULL;

	if (last)
		sender_put(r->sender, last);
	/* The sender hands the wanted build IDs to the thread of uploads. */
	sender_free(TAKE(r->sender), GRACE_MS);
	home_free(TAKE(r->home));
	agent_listener_close(TAKE(r->listener));
	if (r->state_file)
		unlink(r->state_file);
}

/* ---- the run ---- */

void agent_sink_window(void *run, struct profile *taken)
{
	struct agent_run *r = run;

	sender_put(r->sender, taken);
}

static void read_agent_status(struct agent_run *r, struct agent_status *st)
{
	*st = (struct agent_status){ .sends = true, .url = r->shown_url };
	agent_stats(r->agent, &st->agent);
	sender_stats(r->sender, &st->sender);
	if (r->home)
		home_stats(r->home, &st->home);
	agent_status_usage(st);
}

/* Not durable: it is of no use after a crash. */
static void write_state(struct agent_run *r, const struct agent_status *st)
{
	AUTO(mem_freep) char *temp = mem_printf("%s.new", r->state_file);
	AUTO(buf_done) struct buf text = { 0 };
	struct json_writer w = { .out = &text, .indent = 2 };
	AUTO(fd_close) int fd = -1;
	struct err err = { 0 };

	agent_status_json(st, &w);
	buf_add_char(&text, '\n');
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0)
		(void)err_os(&err, errno, "%s", temp);
	if ((fd < 0 || fd_write(fd, text.p, text.size, &err) < 0 || rename(temp, r->state_file) < 0) &&
	    !r->state_failed) {
		r->state_failed = true;
		log_warn("agent", "the state file %s cannot be written: %s", r->state_file,
			 err.text[0] ? err.text : strerror(errno));
	}
}

static void open_wanted(struct agent_run *r)
{
	struct agent_mapped m;
	struct build_id id;

	if (!r->home || !home_next(r->home, &id))
		return;
	if (agent_open_mapped(r->agent, &id, &m) < 0) {
		home_give(r->home, &id, -1, 0, "");
		return;
	}
	home_give(r->home, &id, m.fd, m.pid, m.path);
	free(m.path);
}

void agent_sink_tick(void *run)
{
	struct agent_run *r = run;
	int64_t now_ms = clock_mono_ms();
	struct agent_status st;

	open_wanted(r);
	if (now_ms - r->state_ms >= STATE_EVERY_MS || r->listener) {
		read_agent_status(r, &st);
		agent_status_metrics(&st);
		agent_listener_poll(r->listener);
	}
	if (now_ms - r->state_ms < STATE_EVERY_MS)
		return;
	r->state_ms = now_ms;
	write_state(r, &st);
}

/* ---- lode agent --status ---- */

int agent_show_status(const struct settings *s)
{
	AUTO(arena_done) struct arena a;
	AUTO(buf_done) struct buf text = { 0 };
	AUTO(buf_done) struct buf out = { 0 };
	const char *path;
	struct err err = { 0 };
	struct stat st;
	int r;

	arena_init(&a);
	path = state_file(state_folder(s, &a), &a);
	r = file_read(path, STATE_MAX, &text, &err);
	if (r > 0)
		(void)err_set(
			&err, ERR_IO,
			"no agent runs: there is no %s; one with --state DIR is asked with the same option",
			path);
	if (r)
		return tell_error("agent", &err);
	if (s->json) {
		fwrite(text.p, 1, text.size, stdout);
		return EXIT_DONE;
	}
	if (agent_status_print(buf_bytes(&text), &out, &err) < 0) {
		err_in(&err, "%s", path);
		return tell_error("agent", &err);
	}
	/* Its errors have names of sections and files of strangers. */
	for (struct str rest = buf_str(&out); rest.size; putchar('\n'))
		print_text(stdout, str_cut(&rest, '\n'));
	if (stat(path, &st) == 0 && clock_wall_s() - st.st_mtim.tv_sec > STATE_OLD_MS / 1000)
		fprintf(stderr,
			"lode: agent: this state is %lld s old: the agent has been killed, or hangs\n",
			(long long)(clock_wall_s() - st.st_mtim.tv_sec));
	return EXIT_DONE;
}
