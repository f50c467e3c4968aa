/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <pthread.h>

#define EXE ELF_IS_EXECUTABLE
#define DBG ELF_IS_DEBUG

static struct index_hit *find(struct index_fixture *fix, uint32_t id, size_t *ret_n)
{
	struct build_id want = fixture_id(id);
	struct index_hit *hits = NULL;
	struct err err = { 0 };
	int r = index_find(fix->ix, &want, &fix->arena, &hits, ret_n, &err);

	if (r == INDEX_MISSING) {
		*ret_n = 0;
		assert_false(index_has(fix->ix, &want));
		return NULL;
	}
	assert_done(r);
	assert_true(index_has(fix->ix, &want));
	return hits;
}

static size_t n_found(struct index_fixture *fix, uint32_t id)
{
	size_t n;

	find(fix, id, &n);
	return n;
}

static struct index_file get_file(struct index_fixture *fix, int64_t id)
{
	struct index_file f;
	struct err err = { 0 };

	assert_done(index_file_by_id(fix->ix, id, &fix->arena, &f, &err));
	return f;
}

static void a_file_is_read_as_it_was_put(void **state)
{
	struct index_fixture *fix = *state;
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

	assert_done(index_put(fix->ix, &f, &err));
	assert_true(f.id > 0);
	assert_true(f.generation != 0);
	for (int by_path = 0; by_path < 2; by_path++) {
		if (by_path)
			assert_done(index_file_by_path(fix->ix, f.path, &fix->arena, &got, &err));
		else
			got = get_file(fix, f.id);
		assert_str(got.path, "/usr/lib/debug/x.ko.xz");
		assert_int_equal(got.path.p[got.path.size], 0);
		assert_true(got.id == f.id && got.kind == f.kind && got.state == f.state &&
			    got.size == f.size && got.mtime_ns == f.mtime_ns && got.inode == f.inode &&
			    got.dev == f.dev && got.tries == f.tries && got.next_try_s == f.next_try_s &&
			    got.scanned_s == f.scanned_s && got.inner == f.inner &&
			    got.inner_size == f.inner_size && got.points_size == f.points_size &&
			    got.generation == f.generation && got.reason.size == 0);
	}
	assert_int_equal(index_file_by_path(fix->ix, STR("/usr/lib/debug/x.ko"), &fix->arena, &got, &err),
			 INDEX_MISSING);
	assert_int_equal(index_file_by_id(fix->ix, f.id + 1, &fix->arena, &got, &err), INDEX_MISSING);
}

static void paths_may_hold_any_bytes(void **state)
{
	struct index_fixture *fix = *state;
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

		assert_done(index_put(fix->ix, &f, &err));
		ids[i] = f.id;
	}
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct index_file got;

		assert_done(index_file_by_path(fix->ix, paths[i], &fix->arena, &got, &err));
		assert_int_equal(got.id, ids[i]);
		assert_true(str_eq(got.path, paths[i]));
	}
}

static void the_newest_file_of_a_build_id_comes_first(void **state)
{
	struct index_fixture *fix = *state;
	struct index_hit *hits;
	size_t n;

	fixture_add_plain(fix, "/a", 100, 1, EXE);
	fixture_add_plain(fix, "/c", 300, 1, DBG);
	fixture_add_plain(fix, "/b", 200, 1, EXE | DBG);
	fixture_add_plain(fix, "/other", 400, 2, EXE);
	hits = find(fix, 1, &n);
	assert_int_equal(n, 3);
	assert_str(hits[0].file.path, "/c");
	assert_str(hits[1].file.path, "/b");
	assert_str(hits[2].file.path, "/a");
	assert_int_equal(hits[0].artifact.flags, DBG);
	assert_int_equal(hits[0].artifact.member, INDEX_NO_MEMBER);
	assert_int_equal(n_found(fix, 3), 0);
}

