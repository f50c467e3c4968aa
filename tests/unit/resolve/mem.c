/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "resolve_mem.h"

static struct build_id id_of(const char *hex)
{
	struct build_id id = { 0 };

	assert_true(build_id_parse(&id, str_of(hex)));
	return id;
}

static void count(void *arg)
{
	++*(int *)arg;
}

static struct err err;

static void put_content_is_found_under_kind_id_and_argument(void **state)
{
	struct resolver *r = resolve_mem_new();
	struct resolve_request req = { RESOLVE_SECTION, id_of("aabb"), STR(".text") };
	struct resolve_answer got;
	struct resolve_why why;
	struct arena a;

	arena_init(&a);
	resolve_why_init(&why, &a);
	resolve_mem_put(r, RESOLVE_SECTION, &req.id, STR(".text"), bytes_of("abc", 3), STR("/x"),
			STR("/p.deb"), 5);
	assert_int_equal(resolve(r, &req, (struct resolve_wake){ count, NULL }, &got, &why, &err), 0);
	assert_int_equal(got.source->size, 3);
	assert_str(got.file, "/x");
	assert_str(got.archive, "/p.deb");
	assert_int_equal(got.mtime, 5);
	source_close(got.source);
	req.arg = STR(".data");
	assert_int_equal(resolve(r, &req, (struct resolve_wake){ count, NULL }, &got, &why, &err),
			 RESOLVE_MISSING);
	assert_non_null(why.first);
	assert_str(why.first->place, "memory");
	assert_false(resolve_unknown(r, &req));
	req.id = id_of("aacc");
	assert_true(resolve_unknown(r, &req));
	arena_done(&a);
	resolve_close(r);
}

static void a_waiter_is_woken_once(void **state)
{
	struct resolver *r = resolve_mem_new();
	struct resolve_request req = { RESOLVE_DEBUGINFO, id_of("aabb"), { 0 } };
	struct resolve_answer got;
	struct resolve_why why;
	struct arena a;
	int n = 0;
	const struct resolve_wake counting = { count, &n };

	arena_init(&a);
	resolve_why_init(&why, &a);
	resolve_mem_put_waiting(r, req.kind, &req.id, req.arg);
	assert_int_equal(resolve(r, &req, counting, &got, &why, &err), RESOLVE_WAIT);
	assert_int_equal(n, 0);
	resolve_mem_put(r, req.kind, &req.id, req.arg, bytes_of("abc", 3), STR("/x"), STR(""), 5);
	assert_int_equal(n, 1);
	assert_int_equal(resolve(r, &req, counting, &got, &why, &err), 0);
	source_close(got.source);
	resolve_mem_put_waiting(r, req.kind, &req.id, req.arg);
	assert_int_equal(resolve(r, &req, counting, &got, &why, &err), RESOLVE_WAIT);
	resolve_close(r);
	assert_int_equal(n, 2);
	arena_done(&a);
}

static int collect(void *arg, const struct index_metadata *m)
{
	struct buf *b = arg;

	buf_printf(b, "%c" STR_FMT " ", m->debuginfo ? 'd' : 'e', STR_ARG(m->file));
	return 0;
}

#define QUERY(k, v, from, n, to)         \
	(&(struct index_metadata_query){ \
		.key = (k), .value = (v), .cursor = (from), .max = (n), .fn = collect, .arg = (to) })

static void metadata_comes_in_pages(void **state)
{
	struct resolver *r = resolve_mem_new();
	struct build_id id = id_of("aabb");
	AUTO(buf_done) struct buf got = { 0 };
	struct index_metadata_page page = { 0 };

	resolve_mem_put(r, RESOLVE_DEBUGINFO, &id, STR(""), bytes_of("", 0), STR("/a/x"), STR(""), 0);
	resolve_mem_put(r, RESOLVE_EXECUTABLE, &id, STR(""), bytes_of("", 0), STR("/a/y"), STR(""), 0);
	assert_done(resolve_metadata(r, QUERY(STR("glob"), STR("/a/*"), STR(""), 1, &got), &page, &err));
	assert_str(buf_str(&got), "d/a/x ");
	assert_true(page.complete && page.next.size);
	assert_done(resolve_metadata(r, QUERY(STR("glob"), STR("/a/*"), buf_str(&page.next), 5, &got),
				     &(struct index_metadata_page){ 0 }, &err));
	assert_str(buf_str(&got), "d/a/x e/a/y ");
	assert_fails(resolve_metadata(r, QUERY(STR("size"), STR("1"), STR(""), 1, &got), &page, &err),
		     ERR_INVALID, "unknown key");
	buf_done(&page.next);
	resolve_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_content_is_found_under_kind_id_and_argument),
		cmocka_unit_test(a_waiter_is_woken_once),
		cmocka_unit_test(metadata_comes_in_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
