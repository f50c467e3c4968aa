/* SPDX-License-Identifier: Apache-2.0 */
#include "maker.h"

#include <pthread.h>

#define EXE ELF_IS_EXECUTABLE
#define DBG ELF_IS_DEBUG

static struct index_hit *find(struct maker *m, uint32_t id, size_t *ret_n)
{
	struct build_id want = maker_id(id);
	struct index_hit *hits = NULL;
	struct err err = { 0 };
	int r = index_find(m->ix, &want, &m->arena, &hits, ret_n, &err);

	if (r == INDEX_MISSING) {
		*ret_n = 0;
		assert_false(index_has(m->ix, &want));
		return NULL;
	}
	assert_done(r);
	assert_true(index_has(m->ix, &want));
	return hits;
}

static size_t n_found(struct maker *m, uint32_t id)
{
	size_t n;

	find(m, id, &n);
	return n;
}

static struct index_file file(struct maker *m, int64_t id)
{
	struct index_file f;
	struct err err = { 0 };

	assert_done(index_file_by_id(m->ix, id, &m->arena, &f, &err));
	return f;
}

static void a_file_comes_back_as_it_went_in(void **state)
{
	struct maker *m = *state;
	struct err err = { 0 };
	struct index_file f = {
		.path = STR("/usr/lib/debug/x.ko.xz"),
		.kind = INDEX_PLAIN,
		.state = INDEX_SCANNED,
		.size = UINT64_MAX - 1,
		.mtime_ns = -5,
		.inode = UINT64_MAX,
		.dev = 0xfe01,
		.tries = 3,
		.next_try_s = 99,
		.scanned_s = 1234,
		.inner = CODEC_XZ,
		.inner_size = 1ull << 40,
		.points_size = 17,
	}, got;

	assert_done(index_put(m->ix, &f, &err));
	assert_true(f.id > 0);
	assert_true(f.generation != 0);
	for (int by_path = 0; by_path < 2; by_path++) {
		if (by_path)
			assert_done(index_file_by_path(m->ix, f.path, &m->arena, &got, &err));
		else
			got = file(m, f.id);
		assert_str(got.path, "/usr/lib/debug/x.ko.xz");
		assert_int_equal(got.path.p[got.path.size], 0);
		assert_true(got.id == f.id && got.kind == f.kind && got.state == f.state &&
			    got.size == f.size && got.mtime_ns == f.mtime_ns && got.inode == f.inode &&
			    got.dev == f.dev && got.tries == f.tries && got.next_try_s == f.next_try_s &&
			    got.scanned_s == f.scanned_s && got.inner == f.inner &&
			    got.inner_size == f.inner_size && got.points_size == f.points_size &&
			    got.generation == f.generation && got.reason.size == 0);
	}
	assert_int_equal(index_file_by_path(m->ix, STR("/usr/lib/debug/x.ko"), &m->arena, &got, &err),
			 INDEX_MISSING);
	assert_int_equal(index_file_by_id(m->ix, f.id + 1, &m->arena, &got, &err), INDEX_MISSING);
}

static void paths_may_hold_any_bytes(void **state)
{
	struct maker *m = *state;
	static const struct str paths[] = {
		{ "/a/'); DROP TABLE file; --", 26 },
		{ "/a/\xff\xfe\x80/\xc3\x28", 10 },
		{ "/a/nul\0inside", 13 },
		{ "/a/nul", 6 },
		{ "/a/%s?*[", 8 },
		{ "/\n", 2 },
		{ "/", 1 },
		{ "relative", 8 },
		{ "/trailing/", 10 },
	};
	int64_t ids[ARRAY_SIZE(paths)];
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct index_file f = { .path = paths[i], .kind = INDEX_PLAIN, .state = INDEX_SCANNED };

		assert_done(index_put(m->ix, &f, &err));
		ids[i] = f.id;
	}
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct index_file got;

		assert_done(index_file_by_path(m->ix, paths[i], &m->arena, &got, &err));
		assert_int_equal(got.id, ids[i]);
		assert_true(str_eq(got.path, paths[i]));
	}
}

