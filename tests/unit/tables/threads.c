/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many requests at once, of tables that are built, evicted and replaced; and the end of the service amidst
 * them.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include "packed.h"
#include "tables/internal.h"
#include "tables_fixture.h"

#define N_THREADS 8
#define N_IDS     12
#define N_ROUNDS  40

struct asker {
	pthread_t thread;
	struct tables_fixture *p;
	unsigned seed;
	size_t n_found, n_other;
};

static void count(void *arg, size_t i, const struct tables_answer *a)
{
	struct asker *k = arg;

	if (a->reason == FRAME_FOUND)
		k->n_found++;
	else
		k->n_other++;
}

/* Some ids, some of them unknown, in an order of its own; some do not wait. */
static void *ask(void *arg)
{
	struct asker *k = arg;

	for (unsigned round = 0; round < N_ROUNDS; round++) {
		struct tables_query q[N_IDS];
		struct build_id ids[N_IDS];
		struct tables_request *h;

		for (unsigned i = 0; i < N_IDS; i++) {
			ids[i] = tables_fixture_id(1 + rand_r(&k->seed) % (N_IDS + 2));
			q[i] = (struct tables_query){ .module = i,
						      .addr = 0x1000 + rand_r(&k->seed) % 0x200 };
		}
		tables_request_new(k->p->s, ids, N_IDS, round % 3 ? TABLES_LAYOUTS : 0,
				   (struct tables_wait){ clock_mono_ms() + (round % 4 ? 30000 : 0) }, &h);
		tables_find_all(h, q, N_IDS, count, k);
		tables_request_free(h);
	}
	return NULL;
}

static void many_ask_at_once(void **state)
{
	struct asker askers[N_THREADS];
	struct tables_stats stats;
	struct tables_fixture p;

	tables_fixture_open(&p, true);
	/* Room for a few only: they are evicted while they are used. */
	p.opts.tables_size = KIB(40);
	p.opts.miss_ms = 1;
	tables_fixture_reopen(&p);
	for (uint32_t n = 1; n <= N_IDS; n++)
		tables_fixture_put_debug(&p, n);
	for (unsigned i = 0; i < N_THREADS; i++) {
		askers[i] = (struct asker){ .p = &p, .seed = i };
		assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
	}
	for (unsigned i = 0; i < N_THREADS; i++) {
		pthread_join(askers[i].thread, NULL);
		assert_int_equal(askers[i].n_found + askers[i].n_other, N_ROUNDS * N_IDS);
		assert_true(askers[i].n_found > 0);
	}
	tables_stats(p.s, &stats);
	/* Each was built once; later ones are from the store. */
	assert_int_equal(stats.n_made, N_IDS);
	tables_fixture_close(&p);
}

static void ready(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void an_end_in_the_midst_of_it(void **state)
{
	struct tables_request *holds[8];
	struct tables_fixture p;
	atomic_int n = 0;
	int waiting = 0;

	tables_fixture_open(&p, false);
	for (uint32_t i = 0; i < 8; i++) {
		struct build_id id = tables_fixture_id(i);

		resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
		waiting += tables_request_new(p.s, &id, 1, 0, (struct tables_wait){ INT64_MAX, ready, &n },
					      &holds[i]) == TABLES_WAITS;
	}
	assert_int_equal(waiting, 8);
	assert_int_equal(atomic_load(&n), 0);
	tables_stop(p.s);
	/* The timer may have them in hand. */
	while (atomic_load(&n) < 8)
		usleep(1000);
	for (size_t i = 0; i < 8; i++)
		tables_request_free(holds[i]);
	/* Builds still wait for the resolver, which ends after the tables. */
	tables_fixture_close(&p);
}

static void one_build_for_all_requests_of_a_table(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_request *holds[16];
	struct tables_stats stats;
	struct tables_fixture p;
	atomic_int n = 0;

	tables_fixture_open(&p, false);
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(tables_request_new(p.s, &id, 1, 0,
						    (struct tables_wait){ INT64_MAX, ready, &n }, &holds[i]),
				 TABLES_WAITS);
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_builds, 1);
	tables_fixture_put_debug(&p, 1);
	while (atomic_load(&n) < 16)
		usleep(1000);
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 1);
	for (size_t i = 0; i < 16; i++) {
		struct tables_query q = { .addr = 0x1000 };
		struct tables_answer a;

		tables_find(holds[i], &q, &a);
		assert_int_equal(a.reason, FRAME_FOUND);
		tables_request_free(holds[i]);
	}
	tables_fixture_close(&p);
}

