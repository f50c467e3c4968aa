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

int text_put(struct store_fixture *f, const char *key_text, enum store_origin origin,
	     enum store_quality quality, const char *content)
{
	struct store_key key = key_of(key_text);
	struct store_meta meta = { .origin = origin, .quality = quality, .from = str_of(content) };
	struct err err = { 0 };
	int r = store_put_bytes(f->st, &key, &meta, false, bytes_of(content, strlen(content)),
				STORE_IF_BETTER, &err);

	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

const char *text_get(struct store_fixture *f, const char *key_text, struct store_meta *ret_meta)
{
	struct store_key key = key_of(key_text);
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };
	struct bytes b;
	int r = store_open_object(f->st, &key, &f->arena, ret_meta, &s, &err);

	if (r == STORE_MISSING)
		return "";
	if (r || source_read_arena(s, range_of(0, s->size), MIB(64), &f->arena, &b, &err) < 0)
		fail_msg("%s", err.text);
	return arena_strdup(&f->arena, (struct str){ (const char *)b.p, b.size });
}

int text_put_as(struct store_fixture *f, const char *owner, const char *content, enum store_policy policy)
{
	struct store_key key = key_of("ab/debuginfo");
	struct store_meta meta = {
		.origin = STORE_PUSHED, .quality = STORE_DWARF, .from = str_of(owner), .owner = str_of(owner)
	};
	struct err err = { 0 };
	int r = store_put_bytes(f->st, &key, &meta, false, bytes_of(content, strlen(content)), policy, &err);

	if (r < 0)
		fail_msg("%s", err.text);
	return r;
}

static int add_version_text(void *arg, const struct store_object *o)
{
	assert_true(o->meta.replaced > 0);
	buf_printf(arg, STR_FMT ">" STR_FMT " ", STR_ARG(o->meta.from), STR_ARG(o->meta.replaced_by));
	return 0;
}

void assert_versions(struct store_fixture *f, const char *want)
{
	AUTO(buf_done) struct buf got = { 0 }, next = { 0 };
	struct err err = { 0 };

	assert_done(store_list(f->st, &(struct store_range){ STR("ab"), STR(""), 100, true },
			       add_version_text, &got, &next, &err));
	assert_str(buf_str(&got), want);
}
