/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads to the bucket, without HTTP: how one that was sent ends, what stays for another try, and who may finish it. With
 * them the end of any push, commit.c, over a store in memory.
 */
#include "test.h"

#include <errno.h>
#include "base/sha256.h"
#include "elf_writer.h"
#include "server/push/direct.h"
#include "server/push/pass.h"
#include "store/bucket.h"
#include "store/internal.h"

#define ID       "00112233445566778899aabbccddeeff00112233"
#define OTHER_ID "ffeeddccbbaa99887766554433221100ffeeddcc"
#define SIZE     20000u

struct direct_fixture {
	struct server s;
	struct bucket_memory *memory;
	struct bucket *clients;       /* theirs */
	struct bucket_memory *stored; /* of the store, if that is in a bucket */
	bool is_away;                 /* it is */
	char dir[TEST_PATH_SIZE];
	const char *failing; /* an operation of the server's bucket */
	/* Called before the data of an upload are looked for: while it is being finished. */
	void (*meanwhile)(struct direct_fixture *f);
	unsigned n_meanwhile;
	struct push_outcome met; /* by its call */
	struct incoming_upload uploads[5];
	struct buf elf;
	struct arena arena;
};

static int before_operation(void *arg, const char *op, const char *name, struct err *err)
{
	struct direct_fixture *f = arg;

	if (f->meanwhile && strcmp(op, "list") == 0)
		f->meanwhile(f);
	return f->failing && strcmp(op, f->failing) == 0 ? bucket_failed(err, "no answer") : 0;
}

static void open_store(struct direct_fixture *f, uint64_t quota)
{
	store_close(f->s.opts.store);
	f->s.opts.store = store_open_memory(&(struct store_options){ .quota = quota, .keep_pushed = true });
}

static int before_stored(void *arg, const char *op, const char *name, struct err *err)
{
	struct direct_fixture *f = arg;

	return f->is_away ? bucket_failed(err, "no answer") : 0;
}

/* A store whose objects are in a bucket, too: another one than that of the uploads. */
static void open_bucket_store(struct direct_fixture *f)
{
	struct blobs *b = NULL;
	struct err err = { 0 };

	store_close(f->s.opts.store);
	assert_done(
		blobs_open_bucket(bucket_open_memory(f->stored, before_stored, f), f->dir, true, &b, &err));
	f->s.opts.store = store_open_blobs(b, &(struct store_options){ 0 });
}

static int set_up(void **state)
{
	struct direct_fixture *f = NEW(struct direct_fixture);

	log_set_level(LOG_ERROR);
	clock_test_freeze(1000000);
	open_store(f, 0);
	test_dir_make(f->dir);
	f->stored = bucket_memory_new();
	f->memory = bucket_memory_new();
	f->clients = bucket_open_memory(f->memory, NULL, NULL);
	f->s.opts.incoming = incoming_open_bucket(bucket_open_memory(f->memory, before_operation, f), NULL);
	f->s.opts.incoming_for = DIRECT_FOR_PUSH;
	f->s.opts.max_push = MIB(100);
	f->s.push = push_new(&f->s);
	arena_init(&f->arena);
	elf_writer_debug_file(&f->elf, ET_DYN, ID, SIZE);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct direct_fixture *f = *state;

	push_free(f->s.push);
	incoming_close(f->s.opts.incoming);
	f->clients->ops->close(f->clients);
	bucket_memory_free(f->memory);
	store_close(f->s.opts.store);
	bucket_memory_free(f->stored);
	test_dir_remove(f->dir);
	arena_done(&f->arena);
	buf_done(&f->elf);
	clock_test_thaw();
	free(f);
	return 0;
}

static struct incoming_upload announced(struct bytes content, const char *owner)
{
	struct incoming_upload u = { .key.kind = STORE_DEBUGINFO, .has_sha256 = true };
	struct err err = { 0 };

	assert_true(build_id_parse(&u.key.id, STR(ID)));
	u.meta = (struct store_meta){
		.origin = STORE_PUSHED, .size = content.size, .owner = str_of(owner), .from = str_of(owner)
	};
	assert_done(sha256_load(&err));
	sha256_of(content, u.meta.sha256);
	return u;
}

