/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "store/bucket.h"
#include "store/internal.h"

void reopen(struct store_fixture *f, const struct store_options *opts)
{
	struct store_options o = *opts;
	struct err err = { 0 };

	store_close(f->st);
	o.create = true;
	assert_done(store_open(f->dir, &o, &f->st, &err));
}

int set_up(void **state)
{
	struct store_fixture *f = NEW(struct store_fixture);

	test_dir_make(f->dir);
	reopen(f, &(struct store_options){ 0 });
	arena_init(&f->arena);
	*state = f;
	return 0;
}

int set_up_memory(void **state)
{
	struct store_fixture *f = NEW(struct store_fixture);

	f->st = store_open_memory(&(struct store_options){ 0 });
	arena_init(&f->arena);
	*state = f;
	return 0;
}

int set_up_bucket(void **state)
{
	struct store_fixture *f = NEW(struct store_fixture);
	struct blobs *b = NULL;
	struct err err = { 0 };

	test_dir_make(f->dir);
	f->bucket = bucket_memory_new();
	assert_done(blobs_open_bucket(bucket_open_memory(f->bucket, NULL, NULL), f->dir, true, &b, &err));
	f->st = store_open_blobs(b, &(struct store_options){ 0 });
	arena_init(&f->arena);
	*state = f;
	return 0;
}

int set_up_frozen(void **state)
{
	clock_test_freeze(1000000);
	return set_up(state);
}

int tear_down(void **state)
{
	struct store_fixture *f = *state;

	clock_test_thaw();
	store_close(f->st);
	bucket_memory_free(f->bucket);
	arena_done(&f->arena);
	if (f->dir[0])
		test_dir_remove(f->dir);
	free(f);
	return 0;
}

struct store_key key_of(const char *text)
{
	struct store_key key;

	if (!store_key_parse(str_of(text), &key))
		fail_msg("not a key: %s", text);
	return key;
}