static void a_build_id_matches_only_in_full_length(void **state)
{
	struct index_fixture *fix = *state;
	struct build_id id = fixture_id(1), cut = id, grown = id;
	struct index_hit *hits;
	struct err err = { 0 };
	size_t n;

	fixture_add_plain(fix, "/a", 100, 1, EXE);
	cut.size--;
	grown.size++;
	assert_int_equal(index_find(fix->ix, &cut, &fix->arena, &hits, &n, &err), INDEX_MISSING);
	assert_int_equal(index_find(fix->ix, &grown, &fix->arena, &hits, &n, &err), INDEX_MISSING);
	assert_done(index_find(fix->ix, &id, &fix->arena, &hits, &n, &err));
}

static void putting_a_path_again_removes_its_old_content(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 1, EXE }, { "usr/src/x.c", 0, 0 } };
	struct index_file *dirs;
	struct pkg_map *map;
	struct err err = { 0 };
	uint64_t epoch, generation;
	size_t n;
	int64_t id = fixture_add_package(fix, "/p/x.tar", 100, entries, 2);

	generation = get_file(fix, id).generation;
	epoch = index_epoch();
	assert_int_equal(fixture_add_header(fix, "/p/x.tar", 200, 50, 2), id);
	assert_true(index_epoch() > epoch);
	assert_true(get_file(fix, id).generation != generation);
	assert_int_equal(get_file(fix, id).state, INDEX_HEADER);
	assert_int_equal(n_found(fix, 1), 0);
	assert_int_equal(n_found(fix, 50), 1);
	assert_int_equal(n_found(fix, 51), 1);
	assert_int_equal(index_map(fix->ix, id, &map, &err), INDEX_MISSING);
	assert_done(index_find_dir(fix->ix, index_dir_hash(STR("usr/src")), &fix->arena, &dirs, &n, &err));
	assert_int_equal(n, 0);
}

static void a_deep_pass_replaces_the_build_ids_of_the_header(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 1, EXE },
							{ "usr/bin/y", 2, DBG },
							{ "usr/src/x.c", 0, 0 } };
	AUTO(buf_done) struct buf blob = { 0 };
	struct index_artifact arts[] = { { fixture_id(1), EXE, 0 }, { fixture_id(2), DBG, 1 } }, *list;
	uint64_t dirs[] = { index_dir_hash(STR("usr/bin")), index_dir_hash(STR("usr/src")) };
	struct index_file *packages;
	struct pkg_map *map;
	struct err err = { 0 };
	size_t n;
	int64_t id = fixture_add_header(fix, "/p/x.tar", 100, 1, 3);

	fixture_encode_map(entries, 3, &blob);
	assert_int_equal(n_found(fix, 3), 1);
	assert_done(index_set_map(fix->ix, id,
				  &(struct index_content){ buf_bytes(&blob), 4242, arts, 2, dirs, 2 }, &err));
	/* The header named a build ID that the package does not have. */
	assert_int_equal(n_found(fix, 3), 0);
	assert_int_equal(find(fix, 2, &n)->artifact.member, 1);
	assert_int_equal(get_file(fix, id).state, INDEX_SCANNED);
	assert_int_equal(get_file(fix, id).points_size, 4242);

	assert_done(index_map(fix->ix, id, &map, &err));
	assert_int_equal(map->n_entries, 3);
	assert_non_null(pkg_map_find(map, STR("usr/src/x.c")));
	pkg_map_free(map);

	assert_done(index_artifacts_of(fix->ix, id, &fix->arena, &list, &n, &err));
	assert_int_equal(n, 2);
	assert_true(build_id_eq(&list[1].build_id, &arts[1].build_id));

	assert_done(index_find_dir(fix->ix, dirs[1], &fix->arena, &packages, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(packages[0].id, id);
	assert_done(index_find_dir(fix->ix, index_dir_hash(STR("usr")), &fix->arena, &packages, &n, &err));
	assert_int_equal(n, 0);
	/* The same map can be set again. */
	assert_done(index_set_map(fix->ix, id,
				  &(struct index_content){ buf_bytes(&blob), 1, arts, 2, dirs, 2 }, &err));
	assert_int_equal(n_found(fix, 1), 1);
}

static void a_failure_keeps_the_build_ids_of_the_header(void **state)
{
	struct index_fixture *fix = *state;
	struct err why = { .kind = ERR_INVALID, .text = "member 3: \xff ends early" }, err = { 0 };
	int64_t id = fixture_add_header(fix, "/p/x.deb", 100, 1, 2);
	struct index_file f;

	assert_done(index_fail(fix->ix, id, &why, 5000, &err));
	f = get_file(fix, id);
	assert_int_equal(f.state, INDEX_FAILED);
	assert_int_equal(f.reason_kind, ERR_INVALID);
	assert_str(f.reason, "member 3: \xff ends early");
	assert_int_equal(f.tries, 1);
	assert_int_equal(f.next_try_s, 5000);
	assert_int_equal(n_found(fix, 2), 1);
	assert_done(index_fail(fix->ix, id, &why, 0, &err));
	assert_int_equal(get_file(fix, id).tries, 2);
}

static void deleting_a_file_deletes_its_artifacts_and_map(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 1, EXE }, { "usr/src/x.c", 0, 0 } };
	int64_t id = fixture_add_package(fix, "/p/x.tar", 100, entries, 2),
		plain = fixture_add_plain(fix, "/q", 1, 2, EXE);
	struct index_stats st;
	struct index_file f;
	struct err err = { 0 };
	uint64_t epoch = index_epoch();

	assert_done(index_del(fix->ix, id, &err));
	assert_true(index_epoch() > epoch);
	assert_int_equal(index_file_by_id(fix->ix, id, &fix->arena, &f, &err), INDEX_MISSING);
	assert_int_equal(n_found(fix, 1), 0);
	assert_int_equal(n_found(fix, 2), 1);
	assert_int_equal(index_del(fix->ix, id, &err), INDEX_MISSING);
	assert_done(index_del(fix->ix, plain, &err));
	assert_done(index_tidy(fix->ix, false, &err));
	assert_done(index_tidy(fix->ix, true, &err));
	assert_done(index_stats(fix->ix, &st, &err));
	assert_int_equal(st.n_files + st.n_packages + st.n_build_ids + st.map_bytes, 0);
}