static struct incoming_upload announce(struct direct_fixture *f)
{
	struct incoming_upload u = announced(buf_bytes(&f->elf), "ci");
	struct err err = { 0 };

	assert_done(direct_begin(&f->s, &u, true, &err));
	return u;
}

/* As a client that uses the URL. */
static void send_data(struct direct_fixture *f, const struct incoming_upload *u, struct bytes content)
{
	struct err err = { 0 };
	char name[128];

	snprintf(name, sizeof(name), "incoming/%s!data", u->id);
	assert_done(f->clients->ops->put(f->clients, name, content, &err));
}

static struct incoming_upload announce_and_send(struct direct_fixture *f)
{
	struct incoming_upload u = announce(f);

	send_data(f, &u, buf_bytes(&f->elf));
	return u;
}

static struct push_outcome finish_as(struct direct_fixture *f, const struct incoming_upload *u,
				     const char *owner)
{
	const struct direct_end e = { .id = str_of(u->id), .owner = owner, .what = "test" };
	struct push_outcome o = { 0 };

	direct_finish(&f->s, &e, &f->arena, &o);
	return o;
}

static struct push_outcome finish(struct direct_fixture *f, const struct incoming_upload *u)
{
	return finish_as(f, u, "ci");
}

static int count_item(void *arg, const struct bucket_item *item, struct err *err)
{
	++*(unsigned *)arg;
	return 0;
}

/* The facts and the data of uploads. */
static unsigned left_in_bucket(struct direct_fixture *f)
{
	struct err err = { 0 };
	unsigned n = 0;

	assert_done(f->clients->ops->list(f->clients, "", "", count_item, &n, &err));
	return n;
}

static enum pass_state state_of(struct direct_fixture *f, const struct incoming_upload *u)
{
	return pass_state(f->s.push->passes, direct_number(str_of(u->id)), &u->key.id);
}

static bool is_stored(struct direct_fixture *f, enum store_kind kind, const char *owner)
{
	struct store_key key = { .kind = kind };
	struct store_meta there = { 0 };
	struct err err = { 0 };

	assert_true(build_id_parse(&key.id, STR(ID)));
	if (store_find(f->s.opts.store, &key, &f->arena, &there, &err) != 0)
		return false;
	assert_int_equal(there.size, f->elf.size);
	assert_str(there.owner, owner);
	return true;
}

/* An object of the best quality. */
static void put_before(struct direct_fixture *f, enum store_kind kind, const char *owner)
{
	const struct store_meta meta = {
		.origin = STORE_PUSHED, .quality = STORE_DWARF, .owner = str_of(owner), .from = str_of(owner)
	};
	struct store_key key = { .kind = kind };
	struct bytes content = bytes_of("bytes", 5);
	struct err err = { 0 };

	assert_true(build_id_parse(&key.id, STR(ID)));
	assert_true(store_put_bytes(f->s.opts.store, &key, &meta, false, content, STORE_ALWAYS, &err) >= 0);
}

/* ---- the end of an upload ---- */

static void a_sent_file_is_stored_and_its_upload_ends(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce_and_send(f), again;
	struct push_outcome o;

	assert_int_equal(state_of(f, &u), PASS_OPEN);
	o = finish(f, &u);
	assert_int_equal(o.status, 201);
	assert_string_equal(o.result, "stored");
	assert_true(is_stored(f, STORE_DEBUGINFO, "ci"));
	assert_int_equal(left_in_bucket(f), 0);
	assert_int_equal(state_of(f, &u), PASS_DONE);
	assert_int_equal(finish(f, &u).status, 404);
	again = announce_and_send(f);
	o = finish(f, &again);
	assert_int_equal(o.status, 200);
	assert_string_equal(o.result, "same");
	assert_int_equal(left_in_bucket(f), 0);
}

