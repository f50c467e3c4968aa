/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads that clients send to the bucket themselves: announced, sent, finished by any process, or left. */
#include "test.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include "store/bucket.h"
#include "store/incoming.h"

struct incoming_fixture {
	struct bucket_memory *memory;
	struct bucket *bucket; /* the clients' */
	struct incoming *in;
	const char *failing;
	struct arena arena;
};

static int fail_some(void *arg, const char *op, const char *name, struct err *err)
{
	struct incoming_fixture *f = arg;

	return f->failing && strcmp(op, f->failing) == 0 ? bucket_failed(err, "no answer") : 0;
}

static int set_up(void **state)
{
	struct incoming_fixture *f = NEW(struct incoming_fixture);

	clock_test_freeze(1000000);
	f->memory = bucket_memory_new();
	f->bucket = bucket_open_memory(f->memory, NULL, NULL);
	f->in = incoming_open_bucket(bucket_open_memory(f->memory, fail_some, f), NULL);
	arena_init(&f->arena);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct incoming_fixture *f = *state;

	incoming_close(f->in);
	f->bucket->ops->close(f->bucket);
	bucket_memory_free(f->memory);
	arena_done(&f->arena);
	clock_test_thaw();
	free(f);
	return 0;
}

static struct incoming_upload announced(uint64_t size)
{
	struct incoming_upload u = { .has_sha256 = true, .by_sender = true };
	uint64_t id = 7;

	build_id_set(&u.key.id, bytes_of(&id, sizeof(id)));
	u.key.kind = STORE_EXECUTABLE;
	u.meta = (struct store_meta){ .origin = STORE_PUSHED,
				      .size = size,
				      .owner = STR("ci"),
				      .from = STR("ci"),
				      .file = STR("a %\n") };
	memset(u.meta.sha256, 0xab, sizeof(u.meta.sha256));
	return u;
}

static struct incoming_upload begin(struct incoming_fixture *f, uint64_t size)
{
	struct incoming_upload u = announced(size);
	struct err err = { 0 };

	incoming_name_new(&u);
	assert_done(incoming_begin(f->in, &u, true, &err));
	assert_int_equal(strlen(u.id), INCOMING_ID_SIZE - 1);
	return u;
}

static int find(struct incoming_fixture *f, const struct incoming_upload *u, struct incoming_upload *ret)
{
	struct err err = { 0 };
	int r = incoming_find(f->in, str_of(u->id), &f->arena, ret, &err);

	assert_true(r >= 0);
	return r;
}

static void data_name(const struct incoming_upload *u, char out[128])
{
	snprintf(out, 128, "incoming/%s!data", u->id);
}

/* As a client that uses the URL. */
static void send_whole(struct incoming_fixture *f, const struct incoming_upload *u, const char *text)
{
	struct err err = { 0 };
	char name[128];

	data_name(u, name);
	assert_done(f->bucket->ops->put(f->bucket, name, bytes_of(text, strlen(text)), &err));
}

static void send_part(struct incoming_fixture *f, const struct incoming_upload *u, unsigned part,
		      uint64_t size)
{
	AUTO(fd_close) int fd = memfd_create("part", MFD_CLOEXEC);
	const struct file_range range = { .fd = fd, .size = size };
	struct bucket_part ret;
	struct err err = { 0 };
	char name[128];

	data_name(u, name);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_done(f->bucket->ops->upload_part(f->bucket, name, u->in_parts, part, &range, &ret, &err));
}

static int count_item(void *arg, const struct bucket_item *item, struct err *err)
{
	++*(unsigned *)arg;
	return 0;
}

static unsigned objects(struct incoming_fixture *f)
{
	struct err err = { 0 };
	unsigned n = 0;

	assert_done(f->bucket->ops->list(f->bucket, "", "", count_item, &n, &err));
	return n;
}

