/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a store into another one: between folders, memory and a bucket, with damage, beside a collector, ended at each
 * write.
 */
#include <errno.h>
#include <pthread.h>
#include "faulty.h"
#include "fixture.h"
#include "store/bucket.h"
#include "store/internal.h"

/* In place of libc's: hundreds of syncs take seconds. */
int fsync(int fd)
{
	return 0;
}

int syncfs(int fd)
{
	return 0;
}

#define LONG (2 * CODEC_FRAME_SIZE + 1234)

struct stores {
	struct store_fixture from, to;
	bool backup; /* the copy is one */
	unsigned n_bad;
	char bad[4096]; /* what and why, of all */
};

/* ---- fixture ---- */

enum where { IN_FOLDER, IN_MEMORY, IN_BUCKET };

static void open_one(struct store_fixture *f, enum where where)
{
	struct blobs *b = NULL;
	struct err err = { 0 };

	arena_init(&f->arena);
	if (where != IN_MEMORY)
		test_dir_make(f->dir);
	if (where == IN_MEMORY) {
		f->st = store_open_memory(&(struct store_options){ 0 });
	} else if (where == IN_FOLDER) {
		reopen(f, &(struct store_options){ 0 });
	} else {
		f->bucket = bucket_memory_new();
		assert_done(
			blobs_open_bucket(bucket_open_memory(f->bucket, NULL, NULL), f->dir, true, &b, &err));
		f->st = store_open_blobs(b, &(struct store_options){ 0 });
	}
}

static int open_both(void **state, enum where from, enum where to)
{
	struct stores *s = NEW(struct stores);

	open_one(&s->from, from);
	open_one(&s->to, to);
	*state = s;
	return 0;
}

static int set_up_folders(void **state)
{
	return open_both(state, IN_FOLDER, IN_FOLDER);
}

static int set_up_into_memory(void **state)
{
	return open_both(state, IN_FOLDER, IN_MEMORY);
}

static int set_up_into_bucket(void **state)
{
	return open_both(state, IN_FOLDER, IN_BUCKET);
}

static int set_up_from_bucket(void **state)
{
	return open_both(state, IN_BUCKET, IN_FOLDER);
}

static void close_one(struct store_fixture *f)
{
	store_close(f->st);
	bucket_memory_free(f->bucket);
	arena_done(&f->arena);
	if (f->dir[0])
		test_dir_remove(f->dir);
}

static int tear_down_both(void **state)
{
	struct stores *s = *state;

	clock_test_thaw();
	close_one(&s->from);
	close_one(&s->to);
	free(s);
	return 0;
}

/* ---- objects ---- */

static struct store_meta meta_of(enum store_origin origin, enum store_quality quality, const char *who)
{
	struct store_meta m = { .origin = origin, .quality = quality, .mtime = 1700000000 };

	m.from = str_of(who);
	m.owner = origin == STORE_PUSHED ? str_of(who) : STR("");
	m.address = STR("192.0.2.7");
	m.file = STR("/usr/lib/libx.so");
	m.archive = STR("x.rpm");
	return m;
}

static void put_with(struct store *st, const char *key_text, const struct store_meta *meta, bool raw,
		     struct bytes b)
{
	struct store_key key = key_of(key_text);
	struct err err = { 0 };

	if (store_put_bytes(st, &key, meta, raw, b, STORE_ALWAYS, &err) < 0)
		fail_msg("%s", err.text);
}

static void put_text(struct store *st, const char *key, enum store_origin origin, enum store_quality quality,
		     const char *text)
{
	struct store_meta m = meta_of(origin, quality, "ci");

	put_with(st, key, &m, false, bytes_of(text, strlen(text)));
}

