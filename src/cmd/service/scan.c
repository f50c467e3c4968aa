/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode scan: index files and packages without serving them, with progress on a terminal.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include "cmd/service/service.h"

#define LOOK_EVERY_MS 200
#define SHOW_FAILURES 20u

/* Make the roots real paths, as the index has them. A root that does not exist is an error. */
static int resolve_roots(struct settings *s, struct err *err)
{
	for (size_t i = 0; i < s->paths.n; i++) {
		const char *path = s->paths.items[i].p;
		char real[PATH_MAX];

		if (s3_is_url(s->paths.items[i]))
			continue;
		if (!realpath(path, real))
			return err_os(err, errno, "%s", path);
		s->paths.items[i] = arena_str(&s->arena, str_of(real));
	}
	return 0;
}

/* Returns when all is scanned, or after a signal. */
static int scan_to_end(const struct scan_options *o, bool show, struct scan_progress *ret, struct err *err)
{
	struct scan *scan = NULL;

	if (scan_new(o, &scan, err) < 0 || scan_start(scan, err) < 0) {
		scan_free(scan);
		return -1;
	}
	while (!scan_wait_idle(scan, LOOK_EVERY_MS) && !signals_stopped()) {
		scan_progress(scan, ret);
		if (show) {
			AUTO(buf_done) struct buf line = { 0 };

			scan_progress_line(ret, &line);
			progress_show(&line);
		}
	}
	scan_progress(scan, ret);
	if (show)
		progress_clear();
	scan_free(scan);
	return 0;
}

static void print_scan_json(const struct scan_progress *p, double took_s, const struct failures *f)
{
	struct buf text = { 0 };
	struct json_writer j = JSON_WRITER(&text);

	json_open_object(&j, NULL);
	json_put_uint(&j, "files_seen", p->n_seen);
	json_put_uint(&j, "packages", p->n_packages);
	json_put_uint(&j, "packages_decoded", p->n_packages_deep);
	json_put_uint(&j, "bytes", p->bytes_done);
	json_put_double(&j, "seconds", took_s);
	json_put_uint(&j, "failed", f->n);
	failures_put(&j, f);
	json_close(&j);
	json_print_end(&text);
}

static void print_scan_text(const struct scan_progress *p, double took_s, const struct failures *f)
{
	char size[32], rate[32];

	printf("%llu files seen, %llu packages, %s in %.1f s (%s/s), %llu failed\n",
	       (unsigned long long)p->n_seen, (unsigned long long)p->n_packages,
	       size_text(p->bytes_done, size), took_s,
	       size_text(took_s > 0 ? (uint64_t)((double)p->bytes_done / took_s) : 0, rate),
	       (unsigned long long)f->n);
	for (size_t i = 0; i < f->n_listed; i++) {
		struct err why = { 0 };

		(void)err_set(&why, ERR_INVALID, STR_FMT ": " STR_FMT, STR_ARG(f->v[i].path),
			      STR_ARG(f->v[i].reason));
		tell_error("scan", &why);
	}
	if (f->n > f->n_listed)
		fprintf(stderr, "lode: scan: %llu more files failed; lode stat lists them all\n",
			(unsigned long long)(f->n - f->n_listed));
}

static int report_scanned(const struct settings *s, const char *index_path, const struct scan_progress *p,
			  double took_s)
{
	const struct index_options opts = { .read_only = true };
	const struct failures_query q = { s->paths.items, s->paths.n, s->json ? SIZE_MAX : SHOW_FAILURES };
	AUTO(failures_done) struct failures f = { 0 };
	struct err err = { 0 };
	struct index *ix;
	int r;

	if (index_open(index_path, &opts, &ix, &err) < 0)
		return tell_error("scan", &err);
	r = failures_collect(ix, &q, &f, &err);
	index_close(ix);
	if (r < 0)
		return tell_error("scan", &err);
	if (s->json)
		print_scan_json(p, took_s, &f);
	else
		print_scan_text(p, took_s, &f);
	if (p->n_unlisted)
		fprintf(stderr,
			"lode: scan: incomplete: %u places could not be listed or stored, among them %s\n",
			p->n_unlisted, p->unlisted);
	return f.n || p->n_unlisted ? EXIT_FAILED : EXIT_DONE;
}

static int scan_into(struct settings *s, const char *data)
{
	AUTO(mem_freep) char *index = mem_printf("%s/index.sqlite", data);
	AUTO(mem_freep) char *points = mem_printf("%s/points", data);
	const struct service_settings *own = service_settings(s);
	struct scan_options o = own->scan;
	struct scan_progress p = { 0 };
	struct err err = { 0 };
	bool show = isatty(STDERR_FILENO) && !s->verbose;
	int64_t from_ms = clock_mono_ms();

	s3_shared_options(&own->s3);
	if (resolve_roots(s, &err) < 0 || data_lock(data, "--data", &err) < 0)
		return tell_error("scan", &err);
	/* Failures are printed at the end; on a terminal, a log line would break the progress line. */
	if (!s->verbose)
		log_set_level(show ? LOG_ERROR : LOG_WARN);
	signals_catch();
	o.index_path = index;
	o.points_dir = points;
	o.roots = s->paths.items;
	o.n_roots = s->paths.n;
	o.package_suffixes = own->suffixes.items;
	o.n_package_suffixes = own->suffixes.n;
	if (scan_to_end(&o, show, &p, &err) < 0)
		return tell_error("scan", &err);
	if (signals_stopped()) {
		fprintf(stderr, "lode: scan: stopped; the next scan goes on from here\n");
		return EXIT_FAILED;
	}
	return report_scanned(s, index, &p, (double)(clock_mono_ms() - from_ms) / 1000.0);
}

static int run_scan(struct settings *s)
{
	AUTO(mem_freep) char *data = NULL;
	struct err err = { 0 };

	data = data_dir(s->data, &err);
	if (!data)
		return tell_error("scan", &err);
	if (!s->paths.n)
		add_own_files(s);
	return scan_into(s, data);
}

static void scan_defaults(struct settings *s)
{
	struct service_settings *o = service_settings(s);

	o->scan.files = o->scan.packages = true;
}

const struct command command_scan = {
	.name = "scan",
	.args = "[PATH...]",
	.summary = "index files and packages without serving them",
	.examples = "  lode scan /srv/debs                 then: lode serve /srv/debs\n"
		    "  lode scan --json --data /tmp/x .    a summary for programs; exit status 1 if "
		    "a file failed\n",
	.groups = { &group_state, &group_scanning, &group_bucket, &group_output },
	.configured = true,
	.max_args = SIZE_MAX,
	.own_size = sizeof(struct service_settings),
	.defaults = scan_defaults,
	.run = run_scan,
};