static void an_upload_has_what_was_announced(void **state)
{
	struct incoming_fixture *f = *state;
	struct incoming_upload u = begin(f, 5), got;
	struct buf url = { 0 };
	struct err err = { 0 };
	struct source *src;
	char bytes[5], want[160];

	assert_done(incoming_url(f->in, &u, 0, &url, &err));
	snprintf(want, sizeof(want), "memory:incoming/%s!data?size=5&part=0", u.id);
	assert_str(buf_str(&url), want);
	assert_int_equal(find(f, &u, &got), 0);
	assert_true(build_id_eq(&got.key.id, &u.key.id) && got.key.kind == STORE_EXECUTABLE);
	assert_true(got.has_sha256 && got.by_sender && !got.by_content && !got.in_parts[0]);
	assert_true(got.meta.size == 5 && got.meta.created == u.meta.created && got.meta.created);
	assert_memory_equal(got.meta.sha256, u.meta.sha256, sizeof(u.meta.sha256));
	assert_str(got.meta.owner, "ci");
	assert_str(got.meta.file, "a %\n");
	assert_int_equal(incoming_read(f->in, &got, &src, &err), INCOMING_MISSING);
	send_whole(f, &u, "hello");
	assert_done(incoming_read(f->in, &got, &src, &err));
	assert_done(source_read_full(src, 0, bytes, sizeof(bytes), SOURCE_SEQUENTIAL, &err));
	assert_memory_equal(bytes, "hello", 5);
	source_close(src);
	incoming_drop(f->in, &got);
	assert_int_equal(objects(f), 0);
	assert_int_equal(find(f, &u, &got), INCOMING_MISSING);
	buf_done(&url);
}

static void another_size_is_refused(void **state)
{
	struct incoming_fixture *f = *state;
	struct incoming_upload u = begin(f, 4);
	struct err err = { 0 };
	struct source *src;

	send_whole(f, &u, "hello");
	assert_fails(incoming_read(f->in, &u, &src, &err), ERR_INVALID, "has 5 bytes");
}

static void parts_are_joined_when_all_are_there(void **state)
{
	struct incoming_fixture *f = *state;
	struct incoming_upload u = begin(f, INCOMING_WHOLE_MAX + 5), got;
	struct buf url = { 0 };
	struct err err = { 0 };
	struct source *src;
	char want[160];

	assert_int_equal(incoming_n_parts(&u), 5);
	assert_done(incoming_url(f->in, &u, 5, &url, &err));
	snprintf(want, sizeof(want), "memory:incoming/%s!data?size=5&part=5", u.id);
	assert_str(buf_str(&url), want);
	assert_int_equal(find(f, &u, &got), 0);
	assert_string_equal(got.in_parts, u.in_parts);
	for (unsigned i = 1; i < 5; i++)
		send_part(f, &u, i, INCOMING_PART);
	assert_int_equal(incoming_read(f->in, &got, &src, &err), INCOMING_MISSING);
	send_part(f, &u, 5, 4);
	assert_int_equal(incoming_read(f->in, &got, &src, &err), INCOMING_MISSING);
	send_part(f, &u, 5, 5);
	/* A process is killed after the join: the next one finds the data. */
	for (unsigned i = 0; i < 2; i++) {
		assert_done(incoming_read(f->in, &got, &src, &err));
		assert_int_equal(src->size, INCOMING_WHOLE_MAX + 5);
		source_close(src);
	}
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
	incoming_drop(f->in, &got);
	assert_int_equal(objects(f), 0);
	buf_done(&url);
}