static void changes_to_a_missing_file_return_missing(void **state)
{
	struct index_fixture *fix = *state;
	struct err why = { .kind = ERR_IO }, err = { 0 };

	assert_int_equal(index_fail(fix->ix, 77, &why, 0, &err), INDEX_MISSING);
	assert_int_equal(index_touch(fix->ix, 77, 0, 0, 0, &err), INDEX_MISSING);
	assert_int_equal(index_set_map(fix->ix, 77,
				       &(struct index_content){ (struct bytes){ 0 }, 0, NULL, 0, NULL, 0 },
				       &err),
			 INDEX_MISSING);
	/* They do not fail a transaction. */
	assert_done(index_begin(fix->ix, &err));
	assert_int_equal(index_del(fix->ix, 77, &err), INDEX_MISSING);
	fixture_add_plain(fix, "/a", 1, 1, EXE);
	assert_done(index_commit(fix->ix, &err));
	assert_int_equal(n_found(fix, 1), 1);
}

static void a_moved_file_keeps_its_generation(void **state)
{
	struct index_fixture *fix = *state;
	int64_t id = fixture_add_plain(fix, "/a", 1, 1, EXE);
	struct index_file before = get_file(fix, id), after;
	struct err err = { 0 };

	assert_done(index_touch(fix->ix, id, 77, 8, 9, &err));
	after = get_file(fix, id);
	assert_int_equal(after.mtime_ns, 77);
	assert_int_equal(after.inode, 8);
	assert_int_equal(after.dev, 9);
	assert_true(after.generation == before.generation);
}