static void the_newest_file_of_a_build_id_comes_first(void **state)
{
	struct maker *m = *state;
	struct index_hit *hits;
	size_t n;

	maker_plain(m, "/a", 100, 1, EXE);
	maker_plain(m, "/c", 300, 1, DBG);
	maker_plain(m, "/b", 200, 1, EXE | DBG);
	maker_plain(m, "/other", 400, 2, EXE);
	hits = find(m, 1, &n);
	assert_int_equal(n, 3);
	assert_str(hits[0].file.path, "/c");
	assert_str(hits[1].file.path, "/b");
	assert_str(hits[2].file.path, "/a");
	assert_int_equal(hits[0].artifact.flags, DBG);
	assert_int_equal(hits[0].artifact.member, INDEX_NO_MEMBER);
	assert_int_equal(n_found(m, 3), 0);
}

static void a_build_id_is_found_whole_only(void **state)
{
	struct maker *m = *state;
	struct build_id id = maker_id(1), cut = id, grown = id;
	struct index_hit *hits;
	struct err err = { 0 };
	size_t n;

	maker_plain(m, "/a", 100, 1, EXE);
	cut.size--;
	grown.size++;
	assert_int_equal(index_find(m->ix, &cut, &m->arena, &hits, &n, &err), INDEX_MISSING);
	assert_int_equal(index_find(m->ix, &grown, &m->arena, &hits, &n, &err), INDEX_MISSING);
	assert_done(index_find(m->ix, &id, &m->arena, &hits, &n, &err));
}

static void putting_a_path_again_forgets_its_old_content(void **state)
{
	struct maker *m = *state;
	static const struct maker_entry entries[] = { { "usr/bin/x", 1, EXE }, { "usr/src/x.c", 0, 0 } };
	struct index_file *dirs;
	struct pkg_map *map;
	struct err err = { 0 };
	uint64_t epoch, generation;
	size_t n;
	int64_t id = maker_package(m, "/p/x.tar", 100, entries, 2);

	generation = file(m, id).generation;
	epoch = index_epoch();
	assert_int_equal(maker_header(m, "/p/x.tar", 200, 50, 2), id);
	assert_true(index_epoch() > epoch);
	assert_true(file(m, id).generation != generation);
	assert_int_equal(file(m, id).state, INDEX_HEADER);
	assert_int_equal(n_found(m, 1), 0);
	assert_int_equal(n_found(m, 50), 1);
	assert_int_equal(n_found(m, 51), 1);
	assert_int_equal(index_map(m->ix, id, &map, &err), INDEX_MISSING);
	assert_done(index_find_dir(m->ix, index_dir_hash(STR("usr/src")), &m->arena, &dirs, &n, &err));
	assert_int_equal(n, 0);
}