/* Of each kind and form; one of them has an earlier version, two have the same content. */
#define N_RECORDS 7u
static void put_all_kinds(struct store *st)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(LONG);
	struct store_meta m = meta_of(STORE_PUSHED, STORE_DWARF, "ci");
	struct build_id hash;

	test_fill(p, LONG, 5);
	memset(p + 1000, 'x', LONG / 2);
	assert_true(build_id_parse(&hash, STR("00112233445566778899aabbccddeeff")));
	store_meta_add_hash(&m, &hash);
	m.go = hash;
	put_with(st, "ab01/debuginfo", &m, false, bytes_of(p, 1000));
	put_with(st, "ab01/debuginfo", &m, false, bytes_of(p, LONG));
	put_text(st, "ab01/source/usr/src/x y.c", STORE_FETCHED, STORE_DWARF, "int main;\n");
	put_text(st, "ab01/sources", STORE_PUSHED, STORE_DWARF, "int main;\n");
	m = meta_of(STORE_MADE, STORE_DWARF, "");
	put_with(st, "ab02/symtab/1", &m, true, bytes_of(p, LONG));
	put_text(st, "ab03/section/.text", STORE_FETCHED, STORE_STRIPPED, "");
	put_text(st, "ff04/executable", STORE_PUSHED, STORE_SYMBOLS, "elf");
}

/* ---- copying and comparing ---- */

static void note_bad(void *arg, struct str what, const struct err *why)
{
	struct stores *s = arg;
	size_t n = strlen(s->bad);

	s->n_bad++;
	snprintf(s->bad + n, sizeof(s->bad) - n, STR_FMT ": %s\n", STR_ARG(what), why->text);
}

static int copy_with(struct stores *s, unsigned parallel, struct store_copy_result *ret, struct err *err)
{
	const struct store_copy_options o = {
		.parallel = parallel, .backup = s->backup, .bad = note_bad, .arg_bad = s
	};

	s->n_bad = 0;
	s->bad[0] = '\0';
	return store_copy(s->from.st, s->to.st, &o, ret, err);
}

static struct store_copy_result copy_all(struct stores *s)
{
	struct store_copy_result r;
	struct err err = { 0 };

	assert_done(copy_with(s, 4, &r, &err));
	assert_int_equal(r.n_done, r.n_all);
	return r;
}

/* Also of a content in a bucket, which has no get(). */
static void read_blob(struct store *st, const char *name, struct buf *ret)
{
	AUTO(source_closep) struct source *s = NULL;
	struct err err = { 0 };

	assert_done(st->blobs->ops->open(st->blobs, name, &s, &err));
	assert_done(source_read_full(s, 0, buf_reserve(ret, s->size + 1), s->size, SOURCE_RANDOM, &err));
	ret->size = s->size;
}

static int add_blob(void *arg, const char *name, const struct blob_stamp *stamp, struct err *err)
{
	buf_printf(arg, "%s\n", name);
	return 0;
}

static void names_of(struct store *st, struct str prefix, struct buf *ret)
{
	struct err err = { 0 };

	assert_done(st->blobs->ops->list(st->blobs, prefix, STR(""), add_blob, ret, &err));
}

/* Each blob of @a is in @b, with the same bytes. */
static void assert_all_in(struct store *a, struct store *b, struct str prefix)
{
	AUTO(buf_done) struct buf names = { 0 };
	struct str rest;

	names_of(a, prefix, &names);
	rest = buf_str(&names);
	while (rest.size) {
		struct str line = str_cut(&rest, '\n');
		AUTO(mem_freep) char *name = mem_strndup(line.p, line.size);
		AUTO(buf_done) struct buf x = { 0 }, y = { 0 };

		read_blob(a, name, &x);
		read_blob(b, name, &y);
		assert_true(str_eq(buf_str(&x), buf_str(&y)));
	}
}

static void assert_equal_stores(struct stores *s)
{
	assert_all_in(s->from.st, s->to.st, STORE_KEYS);
	assert_all_in(s->from.st, s->to.st, STORE_PAST);
	assert_all_in(s->from.st, s->to.st, STORE_DATA);
	assert_all_in(s->to.st, s->from.st, STORE_KEYS);
	assert_all_in(s->to.st, s->from.st, STORE_PAST);
}

static void assert_whole(struct store *st)
{
	struct store_verify_result v;
	struct err err = { 0 };

	assert_done(store_verify(st, &(struct store_verify_options){ .remove = false }, &v, &err));
	assert_int_equal(v.n_bad, 0);
}