static void a_transaction_is_committed_whole_or_rolled_back(void **state)
{
	struct index_fixture *fix = *state;
	struct index *reader;
	struct index_file f;
	struct err err = { 0 };
	uint64_t epoch;

	assert_done(index_open(fix->path, &(struct index_options){ .read_only = true }, &reader, &err));
	fixture_add_plain(fix, "/a", 1, 1, EXE);
	epoch = index_epoch();
	assert_done(index_begin(fix->ix, &err));
	fixture_add_plain(fix, "/a", 2, 2, EXE);
	fixture_add_plain(fix, "/b", 2, 3, EXE);
	assert_int_equal(index_epoch(), epoch);
	assert_int_equal(index_file_by_path(reader, STR("/b"), &fix->arena, &f, &err), INDEX_MISSING);
	index_rollback(fix->ix);
	assert_int_equal(index_epoch(), epoch);
	assert_int_equal(n_found(fix, 1), 1);
	assert_int_equal(n_found(fix, 2), 0);

	assert_done(index_begin(fix->ix, &err));
	fixture_add_plain(fix, "/b", 2, 3, EXE);
	assert_done(index_commit(fix->ix, &err));
	/* Only additions: the epoch stays. */
	assert_int_equal(index_epoch(), epoch);
	assert_done(index_file_by_path(reader, STR("/b"), &fix->arena, &f, &err));
	index_close(reader);
}

static void lists_are_ordered_by_id_and_filtered_by_kind_and_state(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 1, EXE } };
	struct index_file *list;
	struct err err = { 0 };
	size_t n, total = 0;
	int64_t after = 0;

	for (int i = 0; i < 10; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/d%d/plain", i % 3);
		fixture_add_plain(fix, path, i, 10 + (uint32_t)i, EXE);
		snprintf(path, sizeof(path), "/p/%d.deb", i);
		if (i % 2)
			fixture_add_header(fix, path, i, 100 + (uint32_t)i, 1);
		else
			fixture_add_package(fix, path, i, entries, 1);
	}
	for (;;) {
		assert_done(index_list(fix->ix, &(struct index_range){ 0, 0, after, 4 }, &fix->arena, &list,
				       &n, &err));
		if (!n)
			break;
		assert_true(n <= 4);
		for (size_t i = 0; i < n; i++) {
			assert_true(list[i].id > after);
			after = list[i].id;
		}
		total += n;
	}
	/* 10 packages; the plain files have only 3 different paths. */
	assert_int_equal(total, 13);
	assert_done(index_list(fix->ix, &(struct index_range){ INDEX_PACKAGE, INDEX_HEADER, 0, 100 },
			       &fix->arena, &list, &n, &err));
	assert_int_equal(n, 5);
	assert_done(index_list(fix->ix, &(struct index_range){ INDEX_PLAIN, 0, 0, 100 }, &fix->arena, &list,
			       &n, &err));
	assert_int_equal(n, 3);
}

static void unread_files_and_failed_ones_at_their_retry_time_are_due(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 1, EXE } };
	struct err why = { .kind = ERR_IO, .text = "gone" }, err = { 0 };
	struct index_file *list, queued = {
		.path = STR("/p/q"), .kind = INDEX_PACKAGE, .state = INDEX_QUEUED, .mtime_ns = 5000000000
	};
	int64_t later, never;
	size_t n;

	fixture_add_package(fix, "/p/scanned", 9, entries, 1);
	fixture_add_header(fix, "/p/header", 3, 100, 1);
	later = fixture_add_header(fix, "/p/later", 7, 101, 1);
	never = fixture_add_header(fix, "/p/never", 8, 102, 1);
	fixture_add_plain(fix, "/plain", 1, 2, EXE);
	clock_test_freeze(940);
	assert_done(index_put(fix->ix, &queued, &err));
	assert_done(index_fail(fix->ix, later, &why, 1000, &err));
	assert_done(index_fail(fix->ix, never, &why, 0, &err));
	clock_test_thaw();

	assert_done(index_due(fix->ix, 999, 10, &fix->arena, &list, &n, &err));
	assert_int_equal(n, 2);
	assert_str(list[0].path, "/p/q");
	assert_str(list[1].path, "/p/header");
	assert_done(index_due(fix->ix, 1000, 10, &fix->arena, &list, &n, &err));
	assert_int_equal(n, 3);
	assert_str(list[0].path, "/p/later");
	assert_done(index_due(fix->ix, 1000, 1, &fix->arena, &list, &n, &err));
	assert_int_equal(n, 1);
	/* The clock was set back, by little and by more. */
	assert_done(index_due(fix->ix, 880, 10, &fix->arena, &list, &n, &err));
	assert_int_equal(n, 2);
	assert_done(index_due(fix->ix, 879, 10, &fix->arena, &list, &n, &err));
	assert_int_equal(n, 3);
	assert_str(list[0].path, "/p/later");
	assert_true(index_is_retried(&list[0], 879));
	assert_false(index_is_retried(&list[0], 880));
}

