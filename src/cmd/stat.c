/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lode stat: what is indexed, how large it is, what failed and why.
 */
#include <jansson.h>
#include <stdlib.h>
#include <time.h>
#include "cmd/internal.h"

enum { KEY_DATA = 256, KEY_CONFIG, KEY_JSON };

static const struct option_row options[] = {
	{ KEY_DATA, "data", "DIR", "where the state lies [$LODE_DATA, /var/lib/lode, $XDG_STATE_HOME/lode]" },
	{ KEY_CONFIG, "config", "FILE", "lines 'long-name = value' [/etc/lode/lode.conf]" },
	{ KEY_JSON, "json", NULL, "for programs" },
	OPTION_END,
};

struct stat_cmd {
	char *data;
	bool json;
};

static int set(void *ctx, int key, const char *value, struct err *err)
{
	struct stat_cmd *s = ctx;

	switch (key) {
	case KEY_DATA:
		free(s->data);
		s->data = mem_strdup(value);
		break;
	case KEY_JSON:
		s->json = true;
		break;
	}
	return 0;
}

static int collect_failures(struct index *ix, json_t *list, struct err *err)
{
	int64_t after = 0;

	for (;;) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_file *files;
		size_t n;

		arena_init(&a);
		if (index_list(ix, 0, INDEX_FAILED, after, 1000, &a, &files, &n, err) < 0)
			return -1;
		if (!n)
			return 0;
		for (size_t i = 0; i < n; i++) {
			after = files[i].id;
			json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:I, s:I}", "path",
							      json_text(files[i].path), "reason",
							      json_text(files[i].reason), "kind",
							      err_kind_name(files[i].reason_kind), "tries",
							      (json_int_t)files[i].tries, "next_try",
							      (json_int_t)files[i].next_try_s));
		}
	}
}

static void print_people(const struct index_stats *st, json_t *failures)
{
	json_t *one;
	size_t i;

	printf("files        %llu\n", (unsigned long long)(st->n_files - st->n_packages));
	printf("packages     %llu (%llu looked into, %llu known by their headers only)\n",
	       (unsigned long long)st->n_packages, (unsigned long long)st->n_scanned,
	       (unsigned long long)st->n_header_only);
	printf("             %.1f MB\n", (double)st->package_bytes / 1e6);
	printf("build IDs    %llu (%llu executables, %llu debug files)\n",
	       (unsigned long long)st->n_build_ids, (unsigned long long)st->n_executables,
	       (unsigned long long)st->n_debug);
	printf("index        %.2f MB, of it package maps %.2f MB\n", (double)st->db_bytes / 1e6,
	       (double)st->map_bytes / 1e6);
	printf("resume points %.2f MB", (double)st->points_bytes / 1e6);
	if (st->package_bytes)
		printf(" (%.2f %% of the packages)",
		       100.0 * (double)st->points_bytes / (double)st->package_bytes);
	printf("\nfailed       %zu\n", json_array_size(failures));
	json_array_foreach(failures, i, one)
	{
		time_t next = (time_t)json_integer_value(json_object_get(one, "next_try"));
		char when[64] = "when it changes";
		struct tm tm;

		if (next)
			strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&next, &tm));
		printf("  %s: %s (tries: %lld; next: %s)\n", json_string_value(json_object_get(one, "path")),
		       json_string_value(json_object_get(one, "reason")),
		       (long long)json_integer_value(json_object_get(one, "tries")), when);
	}
}

static int run(const struct stat_cmd *s, const char *data)
{
	AUTO(mem_freep) char *path = mem_printf("%s/index.sqlite", data);
	struct index_options opts = { .read_only = true };
	struct index_stats st = { 0 };
	struct index *ix = NULL;
	struct err err = { 0 };
	struct stat there;
	json_t *failures;
	int r;

	if (stat(path, &there) != 0) {
		fprintf(stderr,
			"lode: stat: %s: nothing is indexed there; try: lode scan PATH, or --data DIR\n",
			data);
		return EXIT_FAILED;
	}
	if (index_open(path, &opts, &ix, &err) < 0)
		return fail(&err);
	failures = json_array();
	r = index_stats(ix, &st, &err);
	if (r == 0)
		r = collect_failures(ix, failures, &err);
	index_close(ix);
	if (r < 0) {
		json_decref(failures);
		return fail(&err);
	}
	if (s->json) {
		json_t *all = json_pack(
			"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "files",
			(json_int_t)(st.n_files - st.n_packages), "packages", (json_int_t)st.n_packages,
			"packages_scanned", (json_int_t)st.n_scanned, "packages_header_only",
			(json_int_t)st.n_header_only, "build_ids", (json_int_t)st.n_build_ids, "executables",
			(json_int_t)st.n_executables, "debug_files", (json_int_t)st.n_debug, "package_bytes",
			(json_int_t)st.package_bytes, "index_bytes", (json_int_t)st.db_bytes, "points_bytes",
			(json_int_t)st.points_bytes, "failures", failures);

		json_dumpf(all, stdout, JSON_INDENT(2));
		printf("\n");
		json_decref(all);
	} else {
		print_people(&st, failures);
	}
	json_decref(failures);
	return EXIT_DONE;
}

static int stat_run(const struct command *cmd, int argc, char **argv)
{
	struct stat_cmd s = { 0 };
	AUTO(mem_freep) char *data = NULL;
	int first, r, status;

	r = options_read_defaults(cmd, argc, argv, set, &s);
	if (r == 0)
		r = options_read(cmd, argc, argv, set, &s, &first);
	if (r != 0) {
		status = r > 0 ? EXIT_DONE : EXIT_USAGE;
	} else if (first < argc) {
		status = fail_usage(cmd, "'%s' is not wanted", argv[first]);
	} else {
		data = data_dir(s.data);
		status = run(&s, data);
	}
	free(s.data);
	return status;
}

const struct command command_stat = {
	.name = "stat",
	.args = "",
	.summary = "what is indexed, how large it is, what failed and why",
	.options = options,
	.run = stat_run,
	.examples = "  lode stat\n  lode stat --json --data /var/lib/lode\n",
};