static void only_the_owner_finishes_it(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce_and_send(f);
	struct direct_end e = { .id = str_of(u.id), .owner = "ci", .what = "test" };
	struct build_id other;
	struct push_outcome o;

	assert_int_equal(finish_as(f, &u, "other").status, 404);
	assert_true(build_id_parse(&other, STR(OTHER_ID)));
	e.build_id = &other;
	direct_finish(&f->s, &e, &f->arena, &o);
	assert_int_equal(o.status, 404);
	assert_int_equal(left_in_bucket(f), 2);
	assert_int_equal(state_of(f, &u), PASS_OPEN);
	e.build_id = &u.key.id;
	direct_finish(&f->s, &e, &f->arena, &o);
	assert_int_equal(o.status, 201);
}

static void one_that_is_not_sent_yet_waits(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce(f);

	assert_int_equal(finish(f, &u).status, 412);
	assert_int_equal(left_in_bucket(f), 1);
	assert_int_equal(state_of(f, &u), PASS_OPEN);
	send_data(f, &u, buf_bytes(&f->elf));
	assert_int_equal(finish(f, &u).status, 201);
}

static void a_failure_of_the_bucket_leaves_it_to_another_try(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce_and_send(f);

	f->failing = "get";
	assert_int_equal(finish(f, &u).status, 503);
	f->failing = "list";
	assert_int_equal(finish(f, &u).status, 503);
	f->failing = NULL;
	assert_int_equal(left_in_bucket(f), 2);
	assert_int_equal(state_of(f, &u), PASS_OPEN);
	assert_int_equal(finish(f, &u).status, 201);
}

static void a_full_store_leaves_it_to_another_try(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce_and_send(f);

	open_store(f, SIZE / 2);
	assert_int_equal(finish(f, &u).status, 507);
	assert_int_equal(left_in_bucket(f), 2);
	assert_int_equal(state_of(f, &u), PASS_OPEN);
	open_store(f, 0);
	assert_int_equal(finish(f, &u).status, 201);
}

/* Trying again does not help, so nothing of it stays. */
static void assert_refused(struct direct_fixture *f, const struct incoming_upload *u, const char *text)
{
	struct push_outcome o = finish(f, u);

	assert_int_equal(o.status, 422);
	if (!strstr(o.text, text))
		fail_msg("'%s' is not in '%s'", text, o.text);
	assert_int_equal(left_in_bucket(f), 0);
	assert_int_equal(state_of(f, u), PASS_USED);
	assert_false(is_stored(f, STORE_DEBUGINFO, "ci"));
}

static void other_bytes_than_announced_are_refused(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce(f);
	AUTO(buf_done) struct buf other = { 0 };

	buf_add(&other, f->elf.p, f->elf.size);
	other.p[other.size - 1] ^= 1;
	send_data(f, &u, buf_bytes(&other));
	assert_refused(f, &u, "another SHA-256");
	u = announce(f);
	send_data(f, &u, bytes_of(f->elf.p, f->elf.size - 1));
	assert_refused(f, &u, "was initiated with");
}

static void a_file_that_its_path_does_not_name_is_refused(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u;
	struct err err = { 0 };

	f->elf.p[0] = '<';
	u = announce_and_send(f);
	assert_refused(f, &u, "ELF");
	u = announced(buf_bytes(&f->elf), "ci");
	u.key.kind = STORE_SOURCES;
	memcpy(f->elf.p, "\x1f\x8b\x08", 3);
	sha256_of(buf_bytes(&f->elf), u.meta.sha256);
	assert_done(direct_begin(&f->s, &u, true, &err));
	send_data(f, &u, buf_bytes(&f->elf));
	assert_refused(f, &u, "push it unpacked");
	memcpy(f->elf.p, "\177ELF", 4);
	u = announced(buf_bytes(&f->elf), "ci");
	assert_true(build_id_parse(&u.key.id, STR(OTHER_ID)));
	assert_done(direct_begin(&f->s, &u, true, &err));
	send_data(f, &u, buf_bytes(&f->elf));
	assert_refused(f, &u, "build ID");
}

