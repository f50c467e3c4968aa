/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode scan: index files and packages without serving them, with progress on a terminal.
 */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/internal.h"

#define SHOW_FAILURES 20u

enum {
	KEY_DATA = 256,
	KEY_CONFIG,
	KEY_INCLUDE,
	KEY_EXCLUDE,
	KEY_FOLLOW,
	KEY_THREADS,
	KEY_HEADER_ONLY,
	KEY_JSON
};

static const struct option_row options[] = {
	{ KEY_DATA, "data", "DIR", "where the state lies [$LODE_DATA, /var/lib/lode, $XDG_STATE_HOME/lode]" },
	{ KEY_CONFIG, "config", "FILE", "lines 'long-name = value' [/etc/lode/lode.conf]" },
	{ KEY_INCLUDE, "include", "REGEX", "only paths that match (POSIX extended)" },
	{ KEY_EXCLUDE, "exclude", "REGEX", "no paths that match; stronger than --include" },
	{ KEY_FOLLOW, "follow-links", NULL, "follow symbolic links and cross file systems" },
	{ KEY_THREADS, "scan-threads", "N", "threads that scan [CPUs]" },
	{ KEY_HEADER_ONLY, "header-only", NULL, "only what packages say of themselves" },
	{ KEY_JSON, "json", NULL, "a summary for programs" },
	OPTION_END,
};

struct scan_cmd {
	struct scan_options o;
	const char *data;
	bool json;
	struct arena arena;
};

static int set(void *ctx, int key, const char *value, struct err *err)
{
	struct scan_cmd *s = ctx;
	const char *kept = value ? arena_strdup(&s->arena, str_of(value)) : NULL;
	uint64_t v;

	switch (key) {
	case KEY_DATA:
		s->data = kept;
		return 0;
	case KEY_CONFIG:
		return 0;
	case KEY_INCLUDE:
		s->o.include_regex = kept;
		return 0;
	case KEY_EXCLUDE:
		s->o.exclude_regex = kept;
		return 0;
	case KEY_FOLLOW:
		s->o.follow_links = true;
		return 0;
	case KEY_THREADS:
		if (value_u64(value, 1024, &v, err) < 0)
			return -1;
		s->o.threads = (unsigned)v;
		return 0;
	case KEY_HEADER_ONLY:
		s->o.header_only = true;
		return 0;
	case KEY_JSON:
		s->json = true;
		return 0;
	}
	return err_set(err, ERR_INTERNAL, "option %d", key);
}

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

/* One line, written over: what is done, how fast, how long still. */
static void show_progress(const struct scan_progress *p)
{
	double elapsed_s = (double)(clock_mono_ms() - p->started_mono_ms) / 1000.0;
	double rate = elapsed_s > 0 ? (double)p->bytes_done / elapsed_s : 0;
	int filled = p->bytes_total ? (int)(24.0 * (double)MIN(p->bytes_done, p->bytes_total) /
					    (double)p->bytes_total)
				    : 0;

	fprintf(stderr, "\r\033[K[%.*s%*s] %llu files, %llu of %llu packages, %.0f of %.0f MB, %.1f MB/s",
		filled, "########################", 24 - filled, "", (unsigned long long)p->n_seen,
		(unsigned long long)p->n_packages_deep, (unsigned long long)p->n_packages,
		(double)p->bytes_done / 1e6, (double)p->bytes_total / 1e6, rate / 1e6);
	if (rate > 0 && p->bytes_total > p->bytes_done)
		fprintf(stderr, ", %.0f s left", (double)(p->bytes_total - p->bytes_done) / rate);
	fflush(stderr);
}

/* What failed, with its reason; counts all, collects the first. */
static int failures(const char *index_path, json_t *list, uint64_t *ret_n, struct err *err)
{
	struct index_options opts = { .read_only = true };
	struct index *ix;
	int64_t after = 0;
	int r;

	*ret_n = 0;
	if (index_open(index_path, &opts, &ix, err) < 0)
		return -1;
	for (;;) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		size_t n;

		arena_init(&a);
		r = index_list(ix, 0, INDEX_FAILED, after, 1000, &a, &files, &n, err);
		if (r < 0 || !n)
			break;
		for (size_t i = 0; i < n; i++) {
			after = files[i].id;
			if ((*ret_n)++ < SHOW_FAILURES)
				json_array_append_new(list, json_pack("{s:o, s:o}", "path",
								      json_text(files[i].path), "reason",
								      json_text(files[i].reason)));
		}
	}
	index_close(ix);
	return r;
}

