/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-profile N SAMPLES [OUT]: read N profiles of one service with SAMPLES samples each, merge them, and make a
 * flame graph. Prints CPU seconds of one thread as JSON. With OUT, writes the merged profile there.
 */
#include <stdio.h>
#include <stdlib.h>
#include "profile/output.h"
#include "service.h"

static double seconds(int64_t since_ns)
{
	return (double)(clock_cpu_ns() - since_ns) / 1e9;
}

static void must(int r, const struct err *err)
{
	if (r < 0) {
		fprintf(stderr, "bench-profile: %s\n", err->text);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000,
		 n_samples = argc > 2 ? (uint32_t)atoi(argv[2]) : 1000;
	struct profile **list = calloc(n, sizeof(*list));
	struct buf *files = calloc(n, sizeof(*files)), html = { 0 }, out = { 0 };
	double read_s, own_s, merge_s, html_s;
	struct profile *all = profile_new(NULL);
	struct profile_tree *t = NULL;
	struct err err = { 0 };
	uint64_t bytes = 0;
	int64_t at;

	for (uint32_t i = 0; i < n; i++) {
		struct profile *p = service_profile(i + 1, n_samples, false);

		must(profile_write_pprof(p, false, &files[i], &err), &err);
		bytes += files[i].size;
		profile_free(p);
	}
	at = clock_cpu_ns();
	for (uint32_t i = 0; i < n; i++)
		must(profile_read_pprof(buf_bytes(&files[i]), NULL, &list[i], &err), &err);
	read_s = seconds(at);

	at = clock_cpu_ns();
	must(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err), &err);
	for (uint32_t i = 0; i < n; i++)
		must(profile_tree_add(t, list[i], 1, 0, 1, &err), &err);
	must(profile_tree_end(t, &err), &err);
	own_s = seconds(at);
	at = clock_cpu_ns();
	profile_write_html(t, &(struct profile_output){ 0 }, &html);
	html_s = seconds(at);

	at = clock_cpu_ns();
	for (uint32_t i = 0; i < n; i++)
		must(profile_merge(all, list[i], 1, &err), &err);
	must(profile_merge_end(all, &err), &err);
	merge_s = seconds(at);
	printf("{\"profiles\": %u, \"samples\": %zu, \"bytes\": %llu, \"stacks\": %u, \"nodes\": %u, "
	       "\"read_s\": %.3f, "
	       "\"merge_s\": %.3f, \"flame_of_each_s\": %.3f, \"html_s\": %.3f, "
	       "\"html_bytes\": %zu}\n",
	       n, (size_t)n * n_samples, (unsigned long long)bytes, all->stacks.n, profile_tree_n(t), read_s,
	       merge_s, own_s, html_s, html.size);
	if (argc > 3) {
		must(profile_write_pprof(all, true, &out, &err), &err);
		must(file_write_durable(argv[3], out.p, out.size, 0644, &err), &err);
	}
	return 0;
}
