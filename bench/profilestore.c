/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-profilestore: the cost of the profile store, as JSON. Seconds are CPU seconds of all threads.
 *
 *	ingest DIR N SAMPLES         add N profiles, whose stacks are all known after the first few; merge all
 *	locations DIR N              add profiles with N locations in all, five stacks each; open the store again
 *	day DIR SERIES EVERY_S HOURS add HOURS of SERIES series, a profile of each every EVERY_S seconds; then
 *	                             queries over 24 h
 *	query DIR                    those queries alone
 *	large DIR [QUERY]            queries over all of the store, or this one, as a service makes them, in a process each:
 *	                             CPU, and the peak of memory above the store at rest
 *	sweep DIR N                  add N locations over some hours; then a profile every 10 ms while the older half of
 *	                             them is deleted and the metadata swept: milliseconds until each is durable
 */
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "profile/tree.h"
#include "profilestore/profilestore.h"
#include "profilestore_bench.h"
#include "service.h"

#define DAY_MS    INT64_C(86400000)
#define DISTINCT  64u
#define QUERIES   40
#define PER_SET   8000u /* locations per profile */
#define INSTANCES 8u    /* series of a large store */

static int64_t frozen_ms = NOW_MS;

static int64_t now_ms(void)
{
	return frozen_ms;
}

double seconds(int64_t since_ns)
{
	return (double)(clock_cpu_ns() - since_ns) / 1e9;
}

void must(int r, const struct err *err)
{
	if (r < 0) {
		fprintf(stderr, "bench-profilestore: %s\n", err->text);
		exit(1);
	}
}

static int64_t max_age_ms;

struct profilestore *open_store(const char *dir)
{
	const struct profilestore_options o = { .dir = dir, .now_ms = now_ms, .max_age_ms = max_age_ms };
	struct profilestore *s = NULL;
	struct err err = { 0 };

	must(profilestore_open(&o, &s, &err), &err);
	return s;
}

long status_kb(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kb = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			kb = atol(line + strlen(name) + 1);
	if (f)
		fclose(f);
	return kb;
}

static void add(struct profilestore *s, struct profile *p, int64_t time_ms, unsigned series)
{
	struct profilestore_label labels[2] = { { STR("service"), STR("bench") },
						{ STR("instance"), { 0 } } };
	struct profilestore_receipt receipt;
	struct err err = { 0 };
	char text[32];

	snprintf(text, sizeof(text), "i%u", series);
	labels[1].value = str_of(text);
	p->time_ns = time_ms * 1000000;
	p->duration_ns = 10000000000;
	must(profilestore_add_wait(s, p, labels, 2, &receipt, &err), &err);
}

static void groom(struct profilestore *s)
{
	struct err err = { 0 };
	bool more = true;

	while (more)
		must(profilestore_groom(s, &more, &err), &err);
}

static uint32_t query(struct profilestore *s, const char *selector, int64_t from_ms, int64_t to_ms,
		      double *ret_merge_s, double *ret_tree_s, uint64_t *ret_samples)
{
	struct profilestore_range r = { NULL, from_ms, to_ms, 0 };
	struct profilestore_merged m;
	struct profile_tree *t = NULL;
	struct selector *sel = NULL;
	struct err err = { 0 };
	int64_t at = clock_cpu_ns();
	uint32_t n;

	must(selector_parse(str_of(selector), &sel, &err), &err);
	r.sel = sel;
	must(profilestore_merge(s, &r, NULL, NULL, &m, &err), &err);
	*ret_merge_s = seconds(at);
	at = clock_cpu_ns();
	must(profile_tree_new(&(struct profile_view){ 0 }, NULL, &t, &err), &err);
	must(profile_tree_add(t, m.profile, 0, 0, 1, &err), &err);
	must(profile_tree_end(t, &err), &err);
	*ret_tree_s = seconds(at);
	n = profile_tree_n(t);
	*ret_samples = m.n_samples;
	profile_tree_free(t);
	profile_free(m.profile);
	selector_free(sel);
	return n;
}

struct sender {
	struct profilestore *s;
	struct profile **list;
	unsigned first, step, n;
};

static void *send_some(void *arg)
{
	const struct sender *x = arg;

	for (unsigned i = x->first; i < x->n; i += x->step) {
		struct profile p = *x->list[i % DISTINCT];

		add(x->s, &p, NOW_MS - (int64_t)i * 1000, 0);
	}
	return NULL;
}