/* ---- tests ---- */

static void everything_is_copied_as_it_is(void **state)
{
	struct stores *s = *state;
	struct store_copy_result r;

	put_all_kinds(s->from.st);
	r = copy_all(s);
	assert_int_equal(r.n_copied, N_RECORDS);
	assert_int_equal(r.n_past, 1);
	assert_int_equal(r.n_contents, N_RECORDS - 1);
	assert_int_equal(s->n_bad, 0);
	assert_equal_stores(s);
	assert_whole(s->to.st);
}

static void a_second_copy_copies_what_is_missing(void **state)
{
	struct stores *s = *state;
	struct store_copy_result r;

	put_all_kinds(s->from.st);
	copy_all(s);
	r = copy_all(s);
	assert_int_equal(r.n_there, N_RECORDS);
	assert_int_equal(r.n_copied + r.n_contents + r.bytes, 0);
	assert_true(r.bytes_there > LONG);
	put_text(s->from.st, "ab05/debuginfo", STORE_PUSHED, STORE_DWARF, "new");
	r = copy_all(s);
	assert_int_equal(r.n_there, N_RECORDS);
	assert_int_equal(r.n_copied, 1);
	assert_equal_stores(s);
}

static void the_better_or_later_object_stays(void **state)
{
	struct stores *s = *state;
	AUTO(buf_done) struct buf past = { 0 };
	struct store_key key = key_of("ab01/debuginfo");
	struct store_meta meta;
	struct store_copy_result r;
	struct err err = { 0 };

	put_text(s->to.st, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, "better");
	put_text(s->from.st, "ab01/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "worse");
	put_text(s->to.st, "ab02/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "worse");
	put_text(s->from.st, "ab02/debuginfo", STORE_FETCHED, STORE_DWARF, "richer");
	put_text(s->to.st, "ab03/debuginfo", STORE_PUSHED, STORE_DWARF, "pushed");
	put_text(s->from.st, "ab03/debuginfo", STORE_FETCHED, STORE_DWARF, "fetched");
	put_text(s->from.st, "ab04/debuginfo", STORE_PUSHED, STORE_DWARF, "same");
	put_text(s->to.st, "ab04/debuginfo", STORE_FETCHED, STORE_DWARF, "same");
	r = copy_all(s);
	assert_int_equal(r.n_kept, 2);
	assert_int_equal(r.n_copied, 2);
	assert_int_equal(r.n_contents, 1);
	assert_done(store_find(s->to.st, &key, &s->to.arena, &meta, &err));
	assert_int_equal(meta.quality, STORE_DWARF);
	key = key_of("ab02/debuginfo");
	assert_done(store_find(s->to.st, &key, &s->to.arena, &meta, &err));
	assert_int_equal(meta.quality, STORE_DWARF);
	key = key_of("ab04/debuginfo");
	assert_done(store_find(s->to.st, &key, &s->to.arena, &meta, &err));
	assert_int_equal(meta.origin, STORE_PUSHED);
	names_of(s->to.st, STORE_PAST, &past);
	if (!str_starts(buf_str(&past), STR("past/ab/ab02.debuginfo.")))
		fail_msg("%s", buf_cstr(&past));
	assert_whole(s->to.st);
}

static void the_object_that_stays_gets_the_hashes_of_the_other(void **state)
{
	struct stores *s = *state;
	struct store_meta a = meta_of(STORE_PUSHED, STORE_DWARF, "ci"), b = a, got;
	struct store_key key = key_of("ab01/debuginfo");
	struct build_id one, two;
	struct err err = { 0 };

	assert_true(build_id_parse(&one, STR("11112233445566778899aabbccddeeff")));
	assert_true(build_id_parse(&two, STR("22222233445566778899aabbccddeeff")));
	store_meta_add_hash(&a, &one);
	store_meta_add_hash(&b, &two);
	put_with(s->from.st, "ab01/debuginfo", &a, false, bytes_of("text", 4));
	put_with(s->to.st, "ab01/debuginfo", &b, false, bytes_of("text", 4));
	assert_int_equal(copy_all(s).n_there, 1);
	assert_done(store_find(s->to.st, &key, &s->to.arena, &got, &err));
	assert_true(build_id_eq(&got.hashes[0], &two) && build_id_eq(&got.hashes[1], &one));
}

/* As lode backup copies each night, between two pushes of an object. */
static void repeated_copies_have_the_earlier_versions_of_the_source(void **state)
{
	static const char *const texts[] = { "one", "two", "three", "four", "five" };
	struct stores *s = *state;

	clock_test_freeze(1700000000);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		clock_test_advance(60000);
		put_text(s->from.st, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, texts[i]);
		clock_test_advance(60000);
		copy_all(s);
		assert_all_in(s->from.st, s->to.st, STORE_KEYS);
		assert_all_in(s->from.st, s->to.st, STORE_PAST);
		assert_all_in(s->to.st, s->from.st, STORE_PAST);
	}
	assert_int_equal(copy_all(s).n_copied, 0);
	assert_whole(s->to.st);
}

/* The better one was removed, and an earlier version was restored. */
static void a_backup_has_the_pushed_objects_of_the_source(void **state)
{
	struct stores *s = *state;
	AUTO(buf_done) struct buf past = { 0 };
	struct store_key removed = key_of("ab01/debuginfo"), restored = key_of("ab02/debuginfo"),
			 pushed = key_of("ab03/debuginfo");
	struct str rest;
	struct err err = { 0 };
	size_t n_removed = 0;

	s->backup = true;
	clock_test_freeze(1700000000);
	put_text(s->from.st, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, "better");
	put_text(s->from.st, "ab02/debuginfo", STORE_PUSHED, STORE_DWARF, "good");
	clock_test_advance(60000);
	put_text(s->from.st, "ab02/debuginfo", STORE_PUSHED, STORE_DWARF, "wrong");
	put_text(s->from.st, "ab03/debuginfo", STORE_PUSHED, STORE_DWARF, "pushed");
	copy_all(s);
	assert_equal_stores(s);
	clock_test_advance(60000);
	assert_done(store_remove(s->from.st, &removed, STR("ci"), &err));
	put_text(s->from.st, "ab01/debuginfo", STORE_PUSHED, STORE_SYMBOLS, "lesser");
	assert_done(store_restore(s->from.st, &restored, STR(""), STR("ci"), &err));
	clock_test_advance(60000);
	assert_int_equal(copy_all(s).n_kept, 0);
	assert_all_in(s->from.st, s->to.st, STORE_KEYS);
	assert_all_in(s->from.st, s->to.st, STORE_PAST);
	names_of(s->to.st, STORE_PAST, &past);
	rest = buf_str(&past);
	while (rest.size)
		n_removed += str_starts(str_cut(&rest, '\n'), STR("past/ab/ab01."));
	assert_int_equal(n_removed, 1);
	/* What the source can get again takes the place of no push. */
	assert_done(store_remove(s->from.st, &pushed, STR("ci"), &err));
	put_text(s->from.st, "ab03/debuginfo", STORE_FETCHED, STORE_DWARF, "fetched");
	assert_int_equal(copy_all(s).n_kept, 1);
	assert_whole(s->to.st);
}

/* ---- damage ---- */

static void content_name_of(struct stores *s, const char *key_text, char name[STORE_CONTENT_NAME_SIZE])
{
	struct store_key key = key_of(key_text);
	struct store_meta meta;
	struct err err = { 0 };

	assert_done(store_find(s->from.st, &key, &s->from.arena, &meta, &err));
	store_content_name(meta.sha256, meta.raw, name);
}

enum damage { DAMAGE_FLIP, DAMAGE_CUT, DAMAGE_REMOVE, N_DAMAGES };

static void damage_content(struct stores *s, const char *key, enum damage how)
{
	struct blobs *b = s->from.st->blobs;
	AUTO(buf_done) struct buf content = { 0 };
	char name[STORE_CONTENT_NAME_SIZE];
	struct blob_stamp stamp;
	struct err err = { 0 };

	content_name_of(s, key, name);
	assert_done(b->ops->get(b, name, SIZE_MAX / 2, &content, &stamp, &err));
	if (how == DAMAGE_REMOVE) {
		assert_done(b->ops->remove(b, name, NULL, &err));
		return;
	}
	if (how == DAMAGE_FLIP)
		((uint8_t *)content.p)[content.size / 3] ^= 4;
	else
		content.size--;
	assert_done(b->ops->put(b, name, buf_bytes(&content), NULL, &stamp, &err));
}

static void a_damaged_content_is_named_and_not_copied(void **state)
{
	static const char *const keys[] = { "ab01/debuginfo", "ab02/symtab/1", "ab01/sources" };
	struct stores *s = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(keys) * N_DAMAGES; i++) {
		const char *key = keys[i / N_DAMAGES];
		/* Two records name the content of ab01/sources. */
		unsigned n_bad = i / N_DAMAGES == 2 ? 2 : 1;
		struct store_key k = key_of(key);
		struct store_meta meta;
		struct store_copy_result r;
		struct err err = { 0 };

		tear_down_both(state);
		set_up_into_memory(state);
		s = *state;
		put_all_kinds(s->from.st);
		damage_content(s, key, i % N_DAMAGES);
		r = copy_all(s);
		assert_int_equal(r.n_bad, n_bad);
		assert_int_equal(s->n_bad, n_bad);
		assert_int_equal(r.n_copied, N_RECORDS - n_bad);
		assert_non_null(strstr(s->bad, i % N_DAMAGES == DAMAGE_REMOVE ? "missing" : "damaged"));
		assert_int_equal(store_find(s->to.st, &k, &s->to.arena, &meta, &err), STORE_MISSING);
		assert_whole(s->to.st);
	}
}

