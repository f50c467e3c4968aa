/* SPDX-License-Identifier: Apache-2.0 */
/* bench-profilestore large: one query over all of a large store, each in a process of its own. */
#include "profilestore_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/spool.h"
#include "profile/output.h"
#include "profile/tree.h"

static int64_t large_time_ns;

static struct profilestore_merged large_merge(struct profilestore *s, const struct profilestore_shape *shape)
{
	struct profilestore_range r = { NULL, 0, NOW_MS + 1, 0 };
	struct profilestore_merged m[2] = { 0 };
	struct profilestore_shape both = *shape;
	struct selector *sel = NULL;
	struct err err = { 0 };

	must(selector_parse(STR(CPU_SELECTOR), &sel, &err), &err);
	r.sel = sel;
	both.base = shape->base ? &r : NULL;
	must(profilestore_merge(s, &r, &both, NULL, m, &err), &err);
	selector_free(sel);
	profile_free(m[1].profile);
	return m[0];
}

struct large_query {
	struct profile_view view;
	bool top, compares; /* compares: with itself */
	struct str function;
	struct profile_tree *tree;
	struct profile_trie_groups *groups;
	struct profile_pprof *pprof;
	struct profile_stream_options rows;
	struct profile_stream *stream;
	uint64_t size;
};

static int large_lent(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
		      struct err *err)
{
	struct large_query *q = arg;

	in->top = q->top;
	in->function = q->function;
	return profile_tree_of_trie(&q->view, NULL, m->profile, in, &q->tree, err);
}

static uint64_t large_tree(struct profilestore *s, struct large_query *q)
{
	const struct profilestore_range any = { 0 };
	const struct profilestore_shape shape = { .detail = PROFILESTORE_FUNCTIONS,
						  .stacks = large_lent,
						  .base = q->compares ? &any : NULL,
						  .arg = q };
	struct profilestore_merged m = large_merge(s, &shape);
	const struct profile_top *at;
	struct profile_top *rows;
	uint32_t n = profile_tree_n(q->tree);

	if (q->top) {
		rows = profile_tree_top(q->tree, false, &n);
		at = profile_tree_find(q->tree, rows, n, q->function, STR(""), STR(""));
		if (q->function.size && at)
			free(profile_tree_callers(q->tree, at->frame, &n));
		free(rows);
	}
	profile_tree_free(q->tree);
	profile_free(m.profile);
	return n;
}

static uint64_t large_flame(struct profilestore *s)
{
	return large_tree(s, &(struct large_query){ .view.max_nodes = 20000 });
}

static uint64_t large_compared(struct profilestore *s)
{
	return large_tree(s, &(struct large_query){ .view.max_nodes = 20000, .compares = true });
}

static int large_lent_value(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
			    struct err *err)
{
	struct large_query *q = arg;

	return profile_trie_groups_add(q->groups, m->profile, in, err);
}

static int large_values_end(void *arg, struct err *err)
{
	struct large_query *q = arg;

	return profile_trie_groups_end(q->groups, &q->tree, err);
}

static uint64_t large_groups(struct profilestore *s, bool invert, bool compares, const char *hide)
{
	const struct profilestore_range any = { 0 };
	struct large_query q = { .view = { .label = "instance",
					   .max_nodes = invert ? 100000 : 20000,
					   .invert = invert,
					   .hide = hide } };
	const struct profilestore_shape shape = { .label = STR("instance"),
						  .detail = PROFILESTORE_FUNCTIONS,
						  .stacks = large_lent_value,
						  .end = large_values_end,
						  .base = compares ? &any : NULL,
						  .arg = &q };
	struct profilestore_merged m;
	struct err err = { 0 };
	uint32_t n;

	must(profile_trie_groups_new(&q.view, NULL, &q.groups, &err), &err);
	m = large_merge(s, &shape);
	n = profile_tree_n(q.tree);
	profile_trie_groups_free(q.groups);
	profile_tree_free(q.tree);
	profile_free(m.profile);
	return n;
}

static uint64_t large_grouped(struct profilestore *s)
{
	return large_groups(s, false, false, NULL);
}

static uint64_t large_grouped_inverted(struct profilestore *s)
{
	return large_groups(s, true, false, NULL);
}

static uint64_t large_grouped_compared(struct profilestore *s)
{
	return large_groups(s, false, true, NULL);
}

static uint64_t large_grouped_hidden(struct profilestore *s)
{
	return large_groups(s, false, false, "^i[0-3]$");
}

static uint64_t large_inverted(struct profilestore *s)
{
	return large_tree(s, &(struct large_query){ .view = { .max_nodes = 100000, .invert = true } });
}

static uint64_t large_inverted_compared(struct profilestore *s)
{
	return large_tree(s, &(struct large_query){ .view = { .max_nodes = 100000, .invert = true },
						    .compares = true });
}

static uint64_t large_top(struct profilestore *s)
{
	return large_tree(s, &(struct large_query){ .top = true });
}

static uint64_t large_top_compared(struct profilestore *s)
{
	return large_tree(s, &(struct large_query){ .top = true, .compares = true });
}

static uint64_t large_callers(struct profilestore *s)
{
	return large_tree(s, &(struct large_query){ .top = true, .function = STR("wide::function7(int)") });
}