static int ingest(const char *dir, unsigned n, unsigned n_samples)
{
	struct profilestore *s = open_store(dir);
	struct profile *list[DISTINCT];
	struct profilestore_stats st;
	struct sender senders[16];
	pthread_t threads[ARRAY_SIZE(senders)];
	double add_s, groom_s, merge_s, tree_s, rolled_s, rolled_tree_s, wall_s;
	uint64_t samples, before;
	uint32_t nodes;
	int64_t at, wall;

	for (unsigned i = 0; i < DISTINCT; i++)
		list[i] = service_profile(i + 1, n_samples, true);
	at = clock_cpu_ns();
	wall = clock_mono_ms();
	for (unsigned i = 0; i < ARRAY_SIZE(senders); i++) {
		senders[i] = (struct sender){ s, list, i, ARRAY_SIZE(senders), n };
		pthread_create(&threads[i], NULL, send_some, &senders[i]);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(senders); i++)
		pthread_join(threads[i], NULL);
	add_s = seconds(at);
	wall_s = (double)(clock_mono_ms() - wall) / 1e3;
	profilestore_close(s);
	s = open_store(dir);
	profilestore_stats(s, &st);
	before = st.data_size;
	nodes = query(s, CPU_SELECTOR, 0, NOW_MS + 1, &merge_s, &tree_s, &samples);
	frozen_ms += DAY_MS;
	at = clock_cpu_ns();
	groom(s);
	groom_s = seconds(at);
	nodes = query(s, CPU_SELECTOR, 0, NOW_MS + 1, &rolled_s, &rolled_tree_s, &samples);
	profilestore_close(s);
	s = open_store(dir);
	profilestore_stats(s, &st);
	printf("{\"profiles\": %llu, \"samples\": %llu, \"add_s\": %.3f, \"wall_s\": %.3f, \"bytes_before\": "
	       "%llu, \"bytes\": %llu, "
	       "\"merge_s\": %.3f, \"tree_s\": %.3f, \"groom_s\": %.3f, \"rolled_merge_s\": %.3f, "
	       "\"merged_samples\": %llu, "
	       "\"nodes\": %u, \"rss_kb\": %ld}\n",
	       (unsigned long long)st.n_profiles, (unsigned long long)st.n_samples, add_s, wall_s,
	       (unsigned long long)before, (unsigned long long)st.data_size, merge_s, tree_s, groom_s,
	       rolled_s, (unsigned long long)samples, nodes, status_kb("VmRSS:"));
	profilestore_close(s);
	return 0;
}

/* A profile with new locations only; each is the leaf of five stacks. */
static struct profile *wide(uint32_t number)
{
	struct profile *p = profile_new(NULL);
	uint64_t seed = number;

	profile_add_type(p, STR("cpu"), STR("nanoseconds"));
	for (uint32_t i = 0; i < PER_SET; i++) {
		const struct profile_mapping m = {
			0x400000,
			0x400000 + ((uint64_t)1 << 32),
			0,
			profile_add_string(p, STR("/usr/bin/wide")),
			profile_add_string(p, STR("fedcba9876543210fedcba9876543210fedcba98")),
			15
		};
		uint64_t n = (uint64_t)number * PER_SET + i;
		struct profile_location l = { .addr = 0x400000 + n * 16,
					      .mapping = profile_add_mapping(p, &m) };
		struct profile_line line = { .line = (int64_t)(n % 900) };
		struct profile_function f = { 0 };
		char text[64];
		uint32_t location;

		snprintf(text, sizeof(text), "wide::function%llu(int)", (unsigned long long)(n / 12));
		f.name = f.system_name = profile_add_string(p, str_of(text));
		snprintf(text, sizeof(text), "src/module%llu.cc", (unsigned long long)(n / 1200));
		f.file = profile_add_string(p, str_of(text));
		line.function = profile_add_function(p, &f);
		location = profile_add_location(p, &l, &line, 1);
		for (uint32_t k = 0; k < 5; k++) {
			uint32_t callers = p->stacks.n > 1 ? (uint32_t)(service_next(&seed) % p->stacks.n)
							   : 0;
			uint32_t stack = profile_add_stack(p, callers, location);

			profile_add_sample(p, stack, 0, (int64_t[]){ 10000000 });
		}
	}
	return p;
}