static void stats_count_the_present_rows(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry entries[] = { { "usr/bin/x", 1, EXE },
							{ "usr/lib/debug/x", 1, DBG },
							{ "usr/bin/y", 2, EXE | DBG } };
	struct err why = { .kind = ERR_IO }, err = { 0 };
	struct index_stats st;
	struct index *other;

	assert_done(index_stats(fix->ix, &st, &err));
	assert_int_equal(st.n_files + st.n_packages + st.n_build_ids, 0);
	fixture_add_package(fix, "/p/x", 1, entries, 3);
	assert_done(index_fail(fix->ix, fixture_add_header(fix, "/p/bad", 1, 9, 1), &why, 0, &err));
	fixture_add_header(fix, "/p/h", 1, 10, 2);
	fixture_add_plain(fix, "/a", 1, 1, EXE);
	assert_done(index_stats(fix->ix, &st, &err));
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
	/* Changes by another connection are counted. */
	assert_done(index_open(fix->path, &(struct index_options){ .read_only = true }, &other, &err));
	assert_done(index_stats(other, &st, &err));
	assert_int_equal(st.n_files, 4);
	fixture_add_plain(fix, "/b", 1, 1, EXE);
	assert_done(index_stats(other, &st, &err));
	assert_int_equal(st.n_files, 5);
	index_close(other);
}

static void an_index_in_memory_is_shared_by_name(void **state)
{
	struct index_fixture *fix = *state;
	struct index *a, *b;
	struct index_file f = { .path = STR("/x"), .kind = INDEX_PLAIN, .state = INDEX_SCANNED }, got;
	struct err err = { 0 };

	assert_done(index_open(":memory:t", &(struct index_options){ 0 }, &a, &err));
	assert_done(index_open(":memory:t", &(struct index_options){ .read_only = true }, &b, &err));
	assert_done(index_put(a, &f, &err));
	assert_done(index_file_by_path(b, STR("/x"), &fix->arena, &got, &err));
	assert_int_equal(got.id, f.id);
	assert_done(index_tidy(a, true, &err));
	index_close(a);
	index_close(b);
}

struct reader_group {
	const char *path;
	_Atomic bool over;
	_Atomic int n_wrong;
};

/*
 * Each put replaces the two build IDs of the package by two others: a reader sees one of the pairs, never a
 * mix and never none.
 */
static void *read_in_thread(void *arg)
{
	struct reader_group *c = arg;
	struct index *ix;
	struct err err = { 0 };

	if (index_open(c->path, &(struct index_options){ .read_only = true }, &ix, &err) < 0) {
		c->n_wrong++;
		return NULL;
	}
	while (!c->over) {
		AUTO(arena_done) struct arena a = { 0 };
		struct index_artifact *list;
		struct build_id one = fixture_id(1), three = fixture_id(3);
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

static void readers_see_whole_transactions_during_writes(void **state)
{
	struct index_fixture *fix = *state;
	static const struct fixture_entry one[] = { { "a", 1, EXE }, { "b", 2, EXE } };
	static const struct fixture_entry other[] = { { "a", 3, EXE }, { "b", 4, EXE } };
	struct reader_group c = { .path = fix->path };
	struct err err = { 0 };
	pthread_t t[3];

	assert_int_equal(fixture_add_package(fix, "/p", 1, one, 2), 1);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, read_in_thread, &c), 0);
	for (int i = 0; i < 100; i++) {
		assert_done(index_begin(fix->ix, &err));
		fixture_add_package(fix, "/p", i, i % 2 ? one : other, 2);
		assert_done(index_commit(fix->ix, &err));
	}
	c.over = true;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		pthread_join(t[i], NULL);
	assert_int_equal(c.n_wrong, 0);
}