/* A debug file without symbols, and its program, which has a symbol and 20 MiB of other content. */
static void put_program_that_is_needed(struct tables_fixture *p, uint32_t n)
{
	struct build_id id = tables_fixture_id(n);
	AUTO(buf_done) struct buf other = { 0 };

	content_add(&other, CONTENT_ZEROS, MIB(20), 0);
	for (int debug = 0; debug < 2; debug++) {
		struct buf file = { 0 };
		struct code_writer w;

		code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
		elf_writer_build_id(&w.elf, build_id_bytes(&id));
		if (!debug) {
			code_symbol(&w, "s1", STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
			elf_writer_section(&w.elf, ".other", SHT_PROGBITS, 0, buf_bytes(&other));
		}
		code_writer_finish(&w, &file);
		code_writer_done(&w);
		tables_fixture_put(p, debug ? RESOLVE_DEBUGINFO : RESOLVE_EXECUTABLE, n, &file);
	}
}

/* The only build of a file waits for another one to return memory. */
static bool build_is_parked(struct tables *t)
{
	bool parked;

	pthread_mutex_lock(&t->lock);
	parked = t->first_build && t->first_build->parked;
	pthread_mutex_unlock(&t->lock);
	return parked;
}

static void the_memory_of_a_program_is_waited_for(void **state)
{
	const struct tables_query q = { .addr = 0x1000 };
	struct build_id id = tables_fixture_id(1);
	struct build running = { 0 };
	struct tables_request *req;
	struct tables_stats stats;
	struct tables_answer a;
	struct tables_fixture p;
	atomic_int n = 0;

	tables_fixture_open(&p, false);
	p.opts.memory = budget_new_undivided(MIB(2));
	tables_fixture_reopen(&p);
	put_program_that_is_needed(&p, 1);
	running.tables = p.s;
	assert_true(build_memory_begin(&running, 0));
	assert_int_equal(
		tables_request_new(p.s, &id, 1, 0, (struct tables_wait){ INT64_MAX, ready, &n }, &req),
		TABLES_WAITS);
	while (!build_is_parked(p.s) && !atomic_load(&n))
		usleep(1000);
	tables_stats(p.s, &stats);
	assert_int_equal(stats.n_made, 0);
	assert_false(build_memory_end(&running, false));
	while (!atomic_load(&n))
		usleep(1000);
	tables_find(req, &q, &a);
	tables_fixture_answer_text(&a, &p.text);
	assert_string_equal(buf_cstr(&p.text), "s1");
	tables_request_free(req);
	tables_free(p.s);
	budget_free(TAKE(p.opts.memory));
	p.s = tables_new(&p.opts);
	tables_fixture_close(&p);
}

static void wait_for_builds(struct tables *t)
{
	struct tables_stats stats;

	for (;;) {
		tables_stats(t, &stats);
		if (!stats.n_builds)
			return;
		usleep(1000);
	}
}

/*
 * A table of the files here is made while a server is asked for the debug file, and is late: the table of the debug file
 * is there, or the program is another one by now. It is not needed any more, and stays out of the store.
 */
static void a_local_table_that_is_late_is_not_kept(void **state)
{
	for (int replaced = 0; replaced < 2; replaced++) {
		struct build_id id = tables_fixture_id(1);
		struct build running = { 0 };
		struct tables_request *req;
		struct tables_fixture p;
		struct err err = { 0 };
		atomic_int n = 0;

		tables_fixture_open(&p, true);
		p.opts.memory = budget_new_undivided(MIB(4));
		p.opts.local_ms = 20;
		tables_fixture_reopen(&p);
		put_program_that_is_needed(&p, 1);
		resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
		running.tables = p.s;
		assert_true(build_memory_begin(&running, 0));
		assert_done(budget_hold_add(&running.memory, MIB(2), &err));
		assert_int_equal(tables_request_new(p.s, &id, 1, 0,
						    (struct tables_wait){ INT64_MAX, ready, &n }, &req),
				 TABLES_WAITS);
		while (!build_is_parked(p.s))
			usleep(1000);
		if (replaced)
			tables_renew(p.s, &id, true, NULL, NULL);
		tables_fixture_put_debug(&p, 1);
		while (!atomic_load(&n))
			usleep(1000);
		tables_request_free(req);
		assert_false(build_memory_end(&running, false));
		wait_for_builds(p.s);
		tables_free(p.s);
		budget_free(TAKE(p.opts.memory));
		p.s = tables_new(&p.opts);
		assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
		tables_fixture_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_ask_at_once),
		cmocka_unit_test(an_end_in_the_midst_of_it),
		cmocka_unit_test(one_build_for_all_requests_of_a_table),
		cmocka_unit_test(the_memory_of_a_program_is_waited_for),
		cmocka_unit_test(a_local_table_that_is_late_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