static int locations(const char *dir, unsigned n)
{
	struct profilestore *s = open_store(dir);
	struct profilestore_stats st;
	double add_s, open_s;
	long peak, rss;
	int64_t at = clock_cpu_ns();

	for (unsigned i = 0; i * PER_SET < n; i++) {
		struct profile *p = wide(i);

		add(s, p, NOW_MS - (int64_t)i * 1000, i % INSTANCES);
		profile_free(p);
	}
	add_s = seconds(at);
	peak = status_kb("VmHWM:");
	profilestore_close(s);
	at = clock_cpu_ns();
	s = open_store(dir);
	open_s = seconds(at);
	rss = status_kb("VmRSS:");
	profilestore_stats(s, &st);
	printf("{\"locations\": %llu, \"stacks\": %llu, \"add_s\": %.3f, \"open_s\": %.3f, \"rss_kb\": %ld, "
	       "\"peak_kb\": %ld, "
	       "\"metadata\": %llu, \"bytes\": %llu, \"samples\": %llu}\n",
	       (unsigned long long)st.n_locations, (unsigned long long)st.n_stacks, add_s, open_s, rss, peak,
	       (unsigned long long)st.metadata_size, (unsigned long long)st.data_size,
	       (unsigned long long)st.n_samples);
	profilestore_close(s);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int queries(const char *dir)
{
	struct profilestore *s = open_store(dir);
	struct profilestore_stats st;
	double took[QUERIES], tree_s = 0, graph[QUERIES];
	uint64_t samples = 0, seed = 1;
	uint32_t nodes = 0;

	profilestore_stats(s, &st);
	for (unsigned i = 0; i < QUERIES; i++) {
		/* The range starts and ends anywhere within a rollup. */
		int64_t to = st.latest_ms - (int64_t)(service_next(&seed) % (uint64_t)(30 * 60000)), at;
		struct profilestore_range r = { NULL, to - DAY_MS, to, 0 };
		struct profilestore_series_list *list = NULL;
		struct selector *sel = NULL;
		struct err err = { 0 };

		nodes = query(s, CPU_SELECTOR, to - DAY_MS, to, &took[i], &tree_s, &samples);
		took[i] += tree_s;
		at = clock_cpu_ns();
		must(selector_parse(STR(CPU_SELECTOR), &sel, &err), &err);
		r.sel = sel;
		must(profilestore_series(s, &r, &(struct profilestore_series_options){ 0 }, &list, &err),
		     &err);
		graph[i] = seconds(at);
		free(list);
		selector_free(sel);
	}
	qsort(took, QUERIES, sizeof(*took), by_value);
	qsort(graph, QUERIES, sizeof(*graph), by_value);
	printf("{\"profiles\": %llu, \"samples\": %llu, \"bytes\": %llu, \"merged_samples\": %llu, "
	       "\"nodes\": %u, \"p50_s\": %.3f, "
	       "\"p95_s\": %.3f, \"graph_p95_s\": %.3f, \"rss_kb\": %ld}\n",
	       (unsigned long long)st.n_profiles, (unsigned long long)st.n_samples,
	       (unsigned long long)st.data_size, (unsigned long long)samples, nodes, took[QUERIES / 2],
	       took[QUERIES * 95 / 100], graph[QUERIES * 95 / 100], status_kb("VmHWM:"));
	profilestore_close(s);
	return 0;
}

/* One time step: all series at once, in one commit or a few. */
struct moment {
	pthread_mutex_t lock;
	pthread_cond_t none;
	unsigned n_open; /* under the lock */
};

static void profile_added(void *arg, const struct profilestore_receipt *r, const struct err *err)
{
	struct moment *m = arg;

	if (err) {
		fprintf(stderr, "bench-profilestore: %s\n", err->text);
		exit(1);
	}
	pthread_mutex_lock(&m->lock);
	if (!--m->n_open)
		pthread_cond_signal(&m->none);
	pthread_mutex_unlock(&m->lock);
}

static void add_all(struct profilestore *s, struct profile *const *list, int64_t time_ms, unsigned n_series,
		    struct profile *copies)
{
	struct moment m = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, n_series };
	struct err err = { 0 };

	for (unsigned k = 0; k < n_series; k++) {
		struct profilestore_label labels[2] = { { STR("service"), STR("bench") },
							{ STR("instance"), { 0 } } };
		char text[32];

		snprintf(text, sizeof(text), "i%u", k);
		labels[1].value = str_of(text);
		copies[k] = *list[((uint64_t)time_ms / 1000 * 7 + k * 13) % DISTINCT];
		copies[k].time_ns = (time_ms + k) * 1000000;
		copies[k].duration_ns = 10000000000;
		must(profilestore_add(s, &(struct profilestore_upload){ &copies[k], labels, 2, STR("") },
				      profile_added, &m, &err),
		     &err);
	}
	pthread_mutex_lock(&m.lock);
	while (m.n_open)
		pthread_cond_wait(&m.none, &m.lock);
	pthread_mutex_unlock(&m.lock);
}