/* As lode backup meets it each night: the versions that the copy keeps must not be pushed out by others of the same file. */
static void a_damaged_content_takes_the_place_of_none(void **state)
{
	struct stores *s = *state;
	AUTO(buf_done) struct buf past = { 0 };
	struct err err = { 0 };

	s->backup = true;
	clock_test_freeze(1700000000);
	put_text(s->to.st, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, "there");
	clock_test_advance(60000);
	put_text(s->from.st, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, "later");
	for (unsigned how = DAMAGE_FLIP; how < N_DAMAGES; how++) {
		struct store_copy_result r;

		damage_content(s, "ab01/debuginfo", how);
		clock_test_advance(60000);
		assert_done(copy_with(s, 1, &r, &err));
		assert_int_equal(r.n_bad, 1);
	}
	names_of(s->to.st, STORE_PAST, &past);
	assert_int_equal(past.size, 0);
	assert_whole(s->to.st);
}

static int open_without_memory(struct blobs *b, const char *name, struct source **ret, struct err *err)
{
	return err_set(err, ERR_LIMIT, "%s: no memory for it", name);
}

/* No object is called damaged for that, and another call copies all. */
static void a_lack_of_memory_ends_a_copy(void **state)
{
	struct stores *s = *state;
	const struct blobs_ops *under = s->from.st->blobs->ops;
	struct blobs_ops ops = *under;
	struct store_copy_result r;
	struct err err = { 0 };

	put_all_kinds(s->from.st);
	ops.open = open_without_memory;
	s->from.st->blobs->ops = &ops;
	assert_fails(copy_with(s, 1, &r, &err), ERR_LIMIT, "no memory");
	assert_int_equal(r.n_bad, 0);
	s->from.st->blobs->ops = under;
	assert_int_equal(copy_all(s).n_copied, N_RECORDS);
}