static void an_upload_is_finished_within_half_a_day_and_kept_for_a_day(void **state)
{
	struct incoming_fixture *f = *state;
	struct incoming_upload whole = begin(f, 5), parts = begin(f, 2 * INCOMING_WHOLE_MAX), late, got;
	struct err err = { 0 };
	uint64_t left;

	send_whole(f, &whole, "hello");
	send_part(f, &parts, 1, INCOMING_PART);
	assert_int_equal(objects(f), 3);
	clock_test_advance(INCOMING_FINISH_S * INT64_C(1000) + 2000);
	late = begin(f, 5);
	assert_int_equal(find(f, &whole, &got), INCOMING_MISSING);
	clock_test_advance(INCOMING_FINISH_S * INT64_C(1000) - 3000);
	assert_done(bucket_incoming_sweep(f->bucket, &left, &err));
	assert_int_equal(objects(f), 4);
	clock_test_advance(3000);
	/* By a URL that outlived its upload. */
	send_whole(f, &parts, "late");
	assert_done(bucket_incoming_sweep(f->bucket, &left, &err));
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
	assert_int_equal(objects(f), 1);
	assert_int_equal(find(f, &late, &got), 0);
	clock_test_advance(2 * INCOMING_KEEP_S * INT64_C(1000));
	assert_done(bucket_incoming_sweep(f->bucket, &left, &err));
	assert_int_equal(objects(f), 0);
}

/* Another process has doubted the bucket's clock when it announced the upload: its facts seem to be older than they are. */
static void the_age_of_an_upload_is_that_of_its_facts_in_the_bucket(void **state)
{
	struct incoming_fixture *f = *state;
	struct incoming_upload u = begin(f, 5), got;
	AUTO(buf_done) struct buf facts = { 0 };
	struct err err = { 0 };
	char name[128];

	snprintf(name, sizeof(name), "incoming/%s!facts", u.id);
	assert_done(f->bucket->ops->get(f->bucket, name, 10000, &facts, &err));
	clock_test_advance(INCOMING_FINISH_S * INT64_C(1000) + 2000);
	assert_done(f->bucket->ops->put(f->bucket, name, buf_bytes(&facts), &err));
	assert_int_equal(find(f, &u, &got), 0);
	clock_test_advance(INCOMING_FINISH_S * INT64_C(1000) + 2000);
	assert_int_equal(find(f, &u, &got), INCOMING_MISSING);
}

static void data_without_facts_and_damaged_facts_are_removed_too(void **state)
{
	static const char *const names[] = {
		"incoming/0123456789abcdef0123456789abcdef!data",
		"incoming/1123456789abcdef0123456789abcdef!facts",
	};
	struct incoming_fixture *f = *state;
	struct err err = { 0 };
	uint64_t left;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_done(f->bucket->ops->put(f->bucket, names[i], bytes_of("x", 1), &err));
	assert_done(f->bucket->ops->put(f->bucket, "incoming/of-others", bytes_of("x", 1), &err));
	assert_fails(incoming_find(f->in, STR("1123456789abcdef0123456789abcdef"), &f->arena,
				   &(struct incoming_upload){ 0 }, &err),
		     ERR_INVALID, "damaged");
	clock_test_advance(INCOMING_KEEP_S * INT64_C(1000) + 2000);
	assert_done(bucket_incoming_sweep(f->bucket, &left, &err));
	assert_int_equal(objects(f), 1);
}

static int get_without_memory(void *arg, const char *op, const char *name, struct err *err)
{
	return strcmp(op, "get") == 0 ? err_set(err, ERR_LIMIT, "no memory for an answer") : 0;
}

/* Only the facts have the id of the upload. */
static void an_upload_stays_known_for_want_of_memory(void **state)
{
	static const char text[70000] = "?";
	struct incoming_fixture *f = *state;
	struct incoming_upload u = begin(f, 2 * INCOMING_WHOLE_MAX);
	struct bucket *poor = bucket_open_memory(f->memory, get_without_memory, NULL);
	struct err err = { 0 };
	uint64_t left;

	send_part(f, &u, 1, INCOMING_PART);
	clock_test_advance(INCOMING_KEEP_S * INT64_C(1000) + 2000);
	assert_fails(bucket_incoming_sweep(poor, &left, &err), ERR_LIMIT, "no memory");
	assert_int_equal(objects(f), 1);
	assert_done(bucket_incoming_sweep(f->bucket, &left, &err));
	assert_int_equal(objects(f), 0);
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
	/* Facts that are longer than any have none. */
	assert_done(f->bucket->ops->put(f->bucket, "incoming/1123456789abcdef0123456789abcdef!facts",
					bytes_of(text, sizeof(text)), &err));
	clock_test_advance(INCOMING_KEEP_S * INT64_C(1000) + 2000);
	assert_done(bucket_incoming_sweep(f->bucket, &left, &err));
	assert_int_equal(objects(f), 0);
	poor->ops->close(poor);
}

