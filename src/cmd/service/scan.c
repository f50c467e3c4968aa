/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode scan: index files and packages without serving them, with progress on a terminal.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/internal.h"

#define LOOK_EVERY_MS 200
#define SHOW_FAILURES 20u

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

static void catch_signals(void)
{
	/* The second one ends us at once. */
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
}

/* The roots as the index names what is below them. One that is not there is an error: who asks for a scan
 * wants to know. */
static int make_real(struct settings *s, struct err *err)
{
	for (size_t i = 0; i < s->paths.n; i++) {
		const char *path = s->paths.items[i].p;
		char real[PATH_MAX];

		if (!realpath(path, real))
			return err_os(err, errno, "%s", path);
		s->paths.items[i] = arena_str(&s->arena, str_of(real));
	}
	return 0;
}

/* Returns when all is scanned, or a signal came. */
static int scan_all(const struct scan_options *o, bool show, struct scan_progress *ret, struct err *err)
{
	struct scan *scan = NULL;

	if (scan_new(o, &scan, err) < 0 || scan_start(scan, err) < 0) {
		scan_free(scan);
		return -1;
	}
	while (!scan_wait_idle(scan, LOOK_EVERY_MS) && !interrupted) {
		scan_progress(scan, ret);
		if (show)
			progress_show(ret);
	}
	scan_progress(scan, ret);
	if (show)
		progress_clear();
	scan_free(scan);
	return 0;
}

static int report_json(const struct scan_progress *p, double took_s, uint64_t n_failed, json_t *failures)
{
	return json_print(json_pack("{s:I, s:I, s:I, s:I, s:f, s:I, s:O}", "files_seen",
				    (json_int_t)p->n_seen, "packages", (json_int_t)p->n_packages,
				    "packages_decoded", (json_int_t)p->n_packages_deep, "bytes",
				    (json_int_t)p->bytes_done, "seconds", took_s, "failed",
				    (json_int_t)n_failed, "failures", failures));
}

static void report_text(const struct scan_progress *p, double took_s, uint64_t n_failed,
			const json_t *failures)
{
	char size[32], rate[32];
	json_t *one;
	size_t i;

	printf("%llu files seen, %llu packages, %s in %.1f s (%s/s), %llu failed\n",
	       (unsigned long long)p->n_seen, (unsigned long long)p->n_packages,
	       size_text(p->bytes_done, size), took_s,
	       size_text(took_s > 0 ? (uint64_t)((double)p->bytes_done / took_s) : 0, rate),
	       (unsigned long long)n_failed);
	json_array_foreach(failures, i, one)
	{
		struct err why = { 0 };

		err_set(&why, ERR_INVALID, "%s: %s", json_string_value(json_object_get(one, "path")),
			json_string_value(json_object_get(one, "reason")));
		tell_error("scan", &why);
	}
	if (n_failed > json_array_size(failures))
		fprintf(stderr, "lode: scan: and %llu more, see: lode stat\n",
			(unsigned long long)(n_failed - json_array_size(failures)));
}

static int report(const struct settings *s, const char *index_path, const struct scan_progress *p,
		  double took_s)
{
	const struct index_options opts = { .read_only = true };
	struct err err = { 0 };
	struct index *ix;
	json_t *failures;
	uint64_t n_failed;
	int r;

	if (index_open(index_path, &opts, &ix, &err) < 0)
		return tell_error("scan", &err);
	r = failures_collect(ix, s->paths.items, s->paths.n, s->json ? SIZE_MAX : SHOW_FAILURES, &failures,
			     &n_failed, &err);
	index_close(ix);
	if (r < 0)
		return tell_error("scan", &err);
	if (s->json)
		report_json(p, took_s, n_failed, failures);
	else
		report_text(p, took_s, n_failed, failures);
	json_decref(failures);
	return n_failed ? EXIT_FAILED : EXIT_DONE;
}

static int run(struct settings *s, const char *data)
{
	AUTO(mem_freep) char *index = mem_printf("%s/index.sqlite", data);
	AUTO(mem_freep) char *points = mem_printf("%s/points", data);
	struct scan_options o = s->scan;
	struct scan_progress p = { 0 };
	struct err err = { 0 };
	bool show = isatty(STDERR_FILENO) && !s->verbose;
	int64_t from_ms = clock_mono_ms();

	if (make_real(s, &err) < 0 || data_lock(data, &err) < 0)
		return tell_error("scan", &err);
	/* What failed is told at the end; on a terminal, a line in between would tear the progress. */
	if (!s->verbose)
		log_set_level(show ? LOG_ERROR : LOG_WARN);
	catch_signals();
	o.index_path = index;
	o.points_dir = points;
	o.roots = s->paths.items;
	o.n_roots = s->paths.n;
	o.package_suffixes = s->suffixes.items;
	o.n_package_suffixes = s->suffixes.n;
	if (scan_all(&o, show, &p, &err) < 0)
		return tell_error("scan", &err);
	if (interrupted) {
		fprintf(stderr,
			"lode: scan: stopped: what is done is kept, the next scan goes on from there\n");
		return EXIT_FAILED;
	}
	return report(s, index, &p, (double)(clock_mono_ms() - from_ms) / 1000.0);
}

static int scan(struct settings *s)
{
	AUTO(mem_freep) char *data = NULL;
	struct err err = { 0 };

	data = data_dir(s->data, &err);
	if (!data)
		return tell_error("scan", &err);
	if (!s->paths.n)
		add_own_files(s);
	return run(s, data);
}

static void defaults(struct settings *s)
{
	s->scan.files = s->scan.packages = true;
}

const struct command command_scan = {
	.name = "scan",
	.args = "[PATH...]",
	.summary = "index files and packages, without serving them",
	.examples = "  lode scan /srv/debs                 then: lode serve /srv/debs\n"
		    "  lode scan --json --data /tmp/x .    a summary for programs; exit status 1 if "
		    "something failed\n",
	.groups = { &group_state, &group_scanning, &group_output },
	.configured = true,
	.max_args = SIZE_MAX,
	.defaults = defaults,
	.run = scan,
};