static void a_damaged_record_is_named_and_the_rest_is_copied(void **state)
{
	struct stores *s = *state;
	struct blobs *b = s->from.st->blobs;
	struct blob_stamp stamp;
	struct store_copy_result r;
	struct err err = { 0 };

	put_all_kinds(s->from.st);
	assert_done(b->ops->stat(
		b, "keys/ab/ab02.symtab-6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
		&stamp, &err));
	assert_done(b->ops->put(
		b, "keys/ab/ab02.symtab-6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
		bytes_of("lode object 1\n", 14), NULL, &stamp, &err));
	r = copy_all(s);
	assert_int_equal(r.n_bad, 1);
	assert_int_equal(r.n_copied, N_RECORDS - 1);
	assert_non_null(strstr(s->bad, "keys/ab/ab02.symtab"));
}

/* A damaged record in the other store is no obstacle. */
static void a_damaged_record_is_replaced(void **state)
{
	struct stores *s = *state;
	struct blobs *b = s->to.st->blobs;
	struct err err = { 0 };

	put_text(s->from.st, "ab01/debuginfo", STORE_PUSHED, STORE_DWARF, "text");
	assert_done(b->ops->put(b, "keys/ab/ab01.debuginfo", bytes_of("x", 1), NULL,
				&(struct blob_stamp){ 0 }, &err));
	assert_int_equal(copy_all(s).n_copied, 1);
	assert_equal_stores(s);
}

