/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many requests at once, of tables that are built, evicted and replaced; and the end of the service amidst
 * them.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include "packed.h"
#include "store/internal.h"
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

/* A program with a symbol and 20 MiB of other content; or, with neither, its debug file. */
static void put_file(struct tables_fixture *p, enum resolve_kind kind, uint32_t n, const char *symbol)
{
	struct build_id id = tables_fixture_id(n);
	AUTO(buf_done) struct buf other = { 0 };
	struct buf file = { 0 };
	struct code_writer w;

	content_add(&other, CONTENT_ZEROS, MIB(20), 0);
	code_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w.elf, build_id_bytes(&id));
	if (symbol) {
		code_symbol(&w, symbol, STT_FUNC, STB_GLOBAL, 0x1000, 0x100);
		elf_writer_section(&w.elf, ".other", SHT_PROGBITS, 0, buf_bytes(&other));
	}
	code_writer_finish(&w, &file);
	code_writer_done(&w);
	tables_fixture_put(p, kind, n, &file);
}

/* A debug file without symbols, and its program. */
static void put_program_that_is_needed(struct tables_fixture *p, uint32_t n)
{
	put_file(p, RESOLVE_EXECUTABLE, n, "s1");
	put_file(p, RESOLVE_DEBUGINFO, n, NULL);
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

/* ---- builds that run while a file is replaced, or while a better table is kept ---- */

struct blocker {
	struct task task;
	atomic_bool entered, released;
};

static enum task_result block_thread(void *arg)
{
	struct blocker *k = arg;

	atomic_store(&k->entered, true);
	while (!atomic_load(&k->released))
		usleep(1000);
	return TASK_DONE;
}

static const char *answer_and_free(struct tables_fixture *p, struct tables_request *req)
{
	const struct tables_query q = { .addr = 0x1000 };
	struct tables_answer a;

	tables_find(req, &q, &a);
	p->text.size = 0;
	tables_fixture_answer_text(&a, &p->text);
	tables_request_free(req);
	return buf_cstr(&p->text);
}

/* Builds of 20 MiB wait until @running returns its memory. */
static void memory_open(struct tables_fixture *p, struct build *running)
{
	struct err err = { 0 };

	p->opts.memory = budget_new_undivided(MIB(4));
	p->opts.local_ms = 20;
	tables_fixture_reopen(p);
	*running = (struct build){ .tables = p->s };
	assert_true(build_memory_begin(running, 0));
	assert_done(budget_hold_add(&running->memory, MIB(2), &err));
}

static void memory_close(struct tables_fixture *p)
{
	tables_free(p->s);
	budget_free(TAKE(p->opts.memory));
	p->s = tables_new(&p->opts);
}

static struct tables_request *request_one(struct tables_fixture *p, atomic_int *n)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_request *req;

	assert_int_equal(
		tables_request_new(p->s, &id, 1, 0, (struct tables_wait){ INT64_MAX, ready, n }, &req),
		TABLES_WAITS);
	return req;
}

static void wait_until_parked(struct tables_fixture *p)
{
	while (!build_is_parked(p->s))
		usleep(1000);
}

/*
 * The program is replaced while a table of the files here is made of it, and the build that this is for has not yet
 * begun again: its thread is busy. The old program's table is neither stored nor taken for that of the new one.
 */
static void a_local_table_of_a_replaced_file_is_not_used(void **state)
{
	const struct err gone = { .kind = ERR_IO, .text = "read error" };

	for (int missing = 0; missing < 2; missing++) {
		struct build_id id = tables_fixture_id(1);
		struct blocker k = { .entered = false };
		struct tables_request *req;
		struct tables_fixture p;
		struct build running;
		atomic_int n = 0;

		tables_fixture_open(&p, true);
		p.opts.n_threads = 1;
		memory_open(&p, &running);
		put_file(&p, RESOLVE_EXECUTABLE, 1, "s1");
		resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
		req = request_one(&p, &n);
		wait_until_parked(&p);
		k.task = (struct task){ .pool = p.s->pool, .step = block_thread, .arg = &k };
		task_kick(&k.task);
		while (!atomic_load(&k.entered))
			usleep(1000);
		assert_false(build_memory_end(&running, false));
		put_file(&p, RESOLVE_EXECUTABLE, 1, "new");
		tables_renew(p.s, &id, true, NULL, NULL);
		if (missing)
			resolve_mem_fail(p.r, RESOLVE_DEBUGINFO, &id, STR(""), &gone);
		else
			tables_fixture_put_debug(&p, 1);
		atomic_store(&k.released, true);
		while (!atomic_load(&n))
			usleep(1000);
		assert_string_equal(answer_and_free(&p, req), missing ? "new" : "f1 /src/a.c:10");
		wait_for_builds(p.s);
		task_done(&k.task);
		memory_close(&p);
		assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), missing ? "new" : "f1 /src/a.c:10");
		tables_fixture_close(&p);
	}
}