static void a_deep_pass_replaces_what_the_header_said(void **state)
{
	struct maker *m = *state;
	static const struct maker_entry entries[] = { { "usr/bin/x", 1, EXE },
						      { "usr/bin/y", 2, DBG },
						      { "usr/src/x.c", 0, 0 } };
	AUTO(buf_done) struct buf blob = { 0 };
	struct index_artifact arts[] = { { maker_id(1), EXE, 0 }, { maker_id(2), DBG, 1 } }, *list;
	uint64_t dirs[] = { index_dir_hash(STR("usr/bin")), index_dir_hash(STR("usr/src")) };
	struct index_file *packages;
	struct pkg_map *map;
	struct err err = { 0 };
	size_t n;
	int64_t id = maker_header(m, "/p/x.tar", 100, 1, 3);

	maker_map(entries, 3, &blob);
	assert_int_equal(n_found(m, 3), 1);
	assert_done(index_set_map(m->ix, id,
				  &(struct index_content){ buf_bytes(&blob), 4242, arts, 2, dirs, 2 }, &err));
	/* The header said more than there was. */
	assert_int_equal(n_found(m, 3), 0);
	assert_int_equal(find(m, 2, &n)->artifact.member, 1);
	assert_int_equal(file(m, id).state, INDEX_SCANNED);
	assert_int_equal(file(m, id).points_size, 4242);

	assert_done(index_map(m->ix, id, &map, &err));
	assert_int_equal(map->n_entries, 3);
	assert_non_null(pkg_map_find(map, STR("usr/src/x.c")));
	pkg_map_free(map);

	assert_done(index_artifacts_of(m->ix, id, &m->arena, &list, &n, &err));
	assert_int_equal(n, 2);
	assert_true(build_id_eq(&list[1].build_id, &arts[1].build_id));

	assert_done(index_find_dir(m->ix, dirs[1], &m->arena, &packages, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(packages[0].id, id);
	assert_done(index_find_dir(m->ix, index_dir_hash(STR("usr")), &m->arena, &packages, &n, &err));
	assert_int_equal(n, 0);
	/* And once more, over itself. */
	assert_done(index_set_map(m->ix, id, &(struct index_content){ buf_bytes(&blob), 1, arts, 2, dirs, 2 },
				  &err));
	assert_int_equal(n_found(m, 1), 1);
}

static void a_failure_keeps_what_the_header_said(void **state)
{
	struct maker *m = *state;
	struct err why = { .kind = ERR_INVALID, .text = "member 3: \xff ends early" }, err = { 0 };
	int64_t id = maker_header(m, "/p/x.deb", 100, 1, 2);
	struct index_file f;

	assert_done(index_fail(m->ix, id, &why, 5000, &err));
	f = file(m, id);
	assert_int_equal(f.state, INDEX_FAILED);
	assert_int_equal(f.reason_kind, ERR_INVALID);
	assert_str(f.reason, "member 3: \xff ends early");
	assert_int_equal(f.tries, 1);
	assert_int_equal(f.next_try_s, 5000);
	assert_int_equal(n_found(m, 2), 1);
	assert_done(index_fail(m->ix, id, &why, 0, &err));
	assert_int_equal(file(m, id).tries, 2);
}

static void what_is_gone_takes_all_with_it(void **state)
{
	struct maker *m = *state;
	static const struct maker_entry entries[] = { { "usr/bin/x", 1, EXE }, { "usr/src/x.c", 0, 0 } };
	int64_t id = maker_package(m, "/p/x.tar", 100, entries, 2), plain = maker_plain(m, "/q", 1, 2, EXE);
	struct index_stats st;
	struct index_file f;
	struct err err = { 0 };
	uint64_t epoch = index_epoch();

	assert_done(index_del(m->ix, id, &err));
	assert_true(index_epoch() > epoch);
	assert_int_equal(index_file_by_id(m->ix, id, &m->arena, &f, &err), INDEX_MISSING);
	assert_int_equal(n_found(m, 1), 0);
	assert_int_equal(n_found(m, 2), 1);
	assert_int_equal(index_del(m->ix, id, &err), INDEX_MISSING);
	assert_done(index_del(m->ix, plain, &err));
	assert_done(index_tidy(m->ix, false, &err));
	assert_done(index_tidy(m->ix, true, &err));
	assert_done(index_stats(m->ix, &st, &err));
	assert_int_equal(st.n_files + st.n_packages + st.n_build_ids + st.map_bytes, 0);
}

static void changes_to_what_is_not_there_are_told(void **state)
{
	struct maker *m = *state;
	struct err why = { .kind = ERR_IO }, err = { 0 };

	assert_int_equal(index_fail(m->ix, 77, &why, 0, &err), INDEX_MISSING);
	assert_int_equal(index_touch(m->ix, 77, 0, 0, 0, &err), INDEX_MISSING);
	assert_int_equal(index_set_map(m->ix, 77,
				       &(struct index_content){ (struct bytes){ 0 }, 0, NULL, 0, NULL, 0 },
				       &err),
			 INDEX_MISSING);
	/* In a transaction they spoil nothing. */
	assert_done(index_begin(m->ix, &err));
	assert_int_equal(index_del(m->ix, 77, &err), INDEX_MISSING);
	maker_plain(m, "/a", 1, 1, EXE);
	assert_done(index_commit(m->ix, &err));
	assert_int_equal(n_found(m, 1), 1);
}

static void a_moved_file_keeps_its_generation(void **state)
{
	struct maker *m = *state;
	int64_t id = maker_plain(m, "/a", 1, 1, EXE);
	struct index_file before = file(m, id), after;
	struct err err = { 0 };

	assert_done(index_touch(m->ix, id, 77, 8, 9, &err));
	after = file(m, id);
	assert_int_equal(after.mtime_ns, 77);
	assert_int_equal(after.inode, 8);
	assert_int_equal(after.dev, 9);
	assert_true(after.generation == before.generation);
}

static void a_transaction_is_whole(void **state)
{
	struct maker *m = *state;
	struct index *reader;
	struct index_file f;
	struct err err = { 0 };
	uint64_t epoch;

	assert_done(index_open(m->path, &(struct index_options){ .read_only = true }, &reader, &err));
	maker_plain(m, "/a", 1, 1, EXE);
	epoch = index_epoch();
	assert_done(index_begin(m->ix, &err));
	maker_plain(m, "/a", 2, 2, EXE);
	maker_plain(m, "/b", 2, 3, EXE);
	assert_int_equal(index_epoch(), epoch);
	assert_int_equal(index_file_by_path(reader, STR("/b"), &m->arena, &f, &err), INDEX_MISSING);
	index_rollback(m->ix);
	assert_int_equal(index_epoch(), epoch);
	assert_int_equal(n_found(m, 1), 1);
	assert_int_equal(n_found(m, 2), 0);

	assert_done(index_begin(m->ix, &err));
	maker_plain(m, "/b", 2, 3, EXE);
	assert_done(index_commit(m->ix, &err));
	/* Nothing went away. */
	assert_int_equal(index_epoch(), epoch);
	assert_done(index_file_by_path(reader, STR("/b"), &m->arena, &f, &err));
	index_close(reader);
}

static void lists_go_by_id_kind_and_state(void **state)
{
	struct maker *m = *state;
	static const struct maker_entry entries[] = { { "usr/bin/x", 1, EXE } };
	struct index_file *list;
	struct err err = { 0 };
	size_t n, total = 0;
	int64_t after = 0;

	for (int i = 0; i < 10; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/d%d/plain", i % 3);
		maker_plain(m, path, i, 10 + (uint32_t)i, EXE);
		snprintf(path, sizeof(path), "/p/%d.deb", i);
		if (i % 2)
			maker_header(m, path, i, 100 + (uint32_t)i, 1);
		else
			maker_package(m, path, i, entries, 1);
	}
	for (;;) {
		assert_done(index_list(m->ix, &(struct index_range){ 0, 0, after, 4 }, &m->arena, &list, &n,
				       &err));
		if (!n)
			break;
		assert_true(n <= 4);
		for (size_t i = 0; i < n; i++) {
			assert_true(list[i].id > after);
			after = list[i].id;
		}
		total += n;
	}
	/* Three plain files, put again and again. */
	assert_int_equal(total, 13);
	assert_done(index_list(m->ix, &(struct index_range){ INDEX_PACKAGE, INDEX_HEADER, 0, 100 }, &m->arena,
			       &list, &n, &err));
	assert_int_equal(n, 5);
	assert_done(index_list(m->ix, &(struct index_range){ INDEX_PLAIN, 0, 0, 100 }, &m->arena, &list, &n,
			       &err));
	assert_int_equal(n, 3);
}

static void due_are_the_unread_and_the_failed_whose_time_has_come(void **state)
{
	struct maker *m = *state;
	static const struct maker_entry entries[] = { { "usr/bin/x", 1, EXE } };
	struct err why = { .kind = ERR_IO, .text = "gone" }, err = { 0 };
	struct index_file *list, queued = {
		.path = STR("/p/q"), .kind = INDEX_PACKAGE, .state = INDEX_QUEUED, .mtime_ns = 5000000000
	};
	int64_t later, never;
	size_t n;

	maker_package(m, "/p/scanned", 9, entries, 1);
	maker_header(m, "/p/header", 3, 100, 1);
	later = maker_header(m, "/p/later", 7, 101, 1);
	never = maker_header(m, "/p/never", 8, 102, 1);
	maker_plain(m, "/plain", 1, 2, EXE);
	assert_done(index_put(m->ix, &queued, &err));
	assert_done(index_fail(m->ix, later, &why, 1000, &err));
	assert_done(index_fail(m->ix, never, &why, 0, &err));

	assert_done(index_due(m->ix, 999, 10, &m->arena, &list, &n, &err));
	assert_int_equal(n, 2);
	assert_str(list[0].path, "/p/q");
	assert_str(list[1].path, "/p/header");
	assert_done(index_due(m->ix, 1000, 10, &m->arena, &list, &n, &err));
	assert_int_equal(n, 3);
	assert_str(list[0].path, "/p/later");
	assert_done(index_due(m->ix, 1000, 1, &m->arena, &list, &n, &err));
	assert_int_equal(n, 1);
}

static void stats_count_what_is_there_now(void **state)
{
	struct maker *m = *state;
	static const struct maker_entry entries[] = { { "usr/bin/x", 1, EXE },
						      { "usr/lib/debug/x", 1, DBG },
						      { "usr/bin/y", 2, EXE | DBG } };
	struct err why = { .kind = ERR_IO }, err = { 0 };
	struct index_stats st;
	struct index *other;

	assert_done(index_stats(m->ix, &st, &err));
	assert_int_equal(st.n_files + st.n_packages + st.n_build_ids, 0);
	maker_package(m, "/p/x", 1, entries, 3);
	assert_done(index_fail(m->ix, maker_header(m, "/p/bad", 1, 9, 1), &why, 0, &err));
	maker_header(m, "/p/h", 1, 10, 2);
	maker_plain(m, "/a", 1, 1, EXE);
	assert_done(index_stats(m->ix, &st, &err));
	assert_int_equal(st.n_files, 4);
	assert_int_equal(st.n_packages, 3);
	assert_int_equal(st.n_header_only, 1);
	assert_int_equal(st.n_scanned, 1);
	assert_int_equal(st.n_failed, 1);
	assert_int_equal(st.n_build_ids, 5);
	assert_int_equal(st.n_executables, 2);
	assert_int_equal(st.n_debug, 2);
	assert_int_equal(st.package_bytes, 15000);
	assert_int_equal(st.points_bytes, 77);
	assert_true(st.map_bytes > 0 && st.db_bytes > st.map_bytes);
	/* What another connection changes is noticed. */
	assert_done(index_open(m->path, &(struct index_options){ .read_only = true }, &other, &err));
	assert_done(index_stats(other, &st, &err));
	assert_int_equal(st.n_files, 4);
	maker_plain(m, "/b", 1, 1, EXE);
	assert_done(index_stats(other, &st, &err));
	assert_int_equal(st.n_files, 5);
	index_close(other);
}

static void an_index_in_memory_is_shared_by_name(void **state)
{
	struct maker *m = *state;
	struct index *a, *b;
	struct index_file f = { .path = STR("/x"), .kind = INDEX_PLAIN, .state = INDEX_SCANNED }, got;
	struct err err = { 0 };

	assert_done(index_open(":memory:t", &(struct index_options){ 0 }, &a, &err));
	assert_done(index_open(":memory:t", &(struct index_options){ .read_only = true }, &b, &err));
	assert_done(index_put(a, &f, &err));
	assert_done(index_file_by_path(b, STR("/x"), &m->arena, &got, &err));
	assert_int_equal(got.id, f.id);
	assert_done(index_tidy(a, true, &err));
	index_close(a);
	index_close(b);
}

struct crowd {
	const char *path;
	_Atomic bool over;
	_Atomic int n_wrong;
};

/* A package has its two build IDs or, while it is put again, the other two: never one of each, never none. */
static void *look(void *arg)
{
	struct crowd *c = arg;
	struct index *ix;
	struct err err = { 0 };

	if (index_open(c->path, &(struct index_options){ .read_only = true }, &ix, &err) < 0) {
		c->n_wrong++;
		return NULL;
	}
	while (!c->over) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_artifact *list;
		struct build_id one = maker_id(1), three = maker_id(3);
		size_t n;

		arena_init(&a);
		if (index_artifacts_of(ix, 1, &a, &list, &n, &err) || n != 2) {
			fprintf(stderr, "# %zu artifacts: %s\n", n, err.text);
			c->n_wrong++;
			break;
		}
		if (!build_id_eq(&list[0].build_id, &one) && !build_id_eq(&list[0].build_id, &three))
			c->n_wrong++;
	}
	index_close(ix);
	return NULL;
}

static void readers_see_whole_transactions_while_one_writes(void **state)
{
	struct maker *m = *state;
	static const struct maker_entry one[] = { { "a", 1, EXE }, { "b", 2, EXE } };
	static const struct maker_entry other[] = { { "a", 3, EXE }, { "b", 4, EXE } };
	struct crowd c = { .path = m->path };
	struct err err = { 0 };
	pthread_t t[3];

	assert_int_equal(maker_package(m, "/p", 1, one, 2), 1);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, look, &c), 0);
	for (int i = 0; i < 100; i++) {
		assert_done(index_begin(m->ix, &err));
		maker_package(m, "/p", i, i % 2 ? one : other, 2);
		assert_done(index_commit(m->ix, &err));
	}
	c.over = true;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(c.n_wrong, 0);
}

