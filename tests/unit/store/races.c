/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, restores and garbage collections at the same time: one within a step of another, and by several threads. */
#include "fixture.h"

#include <pthread.h>
#include "store/internal.h"

/* A collector whose walk has read the records; before it reads the earlier versions, one is restored. */
static struct {
	struct blobs_ops ops;
	const struct blobs_ops *under;
	struct store_fixture *f;
} restoring;

static int list_after_restore(struct blobs *b, struct str prefix, struct str after, blob_list_fn *fn,
			      void *arg, struct err *err)
{
	struct store_key key = key_of("ab/debuginfo");

	if (str_eq(prefix, STORE_PAST)) {
		b->ops = restoring.under;
		assert_int_equal(store_restore(restoring.f->st, &key, STR(""), STR("root"), err), 0);
	}
	return restoring.under->list(b, prefix, after, fn, arg, err);
}

static void a_version_that_is_restored_while_garbage_is_collected_stays(void **state)
{
	struct store_fixture *f = *state;
	struct store_gc_result gc;
	struct store_meta meta;
	struct err err = { 0 };

	assert_int_equal(text_put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	assert_int_equal(text_put_as(f, "ci", "two", STORE_IF_OWNED), 0);
	clock_test_advance(60000);
	restoring.under = f->st->blobs->ops;
	restoring.ops = *restoring.under;
	restoring.ops.list = list_after_restore;
	restoring.f = f;
	f->st->blobs->ops = &restoring.ops;
	assert_done(store_gc(f->st, NULL, NULL, &gc, &err));
	assert_ptr_equal(f->st->blobs->ops, restoring.under);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "one");
	assert_versions(f, "ci>root ");
}

/* A record that takes so long that a collector has removed its content before it saw the record. */
static int put_late(struct blobs *b, const char *name, struct bytes content, const char *needs,
		    const struct blob_stamp *expect, struct err *err)
{
	int r;

	b->ops = restoring.under;
	r = restoring.under->put(b, name, content, needs, expect, err);
	clock_test_advance(60000);
	assert_int_equal(restoring.under->remove(b, needs, NULL, err), 0);
	return r;
}

static void a_content_that_goes_before_its_record_is_seen_is_put_again(void **state)
{
	struct store_fixture *f = *state;
	struct store_meta meta;

	restoring.under = f->st->blobs->ops;
	restoring.ops = *restoring.under;
	restoring.ops.put = put_late;
	f->st->blobs->ops = &restoring.ops;
	assert_int_equal(text_put_as(f, "ci", "one", STORE_IF_OWNED), 0);
	assert_ptr_equal(f->st->blobs->ops, restoring.under);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "one");
}

struct racer {
	struct store_fixture *f;
	pthread_t thread;
	enum store_quality quality;
	const char *content;
	int r;
};

static void *put_in_thread(void *arg)
{
	struct racer *racer = arg;

	racer->r = text_put(racer->f, "ab/debuginfo", STORE_PUSHED, racer->quality, racer->content);
	return NULL;
}

static void concurrent_puts_keep_the_best_object(void **state)
{
	struct racer racers[24];
	struct store_fixture *f = *state;
	struct store_meta meta;

	for (size_t i = 0; i < ARRAY_SIZE(racers); i++) {
		racers[i] = (struct racer){ f, .quality = (enum store_quality)(STORE_STRIPPED + i % 3),
					    .content = (const char *[]){ "stripped", "symbols",
									 "dwarf" }[i % 3] };
		assert_int_equal(pthread_create(&racers[i].thread, NULL, put_in_thread, &racers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(racers); i++)
		pthread_join(racers[i].thread, NULL);
	assert_string_equal(text_get(f, "ab/debuginfo", &meta), "dwarf");
	assert_int_equal(meta.quality, STORE_DWARF);
}

struct collector {
	struct store_fixture *f;
	pthread_t thread;
	atomic_bool stop;
};

static void *collect_in_thread(void *arg)
{
	struct collector *c = arg;
	struct store_gc_result result;
	struct store *st = NULL;
	struct err err = { 0 };

	/* A store of its own, as in another process. */
	if (store_open(c->f->dir, &(struct store_options){ 0 }, &st, &err) < 0)
		fail_msg("%s", err.text);
	while (!atomic_load(&c->stop))
		if (store_gc(st, NULL, NULL, &result, &err) < 0)
			fail_msg("%s", err.text);
	store_close(st);
	return NULL;
}

/* Contents are removed and put again while another thread collects garbage. */
static void concurrent_gc_removes_no_content_in_use(void **state)
{
	struct collector c = { .f = *state };
	struct store_fixture *f = *state;
	struct err err = { 0 };

	f->st->settle_ns = 20000000;
	assert_int_equal(pthread_create(&c.thread, NULL, collect_in_thread, &c), 0);
	for (unsigned i = 0; i < 300; i++) {
		struct store_key key = key_of(i % 2 ? "ab/debuginfo" : "cd/debuginfo");
		char text[16];
		struct store_meta meta;

		snprintf(text, sizeof(text), "%u", i % 7);
		text_put(f, i % 2 ? "ab/debuginfo" : "cd/debuginfo", STORE_PUSHED, STORE_DWARF, text);
		assert_string_equal(text_get(f, i % 2 ? "ab/debuginfo" : "cd/debuginfo", &meta), text);
		if (i % 5 == 0)
			assert_done(store_remove(f->st, &key, STR(""), &err));
		arena_reset(&f->arena);
	}
	atomic_store(&c.stop, true);
	pthread_join(c.thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FROZEN(a_version_that_is_restored_while_garbage_is_collected_stays),
		FROZEN(a_content_that_goes_before_its_record_is_seen_is_put_again),
		IN_EACH(concurrent_puts_keep_the_best_object),
		cmocka_unit_test_setup_teardown(concurrent_gc_removes_no_content_in_use, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