/* Once, in the midst of an operation on the blobs of the store. */
static struct {
	struct blobs_ops ops;
	const struct blobs_ops *real;
	struct tables *tables;              /* NULL: it was */
	struct build *running;              /* returns its memory then */
	unsigned n_builds;                  /* and those that run on are so many */
	struct tables_fixture *replaced_in; /* or its program is replaced then */
} midst;

static void replace_in_the_midst(void)
{
	const struct err gone = { .kind = ERR_IO, .text = "read error" };
	struct build_id id = tables_fixture_id(1);

	midst.tables = NULL;
	put_file(midst.replaced_in, RESOLVE_EXECUTABLE, 1, "new");
	resolve_mem_fail(midst.replaced_in->r, RESOLVE_DEBUGINFO, &id, STR(""), &gone);
	tables_renew(midst.replaced_in->s, &id, true, NULL, NULL);
	midst.replaced_in = NULL;
}

static void go_on_in_the_midst(void)
{
	struct tables *t = TAKE(midst.tables);
	struct tables_stats stats;

	assert_false(build_memory_end(midst.running, false));
	do {
		usleep(1000);
		tables_stats(t, &stats);
	} while (stats.n_builds > midst.n_builds);
}

static int open_midst(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	int r = midst.real->open(b, name, ret, err);

	/* The first table is in the store. */
	if (r != 0 || !midst.tables || atomic_load(&midst.tables->n_made) != 1)
		return r;
	if (midst.replaced_in)
		replace_in_the_midst();
	else
		go_on_in_the_midst();
	return r;
}

static int remove_midst(struct blobs *b, const char *name, const struct blob_stamp *seen, struct err *err)
{
	int r = midst.real->remove(b, name, seen, err);

	if (midst.tables)
		go_on_in_the_midst();
	return r;
}

static void midst_open(struct tables_fixture *p, struct build *running)
{
	struct blobs *blobs = blobs_open_memory();

	midst.real = blobs->ops;
	midst.ops = *blobs->ops;
	blobs->ops = &midst.ops;
	midst.running = running;
	tables_fixture_open(p, false);
	p->store = p->opts.store = store_open_blobs(blobs, &(struct store_options){ 0 });
	memory_open(p, running);
}