static int report(const struct scan_cmd *s, const char *index_path, const struct scan_progress *p,
		  double took_s)
{
	json_t *list = json_array();
	struct err err = { 0 };
	uint64_t n_failed;
	size_t i;
	json_t *one;

	if (failures(index_path, list, &n_failed, &err) < 0) {
		json_decref(list);
		return fail(&err);
	}
	if (s->json) {
		json_t *all = json_pack("{s:I, s:I, s:I, s:f, s:I, s:O}", "files_seen", (json_int_t)p->n_seen,
					"packages", (json_int_t)p->n_packages, "bytes",
					(json_int_t)p->bytes_done, "seconds", took_s, "failed",
					(json_int_t)n_failed, "failures", list);

		json_dumpf(all, stdout, JSON_INDENT(2));
		printf("\n");
		json_decref(all);
	} else {
		printf("%llu files seen, %llu packages, %.0f MB in %.1f s\n", (unsigned long long)p->n_seen,
		       (unsigned long long)p->n_packages, (double)p->bytes_done / 1e6, took_s);
		json_array_foreach(list, i, one) fprintf(stderr, "lode: scan: %s: %s\n",
							 json_string_value(json_object_get(one, "path")),
							 json_string_value(json_object_get(one, "reason")));
		if (n_failed > SHOW_FAILURES)
			fprintf(stderr, "lode: scan: and %llu more: lode stat\n",
				(unsigned long long)(n_failed - SHOW_FAILURES));
	}
	json_decref(list);
	return n_failed ? EXIT_FAILED : EXIT_DONE;
}

static int run(const struct scan_cmd *s, const char *data)
{
	AUTO(mem_freep) char *index = mem_printf("%s/index.sqlite", data);
	AUTO(mem_freep) char *points = mem_printf("%s/points", data);
	struct scan_options o = s->o;
	struct scan_progress p;
	struct scan *scan = NULL;
	struct err err = { 0 };
	bool terminal = isatty(STDERR_FILENO) && !s->json;
	int64_t from_ms = clock_mono_ms();
	struct sigaction act = { .sa_handler = on_signal };

	if (service_lock(data, &err) < 0)
		return fail(&err);
	if (terminal)
		log_set_level(LOG_ERROR);
	else if (log_level() == LOG_INFO)
		log_set_level(LOG_WARN);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	o.index_path = index;
	o.points_dir = points;
	if (scan_new(&o, &scan, &err) < 0 || scan_start(scan, &err) < 0) {
		scan_free(scan);
		return fail(&err);
	}
	while (!scan_wait_idle(scan, 200) && !interrupted) {
		scan_progress(scan, &p);
		if (terminal)
			show_progress(&p);
	}
	scan_progress(scan, &p);
	if (terminal)
		fprintf(stderr, "\r\033[K");
	scan_free(scan);
	if (interrupted) {
		fprintf(stderr,
			"lode: scan: stopped; what is done is kept, the next scan goes on from there\n");
		return EXIT_FAILED;
	}
	return report(s, index, &p, (double)(clock_mono_ms() - from_ms) / 1000.0);
}

static int scan(const struct command *cmd, int argc, char **argv)
{
	struct scan_cmd s = { .o = { .files = true, .packages = true } };
	struct str *roots = NEW_N(struct str, (size_t)argc + 1);
	int first, r, status = EXIT_USAGE;
	char *data;

	arena_init(&s.arena);
	r = options_read_defaults(cmd, argc, argv, set, &s);
	if (r == 0)
		r = options_read(cmd, argc, argv, set, &s, &first);
	if (r != 0) {
		status = r > 0 ? EXIT_DONE : EXIT_USAGE;
		goto out;
	}
	for (int i = first; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st) != 0) {
			fprintf(stderr, "lode: scan: %s: no such file or folder\n", argv[i]);
			status = EXIT_FAILED;
			goto out;
		}
		roots[s.o.n_roots++] = str_of(argv[i]);
	}
	if (!s.o.n_roots) {
		status = fail_usage(cmd, "which PATH?");
		goto out;
	}
	s.o.roots = roots;
	data = data_dir(s.data);
	status = run(&s, data);
	free(data);
out:
	free(roots);
	arena_done(&s.arena);
	return status;
}

const struct command command_scan = {
	.name = "scan",
	.args = "PATH...",
	.summary = "index files and packages, without serving them",
	.options = options,
	.run = scan,
	.examples = "  lode scan /srv/debs                 then: lode serve /srv/debs\n"
		    "  lode scan --json --data /tmp/x .    a summary for programs; 1 if something could not "
		    "be read\n",
};