/* A URL is good for longer than its upload, so a client may send what nobody reads any more. */
static void data_that_were_sent_after_the_end_are_removed_when_the_url_is_over(void **state)
{
	struct incoming_fixture *f = *state;
	struct incoming_upload a = begin(f, 5), b = begin(f, 3), c = begin(f, 4);

	send_whole(f, &b, "abc");
	for (unsigned i = 0; i < 2; i++) {
		send_whole(f, &a, "hello");
		send_whole(f, &c, "more");
		incoming_drop(f->in, &a);
		incoming_drop(f->in, &c);
	}
	send_whole(f, &a, "hello");
	send_whole(f, &c, "more");
	assert_int_equal(incoming_left(f->in), 5 + 3 + 4);
	clock_test_advance(INCOMING_WHOLE_S * INT64_C(1000) - 1000);
	assert_int_equal(incoming_left(f->in), 5 + 3 + 4);
	assert_int_equal(objects(f), 4);
	clock_test_advance(2000);
	assert_int_equal(incoming_left(f->in), 3);
	/* What can still be finished is there. */
	assert_int_equal(objects(f), 2);
	assert_int_equal(find(f, &b, &b), 0);
}

static void what_is_no_id_is_not_asked_for(void **state)
{
	static const char *const bad[] = { "", "..", "0123456789abcdef0123456789abcde",
					   "0123456789abcdef0123456789abcdef0",
					   "0123456789abcdef0123456789abcde/" };
	struct incoming_fixture *f = *state;
	struct incoming_upload got;
	struct err err = { 0 };

	f->failing = "get";
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(incoming_find(f->in, str_of(bad[i]), &f->arena, &got, &err),
				 INCOMING_MISSING);
}

static void a_bucket_that_is_away_is_no_missing_upload(void **state)
{
	static const char *const ops[] = { "get", "parts", "complete", "list" };
	struct incoming_fixture *f = *state;
	struct incoming_upload u = begin(f, INCOMING_WHOLE_MAX + 1), got;
	struct err err = { 0 };

	for (unsigned i = 1; i < 6; i++)
		send_part(f, &u, i, i < 5 ? INCOMING_PART : 1);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		struct source *src = NULL;
		int r;

		f->failing = ops[i];
		err = (struct err){ 0 };
		r = incoming_find(f->in, str_of(u.id), &f->arena, &got, &err);
		if (r == 0)
			r = incoming_read(f->in, &got, &src, &err);
		assert_true(r < 0 && blob_is_away(&err));
	}
	f->failing = "put";
	u = announced(INCOMING_WHOLE_MAX + 1);
	incoming_name_new(&u);
	assert_true(incoming_begin(f->in, &u, true, &err) < 0 && blob_is_away(&err));
	/* Its upload was aborted. */
	assert_int_equal(bucket_memory_uploads(f->memory), 0);
}

int main(void)
{
#define WITH_BUCKET(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		WITH_BUCKET(an_upload_has_what_was_announced),
		WITH_BUCKET(another_size_is_refused),
		WITH_BUCKET(parts_are_joined_when_all_are_there),
		WITH_BUCKET(an_upload_is_finished_within_half_a_day_and_kept_for_a_day),
		WITH_BUCKET(the_age_of_an_upload_is_that_of_its_facts_in_the_bucket),
		WITH_BUCKET(data_without_facts_and_damaged_facts_are_removed_too),
		WITH_BUCKET(an_upload_stays_known_for_want_of_memory),
		WITH_BUCKET(data_that_were_sent_after_the_end_are_removed_when_the_url_is_over),
		WITH_BUCKET(what_is_no_id_is_not_asked_for),
		WITH_BUCKET(a_bucket_that_is_away_is_no_missing_upload),
	};

	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