static void an_object_of_another_owner_stays(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u;
	struct direct_end e = { .owner = "ci", .is_admin = true, .what = "test" };
	struct push_outcome o;

	put_before(f, STORE_DEBUGINFO, "release");
	u = announce_and_send(f);
	o = finish(f, &u);
	assert_int_equal(o.status, 409);
	assert_string_equal(o.result, "owned");
	assert_non_null(strstr(o.text, "'release'"));
	assert_int_equal(left_in_bucket(f), 0);
	assert_int_equal(state_of(f, &u), PASS_USED);
	u = announce_and_send(f);
	e.id = str_of(u.id);
	direct_finish(&f->s, &e, &f->arena, &o);
	assert_int_equal(o.status, 201);
	assert_true(is_stored(f, STORE_DEBUGINFO, "release")); /* who replaces an object does not own it */
}

/*
 * Such a program is asked before the debug file of its build ID. The store in a bucket was not asked when the upload began, or
 * the program has come since.
 */
static void a_program_of_another_owner_keeps_its_place(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce_and_send(f);
	struct push_outcome o;

	open_bucket_store(f);
	put_before(f, STORE_EXECUTABLE, "release");
	o = finish(f, &u);
	assert_int_equal(o.status, 409);
	assert_string_equal(o.result, "owned");
	assert_non_null(strstr(o.text, "'release'"));
	assert_false(is_stored(f, STORE_DEBUGINFO, "ci"));
}

static void a_store_that_is_away_leaves_it_to_another_try(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce_and_send(f);
	struct push_outcome o;

	open_bucket_store(f);
	assert_false(is_stored(f, STORE_DEBUGINFO, "ci")); /* it was found to be a store */
	f->is_away = true;
	o = finish(f, &u);
	assert_int_equal(o.status, 503);
	assert_true(o.away);
	assert_non_null(strstr(o.text, "again later"));
	assert_int_equal(left_in_bucket(f), 2);
	f->is_away = false;
	assert_int_equal(finish(f, &u).status, 201);
	assert_true(is_stored(f, STORE_DEBUGINFO, "ci"));
}

/* It need not be sent again. */
static void assert_kept(struct direct_fixture *f, const struct incoming_upload *u)
{
	struct push_outcome o = finish(f, u);

	assert_int_equal(o.status, 200);
	assert_string_equal(o.result, "kept");
	assert_int_equal(state_of(f, u), PASS_DONE);
	assert_int_equal(left_in_bucket(f), 0);
}

static void a_better_object_stays(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u;
	struct err err = { 0 };

	put_before(f, STORE_EXECUTABLE, "ci");
	buf_done(&f->elf);
	elf_writer_program(&f->elf, ET_DYN, ID, SIZE);
	u = announced(buf_bytes(&f->elf), "ci");
	u.key.kind = STORE_EXECUTABLE;
	assert_done(direct_begin(&f->s, &u, true, &err));
	send_data(f, &u, buf_bytes(&f->elf));
	assert_kept(f, &u);
}

static void a_file_without_any_name_is_not_stored(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u;
	struct elf_writer w;
	struct err err = { 0 };

	buf_done(&f->elf);
	u = announced(buf_bytes(&f->elf), "ci");
	elf_writer_init(&w, ELF_WRITER_X86_64, ET_DYN);
	elf_writer_build_id(&w, build_id_bytes(&u.key.id));
	elf_writer_finish(&w, &f->elf);
	elf_writer_done(&w);
	u = announced(buf_bytes(&f->elf), "ci");
	u.by_content = true;
	assert_done(direct_begin(&f->s, &u, true, &err));
	send_data(f, &u, buf_bytes(&f->elf));
	assert_kept(f, &u);
	assert_false(is_stored(f, STORE_DEBUGINFO, "ci"));
	assert_false(is_stored(f, STORE_EXECUTABLE, "ci"));
}