static void a_local_table_does_not_replace_a_better_one_in_the_store(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_request *req;
	struct tables_fixture p;
	struct build running;
	atomic_int n = 0;

	midst_open(&p, &running);
	midst.ops.open = open_midst;
	midst.n_builds = 1;
	put_file(&p, RESOLVE_EXECUTABLE, 1, "s1");
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
	req = request_one(&p, &n);
	wait_until_parked(&p);
	midst.tables = p.s;
	tables_fixture_put_debug(&p, 1);
	while (!atomic_load(&n))
		usleep(1000);
	assert_null(midst.tables);
	assert_string_equal(answer_and_free(&p, req), "f1 /src/a.c:10");
	wait_for_builds(p.s);
	memory_close(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

/* The same at the end of a local build: its table was stored a moment before. */
static void a_local_table_whose_file_was_just_replaced_is_not_used(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_request *req;
	struct tables_fixture p;
	struct build running;
	atomic_int n = 0;

	midst_open(&p, &running);
	midst.ops.open = open_midst;
	assert_false(build_memory_end(&running, false));
	p.opts.n_threads = 1;
	tables_fixture_reopen(&p);
	put_file(&p, RESOLVE_EXECUTABLE, 1, "s1");
	resolve_mem_put_waiting(p.r, RESOLVE_DEBUGINFO, &id, STR(""));
	midst.tables = p.s;
	midst.replaced_in = &p;
	req = request_one(&p, &n);
	while (!atomic_load(&n))
		usleep(1000);
	assert_null(midst.tables);
	assert_string_equal(answer_and_free(&p, req), "new");
	memory_close(&p);
	tables_fixture_close(&p);
}

/* A build of the old file ends between the removal of its table from the store and the news of the new file. */
static void a_table_that_is_kept_while_its_file_is_replaced_is_forgotten(void **state)
{
	struct build_id id = tables_fixture_id(1);
	struct tables_request *req;
	struct tables_fixture p;
	struct build running;
	atomic_int n = 0;

	midst_open(&p, &running);
	midst.ops.remove = remove_midst;
	midst.n_builds = 0;
	put_program_that_is_needed(&p, 1);
	req = request_one(&p, &n);
	wait_until_parked(&p);
	put_file(&p, RESOLVE_EXECUTABLE, 1, "new");
	midst.tables = p.s;
	tables_renew(p.s, &id, true, NULL, NULL);
	assert_null(midst.tables);
	while (!atomic_load(&n))
		usleep(1000);
	(void)answer_and_free(&p, req);
	memory_close(&p);
	assert_string_equal(tables_fixture_ask(&p, 1, 0x1000), "new");
	tables_fixture_close(&p);
}

/* ---- a local build that is late while it stores its table ---- */

enum late_stage { LATE_NONE, LATE_LOCAL_PUTS, LATE_WHOLE_HAS_PUT, LATE_LOCAL_HAS_PUT, LATE_OVER };

static struct {
	struct blobs_ops ops;
	const struct blobs_ops *real;
	struct tables_fixture *p;
	atomic_int stage;
	struct blocker blocker; /* of the other thread, until the local table is stored */
} late;

static void wait_for_stage(enum late_stage stage)
{
	while (atomic_load(&late.stage) < (int)stage)
		usleep(1000);
}

static void wait_for_one_build(void)
{
	struct tables_stats stats;

	do {
		usleep(1000);
		tables_stats(late.p->s, &stats);
	} while (stats.n_builds > 1);
}

/* The whole build stores its table, and looks for it there, around the moment in which the local build stores its own. */
static int put_late(struct blobs *b, const char *name, struct bytes content, const char *needs,
		    const struct blob_stamp *expect, struct err *err)
{
	int before = LATE_NONE, r;

	if (atomic_compare_exchange_strong(&late.stage, &before, LATE_LOCAL_PUTS)) {
		tables_fixture_put_debug(late.p, 1);
		wait_for_stage(LATE_WHOLE_HAS_PUT);
	}
	r = late.real->put(b, name, content, needs, expect, err);
	if (r == 0 && before == LATE_LOCAL_PUTS) {
		atomic_store(&late.stage, LATE_WHOLE_HAS_PUT);
		wait_for_stage(LATE_LOCAL_HAS_PUT);
	} else if (r == 0 && atomic_load(&late.stage) == LATE_WHOLE_HAS_PUT) {
		atomic_store(&late.stage, LATE_LOCAL_HAS_PUT);
	}
	return r;
}

/* The program is replaced while the local build stores its table. The whole build begins again only after that. */
static int put_while_replaced(struct blobs *b, const char *name, struct bytes content, const char *needs,
			      const struct blob_stamp *expect, struct err *err)
{
	const struct err gone = { .kind = ERR_IO, .text = "read error" };
	struct build_id id = tables_fixture_id(1);
	int before = LATE_NONE, r;

	if (!atomic_compare_exchange_strong(&late.stage, &before, LATE_LOCAL_PUTS))
		return late.real->put(b, name, content, needs, expect, err);
	late.blocker.task = (struct task){ .pool = late.p->s->pool,
					   .step = block_thread,
					   .arg = &late.blocker };
	task_kick(&late.blocker.task);
	while (!atomic_load(&late.blocker.entered))
		usleep(1000);
	put_file(late.p, RESOLVE_EXECUTABLE, 1, "new");
	tables_renew(late.p->s, &id, true, NULL, NULL);
	resolve_mem_fail(late.p->r, RESOLVE_DEBUGINFO, &id, STR(""), &gone);
	r = late.real->put(b, name, content, needs, expect, err);
	atomic_store(&late.stage, LATE_LOCAL_HAS_PUT);
	return r;
}

/* The local build removes its table, but not before the whole one has ended. */
static int remove_late(struct blobs *b, const char *name, const struct blob_stamp *seen, struct err *err)
{
	int stage = LATE_LOCAL_HAS_PUT;

	if (atomic_compare_exchange_strong(&late.stage, &stage, LATE_OVER)) {
		atomic_store(&late.blocker.released, true);
		wait_for_one_build();
	}
	return late.real->remove(b, name, seen, err);
}

typedef int put_blob_fn(struct blobs *b, const char *name, struct bytes content, const char *needs,
			const struct blob_stamp *expect, struct err *err);

/* The program "s1" is here, and its debug file is asked for. */
static struct tables_request *late_open(struct tables_fixture *p, put_blob_fn *put, atomic_int *n)
{
	struct blobs *blobs = blobs_open_memory();
	struct build_id id = tables_fixture_id(1);

	atomic_store(&late.stage, LATE_NONE);
	late.blocker = (struct blocker){ .entered = false };
	late.p = p;
	late.real = blobs->ops;
	late.ops = *blobs->ops;
	late.ops.put = put;
	late.ops.remove = remove_late;
	blobs->ops = &late.ops;
	tables_fixture_open(p, false);
	p->store = p->opts.store = store_open_blobs(blobs, &(struct store_options){ 0 });
	p->opts.n_threads = 2;
	p->opts.local_ms = 20;
	tables_fixture_reopen(p);
	put_file(p, RESOLVE_EXECUTABLE, 1, "s1");
	resolve_mem_put_waiting(p->r, RESOLVE_DEBUGINFO, &id, STR(""));
	return request_one(p, n);
}

static void a_local_table_in_the_store_is_not_taken_for_the_better_one(void **state)
{
	struct tables_request *req;
	struct tables_fixture p;
	atomic_int n = 0;

	req = late_open(&p, put_late, &n);
	while (!atomic_load(&n))
		usleep(1000);
	wait_for_builds(p.s);
	assert_int_equal(atomic_load(&late.stage), LATE_OVER);
	assert_string_equal(answer_and_free(&p, req), "f1 /src/a.c:10");
	tables_fixture_close(&p);
}

static void a_build_of_a_replaced_file_takes_no_late_table_from_the_store(void **state)
{
	struct tables_request *req;
	struct tables_fixture p;
	atomic_int n = 0;

	req = late_open(&p, put_while_replaced, &n);
	while (!atomic_load(&n))
		usleep(1000);
	wait_for_builds(p.s);
	task_done(&late.blocker.task);
	assert_int_equal(atomic_load(&late.stage), LATE_OVER);
	assert_string_equal(answer_and_free(&p, req), "new");
	tables_fixture_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_ask_at_once),
		cmocka_unit_test(an_end_in_the_midst_of_it),
		cmocka_unit_test(one_build_for_all_requests_of_a_table),
		cmocka_unit_test(the_memory_of_a_program_is_waited_for),
		cmocka_unit_test(a_local_table_that_is_late_is_not_kept),
		cmocka_unit_test(a_local_table_of_a_replaced_file_is_not_used),
		cmocka_unit_test(a_local_table_whose_file_was_just_replaced_is_not_used),
		cmocka_unit_test(a_local_table_does_not_replace_a_better_one_in_the_store),
		cmocka_unit_test(a_table_that_is_kept_while_its_file_is_replaced_is_forgotten),
		cmocka_unit_test(a_local_table_in_the_store_is_not_taken_for_the_better_one),
		cmocka_unit_test(a_build_of_a_replaced_file_takes_no_late_table_from_the_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