static void a_transaction_can_hold_thousands_of_files(void **state)
{
	struct index_fixture *fix = *state;
	struct index_stats st;
	struct err err = { 0 };

	assert_done(index_begin(fix->ix, &err));
	for (uint32_t i = 0; i < 5000; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/%x.debug", i % 256, i);
		fixture_add_plain(fix, path, i, i + 1, DBG);
	}
	assert_done(index_commit(fix->ix, &err));
	assert_done(index_stats(fix->ix, &st, &err));
	assert_int_equal(st.n_files, 5000);
	assert_int_equal(st.n_build_ids, 5000);
	for (uint32_t i = 0; i < 5000; i += 97)
		assert_int_equal(n_found(fix, i + 1), 1);
}

static int count_rows(void *arg, const struct index_file *f, struct err *err)
{
	++*(size_t *)arg;
	return str_eq(f->path, STR("/a/stop"));
}

static size_t n_below(struct index_fixture *fix, const char *path, int want)
{
	struct err err = { 0 };
	size_t n = 0;

	assert_int_equal(index_each_below(fix->ix, str_of(path), count_rows, &n, &err), want);
	return n;
}

static void files_below_a_path_are_those_of_its_folders(void **state)
{
	static const char *const paths[] = { "/a/b",     "/a/b/c", "/a/b/d/e", "/a/b0",
					     "/a/b-c/x", "/a/B/c", "/ab/c",    "/a/a" };
	struct index_fixture *fix = *state;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		fixture_add_plain(fix, paths[i], 1, (uint32_t)i + 1, EXE);
	assert_int_equal(n_below(fix, "/a/b", 0), 3);
	assert_int_equal(n_below(fix, "/a/b/d", 0), 1);
	assert_int_equal(n_below(fix, "/a/b/d/e", 0), 1);
	assert_int_equal(n_below(fix, "/a/b-c", 0), 1);
	assert_int_equal(n_below(fix, "/a", 0), 7);
	assert_int_equal(n_below(fix, "", 0), 8);
	assert_int_equal(n_below(fix, "/nothing", 0), 0);
	/* The function ends it, at the path itself, too. */
	fixture_add_plain(fix, "/a/stop", 1, 100, EXE);
	assert_int_equal(n_below(fix, "/a/stop", 1), 1);
	assert_in_range(n_below(fix, "/a", 1), 1, 8);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_set_up, fixture_tear_down)
	const struct CMUnitTest tests[] = {
		T(a_file_is_read_as_it_was_put),
		T(paths_may_hold_any_bytes),
		T(the_newest_file_of_a_build_id_comes_first),
		T(a_build_id_matches_only_in_full_length),
		T(putting_a_path_again_removes_its_old_content),
		T(a_deep_pass_replaces_the_build_ids_of_the_header),
		T(a_failure_keeps_the_build_ids_of_the_header),
		T(deleting_a_file_deletes_its_artifacts_and_map),
		T(changes_to_a_missing_file_return_missing),
		T(a_moved_file_keeps_its_generation),
		T(a_transaction_is_committed_whole_or_rolled_back),
		T(lists_are_ordered_by_id_and_filtered_by_kind_and_state),
		T(unread_files_and_failed_ones_at_their_retry_time_are_due),
		T(stats_count_the_present_rows),
		T(an_index_in_memory_is_shared_by_name),
		T(readers_see_whole_transactions_during_writes),
		T(a_transaction_can_hold_thousands_of_files),
		T(files_below_a_path_are_those_of_its_folders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