static void thousands_of_files_in_one_transaction(void **state)
{
	struct maker *m = *state;
	struct index_stats st;
	struct err err = { 0 };

	assert_done(index_begin(m->ix, &err));
	for (uint32_t i = 0; i < 5000; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/%x.debug", i % 256, i);
		maker_plain(m, path, i, i + 1, DBG);
	}
	assert_done(index_commit(m->ix, &err));
	assert_done(index_stats(m->ix, &st, &err));
	assert_int_equal(st.n_files, 5000);
	assert_int_equal(st.n_build_ids, 5000);
	for (uint32_t i = 0; i < 5000; i += 97)
		assert_int_equal(n_found(m, i + 1), 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, maker_set_up, maker_tear_down)
	const struct CMUnitTest tests[] = {
		T(a_file_comes_back_as_it_went_in),
		T(paths_may_hold_any_bytes),
		T(the_newest_file_of_a_build_id_comes_first),
		T(a_build_id_is_found_whole_only),
		T(putting_a_path_again_forgets_its_old_content),
		T(a_deep_pass_replaces_what_the_header_said),
		T(a_failure_keeps_what_the_header_said),
		T(what_is_gone_takes_all_with_it),
		T(changes_to_what_is_not_there_are_told),
		T(a_moved_file_keeps_its_generation),
		T(a_transaction_is_whole),
		T(lists_go_by_id_kind_and_state),
		T(due_are_the_unread_and_the_failed_whose_time_has_come),
		T(stats_count_what_is_there_now),
		T(an_index_in_memory_is_shared_by_name),
		T(readers_see_whole_transactions_while_one_writes),
		T(thousands_of_files_in_one_transaction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