/* A client that has no name for the kind: the file says it, and the success is 200 alone. */
static void the_content_says_what_kind_it_is(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u;
	struct push_outcome o;
	struct err err = { 0 };

	buf_done(&f->elf);
	elf_writer_program(&f->elf, ET_DYN, ID, SIZE);
	u = announced(buf_bytes(&f->elf), "ci");
	u.has_sha256 = false;
	u.by_content = true;
	assert_done(direct_begin(&f->s, &u, false, &err));
	send_data(f, &u, buf_bytes(&f->elf));
	o = finish(f, &u);
	assert_int_equal(o.status, 200);
	assert_string_equal(o.result, "stored");
	assert_true(is_stored(f, STORE_EXECUTABLE, "ci"));
	assert_false(is_stored(f, STORE_DEBUGINFO, "ci"));
}

/* ---- at once ---- */

static void finish_the_same(struct direct_fixture *f)
{
	f->meanwhile = NULL;
	f->met = finish(f, &f->uploads[0]);
}

static void one_upload_is_finished_by_one_thread(void **state)
{
	struct direct_fixture *f = *state;

	f->uploads[0] = announce_and_send(f);
	f->meanwhile = finish_the_same;
	assert_int_equal(finish(f, &f->uploads[0]).status, 201);
	assert_int_equal(f->met.status, 409);
	assert_string_equal(f->met.result, "busy");
}

static void finish_the_next(struct direct_fixture *f)
{
	unsigned i = ++f->n_meanwhile;

	if (i < ARRAY_SIZE(f->uploads))
		f->met = finish(f, &f->uploads[i]);
}

/* Each within the one before: those that are finished last go on while the first one waits. */
static void few_uploads_are_finished_at_once(void **state)
{
	struct direct_fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(f->uploads); i++)
		f->uploads[i] = announce_and_send(f);
	f->meanwhile = finish_the_next;
	assert_int_equal(finish(f, &f->uploads[0]).status, 200);
	assert_int_equal(f->n_meanwhile, 4); /* the fifth never came to its data */
	assert_int_equal(left_in_bucket(f), 2);
	f->meanwhile = NULL;
	assert_string_equal(finish(f, &f->uploads[4]).result, "same");
	assert_int_equal(left_in_bucket(f), 0);
}

/* ---- announcing ---- */

static void an_upload_that_cannot_be_announced_does_not_count(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announced(buf_bytes(&f->elf), "ci");
	struct err err = { 0 };

	f->failing = "put";
	assert_true(direct_begin(&f->s, &u, true, &err) < 0);
	assert_int_equal(state_of(f, &u), PASS_NONE);
	assert_int_equal(left_in_bucket(f), 0);
}

static void one_owner_announces_only_so_many(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u;
	struct err err = { 0 };

	for (unsigned i = 0; i < PASSES_OF_ONE; i++)
		announce(f);
	u = announced(buf_bytes(&f->elf), "ci");
	assert_fails(direct_begin(&f->s, &u, true, &err), ERR_BUSY, "");
	assert_int_equal(left_in_bucket(f), PASSES_OF_ONE);
	u = announced(buf_bytes(&f->elf), "other");
	assert_done(direct_begin(&f->s, &u, true, &err));
	/* One counts for as long as its URL is good. */
	clock_test_advance(INCOMING_PARTS_S * 1000 + 1000);
	u = announced(buf_bytes(&f->elf), "ci");
	assert_done(direct_begin(&f->s, &u, true, &err));
}

/* Of all nodes: a quarter of the quota is for them. */
static void bytes_that_are_left_in_the_bucket_bound_what_is_announced(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload left = announced(buf_bytes(&f->elf), "ci"), u = left;
	struct err err = { 0 };

	incoming_name_new(&left);
	send_data(f, &left, buf_bytes(&f->elf));
	open_store(f, 5 * f->elf.size);
	push_free(f->s.push);
	f->s.push = push_new(&f->s);
	assert_fails(direct_begin(&f->s, &u, true, &err), ERR_BUSY, "has no room");
	assert_int_equal(left_in_bucket(f), 1);
}

static void what_is_given_up_leaves_nothing(void **state)
{
	struct direct_fixture *f = *state;
	struct incoming_upload u = announce_and_send(f), other = announce(f);

	direct_give_up(&f->s, &u);
	assert_int_equal(left_in_bucket(f), 1); /* the facts of the other one */
	assert_int_equal(state_of(f, &u), PASS_NONE);
	assert_int_equal(state_of(f, &other), PASS_OPEN);
	assert_int_equal(finish(f, &u).status, 404);
}