/* ---- failures, kills, collectors ---- */

static struct faulty *make_faulty(struct store *st)
{
	struct faulty *f = faulty_new(st->blobs);

	st->blobs = &f->blobs;
	return f;
}

/* Every write that fails, with all after it: as if the process was killed there. */
static void ended_at_any_write_both_are_whole_and_the_next_copy_goes_on(void **state)
{
	struct stores *s = *state;
	bool failed = true;
	unsigned n;

	for (n = 0; failed; n++) {
		struct store_copy_result r;
		struct err err = { 0 };
		struct faulty *f;

		tear_down_both(state);
		set_up_folders(state);
		s = *state;
		put_all_kinds(s->from.st);
		f = make_faulty(s->to.st);
		f->os = ENOSPC;
		atomic_store(&f->left, (int)n);
		failed = copy_with(s, 1, &r, &err) < 0;
		if (failed)
			assert_int_equal(err.kind, ERR_IO);
		reopen(&s->to, &(struct store_options){ 0 });
		assert_whole(s->to.st);
		assert_whole(s->from.st);
		r = copy_all(s);
		assert_int_equal(r.n_there + r.n_copied, N_RECORDS);
		assert_equal_stores(s);
	}
	/* A staging file, a content and a record for each. */
	assert_true(n > 2 * N_RECORDS);
}

static void a_source_that_cannot_be_reached_ends_the_copy(void **state)
{
	struct stores *s = *state;
	struct store_copy_result r;
	struct err err = { 0 };
	struct faulty *f;

	put_all_kinds(s->from.st);
	f = make_faulty(s->from.st);
	atomic_store(&f->away, true);
	assert_fails(copy_with(s, 4, &r, &err), ERR_IO, "the test's fault");
	assert_true(blob_is_away(&err));
	assert_int_equal(s->n_bad, 0);
	assert_whole(s->to.st);
}

static int stop_at_once(void *arg, const struct store_copy_result *r)
{
	return 1;
}

static void a_copy_can_be_stopped(void **state)
{
	struct stores *s = *state;
	const struct store_copy_options o = { .parallel = 2, .progress = stop_at_once };
	struct store_copy_result r;
	struct err err = { 0 };

	put_all_kinds(s->from.st);
	assert_fails(store_copy(s->from.st, s->to.st, &o, &r, &err), ERR_CANCELLED, "stopped");
	assert_int_equal(r.n_all, N_RECORDS);
	assert_true(r.n_done < N_RECORDS);
	assert_whole(s->to.st);
}

static void a_content_of_many_records_is_copied_once(void **state)
{
	struct stores *s = *state;
	struct store_copy_result r;

	for (unsigned i = 0; i < 64; i++) {
		char key[64];

		snprintf(key, sizeof(key), "%08x/debuginfo", i);
		put_text(s->from.st, key, STORE_PUSHED, STORE_DWARF, "same");
	}
	r = copy_all(s);
	assert_int_equal(r.n_copied, 64);
	assert_int_equal(r.n_contents, 1);
	assert_equal_stores(s);
}

