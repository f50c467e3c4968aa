/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

int fixture_set_up(void **state)
{
	struct index_fixture *fix = NEW(struct index_fixture);
	struct err err = { 0 };

	test_dir_make(fix->dir);
	snprintf(fix->path, sizeof(fix->path), "%s/index.db", fix->dir);
	arena_init(&fix->arena);
	assert_done(index_open(fix->path, &(struct index_options){ 0 }, &fix->ix, &err));
	*state = fix;
	return 0;
}

int fixture_tear_down(void **state)
{
	struct index_fixture *fix = *state;

	index_close(fix->ix);
	arena_done(&fix->arena);
	test_dir_remove(fix->dir);
	free(fix);
	return 0;
}

struct build_id fixture_id(uint32_t n)
{
	struct build_id id = { .size = 20 };

	test_fill(id.b, 24, n);
	memset(id.b + 20, 0, 4);
	return id;
}

int64_t fixture_add_plain(struct index_fixture *fix, const char *path, int64_t mtime_s, uint32_t id,
			  uint32_t flags)
{
	struct index_file f = {
		.path = str_of(path),
		.kind = INDEX_PLAIN,
		.state = INDEX_SCANNED,
		.size = 1000,
		.mtime_ns = mtime_s * 1000000000,
	};
	struct index_artifact art = { .build_id = fixture_id(id), .flags = flags, .member = INDEX_NO_MEMBER };
	struct err err = { 0 };

	assert_done(index_put(fix->ix, &f, &err));
	assert_done(index_add_artifacts(fix->ix, f.id, &art, 1, &err));
	return f.id;
}

int64_t fixture_add_header(struct index_fixture *fix, const char *path, int64_t mtime_s, uint32_t first,
			   uint32_t n)
{
	struct index_file f = {
		.path = str_of(path),
		.kind = INDEX_PACKAGE,
		.state = INDEX_HEADER,
		.size = 5000,
		.mtime_ns = mtime_s * 1000000000,
	};
	struct err err = { 0 };

	assert_done(index_put(fix->ix, &f, &err));
	for (uint32_t i = 0; i < n; i++) {
		struct index_artifact art = { .build_id = fixture_id(first + i), .member = INDEX_NO_MEMBER };

		assert_done(index_add_artifacts(fix->ix, f.id, &art, 1, &err));
	}
	return f.id;
}

void fixture_encode_map(const struct fixture_entry *entries, size_t n, struct buf *ret)
{
	struct pkg_info info = { .kind = PKG_TAR, .name = STR("some"), .version = STR("1.0") };
	struct pkg_identity identity = { .size = 5000 };
	struct pkg_map_builder *b = pkg_map_builder_new(&info, &identity);
	uint64_t off = 512;

	for (size_t i = 0; i < n; i++) {
		struct pkg_entry e = { .path = str_of(entries[i].path),
				       .number = (uint32_t)i,
				       .mode = 0100644,
				       .size = 100,
				       .off = off };

		if (entries[i].id) {
			e.is_elf = true;
			e.elf.build_id = fixture_id(entries[i].id);
			e.elf.flags = entries[i].flags;
		}
		off += 1024;
		pkg_map_add(b, &e);
	}
	pkg_map_set_decoded_size(b, off + 1024);
	pkg_map_encode(b, ret);
	pkg_map_builder_free(b);
}

int64_t fixture_add_package(struct index_fixture *fix, const char *path, int64_t mtime_s,
			    const struct fixture_entry *entries, size_t n)
{
	AUTO(buf_done) struct buf map = { 0 };
	struct index_artifact *arts = ARENA_NEW_N(&fix->arena, struct index_artifact, n + 1);
	uint64_t *dirs = ARENA_NEW_N(&fix->arena, uint64_t, n + 1);
	struct err err = { 0 };
	size_t n_arts = 0;
	int64_t id;

	fixture_encode_map(entries, n, &map);
	for (size_t i = 0; i < n; i++) {
		dirs[i] = index_dir_hash(path_dirname(str_of(entries[i].path)));
		if (entries[i].id)
			arts[n_arts++] = (struct index_artifact){ .build_id = fixture_id(entries[i].id),
								  .flags = entries[i].flags,
								  .member = (uint32_t)i };
	}
	id = fixture_add_header(fix, path, mtime_s, 0, 0);
	assert_done(index_set_map(
		fix->ix, id, &(struct index_content){ buf_bytes(&map), 77, arts, n_arts, dirs, n }, &err));
	return id;
}