static void it_is_offered_to_those_for_whom_it_is(void **state)
{
	struct direct_fixture *f = *state;
	struct server *s = &f->s;

	assert_true(direct_offers(s, DIRECT_FOR_PUSH, 1));
	assert_false(direct_offers(s, DIRECT_FOR_PARCA, 1));
	assert_false(direct_offers(s, DIRECT_FOR_PUSH, 0));
	assert_true(direct_offers(s, DIRECT_FOR_PUSH, s->opts.max_push));
	assert_false(direct_offers(s, DIRECT_FOR_PUSH, s->opts.max_push + 1));
	s->opts.max_push = UINT64_MAX;
	assert_true(direct_offers(s, DIRECT_FOR_PUSH, INCOMING_MAX));
	assert_false(direct_offers(s, DIRECT_FOR_PUSH, INCOMING_MAX + 1));
}

/* ---- failures ---- */

static void the_status_says_whether_to_try_again(void **state)
{
	static const struct {
		int r;
		struct err err;
		unsigned status;
		const char *text;
	} cases[] = {
		{ STORE_FULL, { 0 }, 507, "quota" },
		{ -1, { .kind = ERR_INVALID, .text = "no ELF file" }, 422, "refused: no ELF file" },
		{ -1, { .kind = ERR_IO, .os = ENOSPC }, 507, "disk is full" },
		{ -1, { .kind = ERR_IO, .os = EDQUOT }, 507, "disk is full" },
		{ -1, { .kind = ERR_IO, .os = EFBIG }, 507, "disk is full" },
		{ -1,
		  { .kind = ERR_IO, .os = ENOTCONN, .text = "no answer" },
		  503,
		  "again later: no answer" },
		{ -1, { .kind = ERR_IO, .os = EIO, .text = "secret" }, 503, "its log has the reason" },
		{ -1, { .kind = ERR_IO, .os = EACCES }, 500, "its log has the reason" },
		{ -1, { .kind = ERR_LIMIT, .os = EMFILE }, 503, "its log has the reason" },
		{ -1, { .kind = ERR_DAMAGED }, 500, "its log has the reason" },
	};
	struct direct_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct push_outcome o = { 0 };

		push_failure("test", cases[i].r, &cases[i].err, &f->arena, &o);
		assert_int_equal(o.status, cases[i].status);
		if (!strstr(o.text, cases[i].text))
			fail_msg("%zu: '%s' is not in '%s'", i, cases[i].text, o.text);
		assert_null(o.result);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define UNIT(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
		UNIT(a_sent_file_is_stored_and_its_upload_ends),
		UNIT(only_the_owner_finishes_it),
		UNIT(one_that_is_not_sent_yet_waits),
		UNIT(a_failure_of_the_bucket_leaves_it_to_another_try),
		UNIT(a_full_store_leaves_it_to_another_try),
		UNIT(other_bytes_than_announced_are_refused),
		UNIT(a_file_that_its_path_does_not_name_is_refused),
		UNIT(an_object_of_another_owner_stays),
		UNIT(a_program_of_another_owner_keeps_its_place),
		UNIT(a_store_that_is_away_leaves_it_to_another_try),
		UNIT(a_better_object_stays),
		UNIT(a_file_without_any_name_is_not_stored),
		UNIT(the_content_says_what_kind_it_is),
		UNIT(one_upload_is_finished_by_one_thread),
		UNIT(few_uploads_are_finished_at_once),
		UNIT(an_upload_that_cannot_be_announced_does_not_count),
		UNIT(one_owner_announces_only_so_many),
		UNIT(bytes_that_are_left_in_the_bucket_bound_what_is_announced),
		UNIT(what_is_given_up_leaves_nothing),
		UNIT(it_is_offered_to_those_for_whom_it_is),
		UNIT(the_status_says_whether_to_try_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