static int large_write(void *arg, struct bytes b, struct err *err)
{
	struct large_query *q = arg;

	(void)err;
	q->size += b.size;
	return 0;
}

static int large_lines(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
		       struct err *err)
{
	struct large_query *q = arg;

	if (!q->stream && profile_stream_new(&q->rows, &q->stream, err) < 0)
		return -1;
	return profile_stream_add(q->stream, m->profile, in, err);
}

static uint64_t large_rows(struct profilestore *s, enum profile_stream_format format, const char *label,
			   bool compares)
{
	const struct profilestore_range any = { 0 };
	struct spool aside = { 0 };
	struct large_query q = {
		.rows = { .format = format, .view.label = label, .to = { large_write, &q }, .aside = &aside }
	};
	const struct profilestore_shape shape = { .detail = PROFILESTORE_FUNCTIONS,
						  .label = str_of(label ? label : ""),
						  .stacks = large_lines,
						  .base = compares ? &any : NULL,
						  .arg = &q };
	struct profilestore_merged m = large_merge(s, &shape);
	struct err err = { 0 };

	must(profile_stream_end(q.stream, &err), &err);
	profile_stream_free(q.stream);
	profile_free(m.profile);
	spool_done(&aside);
	return q.size;
}

static uint64_t large_folded(struct profilestore *s)
{
	return large_rows(s, PROFILE_STREAM_FOLDED, NULL, false);
}

static uint64_t large_folded_compared(struct profilestore *s)
{
	return large_rows(s, PROFILE_STREAM_FOLDED, NULL, true);
}

static uint64_t large_folded_grouped(struct profilestore *s)
{
	return large_rows(s, PROFILE_STREAM_FOLDED, "instance", false);
}

static uint64_t large_speedscope(struct profilestore *s)
{
	return large_rows(s, PROFILE_STREAM_SPEEDSCOPE, NULL, false);
}

static int large_samples(void *arg, const struct profilestore_merged *m, struct profile_trie *in,
			 struct err *err)
{
	struct large_query *q = arg;

	in->scale = 0.5;
	return profile_pprof_add_trie(q->pprof, m->profile, in, err);
}

static int large_locations(void *arg, const struct profilestore_merged *m,
			   const struct profile_lent_locations *l, struct err *err)
{
	struct large_query *q = arg;

	return profile_pprof_end(q->pprof, m->profile, l, err);
}

static uint64_t large_pprof_of(struct profilestore *s, bool compares)
{
	const struct profilestore_range any = { 0 };
	struct large_query q = { 0 };
	const struct profilestore_shape shape = { .stacks = large_samples,
						  .locations = large_locations,
						  .base = compares ? &any : NULL,
						  .arg = &q };
	const struct profile_writer to = { large_write, &q };
	struct profilestore_merged m;
	struct err err = { 0 };

	must(profile_pprof_new(&to, true, NULL, &q.pprof, &err), &err);
	m = large_merge(s, &shape);
	profile_pprof_free(q.pprof);
	profile_free(m.profile);
	return q.size;
}

static uint64_t large_pprof(struct profilestore *s)
{
	return large_pprof_of(s, false);
}

/* Half of it is taken away, so that all stacks are written. */
static uint64_t large_pprof_compared(struct profilestore *s)
{
	return large_pprof_of(s, true);
}

static void large_query(const char *dir, const char *name, uint64_t (*run)(struct profilestore *s))
{
	struct profilestore *s = open_store(dir);
	long rss = status_kb("VmRSS:");
	uint64_t n;

	/* The peak of opening the store does not count. */
	FILE *f = fopen("/proc/self/clear_refs", "we");
	if (f) {
		fputs("5", f);
		fclose(f);
	}
	large_time_ns = clock_cpu_ns();
	n = run(s);
	printf("{\"query\": \"%s\", \"result\": %llu, \"cpu_s\": %.3f, \"rss_kb\": %ld, \"added_kb\": %ld}\n",
	       name, (unsigned long long)n, seconds(large_time_ns), rss, status_kb("VmHWM:") - rss);
	fflush(stdout);
	profilestore_close(s);
}

int bench_large(const char *dir, const char *only)
{
	static const struct {
		const char *name;
		uint64_t (*run)(struct profilestore *s);
	} all[] = { { "flamegraph", large_flame },
		    { "compared", large_compared },
		    { "inverted", large_inverted },
		    { "top", large_top },
		    { "callers", large_callers },
		    { "pprof", large_pprof },
		    { "folded", large_folded },
		    { "folded-compared", large_folded_compared },
		    { "folded-grouped", large_folded_grouped },
		    { "speedscope", large_speedscope },
		    { "inverted-compared", large_inverted_compared },
		    { "top-compared", large_top_compared },
		    { "grouped", large_grouped },
		    { "grouped-inverted", large_grouped_inverted },
		    { "grouped-compared", large_grouped_compared },
		    { "grouped-hidden", large_grouped_hidden },
		    { "pprof-compared", large_pprof_compared } };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		pid_t pid = only && strcmp(only, all[i].name) != 0 ? -1 : fork();

		if (pid == 0) {
			large_query(dir, all[i].name, all[i].run);
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	return 0;
}