struct collecting {
	struct store *st;
	atomic_bool stop;
};

static void *collect_repeatedly(void *arg)
{
	struct collecting *c = arg;

	while (!atomic_load(&c->stop)) {
		struct store_gc_result gc;
		struct err err = { 0 };

		assert_done(store_gc(c->st, NULL, NULL, &gc, &err));
	}
	return NULL;
}

static void a_collector_beside_it_takes_nothing(void **state)
{
	struct stores *s = *state;
	struct collecting c = { .st = s->to.st };
	pthread_t thread;

	for (unsigned i = 0; i < 300; i++) {
		char key[64], text[64];

		snprintf(key, sizeof(key), "%08x/debuginfo", i);
		snprintf(text, sizeof(text), "text %u", i / 2);
		put_text(s->from.st, key, STORE_PUSHED, STORE_DWARF, text);
	}
	s->to.st->settle_ns = 20000000;
	assert_int_equal(pthread_create(&thread, NULL, collect_repeatedly, &c), 0);
	for (unsigned i = 0; i < 3; i++)
		copy_all(s);
	atomic_store(&c.stop, true);
	pthread_join(thread, NULL);
	assert_equal_stores(s);
	assert_whole(s->to.st);
}

#define ALL_WAYS(test)                                                                     \
	cmocka_unit_test_setup_teardown(test, set_up_folders, tear_down_both),             \
		cmocka_unit_test_setup_teardown(test, set_up_into_memory, tear_down_both), \
		cmocka_unit_test_setup_teardown(test, set_up_into_bucket, tear_down_both), \
		cmocka_unit_test_setup_teardown(test, set_up_from_bucket, tear_down_both)
#define ONCE(test) cmocka_unit_test_setup_teardown(test, set_up_into_memory, tear_down_both)

/* The same bytes under a second key, as another version of libzstd compresses them. */
static void a_content_of_another_size_is_copied(void **state)
{
	AUTO(mem_freep) uint8_t *p = mem_alloc(LONG);
	struct store_meta m = meta_of(STORE_PUSHED, STORE_DWARF, "ci");
	struct stores *s = *state;
	struct store_copy_result r;

	for (size_t i = 0; i < LONG; i++)
		p[i] = (uint8_t)('a' + (i * i / 7 + i / 1000 * 31) % 23);
	put_with(s->from.st, "ab01/debuginfo", &m, false, bytes_of(p, LONG));
	s->from.st->opts.level = 19;
	put_with(s->from.st, "ab02/debuginfo", &m, false, bytes_of(p, LONG));
	r = copy_all(s);
	assert_int_equal(r.n_bad, 0);
	assert_int_equal(r.n_copied, 2);
	assert_int_equal(r.n_contents, 1);
	r = copy_all(s);
	assert_int_equal(r.n_there, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL_WAYS(everything_is_copied_as_it_is),
		ALL_WAYS(a_second_copy_copies_what_is_missing),
		ALL_WAYS(the_better_or_later_object_stays),
		ALL_WAYS(repeated_copies_have_the_earlier_versions_of_the_source),
		ALL_WAYS(a_backup_has_the_pushed_objects_of_the_source),
		ONCE(the_object_that_stays_gets_the_hashes_of_the_other),
		ONCE(a_damaged_content_is_named_and_not_copied),
		ONCE(a_damaged_content_takes_the_place_of_none),
		ONCE(a_damaged_record_is_named_and_the_rest_is_copied),
		ONCE(a_lack_of_memory_ends_a_copy),
		ONCE(a_damaged_record_is_replaced),
		ONCE(ended_at_any_write_both_are_whole_and_the_next_copy_goes_on),
		ONCE(a_source_that_cannot_be_reached_ends_the_copy),
		ONCE(a_copy_can_be_stopped),
		ALL_WAYS(a_content_of_many_records_is_copied_once),
		ALL_WAYS(a_content_of_another_size_is_copied),
		ALL_WAYS(a_collector_beside_it_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