static int day(const char *dir, unsigned n_series, unsigned every_s, unsigned hours)
{
	struct profilestore *s = open_store(dir);
	struct profile *list[DISTINCT], *copies = calloc(n_series, sizeof(*copies));
	int64_t at, first = NOW_MS - (int64_t)hours * 3600000;
	double add_s, groom_s = 0;

	for (unsigned i = 0; i < DISTINCT; i++) {
		list[i] = service_profile(i + 1, 1000, true);
		/* The target is for one sample type. */
		list[i]->types.n = 1;
		list[i]->types.p[0] = list[i]->types.p[1];
		for (uint32_t k = 0; k < list[i]->n_samples; k++)
			list[i]->values[k] = list[i]->values[2 * k + 1];
	}
	at = clock_cpu_ns();
	for (int64_t t = first; t < NOW_MS; t += (int64_t)every_s * 1000) {
		add_all(s, list, t, n_series, copies);
		frozen_ms = t;
		if ((t - first) / 1000 % 600 < every_s) {
			int64_t from = clock_cpu_ns();

			groom(s);
			groom_s += seconds(from);
		}
	}
	add_s = seconds(at) - groom_s;
	fprintf(stderr, "added in %.1f s, groomed in %.1f s\n", add_s, groom_s);
	profilestore_close(s);
	return queries(dir);
}

#define ACKS_MOST 20000u

struct grooming {
	struct profilestore *s;
	atomic_bool done;
	double cpu_s;
};

static void *groom_all(void *arg)
{
	struct grooming *g = arg;
	int64_t at = clock_cpu_ns();

	groom(g->s);
	g->cpu_s = seconds(at);
	atomic_store(&g->done, true);
	return NULL;
}

/* Add known profiles until @g is done, or @n of them; their times in ms, sorted. */
static size_t time_acks(struct profilestore *s, const struct grooming *g, size_t n, double *ret)
{
	struct profile *p = service_profile(1, 300, true);
	static unsigned n_sent;
	size_t i = 0;

	for (; i < n && !(g && atomic_load(&g->done)); i++) {
		int64_t at = clock_mono_ns();

		add(s, p, NOW_MS - (int64_t)n_sent++, 0);
		ret[i] = (double)(clock_mono_ns() - at) / 1e6;
		usleep(10000);
	}
	profile_free(p);
	qsort(ret, i, sizeof(*ret), by_value);
	return i;
}

static int sweeping(const char *dir, unsigned n)
{
	struct profilestore *s = open_store(dir);
	struct profilestore_stats before, after;
	struct grooming g = { 0 };
	static double alone[200], beside[ACKS_MOST];
	size_t n_alone, n_beside;
	pthread_t thread;

	for (unsigned i = 0; i * PER_SET < n; i++) {
		struct profile *p = wide(i);

		add(s, p, NOW_MS - (int64_t)(i * PER_SET) * 8 * 3600000 / n, 0);
		profile_free(p);
	}
	profilestore_close(s);
	max_age_ms = 4 * INT64_C(3600000);
	s = open_store(dir);
	profilestore_stats(s, &before);
	g.s = s;
	pthread_create(&thread, NULL, groom_all, &g);
	n_beside = time_acks(s, &g, ACKS_MOST, beside);
	pthread_join(thread, NULL);
	profilestore_stats(s, &after);
	n_alone = time_acks(s, NULL, ARRAY_SIZE(alone), alone);
	printf("{\"locations\": %llu, \"left\": %llu, \"expired\": %llu, \"cpu_s\": %.3f, \"alone\": %zu, "
	       "\"alone_p50_ms\": %.2f, \"alone_p99_ms\": %.2f, \"beside\": %zu, \"p50_ms\": %.2f, "
	       "\"p99_ms\": %.2f, "
	       "\"longest_ms\": %.2f}\n",
	       (unsigned long long)before.n_locations, (unsigned long long)after.n_locations,
	       (unsigned long long)after.n_expired, g.cpu_s, n_alone, alone[n_alone / 2],
	       alone[n_alone * 99 / 100], n_beside, beside[n_beside / 2], beside[n_beside * 99 / 100],
	       beside[n_beside - 1]);
	profilestore_close(s);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	unsigned n[3] = { 0 };

	/* As the service does. */
	mem_return_early();

	for (int i = 0; i < 3 && i + 3 < argc; i++)
		n[i] = (unsigned)atoi(argv[i + 3]);
	if (strcmp(what, "ingest") == 0)
		return ingest(argv[2], n[0] ? n[0] : 10000, n[1] ? n[1] : 1000);
	if (strcmp(what, "locations") == 0)
		return locations(argv[2], n[0] ? n[0] : 1000000);
	if (strcmp(what, "day") == 0)
		return day(argv[2], n[0] ? n[0] : 100, n[1] ? n[1] : 10, n[2] ? n[2] : 25);
	if (strcmp(what, "query") == 0)
		return queries(argv[2]);
	if (strcmp(what, "large") == 0)
		return bench_large(argv[2], argc > 3 ? argv[3] : NULL);
	if (strcmp(what, "sweep") == 0)
		return sweeping(argv[2], n[0] ? n[0] : 1000000);
	fprintf(stderr, "bench-profilestore ingest|locations|day|query|large|sweep DIR ...\n");
	return 2;
}
